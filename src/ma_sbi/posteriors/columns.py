"""Columns of simulations: their scales, shared values, and those that never vary."""

from __future__ import annotations

from dataclasses import dataclass

import torch
from torch import Tensor

from ma_sbi.scaling import column_scale

__all__ = ["Columns", "cells"]

MAX_HEIGHT = 2.0
"""Highest density of a shared value, per standard deviation of its column (the peak of a
normal density has 0.4). It widens the cell of an atom among continuous values, to which
the next value may be arbitrarily near."""
TOLERANCE = 0.01
"""Where the penalty for leaving a constant column sets in, relative to the constant."""
FARTHEST = 1e12
"""Standard deviations beyond which all points count as equally far: float32 holds their
squares."""


def cells(x: Tensor) -> tuple[Tensor, Tensor]:
    """Find the interval for which each entry stands that other rows share.

    It reaches half way to the neighbouring values of the column, as if x had been rounded
    to them; beyond the lowest and the highest as far as on their other side.

    Args:
        x: Simulations, shape ``(n, dim_x)``.

    Returns:
        Lower and upper ends, shape ``(n, dim_x)`` each; both are the entry itself if no
        other row shares it, or if all do.

    Example:
        >>> lower, upper = cells(torch.tensor([[0.0], [0.0], [1.0], [1.0], [5.0]]))
        >>> torch.cat([lower, upper], dim=1)
        tensor([[-0.5000,  0.5000],
                [-0.5000,  0.5000],
                [ 0.5000,  3.0000],
                [ 0.5000,  3.0000],
                [ 5.0000,  5.0000]])
    """
    narrowest = column_scale(x) / (MAX_HEIGHT * len(x))
    lower, upper = x.clone(), x.clone()
    for column in range(x.shape[1]):
        values, member, count = x[:, column].unique(return_inverse=True, return_counts=True)
        if len(values) in (1, len(x)):
            continue
        half = values.diff() / 2
        floor = count * narrowest[column] / 2
        shared = count > 1
        below = torch.maximum(torch.cat([half[:1], half]), floor) * shared
        above = torch.maximum(torch.cat([half, half[-1:]]), floor) * shared
        lower[:, column] -= below[member]
        upper[:, column] += above[member]
    return lower, upper


@dataclass(frozen=True)
class Columns:
    """Mean and scale of each column; float64, since the mean may be large.

    Attributes:
        mean: Shape ``(dim_x,)``.
        scale: Standard deviations, shape ``(dim_x,)``; for a constant column the
            difference from which on it is punished.
        varies: Which columns are not constant, shape ``(dim_x,)``.
    """

    mean: Tensor
    scale: Tensor
    varies: Tensor

    @classmethod
    def of(cls, lower: Tensor, upper: Tensor, *, rounding: float) -> Columns:
        """Measure values that are spread over their cells.

        Args:
            lower: Lower ends of the cells, shape ``(n, dim_x)``.
            upper: Upper ends.
            rounding: Relative error of the values: a column that varies less is constant.
        """
        middle = (lower + upper) / 2
        mean = middle.mean(dim=0)
        variance = (middle - mean).square() + (upper - lower).square() / 12
        largest = torch.maximum(lower.abs(), upper.abs()).amax(dim=0)
        varies = upper.amax(dim=0) - lower.amin(dim=0) > rounding * largest
        tolerance = TOLERANCE * torch.where(largest > 0, largest, 1.0)
        scale = torch.where(varies, variance.mean(dim=0).sqrt(), tolerance)
        return cls(mean, scale, varies)

    @property
    def log_abs_det(self) -> Tensor:
        """Log determinant of the standardisation of the columns that vary, a scalar."""
        return -self.scale[self.varies].log().sum()

    def standardise(self, x: Tensor) -> Tensor:
        """Standardise the columns that vary, ``(n, dim_x)`` to ``(n, num_varying)``."""
        x, mean, scale = (values[..., self.varies] for values in (x, self.mean, self.scale))
        return ((x - mean) / scale).clamp(-FARTHEST, FARTHEST)

    def invert(self, standardised: Tensor) -> Tensor:
        """Undo the standardisation, and put constant columns in their place."""
        x = self.mean.repeat(len(standardised), 1)
        scale = self.scale[self.varies]
        x[:, self.varies] = standardised * scale + self.mean[self.varies]
        return x

    def penalty(self, x: Tensor) -> Tensor:
        """Punish rows that leave constant columns; zero at the constants, ``(n,)``."""
        x, mean, scale = (
            values[..., ~self.varies] for values in (x, self.mean, self.scale)
        )
        off = ((x - mean) / scale).clamp(-FARTHEST, FARTHEST)
        return off.square().log1p().sum(dim=1)
