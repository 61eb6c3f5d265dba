"""Axes to draw on, those of the caller or new ones, and the names of columns."""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from typing import Any

import numpy as np
import pandas as pd
import torch
from matplotlib.axes import Axes
from matplotlib.figure import Figure
from torch import Tensor

from ma_sbi.protocols import ArrayLike
from ma_sbi.validation import as_matrix

__all__ = [
    "as_columns",
    "as_names",
    "as_numbers",
    "mean_of_runs",
    "one_axes",
    "several_axes",
]


def one_axes(ax: Axes | None, size: tuple[float, float]) -> Axes:
    """Return the axes that were given, or new ones in a figure of this size (inches)."""
    if ax is None:
        return _open(Figure(figsize=size, layout="constrained").subplots())
    if not isinstance(ax, Axes):
        raise ValueError(
            f"ax must be matplotlib axes, such as Figure().subplots() returns, got a "
            f"{type(ax).__name__}"
        )
    return ax


def several_axes(
    ax: Axes | Iterable[Axes] | None,
    num: int,
    size: tuple[float, float],
    *,
    margin: tuple[float, float] = (0.0, 0.0),
    per_row: int = 4,
    **share: Any,
) -> np.ndarray:
    """Return one axes for each of ``num`` panels, shape ``(num,)``.

    Args:
        ax: Axes of the caller, as many as there are panels.
        num: Number of panels.
        size: Of a panel, in inches.
        margin: Inches that labels left of all panels need, and those above and below.
        per_row: Most panels beside each other.
        share: ``sharex`` and ``sharey`` of new axes.

    Raises:
        ValueError: If there are more or fewer axes than panels.
    """
    if ax is not None:
        given = [ax] if isinstance(ax, Axes) else list(np.ravel(np.asarray(ax, object)))
        if len(given) != num:
            raise ValueError(
                f"ax must hold one axes for each of the {num} columns, got {len(given)}; "
                "choose columns with columns=, or leave ax out"
            )
        return np.array([one_axes(one, size) for one in given], dtype=object)
    # Rows are filled evenly: five panels are three and two.
    num_rows = -(-num // per_row)
    num_columns = -(-num // num_rows)
    whole = (margin[0] + size[0] * num_columns, margin[1] + size[1] * num_rows)
    figure = Figure(figsize=whole, layout="constrained")
    grid = figure.subplots(num_rows, num_columns, squeeze=False, **share).ravel()
    for unused in grid[num:]:
        unused.remove()
    return np.array([_open(one) for one in grid[:num]], dtype=object)


def _open(ax: Axes) -> Axes:
    """Draw the axes at the left and below only."""
    ax.spines[["top", "right"]].set_visible(False)
    return ax


def as_columns(columns: int | Sequence[int] | None, num: int) -> list[int]:
    """Check positions of columns; all of them if None.

    Raises:
        ValueError: If one is not there.
    """
    if columns is None:
        return list(range(num))
    chosen = [columns] if isinstance(columns, int) else [int(one) for one in columns]
    if not chosen or not all(0 <= one < num for one in chosen):
        raise ValueError(f"columns must be positions from 0 to {num - 1}, got {columns!r}")
    return chosen


def as_names(names: Sequence[str] | None, num: int, symbol: str, *tables: Any) -> list[str]:
    """Name columns: as the caller does, else as a table does, else by position.

    Args:
        names: Names of all columns; may hold formulae between dollar signs.
        num: Number of columns.
        symbol: What the columns are of, such as ``"x"``.
        tables: Where names are looked for if none are given.

    Raises:
        ValueError: If there are more or fewer names than columns.
    """
    if names is None:
        for table in tables:
            if isinstance(table, pd.DataFrame) and len(table.columns) == num:
                return [str(name).replace("$", r"\$") for name in table.columns]
        return [f"{symbol}[{column}]" for column in range(num)]
    if isinstance(names, str) or len(names) != num:
        raise ValueError(f"names must be {num} texts, one for each column, got {names!r}")
    return [str(name) for name in names]


def as_numbers(values: ArrayLike, name: str) -> np.ndarray:
    """Convert to a finite matrix of doubles; a vector is a column."""
    return as_matrix(values, name, dtype=torch.float64, column=True).cpu().numpy()


def mean_of_runs(x_sim: Any) -> Any:
    """Average several simulations of each row, where there are several."""
    if np.ndim(x_sim) != 3:
        return x_sim
    runs = x_sim if isinstance(x_sim, Tensor) else torch.as_tensor(np.asarray(x_sim))
    return runs.double().mean(dim=1)
