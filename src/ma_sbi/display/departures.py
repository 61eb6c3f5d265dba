"""Departures, drawn: by context, or along a context that is a number."""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from typing import Any, NamedTuple

import numpy as np
from matplotlib.axes import Axes
from matplotlib.ticker import MaxNLocator
from scipy import stats

from ma_sbi.display.drawing import AFTER, BEFORE, INK, NEUTRAL
from ma_sbi.display.grouping import Group, labels

__all__ = ["Summary", "draw_along", "draw_by_context", "summarise"]

ROWS_SHOWN = 2_000
INTERVAL = "#a9d2ee"
REMOVED = "taken off by the corrector"
DIAMOND: Any = {"mfc": "none", "mec": BEFORE, "mew": 1.4, "zorder": 4}
THIN: Any = {"color": INK, "lw": 0.6, "ls": ":"}
# Parts into which numbers are divided, each with a mean of its own, and rows in each.
MOST_PARTS = 12
FEWEST_PER_PART = 8


class Summary(NamedTuple):
    """The mean of some values, and where they are.

    Attributes:
        mean: Their mean.
        low: Lower end of the 95 % interval of the mean (Student); the mean itself if there
            is one value only.
        high: Upper end.
        lowest: The 5 % quantile of the values.
        highest: The 95 % quantile.
    """

    mean: float
    low: float
    high: float
    lowest: float
    highest: float


def summarise(values: np.ndarray) -> Summary:
    """Summarise values of shape ``(n,)``.

    Example:
        >>> print([round(float(one), 2) for one in summarise(np.array([1.0, 2.0, 3.0]))])
        [2.0, -0.48, 4.48, 1.1, 2.9]
    """
    mean, n = float(values.mean()), len(values)
    error = values.std(ddof=1) / n**0.5 if n > 1 else 0.0
    half = float(stats.t.ppf(0.975, n - 1) * error) if n > 1 else 0.0
    lowest, highest = np.quantile(values, [0.05, 0.95])
    return Summary(mean, mean - half, mean + half, float(lowest), float(highest))


def draw_by_context(
    axes: Iterable[Axes],
    departures: np.ndarray,
    groups: Sequence[Group],
    *,
    removed: np.ndarray | None = None,
    most_letters: int = 44,
) -> None:
    """Draw one entry per context: the mean, its 95 % interval, and nine tenths of rows.

    Args:
        axes: One for each column.
        departures: One row per observation, shape ``(n, num_columns)``.
        groups: Which rows belong together.
        removed: What a corrector takes off each row, in the same shape.
        most_letters: Names that are longer are shortened.
    """
    for ax, column in zip(axes, range(departures.shape[1]), strict=True):
        ax.axvline(0, **THIN)
        found = [summarise(departures[group.rows, column]) for group in groups]
        mean, low, high, lowest, highest = np.array(found).T
        places = np.arange(len(groups))
        ax.plot(mean, places, "o", color=INK, ms=4, label="mean", zorder=3)
        ax.hlines(places, low, high, color=INTERVAL, lw=6, label="its 95 % interval")
        ax.hlines(places, lowest, highest, color=AFTER, lw=1, label="nine tenths of rows")
        if removed is not None:
            taken = [removed[group.rows, column].mean() for group in groups]
            ax.plot(taken, places, "D", ms=9, label=REMOVED, **DIAMOND)
        ax.set_ylim(len(groups) - 0.5, -0.5)
        ax.xaxis.set_major_locator(MaxNLocator(4))
        # A text of the user starts no formula.
        names = labels(groups, most_letters)
        ax.set_yticks(range(len(groups)), names, parse_math=False)


def draw_along(
    axes: Iterable[Axes],
    departures: np.ndarray,
    numbers: np.ndarray,
    *,
    removed: np.ndarray | None = None,
) -> None:
    """Draw departures against a number, with means of rows whose numbers are near.

    Args:
        axes: One for each column.
        departures: One row per observation, shape ``(n, num_columns)``.
        numbers: The number of each row, NaN where it is missing.
        removed: What a corrector takes off each row, in the same shape as departures.
    """
    there = np.flatnonzero(~np.isnan(numbers))
    there = there[np.argsort(numbers[there], kind="stable")]
    missing = np.flatnonzero(np.isnan(numbers))
    num_parts = max(1, min(MOST_PARTS, len(there) // FEWEST_PER_PART))
    shown = there[:: -(-len(there) // ROWS_SHOWN) or 1]
    for ax, column in zip(axes, range(departures.shape[1]), strict=True):
        ax.axhline(0, **THIN)
        values = departures[:, column]
        ax.plot(
            numbers[shown], values[shown], ".", color=NEUTRAL, ms=3, alpha=0.5, label="rows"
        )
        if len(there):
            parts = np.array_split(there, num_parts)
            places = np.array([numbers[part].mean() for part in parts])
            means = [summarise(values[part]) for part in parts]
            _draw_means(ax, places, means, color=AFTER, label="mean, 95 % interval")
            if removed is not None:
                taken = [removed[part, column].mean() for part in parts]
                ax.plot(places, taken, "D", ms=7, label=REMOVED, **DIAMOND)
        if len(missing):
            # Left of all numbers.
            low, high = (numbers[there[[0, -1]]]) if len(there) else (0.0, 1.0)
            place = np.array([low - 0.08 * ((high - low) or 1.0)])
            label = f"without a number ({len(missing):,})"
            found = [summarise(values[missing])]
            _draw_means(ax, place, found, color=INK, marker="s", label=label)
        ax.xaxis.set_major_locator(MaxNLocator(4))


def _draw_means(ax: Axes, places: np.ndarray, means: Sequence[Summary], **how: Any) -> None:
    mean, low, high, *_ = np.array(means).T
    error = np.stack([mean - low, high - mean])
    how = {"marker": "o", "ms": 4, "lw": 1, "elinewidth": 3, **how}
    ax.errorbar(places, mean, yerr=error, **how)
