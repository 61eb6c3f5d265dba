"""Three-way decomposition: what the mean shift closes, what the context adds, and both."""

from __future__ import annotations

from collections.abc import Mapping, Sequence

import pandas as pd
import torch
from matplotlib.figure import Figure

from ma_sbi_bench.engine.budget import Budget
from ma_sbi_bench.engine.cell import Cell, Measurement
from ma_sbi_bench.engine.models import Laboratory
from ma_sbi_bench.plots.bars import plot_bars
from ma_sbi_bench.tables.comparing import Compared, Line, exactly
from ma_sbi_bench.tables.main_results import TASKS
from ma_sbi_bench.tasks import GaussianLinear
from ma_sbi_bench.trials.experiment import TrialExperiment, possible
from ma_sbi_bench.trials.lines import Published, trial_lines

__all__ = ["ThreeWayDecomposition"]

PARTS = {
    "ma_sbi_marginal": "marginal",
    "ma_sbi_conditional": "conditional",
    "ma_sbi": "total",
}
PAPER_PARTS = {
    "ma_sbi_paper_marginal": "marginal",
    "ma_sbi_paper_conditional": "conditional",
    "ma_sbi_paper": "total",
}
ONLY_INFORMATIVE = ("npe", "prior", "ma_sbi_shuffled", "oracle")
SETTINGS = ("informative", "uninformative")
ANALYTIC = "exact mean"
# Marginal, conditional and total.
PAPER = {
    ("gaussian_linear", "informative"): (19, 81, 100),
    ("gaussian_linear", "uninformative"): (19, 0, 19),
    ("slcp", "informative"): (5, 45, 93),
    ("slcp", "uninformative"): (-2, 5, 4),
    ("two_moons", "informative"): (-13, 10, 95),
    ("sir_delay", "informative"): (79, 50, 95),
    ("sir_delay", "uninformative"): (64, 4, 67),
    ("ddm", "informative"): (20, 74, 94),
    ("ddm", "uninformative"): (30, -3, 27),
}


class ThreeWayDecomposition(TrialExperiment):
    """Where the correction comes from."""

    name = "decomposition"
    title = "Three-way decomposition"
    place = "the appendix on the three-way decomposition, its analytic rows and figure"
    note = (
        "Diffusion model; parts of the paper's network beside the paper's figures, and of "
        "the closed form. The parts' shares need not add up to the total's: posteriors are "
        "not linear in the shift. The rows of the exact posterior mean of the Gaussian "
        "linear task are analytic: there they do. How large a mean shift is depends on the "
        "directions of the regimes, which the paper does not give, so that more of a part "
        "is not better."
    )

    def cells(self, budget: Budget) -> Sequence[Cell]:
        """List all parts on all tasks, with contexts that tell and that do not."""
        cells = [
            self.trial(
                budget,
                task,
                "ddpm",
                method,
                seed=seed,
                task_options={} if setting == "informative" else {"setting": setting},
            )
            for seed in budget.seeds_of()
            for task in TASKS
            for setting in SETTINGS
            for method in possible((*PAPER_PARTS, *PARTS, "exact", *ONLY_INFORMATIVE), task)
            # Filler changes nothing for what reads no context, or a shuffled one.
            if setting == "informative" or method not in ONLY_INFORMATIVE
        ]
        return cells + [
            self.cell(part, task="gaussian_linear", backbone=ANALYTIC, settings={"task": s})
            for s in ({}, {"setting": "uninformative"})
            for part in PARTS
        ]

    def backbones(self, cell: Cell) -> Sequence:
        """Name the posterior that a trial starts from; analytic rows need none."""
        return () if cell.backbone == ANALYTIC else super().backbones(cell)

    def run(self, cell: Cell, laboratory: Laboratory) -> Sequence[Measurement]:
        """Run a trial, or compute a share of the squared departure."""
        if cell.backbone != ANALYTIC:
            return super().run(cell, laboratory)
        task = GaussianLinear(**cell.settings["task"])
        shift = torch.stack([regime.shift for regime in task.regimes]).double()
        known = (
            shift if task.setting == "informative" else shift.mean(dim=0).expand_as(shift)
        )
        mean = known.mean(dim=0)
        used = {"marginal": mean, "conditional": known - mean, "total": known}
        left = (shift - used[PARTS[cell.method]]).square().sum()
        return [Measurement("closed", (1 - (left / shift.square().sum()).item(),))]

    def lines(self, rows: pd.DataFrame) -> Sequence[Line]:
        """Put every part beside the paper's."""
        rows = _labelled(rows)

        def published(row: pd.Series) -> Published:
            part = PAPER_PARTS.get(row["method"])
            return Published() if part is None else _published(row, part)

        lines = trial_lines(
            rows,
            "Marginal, conditional, total",
            by=("task", "context"),
            world=("task",),
            published=published,
            order=(
                "prior",
                "npe",
                *PAPER_PARTS,
                *PARTS,
                "ma_sbi_shuffled",
                "oracle",
                "exact",
            ),
        )
        for _, row in rows[rows["metric"] == "closed"].iterrows():
            paper = _published(row, PARTS[row["method"]])
            lines.append(
                Line(
                    "Gaussian linear, exact posterior mean",
                    {"context": row["context"], "method": row["method"]},
                    closed=exactly(
                        100 * row["value"],
                        paper=paper.closed,
                        better=paper.better,
                        digits=0,
                    ),
                )
            )
        return lines

    def figures(self, rows: pd.DataFrame) -> Mapping[str, Figure]:
        """Draw the shares of the parts."""
        bars: dict[str, dict[str, Compared]] = {}
        for line in self.lines(rows):
            part = PAPER_PARTS.get(str(line.labels["method"]))
            if "task" in line.labels and part and line.closed and not line.closed.reason:
                group = f"{line.labels['task']}\n{line.labels['context']}"
                bars.setdefault(group, {})[part] = line.closed
        return {"decomposition": plot_bars(bars, "gap closed in %")} if bars else {}

    def captions(self) -> Mapping[str, str]:
        """Say what the figure shows."""
        return {
            "decomposition": "Share of the gap from NPE to oracle that each part of the "
            "paper's network closes, with 95 % intervals; a diamond is the paper's. Bars "
            "beyond the axis are cut."
        }


def _published(row: pd.Series, part: str) -> Published:
    """Find what the paper prints of a part; of the parts more is not better."""
    known = PAPER.get((row["task"], row["context"]), (None,) * 3)
    closed = dict(zip(PARTS.values(), known, strict=True))[part]
    return Published(closed=closed, better="higher" if part == "total" else "")


def _labelled(rows: pd.DataFrame) -> pd.DataFrame:
    told = [row["task"].get("setting", "informative") for row in rows["settings"]]
    return rows.assign(context=told)
