"""Pictures of the bounds: sharpness of one, and information against the gap closed."""

from __future__ import annotations

from collections.abc import Mapping, Sequence

from matplotlib.figure import Figure
from numpy.typing import ArrayLike

from ma_sbi_bench.plots.panels import make_panels

__all__ = ["plot_channels", "plot_sharpness"]


def plot_sharpness(
    curves: Mapping[str, tuple[ArrayLike, ArrayLike]], rho: ArrayLike, band: Sequence[float]
) -> Figure:
    """Draw ratios against the coupling, one curve for each distribution.

    Args:
        curves: Couplings and ratios, by name.
        rho: Ends of the couplings of a grey band.
        band: Ends of its ratios.
    """
    figure = Figure(figsize=(6, 3.8), layout="constrained")
    axis = figure.subplots()
    for name, curve in curves.items():
        axis.plot(*curve, marker="o", ms=3, lw=1.2, label=name)
    axis.axhline(1.0, color="0.4", lw=0.8)
    axis.fill_between(rho, band[0], band[1], color="0.93", zorder=0)
    axis.set(xlabel="rho", ylabel="Var(E[delta | z]) / (2 tau² I)", ylim=(0, 1.05))
    axis.legend(fontsize=7, frameon=False)
    return figure


def plot_channels(
    panels: Mapping[str, Mapping[str, tuple[ArrayLike, ArrayLike, ArrayLike]]],
) -> Figure:
    """Draw the gap closed against I / log K.

    Args:
        panels: I / log K, gap closed and half its interval, by panel and kind of channel.
    """
    figure, axes = make_panels(panels, 3.0, 3.2, sharey=True, label="gap closed")
    for title, curves in panels.items():
        axis = axes[title]
        axis.plot([0, 1], [0, 1], color="0.6", lw=0.8, label="gap = I / log K")
        for name, (share, closed, half) in curves.items():
            axis.errorbar(share, closed, yerr=half, marker="o", ms=3, lw=1.2, label=name)
        axis.set_xlabel("I / log K")
    figure.axes[0].legend(fontsize=8, frameon=False)
    return figure
