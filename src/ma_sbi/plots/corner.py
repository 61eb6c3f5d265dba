"""Posterior draws of all parameters and all pairs of them."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Any

import numpy as np
from matplotlib.axes import Axes
from matplotlib.figure import Figure
from matplotlib.lines import Line2D
from matplotlib.ticker import MaxNLocator
from scipy.ndimage import gaussian_filter

from ma_sbi.display.drawing import AFTER, BEFORE, INK, NEUTRAL
from ma_sbi.labels import in_columns, match_rows
from ma_sbi.plots.panels import as_names, as_numbers
from ma_sbi.posterior import CorrectedPosterior
from ma_sbi.protocols import ArrayLike, Context
from ma_sbi.validation import as_matrix

__all__ = ["plot_before_after", "plot_corner"]

# Colours and lines of the first, the second and further draws.
LOOKS = ((BEFORE, "--"), (AFTER, "-"), (INK, ":"), (NEUTRAL, "-."))
# Probability inside the contours.
MASSES = (0.5, 0.9)
# Cells of a histogram, cells per side of that of a pair, and how many it is smoothed over.
BARS, CELLS, SMOOTHING = 30, 40, 1.5
# Share of draws beyond the limits of an axis, at either side.
BEYOND = 0.002


def plot_before_after(
    corrected: CorrectedPosterior,
    x: ArrayLike,
    context: Context,
    *,
    theta: ArrayLike | None = None,
    names: Sequence[str] | None = None,
    num_samples: int = 2_000,
    seed: int = 0,
) -> np.ndarray:
    """Plot the posterior of one observation before and after its correction.

    Args:
        corrected: The corrected posterior.
        x: One observation, shape ``(dim_x,)`` or ``(1, dim_x)``.
        context: Its context.
        theta: True parameters, where they are known, shape ``(dim_theta,)``.
        names: Names of the parameters.
        num_samples: Draws of each.
        seed: Of the draws.

    Returns:
        Axes of shape ``(dim_theta, dim_theta)``, as :func:`plot_corner` returns them.

    Raises:
        ValueError: If x is not one observation.
    """
    if not isinstance(corrected, CorrectedPosterior):
        raise ValueError(
            "corrected must be a CorrectedPosterior, got a "
            f"{type(corrected).__name__}; plot_corner takes draws of any posterior"
        )
    x, context = match_rows(x=in_columns(corrected.columns_, x, None), context=context)
    x = as_matrix(x, "x")
    if len(x) != 1:
        raise ValueError(f"x must be one observation, got {len(x)}: pass x[:1]")
    draws = {
        "before": corrected.posterior.sample(num_samples, x, seed=seed),
        "after": corrected.sample(num_samples, x, context, seed=seed),
    }
    return plot_corner(draws, theta=theta, names=names)


def plot_corner(
    draws: Mapping[str, ArrayLike],
    *,
    theta: ArrayLike | None = None,
    names: Sequence[str] | None = None,
) -> np.ndarray:
    """Plot draws of all parameters: histograms, and contours of each pair.

    Contours hold 50 and 90 % of the draws; they are those of a smoothed histogram.

    Args:
        draws: By name, draws of shape ``(num_samples, dim_theta)`` or
            ``(num_samples, 1, dim_theta)``; up to four sets.
        theta: True parameters, where they are known, shape ``(dim_theta,)``.
        names: Names of the parameters; may hold formulae between dollar signs.

    Returns:
        Axes of shape ``(dim_theta, dim_theta)``: histograms on the diagonal, pairs below
        it, and None above.

    Raises:
        ValueError: If the draws do not match, or are of several observations.

    Example:
        >>> import torch
        >>> draws = {"one": torch.randn(500, 2, generator=torch.Generator().manual_seed(0))}
        >>> axes = plot_corner(draws, names=["drift", "boundary"])
        >>> axes[1, 0].get_xlabel(), axes[1, 0].get_ylabel(), axes[0, 1]
        ('drift', 'boundary', None)
    """
    sets = {name: _as_draws(name, one) for name, one in draws.items()}
    if not 1 <= len(sets) <= len(LOOKS):
        raise ValueError(f"draws must hold one to {len(LOOKS)} sets, got {len(sets)}")
    every = list(sets.values())
    num = every[0].shape[1]
    if any(one.shape[1] != num for one in every):
        counts = ", ".join(f"{name} {one.shape[1]}" for name, one in sets.items())
        raise ValueError(f"draws must have the same number of parameters, got {counts}")
    truth = None if theta is None else as_numbers(theta, "theta").ravel()
    if truth is not None and len(truth) != num:
        raise ValueError(f"theta must have {num} numbers, got {len(truth)}")
    titles = as_names(names, num, "theta", *draws.values())
    limits = [_limits(every, truth, column) for column in range(num)]
    axes = _grid(num)
    for row, column in _below(num):
        ax = axes[row, column]
        for one, (colour, style) in zip(every, LOOKS, strict=False):
            if row == column:
                how: Any = {"histtype": "step", "color": colour, "ls": style, "lw": 1.4}
                ax.hist(
                    one[:, row], _edges(one[:, row], BARS).tolist(), density=True, **how
                )
            else:
                _contours(ax, one[:, [column, row]], colour, style)
        if truth is not None:
            ax.axvline(truth[column], color=INK, lw=0.8)
            if row != column:
                ax.axhline(truth[row], color=INK, lw=0.8)
    _dress(axes, titles, limits)
    _legend(axes[0, 0].figure, list(sets), has_truth=truth is not None)
    return axes


def _as_draws(name: str, draws: Any) -> np.ndarray:
    shape = np.shape(draws)
    if len(shape) == 3:
        if shape[1] != 1:
            raise ValueError(
                f"the draws of {name!r} are of {shape[1]} observations: pass those of one, "
                "draws[:, 0]"
            )
        draws = draws[:, 0]
    found = as_numbers(draws, f"the draws of {name!r}")
    if len(found) < 2:
        raise ValueError(f"the draws of {name!r} must be at least two")
    return found


def _limits(
    sets: Sequence[np.ndarray], truth: np.ndarray | None, column: int
) -> tuple[float, float]:
    """Find the range of a parameter in which nearly all draws, and the truth, are."""
    ends = [edges[[0, -1]] for edges in (_edges(one[:, column]) for one in sets)]
    low, high = float(np.min(ends)), float(np.max(ends))
    if truth is not None:
        pad = 0.05 * (high - low)
        low, high = min(low, truth[column] - pad), max(high, truth[column] + pad)
    return low, high


def _edges(values: np.ndarray, num_cells: int = CELLS) -> np.ndarray:
    """Divide the range of one set of draws into cells of its own."""
    low, high = np.quantile(values, [BEYOND, 1 - BEYOND])
    pad = 0.1 * (high - low) or 0.5 * max(abs(low), 1.0)
    return np.linspace(low - pad, high + pad, num_cells + 1)


def _contours(ax: Axes, pair: np.ndarray, colour: str, style: str) -> None:
    edges = _edges(pair[:, 0]), _edges(pair[:, 1])
    counts, *_ = np.histogram2d(pair[:, 0], pair[:, 1], bins=edges)
    density = gaussian_filter(counts, SMOOTHING, mode="constant")
    falling = np.sort(density, axis=None)[::-1]
    inside = np.cumsum(falling) / falling.sum()
    levels = np.unique([falling[np.searchsorted(inside, mass)] for mass in MASSES])
    across, up = ((one[1:] + one[:-1]) / 2 for one in edges)
    ax.contour(across, up, density.T, levels=levels, colors=colour, linestyles=style)


def _below(num: int) -> list[tuple[int, int]]:
    """List row and column of the axes on the diagonal and below it."""
    return [(row, column) for row in range(num) for column in range(row + 1)]


def _grid(num: int) -> np.ndarray:
    """Make the axes on and below the diagonal, close to each other."""
    side = 1.7 if num < 8 else 1.1
    size = max(side * num, 3.0) + 0.9
    figure = Figure(figsize=(size, size))
    room = {"left": 0.8 / size, "bottom": 0.75 / size, "right": 1 - 0.1 / size}
    grid = figure.add_gridspec(
        num, num, top=1 - 0.45 / size, wspace=0.06, hspace=0.06, **room
    )
    axes = np.full((num, num), None, dtype=object)
    for row, column in _below(num):
        axes[row, column] = figure.add_subplot(grid[row, column])
    return axes


def _dress(
    axes: np.ndarray, titles: Sequence[str], limits: Sequence[tuple[float, float]]
) -> None:
    """Label the outer axes only."""
    num = len(axes)
    for row, column in _below(num):
        ax = axes[row, column]
        ax.set_xlim(*limits[column])
        ax.xaxis.set_major_locator(MaxNLocator(4, prune="both"))
        ax.tick_params(labelsize="small")
        ax.tick_params(axis="x", labelbottom=row == num - 1, labelrotation=45)
        if row == column:
            ax.set_yticks([])
        else:
            ax.set_ylim(*limits[row])
            ax.yaxis.set_major_locator(MaxNLocator(4, prune="both"))
            ax.tick_params(axis="y", labelleft=column == 0)
        if row == num - 1:
            ax.set_xlabel(titles[column])
        if column == 0 and row > 0:
            ax.set_ylabel(titles[row])
    axes[0, 0].figure.align_labels()


def _legend(figure: Any, names: Sequence[str], *, has_truth: bool) -> None:
    lines = [
        Line2D([], [], color=colour, ls=style, label=name)
        for name, (colour, style) in zip(names, LOOKS, strict=False)
    ]
    if has_truth:
        lines.append(Line2D([], [], color=INK, lw=0.8, label="true"))
    where: Any = {"loc": "upper right", "ncols": len(lines), "frameon": False}
    figure.legend(handles=lines, fontsize="small", **where)
