"""The method as a picture: no cells, only a figure."""

from __future__ import annotations

from collections.abc import Sequence

from ma_sbi_bench.engine.budget import Budget
from ma_sbi_bench.engine.cell import Cell, Measurement
from ma_sbi_bench.engine.experiment import Experiment
from ma_sbi_bench.engine.models import Models
from ma_sbi_bench.paper.words import named

__all__ = ["Schematic"]


class Schematic(Experiment):
    """The paper's first figure."""

    name, title, place, note = named("schematic").values()

    def cells(self, budget: Budget) -> Sequence[Cell]:
        """List nothing: there is nothing to compute."""
        return []

    def run(self, cell: Cell, models: Models) -> Sequence[Measurement]:
        """Refuse: there are no cells."""
        raise ValueError("the schematic has no cells")
