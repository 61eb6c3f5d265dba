"""The normal between two limits, accurate far out in its tails."""

from __future__ import annotations

from dataclasses import dataclass

import torch
from scipy.special import ndtri_exp
from torch import Tensor

__all__ = ["TruncatedNormal"]


@dataclass(frozen=True, eq=False)
class TruncatedNormal:
    """A normal restricted to an interval; every field broadcasts, in float64.

    Attributes:
        mean: Mean before truncation.
        scale: Standard deviation before truncation.
        lower: Lower limit.
        upper: Upper limit; the interval is empty where it is not above ``lower``.

    Example:
        >>> mean, lower, upper = torch.tensor([0.0, 40.0, 41.0], dtype=torch.float64)
        >>> far = TruncatedNormal(mean, 1.0, lower, upper)
        >>> round(far.log_mass().item(), 2)
        -804.61
        >>> round(far.quantile(torch.tensor(0.5, dtype=torch.float64)).item(), 4)
        40.0173
    """

    mean: Tensor | float
    scale: Tensor | float
    lower: Tensor | float
    upper: Tensor | float

    def log_mass(self) -> Tensor:
        """Log probability of the interval before truncation, ``-inf`` if empty."""
        return _log_mass(*self._left_tail()[1:])

    def quantile(self, level: Tensor) -> Tensor:
        """Invert the distribution function at ``level`` in [0, 1]."""
        mirror, low, high = self._left_tail()
        level = torch.where(mirror, 1 - level, level)
        log_cdf = torch.logaddexp(
            torch.special.log_ndtr(low), level.log() + _log_mass(low, high)
        )
        point = torch.as_tensor(ndtri_exp(log_cdf.numpy()))
        point = self.mean + self.scale * torch.where(mirror, -point, point)
        return point.clamp(_double(self.lower), _double(self.upper))

    def _left_tail(self) -> tuple[Tensor, Tensor, Tensor]:
        """Standardise, and mirror what lies right of the mean.

        Only the left tail keeps its precision: there the distribution function is a
        small number, on the right it is one minus a small number.
        """
        low = (_double(self.lower) - self.mean) / self.scale
        high = (_double(self.upper) - self.mean) / self.scale
        mirror = low + high > 0
        return mirror, torch.where(mirror, -high, low), torch.where(mirror, -low, high)


def _double(value: Tensor | float) -> Tensor:
    return torch.as_tensor(value, dtype=torch.float64)


def _log_mass(low: Tensor, high: Tensor) -> Tensor:
    top = torch.special.log_ndtr(high)
    rest = -torch.expm1(torch.special.log_ndtr(low) - top)
    return torch.where(low < high, top + torch.log(rest), -torch.inf)
