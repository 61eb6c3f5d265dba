"""Regimes that the calibration set never visited: one regime is left out at a time."""

from __future__ import annotations

from collections.abc import Sequence

import pandas as pd

from ma_sbi_bench.engine.budget import Budget
from ma_sbi_bench.engine.cell import Cell
from ma_sbi_bench.tables.comparing import Line
from ma_sbi_bench.tasks import get_task
from ma_sbi_bench.trials.experiment import EXTRA_ROWS, TrialExperiment
from ma_sbi_bench.trials.lines import trial_lines

__all__ = ["UnseenRegimes"]

TASKS = ("gaussian_linear", "slcp", "two_moons")
BACKBONE = "maf"
METHODS = ("npe", "ma_sbi", "ma_sbi_minilm", "rope_emd", *EXTRA_ROWS, "oracle")


class UnseenRegimes(TrialExperiment):
    """Whether words help in a regime that nobody has calibrated."""

    name = "unseen_regimes"
    title = "Leave one regime out"
    place = (
        "the claim below Theorem 3 that text identifies regimes the calibration set never "
        "visited, for which the paper has no figure"
    )
    note = (
        "MAF. Calibration rows come from three regimes, test rows from the fourth. Nothing "
        "in these texts says how large or in which direction a new shift is, so no reading "
        "of them can recover it."
    )

    def cells(self, budget: Budget) -> Sequence[Cell]:
        """List every regime of three tasks."""
        return [
            self.method_cell(
                budget, task, BACKBONE, method, seed, regime=regime, left_out=regime
            )
            for seed in budget.seeds_of()
            for task in TASKS
            for regime in range(1 if budget.quick else len(get_task(task).regimes))
            for method in METHODS
        ]

    def lines(self, rows: pd.DataFrame) -> Sequence[Line]:
        """Show each regime that was left out."""
        rows = rows.assign(left_out=rows["regime"])
        return trial_lines(
            rows,
            "Each regime left out",
            by=("task", "left_out"),
            world=("task", "left_out"),
            order=("prior", "npe", *METHODS),
        )
