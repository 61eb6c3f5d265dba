"""A context that is right only some of the time: how the correction degrades."""

from __future__ import annotations

from collections.abc import Mapping, Sequence

import pandas as pd
from matplotlib.figure import Figure

from ma_sbi_bench.engine.budget import Budget
from ma_sbi_bench.engine.cell import Cell
from ma_sbi_bench.plots.sweeps import plot_sweeps
from ma_sbi_bench.tables.comparing import Line
from ma_sbi_bench.theory import discrete_information, symmetric_channel
from ma_sbi_bench.trials.experiment import EXTRA_ROWS, TrialExperiment
from ma_sbi_bench.trials.lines import Published, curve, levels, trial_lines

__all__ = ["NoisyContext"]

TASK, BACKBONE = "slcp", "ddpm"
RELIABILITIES = (0.0, 0.25, 0.5, 0.75, 1.0)
FITTED = ("ma_sbi_paper", "ma_sbi")
READING = (*FITTED, "exact")
NUM_SEEDS = 4
# At pure noise, and at the dip that the paper reports; it prints no other figures.
PAPER = {("ma_sbi_paper", 0.0): 5.2, ("ma_sbi_paper", 0.25): -36.0}


class NoisyContext(TrialExperiment):
    """Graceful degradation, and the dip at p = 0.25 that the paper reports."""

    name = "noisy_context"
    title = "Noisy context"
    place = "Figure 3 (b), graceful degradation"
    note = (
        "SLCP, diffusion model. With probability p a text is its regime's, else it is "
        "picked at random among the four, in calibration and in the test. I is the "
        "information between text and regime in nats. `exact` weighs the regimes by what "
        "the text says and by how likely x is under each: it reads x, too, which no "
        "correction by the text alone does."
    )

    def cells(self, budget: Budget) -> Sequence[Cell]:
        """List all reliabilities; rows that read no context stand at 1."""
        return [
            self.method_cell(
                budget,
                TASK,
                BACKBONE,
                method,
                seed,
                **({} if reliability == 1.0 else {"reliability": reliability}),
            )
            for seed in budget.seeds_of(NUM_SEEDS)
            for reliability in RELIABILITIES[3 if budget.quick else 0 :]
            for method in (*FITTED, "npe", "oracle", *EXTRA_ROWS)
            if (method in READING or reliability == 1.0)
            and (seed == 0 or method not in EXTRA_ROWS)
        ]

    def lines(self, rows: pd.DataFrame) -> Sequence[Line]:
        """Put both of the paper's figures beside ours."""

        def published(row: pd.Series) -> Published:
            return Published(closed=PAPER.get((row["method"], row["p"])))

        return trial_lines(
            _labelled(rows),
            "SLCP, contexts that are right with probability p",
            by=("p", "I"),
            published=published,
            order=("prior", "npe", *READING),
        )

    def figures(self, rows: pd.DataFrame) -> Mapping[str, Figure]:
        """Draw C2ST against the information; where there is no gap a share says nothing."""
        rows = _labelled(rows[rows["metric"] == "c2st"])
        by_method = dict(list(rows.groupby("method", sort=False)))
        curves = {name: curve(by_method[name], "I") for name in FITTED if name in by_method}
        if not any(len(points) > 1 for points in curves.values()):
            return {}
        drawn = plot_sweeps(
            {"SLCP": curves},
            "C2ST",
            horizontal="information in nats",
            levels=levels(rows, ("npe", "ma_sbi_marginal", "oracle")),
            log=False,
        )
        return {"noisy_context": drawn}

    def captions(self) -> Mapping[str, str]:
        """Say what the figure shows."""
        return {
            "noisy_context": "C2ST of MA-SBI on SLCP against the information that "
            "the context has about the regime."
        }


def _labelled(rows: pd.DataFrame) -> pd.DataFrame:
    reliability = [row.get("reliability", 1.0) for row in rows["settings"]]
    information = [
        round(discrete_information(symmetric_channel(4, p)), 3) for p in reliability
    ]
    return rows.assign(p=reliability, I=information)
