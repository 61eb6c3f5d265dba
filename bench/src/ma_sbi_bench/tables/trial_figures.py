"""Figures of the tables of trials, from finished rows."""

from __future__ import annotations

from collections.abc import Sequence
from typing import TYPE_CHECKING

import numpy as np
import pandas as pd
import torch

from ma_sbi.demo import plot_posteriors
from ma_sbi_bench.paper.comparing import Compared
from ma_sbi_bench.paper.printed import printed
from ma_sbi_bench.paper.words import captions
from ma_sbi_bench.plots.bars import plot_bars
from ma_sbi_bench.plots.sweeps import plot_sweeps
from ma_sbi_bench.plots.violins import plot_violins
from ma_sbi_bench.tables.methods_compared import (
    EQUIVALENCE_MARGIN,
    ON_DIFFUSION,
    ON_FLOW,
    PAPER_PARTS,
)
from ma_sbi_bench.tables.special_lines import decomposition_lines, mean_of_seeds
from ma_sbi_bench.tables.trial_lines import METRICS, TASK_NAMES, labelled, per_observation
from ma_sbi_bench.tasks import get_task
from ma_sbi_bench.trials.cells import CONTINUOUS, SMALLEST_Z
from ma_sbi_bench.trials.table import Curves, TrialTable

if TYPE_CHECKING:
    from matplotlib.figure import Figure

__all__ = ["FIGURES", "trial_figures"]

# Methods on Two Moons, and the names that the figure gives them.
METHOD_NAMES = {
    "exact": "reference",
    "npe": "NPE",
    "ma_sbi_marginal": "mean shift only",
    "ma_sbi": "MA-SBI",
    "oracle": "Oracle",
}
PART_NAMES = dict(zip(PAPER_PARTS, ("marginal", "conditional", "total"), strict=True))
# Smaller errors of a shift, in per cent, are drawn here.
FLOOR = 0.01


def draw_curves(curves: Curves, rows: pd.DataFrame) -> Figure | None:
    """Draw the metric against what a table varies; None if no curve has two points."""
    rows = labelled(rows[rows["metric"].isin(METRICS)], curves.over)
    rows = rows.assign(mean=[per_observation(row).mean() for _, row in rows.iterrows()])
    if curves.horizontal:
        parts = [
            (TASK_NAMES[str(task)], curves.over[0], part)
            for task, part in rows.groupby("task", sort=False)
        ]
    else:
        on_slcp = rows[rows["task"] == "slcp"]
        parts = [(column, column, on_slcp) for column in curves.over]
    panels, levels = {}, {}
    for title, column, part in parts:
        drawn = _curves(part, column, curves.methods, curves.usual.get(column))
        if any(len(curve) > 1 for curve in drawn.values()):
            panels[title] = drawn
            levels[title] = _means(part[part["method"].isin(curves.levels)], "method")
    if not panels:
        return None
    return plot_sweeps(
        panels, curves.label, levels=levels, horizontal=curves.horizontal, log=curves.log
    )


def _curves(
    rows: pd.DataFrame,
    column: str,
    methods: Sequence[str],
    usual: tuple[str, float] | None,
) -> dict[str, dict[float, float]]:
    """Average seeds at each point; the usual one belongs to every curve."""
    swept = rows[rows[column].notna()]
    if usual is not None:
        swept = swept[swept[column] != usual[1]]
    found = {
        str(name): _means(part, column)
        for name, part in swept.groupby("method", sort=False)
        if not methods or name in methods
    }
    if usual is not None:
        own = rows[(rows["method"] == usual[0]) & rows[column].isna()]
        for curve in found.values() if len(own) else ():
            curve[usual[1]] = float(own["mean"].mean())
    return found


def _means(rows: pd.DataFrame, column: str) -> dict:
    """Average rows at each value of a column."""
    return {at: float(part["mean"].mean()) for at, part in rows.groupby(column)}


def draw_violins(rows: pd.DataFrame) -> Figure | None:
    """Draw the values of every seed."""
    seeds = mean_of_seeds(rows)
    panels = {
        backbone: {
            method: seeds[backbone, method].to_numpy()
            for method in methods
            if (backbone, method) in seeds
        }
        for backbone, methods in (("maf", ON_FLOW), ("ddpm", ON_DIFFUSION))
    }
    panels = {name: values for name, values in panels.items() if "oracle" in values}
    return plot_violins(panels, margin=EQUIVALENCE_MARGIN) if panels else None


def draw_decomposition(rows: pd.DataFrame) -> Figure | None:
    """Draw the shares of the parts of the paper's network."""
    bars: dict[str, dict[str, Compared]] = {}
    for line in decomposition_lines(rows):
        part = PART_NAMES.get(str(line.labels["method"]))
        if "task" in line.labels and part and line.closed and not line.closed.reason:
            group = f"{line.labels['task']}\n{line.labels['context']}"
            bars.setdefault(group, {})[part] = line.closed
    return plot_bars(bars, "gap closed in %") if bars else None


def draw_posteriors(rows: pd.DataFrame) -> Figure | None:
    """Draw posterior draws: one row per method, one column per regime."""
    kept = rows[rows["metric"] == "draws"].set_index("method")["values"]
    task = get_task("two_moons")
    shape = (-1, len(task.regimes), task.dim_theta)
    draws = {
        shown: torch.as_tensor(kept[method]).reshape(shape)
        for method, shown in METHOD_NAMES.items()
        if method in kept
    }
    if "reference" not in draws or len(draws) < 2:
        return None
    texts = [regime.text for regime in task.regimes]
    return plot_posteriors(draws, texts, limits=(-1.05, 1.05))


def draw_intensities(rows: pd.DataFrame) -> Figure | None:
    """Draw C2ST and the error of the shift over z, of the paper's backbone."""
    rows = rows[(rows["backbone"] == "ddpm") & ~rows["method"].isin(("prior", "exact"))]
    if rows.empty:
        return None
    settings = rows.iloc[0]["settings"]
    z = np.linspace(0, 1, settings["intensities"])

    def over(z: np.ndarray, metric: str, least: float) -> dict[str, dict[float, float]]:
        found: dict[str, dict[float, float]] = {}
        for method, part in rows[rows["metric"] == metric].groupby("method", sort=False):
            mean = np.concatenate([one.reshape(-1, len(z)) for one in part["values"]])
            at_least = np.maximum(mean.mean(axis=0), least)
            found[str(method)] = dict(zip(z.tolist(), at_least.tolist(), strict=True))
        return found

    c2st = f"C2ST, mean over {settings['observations']} observations"
    error = f"error of the shift in %, at least {FLOOR:g}"
    where = {"task": CONTINUOUS, "backbone": "ddpm", "method": "ma_sbi_paper"}
    paper = printed("continuous_context", "shift_error", **where)
    return plot_sweeps(
        {c2st: over(z, "c2st", 0.0), error: over(z[1:], "shift_error", FLOOR)},
        "",
        levels={error: {"paper, mean": paper.value}} if paper else {},
        horizontal="intensity z",
        log=False,
        log_values=[error],
        shaded=(0.0, SMALLEST_Z),
    )


FIGURES = {
    "hide_calibration": draw_violins,
    "posteriors": draw_posteriors,
    "decomposition": draw_decomposition,
    "continuous_context": draw_intensities,
}
"""Figures that are not curves, by table."""


def trial_figures(table: TrialTable, rows: pd.DataFrame) -> dict[str, Figure]:
    """Draw the figure of a table, if it has one and its rows are there."""
    figure = None
    if table.name in FIGURES:
        figure = FIGURES[table.name](rows)
    elif table.curves is not None:
        figure = draw_curves(table.curves, rows)
    return {} if figure is None else dict.fromkeys(captions(table.name), figure)
