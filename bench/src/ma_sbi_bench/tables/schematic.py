"""The method as a picture: no cells, only a figure."""

from __future__ import annotations

from collections.abc import Sequence

import pandas as pd

from ma_sbi_bench.engine.budget import Budget
from ma_sbi_bench.engine.cell import Cell, Measurement
from ma_sbi_bench.engine.experiment import Experiment
from ma_sbi_bench.engine.models import Models
from ma_sbi_bench.paper.comparing import Line
from ma_sbi_bench.plots import Figures

__all__ = ["CAPTIONS", "Schematic", "figures", "lines"]

CAPTIONS = {
    "schematic": "The posterior is trained on simulations and stays as it is. What is "
    "known in words becomes a correction of the observation."
}


class Schematic(Experiment):
    """The paper's first figure."""

    name = "schematic"
    title = "The method"
    place = "Figure 1"

    def cells(self, budget: Budget) -> Sequence[Cell]:
        """List nothing: there is nothing to compute."""
        return []

    def run(self, cell: Cell, models: Models) -> Sequence[Measurement]:
        """Refuse: there are no cells."""
        raise ValueError("the schematic has no cells")


def lines(rows: pd.DataFrame) -> Sequence[Line]:
    """Give no table."""
    return []


def figures(rows: pd.DataFrame) -> Figures:
    """Draw the method."""
    from ma_sbi_bench.plots.schematic import plot_schematic

    return {"schematic": plot_schematic()}
