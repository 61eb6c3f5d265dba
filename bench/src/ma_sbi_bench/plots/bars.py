"""Groups of bars with intervals, beside the paper's values."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any, Protocol

import numpy as np
from matplotlib.figure import Figure

from ma_sbi_bench.plots.panels import legend_below

__all__ = ["plot_bars"]

COLOURS = ("#9ecae1", "#fdae6b", "#3182bd", "#756bb1", "#31a354")


class _Number(Protocol):
    @property
    def value(self) -> float: ...
    @property
    def low(self) -> float: ...
    @property
    def high(self) -> float: ...
    @property
    def paper(self) -> float | None: ...


def plot_bars(
    groups: Mapping[str, Mapping[str, _Number]],
    label: str,
    *,
    limits: tuple[float, float] | None = (-120.0, 130.0),
) -> Figure:
    """Draw one group of bars per name, one bar per part.

    Args:
        groups: Numbers with intervals by group and part; ``paper`` is a diamond.
        label: Name of the values.
        limits: Range of the vertical axis; larger bars are cut. None shows all.
    """
    parts = list(dict.fromkeys(part for group in groups.values() for part in group))
    figure = Figure(figsize=(2 + 1.0 * len(groups), 4.2), layout="constrained")
    axis = figure.subplots()
    width = 0.8 / len(parts)
    drawn: dict[str, Any] = {}
    for number, part in enumerate(parts):
        shown = {i: group[part] for i, group in enumerate(groups.values()) if part in group}
        at = np.array(list(shown)) + (number - (len(parts) - 1) / 2) * width
        values = [one.value for one in shown.values()]
        colour = COLOURS[number % len(COLOURS)]
        drawn[part] = axis.bar(at, values, width, color=colour)
        for x, one in zip(at, shown.values(), strict=True):
            if np.isfinite([one.low, one.high]).all():
                axis.plot([x, x], [one.low, one.high], color="0.25", lw=1)
            if one.paper is not None:
                axis.plot(x, one.paper, "D", color="#d62728", ms=4)
    drawn["paper"] = axis.plot([], [], "D", color="#d62728", ms=4)[0]
    axis.axhline(0, color="0.4", lw=0.8)
    axis.set_xticks(range(len(groups)), list(groups), fontsize=8)
    axis.set_ylabel(label)
    if limits is not None:
        axis.set_ylim(*limits)
    axis.grid(axis="y", alpha=0.25)
    legend_below(figure, drawn, columns=len(drawn))
    return figure
