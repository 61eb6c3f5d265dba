"""Nothing departs from the simulator: does a correction leave the posterior alone?"""

from __future__ import annotations

from collections.abc import Sequence

import pandas as pd

from ma_sbi_bench.engine.budget import Budget
from ma_sbi_bench.engine.cell import Cell
from ma_sbi_bench.tables.comparing import Line
from ma_sbi_bench.tables.main_results import TASKS
from ma_sbi_bench.trials.experiment import EXTRA_ROWS, TrialExperiment, possible
from ma_sbi_bench.trials.lines import trial_lines

__all__ = ["WellSpecified"]

METHODS = (
    "npe",
    "rope_emd",
    "ma_sbi_paper",
    "ma_sbi",
    "ma_sbi_affine",
    *EXTRA_ROWS,
)
SETTING = {"setting": "well_specified"}


class WellSpecified(TrialExperiment):
    """The third setting of the paper's benchmarks."""

    name = "well_specified"
    title = "Well-specified setting"
    place = "the setting that the paper names beside the informative and uninformative ones"
    note = (
        "MAF, 500 calibration rows, no departure: NPE and oracle are the same, "
        "there is no gap to close, and every difference from NPE is harm or noise."
    )

    def cells(self, budget: Budget) -> Sequence[Cell]:
        """List every task without a departure."""
        return [
            self.method_cell(budget, task, "maf", method, seed, task_options=SETTING)
            for seed in budget.seeds_of()
            for task in TASKS
            for method in possible(METHODS, task)
        ]

    def lines(self, rows: pd.DataFrame) -> Sequence[Line]:
        """Show the raw values; there is no share of a gap."""
        order = ("prior", *METHODS)
        return trial_lines(rows, "No departure", by=("task",), order=order)
