"""What the paper's network recovers of a shift, by hash, width and number of rows."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

import numpy as np
import pandas as pd
import torch
from sklearn.base import clone

from ma_sbi.randomness import derive
from ma_sbi_bench.engine.budget import Budget
from ma_sbi_bench.engine.cell import Cell, Measurement
from ma_sbi_bench.engine.experiment import Experiment
from ma_sbi_bench.engine.models import Models
from ma_sbi_bench.paper.comparing import Line, estimate
from ma_sbi_bench.paper.words import named
from ma_sbi_bench.tables.methods_compared import NETWORKS
from ma_sbi_bench.tables.trial_lines import TASK_NAMES
from ma_sbi_bench.tasks import get_task
from ma_sbi_bench.trials.cells import form_and_options
from ma_sbi_bench.trials.run import make_method

__all__ = ["RecoveredShift", "lines"]

# On SIR reality is no shift.
TASKS = ("gaussian_linear", "slcp", "two_moons", "ddm")
SIZES = (100, 500, 2000)
# The calibration sets that the ten seeds of tables with posteriors have.
NUM_SETS = 10


class RecoveredShift(Experiment):
    """Errors of the shift alone: they need no posterior."""

    name, title, place, note = named("recovered_shift").values()

    def cells(self, budget: Budget) -> Sequence[Cell]:
        """List every network on every task and calibration size."""
        return [
            self.cell(
                method,
                task=task,
                seed=seed,
                num_calibration=size,
                settings=form_and_options(budget, task, method)
                | {"calibration_sets": 2 if budget.quick else NUM_SETS},
            )
            for seed in budget.seeds_of()
            for task in TASKS
            for size in SIZES[: 1 if budget.quick else None]
            for method in NETWORKS
        ]

    def run(self, cell: Cell, models: Models) -> Sequence[Measurement]:
        """Fit the network to several calibration sets."""
        task: Any = get_task(cell.task)  # one of shifts
        corrector = make_method(cell).corrector
        regimes = torch.arange(len(task.regimes))
        true = task.shift(regimes)
        shifted = true.norm(dim=1) > 0
        errors = []
        for number in range(cell.settings["calibration_sets"]):
            seed = cell.seed + number
            rows = task.draw(cell.num_calibration, seed=derive(seed, "calibration"))
            fitted = clone(corrector).fit(rows.context, rows.x_obs, rows.x_sim, seed=seed)
            wrong = (fitted.shift(task.contexts(regimes)) - true).norm(dim=1)
            errors.append((wrong / true.norm(dim=1))[shifted].mean().item())
        return [Measurement("shift_error", tuple(100 * one for one in errors))]


def lines(rows: pd.DataFrame) -> Sequence[Line]:
    """Average over calibration sets."""
    by_cell: Any = rows.groupby(["task", "num_calibration", "method"], sort=False)
    return [
        Line(
            "Error of the recovered shift",
            {"task": TASK_NAMES[str(task)], "n_cal": int(size), "method": str(method)},
            raw=estimate(np.concatenate(part["values"].tolist()), digits=1),
            metric="error, % of the shift",
        )
        for (task, size, method), part in by_cell
    ]
