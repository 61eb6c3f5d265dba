"""Differences from NPE in many worlds and conditions."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

import numpy as np
from matplotlib.figure import Figure

from ma_sbi_bench.paper.comparing import Compared
from ma_sbi_bench.plots.panels import legend_below, make_panels

__all__ = ["plot_differences"]

STYLES: dict[str, dict[str, Any]] = {
    "point": {"color": "#1f77b4", "marker": "s", "ms": 4},
    "stochastic": {"color": "#ff7f0e", "marker": "^", "ms": 4.5},
    "default": {"color": "#111111", "marker": "o", "ms": 5.5},
}
WORSE = "#f6dcd8"
# The axis is linear within a tenth of a nat of zero, logarithmic beyond.
LINEAR = 0.1
TICKS = (-100, -10, -1, -0.1, 0, 0.1, 1, 10, 100)


def plot_differences(
    panels: Mapping[str, Mapping[str, Mapping[str, Compared]]], *, margin: float
) -> Figure:
    """Draw differences with their intervals, a panel for each world.

    Args:
        panels: Differences from NPE by world, condition and method.
        margin: How far below NPE a difference may be before it counts as worse.
    """
    conditions = list(dict.fromkeys(name for panel in panels.values() for name in panel))
    height = 0.23 * len(conditions) + 0.7
    figure, axes = make_panels(
        panels, 2.35, height, columns=4, margins=(1.4, 0.5), sharey=True
    )
    drawn: dict[str, Any] = {}
    for world, panel in panels.items():
        axis = axes[world]
        values = [one for known in panel.values() for one in known.values()]
        farthest = 2 * max([1.0, *(abs(one.value) for one in values)])
        axis.set_xscale("symlog", linthresh=LINEAR, linscale=0.7)
        axis.axvspan(-10 * farthest, -margin, color=WORSE, lw=0, zorder=0)
        axis.axvline(0.0, color="0.45", lw=0.8, zorder=1)
        for method, style in STYLES.items():
            rows = [row for row, name in enumerate(conditions) if _has(panel, name, method)]
            found = [panel[conditions[row]][method] for row in rows]
            if not found:
                continue
            middle = np.array([one.value for one in found])
            ends = np.array([(one.low, one.high) for one in found])
            reach = np.nan_to_num(np.abs(ends - middle[:, None]).T)
            offset = 0.24 * (list(STYLES).index(method) - 1)
            drawn[method] = axis.errorbar(
                middle, np.array(rows) + offset, xerr=reach, ls="", lw=1, **style
            )
        lowest = min([0.0, *(one.value for one in values)])
        axis.set_xlim(2 * lowest if lowest < -LINEAR else -3 * LINEAR, farthest)
        axis.set_xticks([tick for tick in TICKS if -farthest <= tick <= farthest])
        axis.xaxis.set_major_formatter(lambda value, _: f"{value:+g}" if value else "0")
        axis.minorticks_off()
        axis.set_yticks(range(len(conditions)), conditions)
        axis.set_ylim(len(conditions) - 0.5, -0.5)
        for row in range(1, len(conditions)):
            axis.axhline(row - 0.5, color="0.92", lw=0.6, zorder=0)
        axis.tick_params(labelsize=7.5, length=2)
        axis.spines[["top", "right"]].set_visible(False)
    figure.supxlabel("log score less that of NPE, in nats (right: better)", fontsize=9)
    legend_below(figure, drawn, columns=3)
    return figure


def _has(panel: Mapping[str, Mapping[str, Any]], condition: str, method: str) -> bool:
    return method in panel.get(condition, {})
