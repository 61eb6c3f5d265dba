"""A broad density with heavy tails, for points far from everything."""

from __future__ import annotations

import math
from dataclasses import dataclass
from functools import cached_property

import torch
from torch import Tensor

__all__ = ["HeavyTailed"]


@dataclass(frozen=True)
class HeavyTailed:
    r"""A Cauchy density in several dimensions, as wide as a set of points.

    .. math:: \log q(x) = c - \tfrac{d + 1}{2} \log(1 + r^2), \qquad
        r^2 = (x - \mu)^T \Sigma^{-1} (x - \mu)

    It falls with a power of the distance: also of two points far away the nearer one has
    the higher density, and no density is zero.

    Attributes:
        center: Mean of the points, shape ``(dim,)``.
        whitener: Matrix that makes their covariance the identity, ``(dim, dim)``.
        radius: Distance of the farthest of them, a scalar.
    """

    center: Tensor
    whitener: Tensor
    radius: Tensor

    @classmethod
    def around(cls, points: Tensor) -> HeavyTailed:
        """Measure points, shape ``(n, dim)``, float64."""
        center = points.mean(dim=0)
        centred = points - center
        values, vectors = torch.linalg.eigh(centred.T @ centred / len(points))
        # A direction in which the points do not vary gets a small scale.
        whitener = vectors / values.clamp(min=1e-6 * values[-1].item()).sqrt()
        return cls(center, whitener, (centred @ whitener).norm(dim=1).max())

    @cached_property
    def log_peak(self) -> float:
        """Log density at the centre."""
        half = (len(self.center) + 1) / 2
        log_abs_det = torch.linalg.slogdet(self.whitener).logabsdet.item()
        return math.lgamma(half) - half * math.log(math.pi) + log_abs_det

    def distance(self, points: Tensor) -> Tensor:
        """Measure r of points, ``(n, dim)`` to ``(n,)``."""
        return ((points - self.center) @ self.whitener).norm(dim=1)

    def log_prob(self, distance: Tensor) -> Tensor:
        """Evaluate points at these distances, ``(n,)``."""
        return self.log_peak - (len(self.center) + 1) / 2 * distance.square().log1p()

    def sample(self, num_samples: int, rng: torch.Generator | None = None) -> Tensor:
        """Draw, shape ``(num_samples, dim)``."""
        normal = torch.randn(
            num_samples,
            len(self.center) + 1,
            generator=rng,
            device=self.center.device,
            dtype=self.center.dtype,
        )
        white = normal[:, 1:] / normal[:, :1].abs()
        return self.center + torch.linalg.solve(self.whitener, white, left=False)
