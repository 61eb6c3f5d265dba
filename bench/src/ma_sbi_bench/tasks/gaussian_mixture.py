"""Two clusters: a world in which the mean tells little of a shift, and the shape much."""

from __future__ import annotations

import math

import torch
from torch import Tensor
from torch.distributions import MultivariateNormal

from ma_sbi_bench.tasks.base import Setting, ShiftTask
from ma_sbi_bench.tasks.regimes import shift_regimes

__all__ = ["GaussianMixture"]

SHIFT_LENGTH = 0.5
VARIANCE = 0.1
# How far each cluster lies from the middle, in the first column.
AWAY = 1.5


class GaussianMixture(ShiftTask):
    r"""Observe theta in noise, in one of two clusters.

    .. math:: \theta \sim N(0, 0.1 I), \quad x \mid \theta \sim
        \tfrac12 N(\theta + c, 0.1 I) + \tfrac12 N(\theta - c, 0.1 I), \quad c = (1.5, 0)

    Args:
        setting: What the context tells.
        shift_length: Length of every regime's shift.
    """

    name = "gaussian_mixture"

    def __init__(
        self, *, setting: Setting = "informative", shift_length: float = SHIFT_LENGTH
    ) -> None:
        prior = MultivariateNormal(torch.zeros(2), VARIANCE * torch.eye(2))
        super().__init__(prior, 2, shift_regimes(2, shift_length), setting)

    def _simulate(self, theta: Tensor, source: torch.Generator | None) -> Tensor:
        noise = torch.randn(theta.shape, dtype=theta.dtype, generator=source)
        side = 2 * torch.randint(2, (len(theta), 1), generator=source) - 1
        return theta + math.sqrt(VARIANCE) * noise + side * _centre(theta)

    def _log_evidence(self, x: Tensor) -> Tensor:
        away = torch.stack([x - _centre(x), x + _centre(x)])
        each = -away.square().sum(dim=-1) / (4 * VARIANCE)
        return each.logsumexp(dim=0) - math.log(2 * 4 * math.pi * VARIANCE)


def _centre(like: Tensor) -> Tensor:
    return torch.tensor([AWAY, 0.0]).to(like)
