"""Draws of every posterior of one Two Moons observation, to be looked at."""

from __future__ import annotations

from collections.abc import Mapping, Sequence

import pandas as pd
import torch
from matplotlib.figure import Figure

from ma_sbi.plots import plot_posteriors
from ma_sbi_bench.engine.budget import Budget
from ma_sbi_bench.engine.cell import Cell
from ma_sbi_bench.tables.comparing import Line
from ma_sbi_bench.tasks import get_task
from ma_sbi_bench.trials.experiment import TrialExperiment
from ma_sbi_bench.trials.lines import trial_lines

__all__ = ["Posteriors"]

TASK, BACKBONE = "two_moons", "ddpm"
METHODS = {
    "exact": "reference",
    "npe": "NPE",
    "ma_sbi_marginal": "mean shift only",
    "ma_sbi": "MA-SBI",
    "oracle": "Oracle",
}
NUM_KEPT = 250


class Posteriors(TrialExperiment):
    """The figure of corrected posteriors."""

    name = "posteriors"
    title = "Posteriors on Two Moons"
    place = "the appendix that shows posteriors on Two Moons"
    note = "The first test observation, in all four regimes; values are of it alone."

    def cells(self, budget: Budget) -> Sequence[Cell]:
        """List the methods that are drawn, for one observation."""
        return [
            self.method_cell(
                budget, TASK, BACKBONE, method, 0, observation=0, keep_draws=NUM_KEPT
            )
            for method in (*METHODS, "prior", "ma_sbi_shuffled")
        ]

    def lines(self, rows: pd.DataFrame) -> Sequence[Line]:
        """Show C2ST of this observation."""
        return trial_lines(rows, "One observation in four regimes", order=list(METHODS))

    def figures(self, rows: pd.DataFrame) -> Mapping[str, Figure]:
        """Draw one row per method, one column per regime."""
        kept = rows[rows["metric"] == "draws"].set_index("method")["values"]
        task = get_task(TASK)
        shape = (-1, len(task.regimes), task.dim_theta)
        draws = {
            shown: torch.as_tensor(kept[method]).reshape(shape)
            for method, shown in METHODS.items()
            if method in kept
        }
        if "reference" not in draws or len(draws) < 2:
            return {}
        texts = [regime.text for regime in task.regimes]
        return {"posteriors": plot_posteriors(draws, texts, limits=(-1.05, 1.05))}

    def captions(self) -> Mapping[str, str]:
        """Say what the figure shows."""
        return {
            "posteriors": "Posterior draws for one observation of Two Moons, by regime; "
            "the exact posterior is grey."
        }
