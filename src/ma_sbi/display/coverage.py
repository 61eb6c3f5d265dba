"""Coverage, drawn: how often regions contain the truth, against their level."""

from __future__ import annotations

from collections.abc import Mapping, Sequence

import numpy as np
from matplotlib.axes import Axes

from ma_sbi.display.drawing import AFTER, BEFORE, INK, NEUTRAL

__all__ = ["draw_coverage"]

# One marker each, so that curves can be told apart without their colours.
LOOKS = {
    "at x_sim": (NEUTRAL, "s"),
    "before correction": (BEFORE, "^"),
    "after correction": (AFTER, "o"),
}


def draw_coverage(
    ax: Axes, curves: Mapping[str, Sequence[tuple[float, float, float, float]]]
) -> None:
    """Draw curves with their 95 % intervals, and the diagonal.

    Args:
        ax: Where to draw.
        curves: By name, a key of ``LOOKS``: for each level, the level, the share of rows in
            which the region contains the truth, and the ends of its interval.
    """
    ax.plot([0, 1], [0, 1], color=INK, lw=0.6, ls=":")
    for label, points in curves.items():
        colour, marker = LOOKS.get(label, (AFTER, "o"))
        level, share, low, high = np.array(points).T
        ax.plot(level, share, marker=marker, color=colour, label=label, ms=4)
        ax.fill_between(level, low, high, color=colour, alpha=0.15, lw=0)
    ax.set(xlim=(0, 1), ylim=(0, 1), aspect="equal")
    ax.set(xlabel="level of a region", ylabel="contains the truth")
    ax.legend(loc="center left", bbox_to_anchor=(1.02, 0.5), frameon=False)
