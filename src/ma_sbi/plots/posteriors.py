"""Figures of posterior draws."""

from __future__ import annotations

import textwrap
from collections.abc import Mapping, Sequence

from matplotlib.figure import Figure
from torch import Tensor

__all__ = ["plot_posteriors"]

COLOURS = {"NPE": "#d62728", "MA-SBI": "#1f77b4", "Oracle": "#2ca02c"}
REFERENCE = "0.75"


def plot_posteriors(
    draws: Mapping[str, Tensor],
    regimes: Sequence[str],
    *,
    limits: tuple[float, float],
    names: tuple[str, str] = (r"$\theta_1$", r"$\theta_2$"),
) -> Figure:
    """Plot draws over the exact posterior: a row per method, a column per regime.

    Args:
        draws: Draws of each method and of ``"reference"``, which is plotted beneath them,
            each of shape ``(num_draws, num_regimes, 2)``.
        regimes: Titles of the columns.
        limits: Range of both axes.
        names: Names of the two parameters.

    Returns:
        The figure; ``figure.savefig(path)`` writes it.
    """
    reference = draws["reference"]
    methods = [name for name in draws if name != "reference"]
    size = (2.9 * len(regimes), 2.7 * len(methods) + 0.7)
    figure = Figure(figsize=size, layout="constrained")
    axes = figure.subplots(
        len(methods), len(regimes), sharex=True, sharey=True, squeeze=False
    )
    for row, method in enumerate(methods):
        for column, regime in enumerate(regimes):
            axis = axes[row, column]
            axis.scatter(
                *reference[:, column].T, s=5, c=REFERENCE, linewidths=0, label="exact"
            )
            colour = COLOURS.get(method, "black")
            axis.scatter(
                *draws[method][:, column].T,
                s=5,
                c=colour,
                alpha=0.6,
                linewidths=0,
                label=method,
            )
            axis.set(xlim=limits, ylim=limits, aspect="equal")
            if row == 0:
                axis.set_title(textwrap.fill(regime, 34), fontsize=8)
            if row == len(methods) - 1:
                axis.set_xlabel(names[0])
            if column == 0:
                axis.set_ylabel(names[1])
                axis.legend(loc="lower left", fontsize=8, markerscale=2.5)
    return figure
