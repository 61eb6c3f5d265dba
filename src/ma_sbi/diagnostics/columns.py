"""Matrices with one row per observation: checked, differenced, ranked, whitened."""

from __future__ import annotations

from typing import Any

import numpy as np
import torch
from torch import Tensor

from ma_sbi.choosing import independence
from ma_sbi.protocols import ArrayLike
from ma_sbi.validation import as_matrix, as_pairs

__all__ = [
    "FEWEST_ROWS",
    "as_columns",
    "as_rows",
    "departures",
    "normal_scores",
    "whitened",
]

# With fewer rows no test of dependence has any power.
FEWEST_ROWS = 20
# About a hundred units in the last place of float32, and how much of a spread that is more
# than rounding error may be lost by rounding.
RESOLUTION = 2.0**-17
MOST_LOST = 0.1
# Directions with less of the largest variance are rounding errors.
SMALLEST_VARIANCE = 1e-5


def departures(x_obs: ArrayLike, x_sim: ArrayLike) -> Tensor:
    """Subtract simulations from observations, without the rounding errors of float32.

    A constant shift of float32 data comes back with rounding errors, and what should be
    one value per regime would look continuous. Differences are rounded to about a hundred
    units in the last place of the largest entry of their column; not in a column whose
    differences are so small beside its largest entry that rounding would change them.

    Args:
        x_obs: Observations, shape ``(n, dim_x)``.
        x_sim: Simulations at the same inputs, shape ``(n, dim_x)``.

    Returns:
        ``x_obs - x_sim``, float64, shape ``(n, dim_x)``.

    Example:
        >>> x = torch.tensor([[0.1], [123.4]])
        >>> departures(x + 0.5, x).unique().numel()
        1
    """
    observed, simulated = as_pairs(x_obs, x_sim)
    delta = observed - simulated
    largest = torch.maximum(observed.abs(), simulated.abs()).amax(dim=0)
    step = torch.where(largest > 0, largest * RESOLUTION, torch.ones_like(largest))
    rounded = (delta / step).round() * step
    spread = delta.std(dim=0, correction=0)
    lost = (delta - rounded).std(dim=0, correction=0) > MOST_LOST * spread
    return torch.where(lost & (spread > step / 32), delta, rounded)


def as_rows(values: Any, name: str) -> np.ndarray:
    """Check a matrix with one row per observation, at least 20 of them."""
    matrix = as_matrix(values, name, dtype=torch.float64, device="cpu", column=True).numpy()
    if len(matrix) < FEWEST_ROWS:
        raise ValueError(f"{name} must have at least {FEWEST_ROWS} rows, got {len(matrix)}")
    return matrix


def as_columns(values: Any, name: str) -> np.ndarray:
    """Check a matrix with one row per observation, and drop its constant columns."""
    matrix = as_rows(values, name)
    return matrix[:, np.ptp(matrix, axis=0) > 0]


def normal_scores(columns: np.ndarray) -> np.ndarray:
    """Replace each column by normal quantiles of its ranks; ties stay ties."""
    return independence.normal_scores(torch.from_numpy(columns)).numpy()


def whitened(columns: np.ndarray) -> np.ndarray:
    """Rotate to uncorrelated columns of unit variance, the widest first."""
    centred = columns - columns.mean(axis=0)
    scale, axes = np.linalg.eigh(centred.T @ centred / len(columns))
    order = np.flatnonzero(scale > SMALLEST_VARIANCE * scale[-1])[::-1]
    # Equal rows must stay equal to the last bit.
    return np.round(centred @ (axes[:, order] / np.sqrt(scale[order])), 9)
