"""The same corrector before a flow and before a diffusion model."""

from __future__ import annotations

from collections.abc import Sequence

import pandas as pd

from ma_sbi_bench.engine.budget import Budget
from ma_sbi_bench.engine.cell import Cell
from ma_sbi_bench.tables.comparing import Line
from ma_sbi_bench.trials.experiment import EXTRA_ROWS, TrialExperiment
from ma_sbi_bench.trials.lines import Published, trial_lines

__all__ = ["BackboneAblation"]

METHODS = ("npe", "ma_sbi_paper", "ma_sbi", "oracle", *EXTRA_ROWS)
# One seed shows what they are.
ONCE = ("ma_sbi", *EXTRA_ROWS)
# Ten dimensions, as the paper's table says, with three seeds.
TEN_DIMENSIONS = {"dim": 10}
PAPER = {
    ("gaussian_linear", "maf"): 106,
    ("gaussian_linear", "ddpm"): 111,
    ("slcp", "maf"): 101,
    ("slcp", "ddpm"): 99,
    ("two_moons", "maf"): 102,
    ("two_moons", "ddpm"): 102,
}


class BackboneAblation(TrialExperiment):
    """Whether the correction depends on what estimates the density."""

    name = "backbone_ablation"
    title = "Backbone ablation"
    place = "the appendix on backbones"
    note = "Gaussian linear has ten dimensions here and, as in the paper, three seeds."

    def cells(self, budget: Budget) -> Sequence[Cell]:
        """List three tasks with both backbones."""
        cells = []
        for backbone in ("maf", "ddpm"):
            cells += [
                self.trial(
                    budget,
                    "gaussian_linear",
                    backbone,
                    method,
                    seed=seed,
                    task_options=TEN_DIMENSIONS,
                )
                for seed in budget.seeds_of(3)
                for method in METHODS
                if seed == 0 or method not in ONCE
            ]
            cells += [
                self.method_cell(budget, task, backbone, method, seed)
                for task in ("slcp", "two_moons")
                for seed in budget.seeds_of()
                for method in METHODS
            ]
        return cells

    def lines(self, rows: pd.DataFrame) -> Sequence[Line]:
        """Put the shares of the gap beside the paper's."""

        def published(row: pd.Series) -> Published:
            if row["method"] != "ma_sbi_paper":
                return Published()
            return Published(closed=PAPER[row["task"], row["backbone"]])

        order = ("prior", "npe", "ma_sbi_paper", "ma_sbi", *EXTRA_ROWS[1:3], "oracle")
        return trial_lines(
            rows, "Flow and diffusion model", published=published, order=order
        )
