"""Curves over something that was varied."""

from __future__ import annotations

from collections.abc import Collection, Mapping
from itertools import cycle
from typing import Any

from matplotlib.figure import Figure

from ma_sbi_bench.plots.panels import legend_below, make_panels

__all__ = ["plot_sweeps"]

COLOURS = {
    "npe": "#d62728",
    "ma_sbi": "#1f77b4",
    "ma_sbi_paper": "#ff7f0e",
    "ma_sbi_affine": "#9467bd",
    "rope_emd": "#8c564b",
    "rope_emd_aligned": "#c49c94",
    "rope_sinkhorn": "#e377c2",
    "rope_sinkhorn_aligned": "#f7b6d2",
    "oracle": "#2ca02c",
    "exact": "#111111",
    "prior": "#999999",
}
# For other curves, one after another.
SPARE_COLOURS = ("#17becf", "#bcbd22", "#393b79", "#e7969c", "#637939", "#843c39")


def plot_sweeps(
    panels: Mapping[str, Mapping[str, Mapping[float, float]]],
    label: str,
    *,
    levels: Mapping[str, Mapping[str, float]] | None = None,
    horizontal: str = "",
    log: bool = True,
    log_values: Collection[str] = (),
    shaded: tuple[float, float] | None = None,
) -> Figure:
    """Draw one panel per sweep, one curve per method.

    Args:
        panels: Values by panel, method, and the number that was varied.
        label: Name of the values.
        levels: Values that do not vary, drawn as lines, by panel and name.
        horizontal: Name of what was varied; the panel's own title if empty.
        log: Whether the horizontal axis is logarithmic.
        log_values: Panels whose vertical axis is.
        shaded: Range of the horizontal axis that is set apart.
    """
    figure, axes = make_panels(panels, 3.3, 3.0, margins=(1.5, 0.9), label=label)
    others = dict.fromkeys(
        name for curves in panels.values() for name in curves if name not in COLOURS
    )
    colours = COLOURS | dict(zip(others, cycle(SPARE_COLOURS), strict=False))
    drawn: dict[str, Any] = {}
    for title, curves in panels.items():
        axis = axes[title]
        for name, curve in curves.items():
            points = sorted(curve.items())
            at, values = zip(*points, strict=True)
            drawn[name] = axis.plot(at, values, "o-", ms=4, color=colours[name])[0]
        for name, value in (levels or {}).get(title, {}).items():
            colour = COLOURS.get(name, "0.5")
            drawn[name] = axis.axhline(value, ls="--", lw=1, color=colour)
        if log:
            axis.set_xscale("log")
            tried = sorted({at for points in curves.values() for at in points})
            axis.set_xticks(tried, [f"{at:g}" for at in tried], fontsize=8)
            axis.minorticks_off()
        if title in log_values:
            axis.set_yscale("log")
            axis.yaxis.set_major_formatter("{x:g}")
        if shaded is not None:
            axis.axvspan(*shaded, color="0.94", zorder=0, lw=0)
        axis.set_xlabel(horizontal or title)
        if not horizontal:  # the title says it already
            axis.set_title("", loc="left")
        axis.grid(alpha=0.25)
    legend_below(figure, drawn, columns=min(2 * len(panels), 6, len(drawn)))
    return figure
