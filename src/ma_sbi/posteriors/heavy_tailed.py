"""A broad density with heavy tails, for points far from everything."""

from __future__ import annotations

import math
from dataclasses import dataclass
from functools import partial

import torch
from torch import Tensor

from ma_sbi.saved import Saved

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
        # In the order of rows, as a file has it: products round differently in another.
        whitener = (vectors / values.sqrt()).contiguous()
        radius = (centred @ whitener).norm(dim=1).max()
        # Of the mass, d parts of d + 1 lie beyond the radius.
        log_ball = dim / 2 * math.log(math.pi) - math.lgamma(dim / 2 + 1)
        log_volume = log_ball + dim * radius.log() + values.log().sum() / 2
        return cls(center, whitener, radius, -log_volume - math.log(dim + 1))

    @classmethod
    def stored(cls, saved: Saved, dim: int, device: torch.device | None) -> HeavyTailed:
        """Read what was saved with a density of so many columns that vary."""
        number = partial(saved.tensor, "heavy", dtype=torch.float64)
        parts = (
            number("center", (dim,)),
            number("whitener", (dim, dim)),
            number("radius", (), positive=True),
            number("log_peak", ()),
        )
        return cls(*(part.to(device) for part in parts))

    def distance(self, points: Tensor) -> Tensor:
        """Measure r of points, ``(n, dim)`` to ``(n,)``."""
        return ((points - self.center) @ self.whitener).norm(dim=1)

    def log_prob(self, distance: Tensor) -> Tensor:
        """Evaluate points at these distances, ``(n,)``."""
        beyond = (distance / self.radius).clamp(min=1.0).log()
        return self.log_peak - (len(self.center) + 1) * beyond

    def bound(self, points: Tensor) -> Tensor:
        """Move points beyond the radius back to it."""
        excess = (self.distance(points) / self.radius).clamp(min=1.0)
        return self.center + (points - self.center) / excess[:, None]
