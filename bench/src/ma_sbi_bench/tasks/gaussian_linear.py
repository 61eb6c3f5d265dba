"""Gaussian prior, Gaussian noise: the posterior in one line."""

from __future__ import annotations

import math

import torch
from torch import Tensor
from torch.distributions import MultivariateNormal

from ma_sbi.validation import as_count
from ma_sbi_bench.tasks.base import Setting, ShiftTask
from ma_sbi_bench.tasks.regimes import shift_regimes

__all__ = ["GaussianLinear"]

# The paper prints this length.
SHIFT_LENGTH = 0.30
VARIANCE = 0.1


class GaussianLinear(ShiftTask):
    r"""Observe theta itself in noise.

    .. math:: \theta \sim N(0, 0.1 I), \quad x \mid \theta \sim N(\theta, 0.1 I),
        \quad \theta \mid x \sim N(x / 2, 0.05 I)

    Args:
        dim: Dimension of theta and of x: 5 in the paper, 10 in sbibm.
        setting: What the context tells.
        shift_length: Length of every regime's shift.

    Example:
        >>> GaussianLinear(dim=3).reference([[1.0, 0.0, -1.0]], 100, seed=0).shape
        torch.Size([100, 1, 3])
    """

    name = "gaussian_linear"

    def __init__(
        self,
        dim: int = 5,
        *,
        setting: Setting = "informative",
        shift_length: float = SHIFT_LENGTH,
    ) -> None:
        dim = as_count(dim, "dim")
        prior = MultivariateNormal(torch.zeros(dim), VARIANCE * torch.eye(dim))
        super().__init__(prior, dim, shift_regimes(dim, shift_length), setting)

    def _simulate(self, theta: Tensor, source: torch.Generator | None) -> Tensor:
        noise = torch.randn(theta.shape, dtype=theta.dtype, generator=source)
        return theta + math.sqrt(VARIANCE) * noise

    def _reference(
        self, x: Tensor, num_samples: int, source: torch.Generator | None
    ) -> Tensor:
        noise = torch.randn(num_samples, *x.shape, dtype=x.dtype, generator=source)
        return x / 2 + math.sqrt(VARIANCE / 2) * noise

    def _log_joint(self, theta: Tensor, x: Tensor) -> Tensor:
        return _log_normal(theta, VARIANCE) + _log_normal(x - theta, VARIANCE)

    def _log_evidence(self, x: Tensor) -> Tensor:
        return _log_normal(x, 2 * VARIANCE)


def _log_normal(deviation: Tensor, variance: float) -> Tensor:
    """Evaluate the density of a spherical normal at rows ``(B, dim)``."""
    log_scale = deviation.shape[1] * math.log(2 * math.pi * variance) / 2
    return -deviation.square().sum(dim=1) / (2 * variance) - log_scale
