"""Figures of the tables of trials, from finished rows."""

from __future__ import annotations

from collections.abc import Mapping
from typing import TYPE_CHECKING

import numpy as np
import pandas as pd
import torch

from ma_sbi.plots import plot_posteriors
from ma_sbi_bench.plots.bars import plot_bars
from ma_sbi_bench.plots.sweeps import plot_sweeps
from ma_sbi_bench.plots.violins import plot_violins
from ma_sbi_bench.tables.comparing import Compared
from ma_sbi_bench.tables.more_lines import decomposition_lines, mean_of_seeds
from ma_sbi_bench.tables.paper import printed
from ma_sbi_bench.tables.trial_lines import METRICS, TASK_NAMES, labelled, per_observation
from ma_sbi_bench.tables.trial_tables import EQUIVALENCE_MARGIN, ON_DIFFUSION, ON_FLOW
from ma_sbi_bench.tasks import get_task
from ma_sbi_bench.trials.run import SMALLEST_Z
from ma_sbi_bench.trials.table import TrialTable

if TYPE_CHECKING:
    from matplotlib.figure import Figure

__all__ = [
    "draw_continuous_context",
    "draw_curves",
    "draw_decomposition",
    "draw_hide_calibration",
    "draw_posteriors",
]

Curve = dict[float, float]
Figures = Mapping[str, "Figure"]
# Methods on Two Moons, and the names that the figure gives them.
DRAWN = {
    "exact": "reference",
    "npe": "NPE",
    "ma_sbi_marginal": "mean shift only",
    "ma_sbi": "MA-SBI",
    "oracle": "Oracle",
}
PARTS = {
    "ma_sbi_paper_marginal": "marginal",
    "ma_sbi_paper_conditional": "conditional",
    "ma_sbi_paper": "total",
}
# Smaller errors of a shift, in per cent, are drawn here.
FLOOR = 0.01


def draw_curves(table: TrialTable, rows: pd.DataFrame) -> Figures:
    """Draw the metric against what a table varies."""
    shown = table.curves
    rows = rows[rows["metric"].isin(METRICS)]
    if shown is None or rows.empty:
        return {}
    rows = labelled(rows, shown.over)
    rows = rows.assign(mean=[per_observation(row).mean() for _, row in rows.iterrows()])
    if shown.horizontal:
        (column,) = shown.over
        found = {
            TASK_NAMES[str(task)]: (column, part)
            for task, part in rows.groupby("task", sort=False)
        }
    else:
        found = {column: (column, rows[rows["task"] == "slcp"]) for column in shown.over}
    panels, levels = {}, {}
    for title, (column, part) in found.items():
        curves = _curves(part, column, shown.methods, shown.usual.get(column))
        if any(len(curve) > 1 for curve in curves.values()):
            panels[title] = curves
            levels[title] = _means(part[part["method"].isin(shown.levels)], "method")
    if not panels:
        return {}
    drawn = plot_sweeps(
        panels,
        shown.label,
        levels=levels,
        horizontal=shown.horizontal or None,
        log=shown.log,
    )
    return {table.name: drawn}


def _curves(
    rows: pd.DataFrame,
    column: str,
    methods: tuple[str, ...],
    usual: tuple[str, float] | None,
) -> dict[str, Curve]:
    """Average seeds at each point; the usual one belongs to every curve."""
    known = rows[rows[column].notna()]
    if usual is not None:
        known = known[known[column] != usual[1]]
    if methods:
        known = known[known["method"].isin(methods)]
    names = [one for one in methods or known["method"].unique()]
    curves = {name: _means(known[known["method"] == name], column) for name in names}
    curves = {name: curve for name, curve in curves.items() if curve}
    if usual is not None:
        method, at = usual
        own = rows[(rows["method"] == method) & rows[column].isna()]
        for curve in curves.values() if len(own) else ():
            curve[at] = float(own["mean"].mean())
    return curves


def _means(rows: pd.DataFrame, column: str) -> dict:
    """Average the means of rows at each value of a column."""
    return {at: float(part["mean"].mean()) for at, part in rows.groupby(column)}


def draw_hide_calibration(rows: pd.DataFrame) -> Figures:
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
    return {"violins": plot_violins(panels, margin=EQUIVALENCE_MARGIN)} if panels else {}


def draw_decomposition(rows: pd.DataFrame) -> Figures:
    """Draw the shares of the parts of the paper's network."""
    bars: dict[str, dict[str, Compared]] = {}
    for line in decomposition_lines(rows):
        part = PARTS.get(str(line.labels["method"]))
        if "task" in line.labels and part and line.closed and not line.closed.reason:
            group = f"{line.labels['task']}\n{line.labels['context']}"
            bars.setdefault(group, {})[part] = line.closed
    return {"decomposition": plot_bars(bars, "gap closed in %")} if bars else {}


def draw_posteriors(rows: pd.DataFrame) -> Figures:
    """Draw posterior draws: one row per method, one column per regime."""
    kept = rows[rows["metric"] == "draws"].set_index("method")["values"]
    task = get_task("two_moons")
    shape = (-1, len(task.regimes), task.dim_theta)
    draws = {
        shown: torch.as_tensor(kept[method]).reshape(shape)
        for method, shown in DRAWN.items()
        if method in kept
    }
    if "reference" not in draws or len(draws) < 2:
        return {}
    texts = [regime.text for regime in task.regimes]
    return {"posteriors": plot_posteriors(draws, texts, limits=(-1.05, 1.05))}


def draw_continuous_context(rows: pd.DataFrame) -> Figures:
    """Draw C2ST and the error of the shift over z, of the paper's backbone."""
    rows = rows[rows["backbone"] == "ddpm"]
    if rows.empty:
        return {}
    settings = rows.iloc[0]["settings"]
    z = np.linspace(0, 1, settings["intensities"])

    def curves(metric: str, at: np.ndarray, least: float) -> dict[str, Curve]:
        found = rows[(rows["metric"] == metric) & ~rows["method"].isin(("prior", "exact"))]
        return {
            str(method): dict(
                zip(at, np.maximum(_over_z(part, len(at)), least), strict=True)
            )
            for method, part in found.groupby("method", sort=False)
        }

    c2st = f"C2ST, mean over {settings['observations']} observations"
    error = f"error of the shift in %, at least {FLOOR:g}"
    panels = {c2st: curves("c2st", z, 0.0), error: curves("shift_error", z[1:], FLOOR)}
    where = {"task": "slcp_continuous", "backbone": "ddpm", "method": "ma_sbi_paper"}
    paper = printed("continuous_context", "shift_error", **where)
    drawn = plot_sweeps(
        panels,
        "",
        levels={error: {"paper, mean": paper.value}} if paper else None,
        horizontal="intensity z",
        log=False,
        log_values=(error,),
        shaded=(0.0, SMALLEST_Z),
    )
    return {"continuous_context": drawn}


def _over(rows: pd.DataFrame, num: int) -> np.ndarray:
    """Average seeds and observations, shape ``(num,)``."""
    return np.mean([values.reshape(-1, num) for values in rows["values"]], axis=(0, 1))
