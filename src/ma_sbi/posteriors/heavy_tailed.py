"""A broad density with heavy tails, for points far from everything."""

from __future__ import annotations

import math
from dataclasses import dataclass
from typing import Any

import torch
from torch import Tensor

__all__ = ["HeavyTailed"]


@dataclass(frozen=True)
class HeavyTailed:
    r"""A density that is flat on an ellipsoid around points, and falls slowly beyond.

    .. math:: q(x) \propto \min(1, R / r)^{d + 1}, \qquad
        r^2 = (x - \mu)^T \Sigma^{-1} (x - \mu)

    R is the distance of the farthest point. Also of two points beyond it the nearer one
    has the higher density, and no density is zero. It has no peak: that of a Cauchy
    density, which falls as slowly, rises above any flow in a hundred dimensions.

    Attributes:
        center: Mean of the points, shape ``(dim,)``.
        whitener: Matrix that makes their covariance the identity, ``(dim, dim)``.
        radius: R, a scalar.
        log_peak: Log density inside, a scalar.
    """

    center: Tensor
    whitener: Tensor
    radius: Tensor
    log_peak: Tensor

    @classmethod
    def around(cls, points: Tensor) -> HeavyTailed:
        """Measure points, shape ``(n, dim)``, float64."""
        dim = points.shape[1]
        center = points.mean(dim=0)
        centred = points - center
        values, vectors = torch.linalg.eigh(centred.T @ centred / len(points))
        # A direction in which the points do not vary gets a small scale.
        values = values.clamp(min=1e-6 * values[-1].item())
        whitener = vectors / values.sqrt()
        radius = (centred @ whitener).norm(dim=1).max()
        # Of the mass, d parts of d + 1 lie beyond the radius.
        log_ball = dim / 2 * math.log(math.pi) - math.lgamma(dim / 2 + 1)
        log_volume = log_ball + dim * radius.log() + values.log().sum() / 2
        return cls(center, whitener, radius, -log_volume - math.log(dim + 1))

    def distance(self, points: Tensor) -> Tensor:
        """Measure r of points, ``(n, dim)`` to ``(n,)``."""
        return ((points - self.center) @ self.whitener).norm(dim=1)

    def log_prob(self, distance: Tensor) -> Tensor:
        """Evaluate points at these distances, ``(n,)``."""
        beyond = (distance / self.radius).clamp(min=1.0).log()
        return self.log_peak - (len(self.center) + 1) * beyond

    def sample(self, num_samples: int, rng: torch.Generator | None = None) -> Tensor:
        """Draw, shape ``(num_samples, dim)``."""
        dim = len(self.center)
        kind: dict[str, Any] = {"device": self.center.device, "dtype": self.center.dtype}
        direction = torch.randn(num_samples, dim, generator=rng, **kind)
        inside, along = torch.rand(2, num_samples, generator=rng, **kind)
        length = torch.where(inside * (dim + 1) < 1, along ** (1 / dim), 1 / along)
        white = self.radius * length[:, None] * direction / direction.norm(dim=1)[:, None]
        return self.center + torch.linalg.solve(self.whitener, white, left=False)
