"""Observations beside simulations: how they depart, and where a correction puts them."""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from typing import Any

import numpy as np
import pandas as pd
import torch
from matplotlib.axes import Axes
from matplotlib.dates import AutoDateLocator, ConciseDateFormatter
from pandas.api.types import infer_dtype

from ma_sbi.context import Entries, as_entries, in_one_column
from ma_sbi.display.departures import draw_along, draw_by_context
from ma_sbi.display.drawing import AFTER, BEFORE, NEUTRAL
from ma_sbi.display.grouping import MISSING, labels, most_frequent
from ma_sbi.labels import in_columns, match_rows
from ma_sbi.plots.panels import (
    as_columns,
    as_names,
    mean_of_runs,
    one_axes,
    several_axes,
)
from ma_sbi.protocols import ArrayLike, Context, Corrector
from ma_sbi.randomness import generator
from ma_sbi.reading import read_context
from ma_sbi.scaling import column_scale
from ma_sbi.validation import as_count, as_pairs, as_pools

__all__ = ["plot_departures", "plot_observations"]

# What pandas calls them: both are counted in days.
DATES = ("date", "datetime", "datetime64")
SPANS = ("timedelta", "timedelta64")

SIMULATIONS_SHOWN = 3_000
ROWS_SHOWN = 300
# Fewer rows are joined to their corrections by lines.
ROWS_JOINED = 60
FEWEST_BINS, MOST_BINS = 10, 60


def plot_departures(
    x_obs: ArrayLike,
    context: Context,
    x_sim: ArrayLike,
    *,
    corrector: Corrector | None = None,
    columns: int | Sequence[int] | None = None,
    names: Sequence[str] | None = None,
    most: int = 10,
    ax: Axes | Iterable[Axes] | None = None,
) -> np.ndarray:
    """Plot how observations depart from simulations under each context.

    A dot is the mean of ``x_obs - x_sim``, a thick line its 95 % interval, a thin one nine
    tenths of the rows. Numbers of which there are many are the horizontal axis instead,
    with means of rows whose numbers are near. The most frequent contexts have an entry
    each, all others one together, and rows without a context one.

    Args:
        x_obs: Observations, shape ``(n, dim_x)``.
        context: One entry per observation.
        x_sim: Simulations at the same inputs, shape ``(n, dim_x)``, or several of each,
            ``(n, num_simulations, dim_x)``.
        corrector: A fitted corrector: a diamond shows what it takes off, on average.
        columns: Positions of the columns to show; all if None.
        names: Names of all columns; those of a DataFrame, or positions, if None.
        most: Most contexts that have an entry of their own.
        ax: One axes for each column shown; new ones if None.

    Returns:
        One axes for each column shown, shape ``(num_columns,)``.

    Raises:
        ValueError: If the data do not match, or there are more or fewer axes than columns.

    Example:
        >>> import torch
        >>> x_sim = torch.zeros(4, 1)
        >>> x_obs = torch.tensor([[1.0], [0.0], [3.0], [0.0]])
        >>> (ax,) = plot_departures(x_obs, ["warm", "cool"] * 2, x_sim)
        >>> [label.get_text() for label in ax.get_yticklabels()]
        ['warm (n = 2)', 'cool (n = 2)']
    """
    x_obs = in_columns(getattr(corrector, "columns_", None), x_obs, 1)
    x_obs, x_sim, context = match_rows(x_obs=x_obs, x_sim=x_sim, context=context)
    observed, simulated = as_pairs(x_obs, mean_of_runs(x_sim))
    entries = as_entries(context, num_rows=len(observed))
    chosen = as_columns(columns, observed.shape[1])
    titles = as_names(names, observed.shape[1], "x", x_obs, x_sim)
    departures = (observed - simulated).cpu().numpy()[:, chosen]
    removed = None
    if corrector is not None:
        corrected = corrector.correct(observed.float(), entries)
        removed = (observed - corrected.to(observed)).cpu().numpy()[:, chosen]
    axes = _draw_departures(ax, departures, entries, removed, as_count(most, "most"))
    for one, column in zip(axes, chosen, strict=True):
        one.set_title(titles[column])
    _legend(axes, is_ours=ax is None)
    return axes


def _draw_departures(
    ax: Axes | Iterable[Axes] | None,
    departures: np.ndarray,
    entries: Entries,
    removed: np.ndarray | None,
    most: int,
) -> np.ndarray:
    reading = read_context(entries)
    num = departures.shape[1]
    if reading.kinds == ("numbers",):
        axes = several_axes(ax, num, (2.8, 2.2), margin=(0.3, 0.7), sharex=True)
        numbers = in_one_column(reading.entries)
        numbers = np.where(numbers == MISSING, np.nan, numbers).astype(float)
        draw_along(axes, departures, numbers, removed=removed)
        kind = infer_dtype(pd.DataFrame(entries).iloc[:, 0], skipna=True)
        if kind in DATES:
            _show_dates(axes)
        across = "context (days)" if kind in SPANS else "context"
        _label_all(axes, across, "x_obs - x_sim", is_ours=ax is None)
    else:
        groups = most_frequent(in_one_column(entries), most)
        longest = max(map(len, labels(groups)))
        size = (2.2 if num > 1 else 3.6, 0.7 + 0.28 * len(groups))
        margin = (0.075 * longest, 0.7)
        axes = several_axes(ax, num, size, margin=margin, sharey=True)
        draw_by_context(axes, departures, groups, removed=removed)
        _label_all(axes, "x_obs - x_sim", "", is_ours=ax is None)
    return axes


def _show_dates(axes: np.ndarray) -> None:
    """Write days since 1970 as dates, as matplotlib counts them, too."""
    for ax in axes:
        locator = AutoDateLocator(minticks=2, maxticks=4)
        ax.xaxis.set_major_locator(locator)
        ax.xaxis.set_major_formatter(ConciseDateFormatter(locator))


def _label_all(axes: np.ndarray, across: str, up: str, *, is_ours: bool) -> None:
    """Label all panels, once for all of them where the figure is ours."""
    if is_ours and len(axes) > 1:
        axes[0].figure.supxlabel(across, fontsize="medium")
        axes[0].figure.supylabel(up, fontsize="medium")
        return
    for one in axes:
        one.set(xlabel=across, ylabel=up)


def _legend(axes: np.ndarray, *, is_ours: bool) -> None:
    handles, labels = axes[0].get_legend_handles_labels()
    if is_ours:
        # Beside each other where several panels make room.
        where: Any = {"loc": "outside upper center"}
        where["ncols"] = len(labels) if len(axes) > 2 else 2
        axes[0].figure.legend(handles, labels, fontsize="small", frameon=False, **where)
    else:
        axes[0].legend(handles, labels, fontsize="small")


def plot_observations(
    x_obs: ArrayLike,
    context: Context,
    simulations: ArrayLike,
    corrector: Corrector,
    *,
    columns: int | Sequence[int] | None = None,
    names: Sequence[str] | None = None,
    ax: Axes | None = None,
    seed: int = 0,
) -> Axes:
    """Plot observations, before and after a correction, over the cloud of simulations.

    Two columns are drawn as points, one as histograms. A corrected observation is one of
    its candidates, drawn by its weight: their mean may be an x that none of them is. Few
    observations are joined to their corrections by lines.

    Args:
        x_obs: Observations, shape ``(n, dim_x)``.
        context: One entry per observation.
        simulations: Any simulations, shape ``(num_simulations, dim_x)``: from the prior, or
            the x_sim of the observations.
        corrector: A fitted corrector.
        columns: Position of the one column, or of the two, to show; the two that the
            correction changes most, in standard deviations of simulations, if None.
        names: Names of all columns; those of a DataFrame, or positions, if None.
        ax: Where to draw; new axes if None.
        seed: Of the candidates.

    Raises:
        ValueError: If the data do not match, or more than two columns are named.
    """
    if np.ndim(simulations) == 3:
        simulations = np.asarray(simulations).reshape(-1, np.shape(simulations)[-1])
    x_obs = in_columns(getattr(corrector, "columns_", None), x_obs, 1)
    x_obs, context = match_rows(x_obs=x_obs, context=context)
    observed, cloud = as_pools(x_obs, simulations)
    entries = as_entries(context, num_rows=len(observed))
    num = observed.shape[1]
    titles = as_names(names, num, "x", x_obs, simulations)
    chosen = None if columns is None else as_columns(columns, num)
    if chosen is not None and len(chosen) > 2:
        raise ValueError(f"columns must name one column or two, got {columns!r}")
    ax = one_axes(ax, (5.0, 4.0))
    candidates = corrector.corrections(observed.float(), entries)
    before = observed.cpu().numpy()
    after = candidates.draw(generator(seed)).double().cpu().numpy()
    if chosen is None:
        moved = torch.from_numpy(after - before) / column_scale(cloud.cpu())
        order = moved.square().mean(dim=0).argsort(descending=True, stable=True)
        chosen = sorted(order[:2].tolist())
    clouds = [each[:, chosen] for each in (cloud.cpu().numpy(), before, after)]
    if len(chosen) == 1:
        _draw_histograms(ax, *clouds)
        ax.set(xlabel=titles[chosen[0]], ylabel="density")
    else:
        _draw_points(ax, *clouds)
        ax.set(xlabel=titles[chosen[0]], ylabel=titles[chosen[1]])
    ax.legend(loc="best", fontsize="small", markerscale=1.4)
    return ax


def _draw_points(
    ax: Axes, cloud: np.ndarray, before: np.ndarray, after: np.ndarray
) -> None:
    few, some = _every_nth(cloud, SIMULATIONS_SHOWN), _every_nth(before, ROWS_SHOWN)
    how: Any = {"ls": "", "mew": 0, "label": _label("simulations", few)}
    ax.plot(*cloud[few].T, marker=".", color=NEUTRAL, ms=4, alpha=0.5, **how)
    if len(before[some]) <= ROWS_JOINED:
        joined = np.stack([before[some], after[some]])
        ax.plot(joined[..., 0], joined[..., 1], color=AFTER, lw=0.6, alpha=0.6)
    hollow: Any = {"ls": "", "mfc": "none", "mec": BEFORE, "mew": 1.1}
    ax.plot(*before[some].T, marker="^", ms=5, label=_label("x_obs before", some), **hollow)
    ax.plot(*after[some].T, "o", color=AFTER, ms=4, mew=0, label="x_obs after")


def _draw_histograms(
    ax: Axes, cloud: np.ndarray, before: np.ndarray, after: np.ndarray
) -> None:
    # As many as suit the observations, which are fewer than simulations.
    num_bins = int(np.clip(4 * len(before) ** (1 / 3), FEWEST_BINS, MOST_BINS))
    every = np.concatenate([cloud, before, after])
    edges = np.histogram_bin_edges(every, bins=num_bins).tolist()
    ax.hist(cloud[:, 0], edges, density=True, color=NEUTRAL, alpha=0.4, label="simulations")
    for values, colour, style, name in (
        (before, BEFORE, "--", "x_obs before"),
        (after, AFTER, "-", "x_obs after"),
    ):
        line: Any = {"histtype": "step", "color": colour, "ls": style, "lw": 1.5}
        ax.hist(values[:, 0], edges, density=True, label=name, **line)


def _every_nth(values: np.ndarray, most: int) -> slice:
    return slice(None, None, -(-len(values) // most))


def _label(name: str, shown: slice) -> str:
    """Name what is shown; say so if it is not every row."""
    return name if shown.step == 1 else f"{name} (1 of {shown.step})"
