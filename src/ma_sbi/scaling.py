"""The scale of data: column by column, and between points."""

from __future__ import annotations

import math
from collections.abc import Sequence

import torch
from torch import Tensor

__all__ = [
    "UNITS",
    "about_pairs",
    "column_scale",
    "median_distance",
    "other_units",
    "ranges_apart",
    "spreads_apart",
]

# Rows from which a spread is measured, and rows without which it varies by chance.
MOST_ROWS, FEWEST_COMPARED = 10_000, 10
UNITS = 50.0
"""Factor between the spreads of a column beyond which units differ, not reality."""


def column_scale(values: Tensor) -> Tensor:
    """Return the standard deviation of each column; 1 where a column is constant.

    Args:
        values: Shape ``(n, ...)``; a single row has no deviation and gives ones, too.

    Returns:
        Shape ``(...)``: dividing by it never divides by zero.

    Example:
        >>> column_scale(torch.tensor([[0.0, 5.0], [2.0, 5.0], [4.0, 5.0]]))
        tensor([2., 1.])
    """
    if len(values) == 1:
        return torch.ones_like(values[0])
    spread = values.std(dim=0)
    # The deviation of equal numbers need not be zero after rounding.
    varies = values.amax(dim=0) > values.amin(dim=0)
    return torch.where(varies & (spread > 0), spread, torch.ones_like(spread))


def median_distance(points: Tensor) -> float:
    """Return the median distance between different points ``(n, dim)``.

    Rows of NaN do not count; 1 if no two points differ.
    """
    distance = torch.pdist(points[~points.isnan().any(dim=1)])
    distance = distance[distance > 0]
    return distance.median().item() if len(distance) else 1.0


def ranges_apart(x: Tensor, y: Tensor) -> list[int]:
    """Find columns in which no row of x is near the range of y.

    Near is half of the range: a few rows beyond the largest are chance, or the rounding of
    a constant.

    Example:
        >>> x = torch.arange(20.0).reshape(10, 2)
        >>> ranges_apart(x, x + torch.tensor([5.0, 100.0]))
        [1]
    """
    low, high = y.aminmax(dim=0)
    far = (high - low) / 2 + 1e-6 * torch.maximum(low.abs(), high.abs())
    near = ((x >= low - far) & (x <= high + far)).any(dim=0)
    return (~near).nonzero().flatten().tolist()


def spreads_apart(x: Tensor, y: Tensor, factor: float) -> list[int]:
    """Find columns whose spreads differ by more than a factor, however they are measured.

    Quartiles of a column that is mostly zero, and deviations of one with long tails, vary
    much by chance: so both must differ.

    Example:
        >>> x = torch.arange(20.0).reshape(10, 2)
        >>> spreads_apart(x, x * torch.tensor([1.0, 1000.0]), 50.0)
        [1]
    """
    parts = [part[:MOST_ROWS].double() for part in (x, y)]
    quartiles = torch.tensor([0.25, 0.75], dtype=torch.float64, device=x.device)
    between = [part.quantile(quartiles, dim=0).diff(dim=0)[0] for part in parts]
    deviation = [part.std(dim=0) for part in parts]
    apart = torch.stack([(a / b).log() for a, b in (between, deviation)])
    least = apart.abs().amin(dim=0) * (apart[0].sign() == apart[1].sign())
    return (least.isfinite() & (least > math.log(factor))).nonzero().flatten().tolist()


def about_pairs(x_obs: Tensor, x_sim: Tensor) -> list[str]:
    """Say that the columns of pairs ``(n, dim_x)`` have other units, if they seem to."""
    columns = spreads_apart(x_obs, x_sim, UNITS) if len(x_obs) >= FEWEST_COMPARED else []
    return [other_units(columns, UNITS)] if columns else []


def other_units(columns: Sequence[int], factor: float) -> str:
    """Say in which columns spreads differ by more than a factor."""
    return (
        "x_obs and x_sim seem to have different units: their spreads differ by more than "
        f"a factor of {factor:g} in column{'s' if len(columns) > 1 else ''} "
        f"{', '.join(map(str, columns))}. Bring both into the same units."
    )
