"""What several pictures share: panels in rows, and a legend below them."""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from typing import Any

from matplotlib.axes import Axes
from matplotlib.figure import Figure

__all__ = ["legend_below", "make_panels"]


def make_panels(
    titles: Iterable[str],
    width: float,
    height: float,
    *,
    columns: int = 3,
    margins: tuple[float, float] = (0.0, 0.0),
    sharey: bool = False,
    label: str = "",
) -> tuple[Figure, dict[str, Axes]]:
    """Make a figure with one panel per title.

    Args:
        titles: Titles of the panels.
        width: Width of a panel in inches.
        height: Its height.
        columns: Most panels side by side.
        margins: Width and height that the figure has beside its panels.
        sharey: Whether all have the same vertical axis.
        label: Name of the values, left of each row.

    Returns:
        The figure, and its axes by title.
    """
    titles = list(titles)
    columns = min(columns, len(titles))
    rows = -(-len(titles) // columns)
    size = (margins[0] + width * columns, margins[1] + height * rows)
    figure = Figure(figsize=size, layout="constrained")
    axes = figure.subplots(rows, columns, sharey=sharey, squeeze=False).flatten()
    for unused in axes[len(titles) :]:
        unused.set_visible(False)
    for first in axes[::columns]:
        first.set_ylabel(label)
    for title, axis in zip(titles, axes, strict=False):
        axis.set_title(title, loc="left", fontsize=10)
    return figure, dict(zip(titles, axes, strict=False))


def legend_below(figure: Figure, drawn: Mapping[str, Any], *, columns: int) -> None:
    """Put a legend of what was drawn, by its name, below all panels."""
    figure.legend(
        list(drawn.values()),
        list(drawn),
        loc="outside lower center",
        ncols=columns,
        frameon=False,
        fontsize=8,
    )
