"""Differences from NPE in many worlds and conditions."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

import numpy as np
from matplotlib.axes import Axes
from matplotlib.figure import Figure

from ma_sbi_bench.paper.comparing import Compared
from ma_sbi_bench.plots.panels import make_panels

__all__ = ["plot_differences"]

STYLES: dict[str, dict[str, Any]] = {
    "point": {"color": "#1f77b4", "marker": "s", "ms": 4},
    "stochastic": {"color": "#ff7f0e", "marker": "^", "ms": 4.5},
    "default": {"color": "#111111", "marker": "o", "ms": 5.5},
}
WORSE = "#f6dcd8"
# The axis is linear within a tenth of a nat of zero, logarithmic beyond, the same for all.
LINEAR = 0.1
FARTHEST = 200.0
TICKS = (-100, -10, -1, -0.1, 0, 0.1, 1, 10, 100)
LABELS = ("−100", "", "−1", "−.1", "0", ".1", "1", "", "100")


def plot_differences(
    panels: Mapping[str, Mapping[str, Mapping[str, Compared]]], *, margin: float
) -> Figure:
    """Draw differences with their intervals, a panel for each world.

    What is beyond the axis is drawn at its end, as an arrow.

    Args:
        panels: Differences from NPE by world, condition and method.
        margin: How far below NPE a difference may be before it counts as worse.
    """
    conditions = list(dict.fromkeys(name for panel in panels.values() for name in panel))
    height = 0.23 * len(conditions) + 0.6
    figure, axes = make_panels(
        panels, 2.3, height, columns=4, margins=(1.4, 0.7), sharey=True
    )
    drawn: dict[str, Any] = {}
    for world, panel in panels.items():
        axis = axes[world]
        _prepare(axis, conditions, margin)
        for row, condition in enumerate(conditions):
            if condition not in panel:
                axis.text(
                    0.15, row, "no meaning here", fontsize=7, color="0.5", va="center"
                )
        for number, (method, style) in enumerate(STYLES.items()):
            rows = [
                row for row, one in enumerate(conditions) if method in panel.get(one, {})
            ]
            found = [panel[conditions[row]][method] for row in rows]
            position = np.array(rows) + 0.24 * (number - 1)
            if found:
                drawn[method] = _draw(axis, found, position, style)
    figure.supxlabel("log score less that of NPE, in nats (right is better)", fontsize=9)
    figure.legend(
        list(drawn.values()),
        list(drawn),
        loc="outside upper center",
        ncols=len(STYLES),
        frameon=False,
        fontsize=9,
    )
    return figure


def _prepare(axis: Axes, conditions: list[str], margin: float) -> None:
    axis.set_xscale("symlog", linthresh=LINEAR, linscale=0.8)
    axis.set_xlim(-FARTHEST, FARTHEST)
    axis.set_xticks(TICKS, LABELS)
    axis.minorticks_off()
    axis.axvspan(-FARTHEST, -margin, color=WORSE, lw=0, zorder=0)
    axis.axvline(0.0, color="0.45", lw=0.8, zorder=1)
    axis.set_yticks(range(len(conditions)), conditions)
    axis.set_ylim(len(conditions) - 0.5, -0.5)
    for row in range(1, len(conditions)):
        axis.axhline(row - 0.5, color="0.85", lw=0.5, zorder=0.5)
    axis.tick_params(labelsize=7.5, length=2)
    axis.spines[["top", "right"]].set_visible(False)


def _draw(axis: Axes, found: list[Compared], position: np.ndarray, style: Any) -> Any:
    """Draw what one method gained, with arrows for what is beyond the axis."""
    ends = np.array([(one.low, one.value, one.high) for one in found])
    middle = ends[:, 1].clip(-FARTHEST, FARTHEST)
    ends = np.where(np.isfinite(ends), ends, middle[:, None])
    reach = np.clip(np.diff(ends.clip(-FARTHEST, FARTHEST)).T, 0, None)
    shown = axis.errorbar(middle, position, xerr=reach, ls="", lw=1, **style)
    for sign, arrow in ((-1, "<"), (1, ">")):
        beyond = sign * middle >= FARTHEST
        marker = style | {"marker": arrow, "ms": 9}
        axis.plot(0.8 * middle[beyond], position[beyond], ls="", zorder=3, **marker)
    return shown
