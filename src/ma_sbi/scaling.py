"""The scale of data: column by column, and between points."""

from __future__ import annotations

import torch
from torch import Tensor

__all__ = ["column_scale", "median_distance"]


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
