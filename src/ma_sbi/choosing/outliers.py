"""Gross outliers: rows that no departure explains, as a component of their own."""

from __future__ import annotations

from dataclasses import dataclass

import torch
from torch import Tensor

from ma_sbi.protocols import Corrections

__all__ = ["Outliers", "find_outliers"]

# An observation is gross if it lies so many deviations from the others, and alone.
GROSS = 8.0
# Far rows are alike if each column differs by less than this many deviations, and a regime
# if so large a share of all that are far is alike.
NEAR = 1.0
REGIME = 0.1
# From this factor between the nearest outlier and all others, none is taken for another.
FAR_APART = 4.0
# Simulations that an outlier may have been.
NUM_CANDIDATES = 128


def find_outliers(x_obs: Tensor, x_sim: Tensor) -> Tensor:
    """Find rows whose departure is far beyond the range of x, and unlike any other."""
    delta = x_obs - x_sim
    _, scale, size = _sizes(delta, x_sim)
    far = (size > _threshold(size)).nonzero().flatten()
    unit = delta[far] / scale
    near = torch.cdist(unit, unit) < NEAR * delta.shape[1] ** 0.5
    # Itself and one more, or a share of those that are far: a regime, which is no accident.
    alone = near.sum(dim=1) < max(2.0, REGIME * len(far))
    found = torch.zeros_like(size, dtype=torch.bool)
    found[far[alone]] = True
    return found


@dataclass(frozen=True)
class Outliers:
    """Observations as far away as the outliers were: each may be any simulation.

    Attributes:
        centre: Of the observations that are no outliers, shape ``(dim_x,)``.
        scale: Their scale, shape ``(dim_x,)``.
        farthest: How far from the centre the others may lie, in this scale.
        inside: Probability that an observation which is not as far is one, too.
        x_sim: What an outlier may have been, shape ``(K, dim_x)``.
    """

    centre: Tensor
    scale: Tensor
    farthest: Tensor
    inside: float
    x_sim: Tensor

    @classmethod
    def beyond(cls, x_obs: Tensor, outlying: Tensor, x_sim: Tensor) -> Outliers:
        """Learn where outliers begin.

        Args:
            x_obs: Observations that are none, shape ``(n, dim_x)``.
            outlying: Those that are, shape ``(m, dim_x)``.
            x_sim: What an outlier may have been.
        """
        centre, scale, size = _sizes(x_obs, x_sim)
        away = ((outlying - centre) / scale).norm(dim=1)
        # Half way to the nearest, as factors go; where they overlap, beyond all others.
        farthest = size.max() * (away.min() / size.max()).clamp(min=1.0).sqrt()
        within = (away <= farthest).sum().item()
        few = torch.linspace(0, len(x_sim) - 1, min(NUM_CANDIDATES, len(x_sim))).long()
        inside = 0.0
        if away.min() < FAR_APART * size.max():
            inside = (within + 0.5) / (len(x_obs) + len(outlying) + 1)
        return cls(centre, scale, farthest, inside, x_sim[few.to(x_sim.device)])

    def probability(self, x: Tensor) -> Tensor:
        """Tell how probably observations ``(batch, dim_x)`` are outliers."""
        away = ((x.to(self.centre) - self.centre) / self.scale).norm(dim=1)
        return torch.where(away > self.farthest, 1.0, self.inside).to(x)

    def corrections(self, x: Tensor) -> Corrections:
        """Return the simulations that any observation may have been, equally likely."""
        candidates = self.x_sim.to(x)[:, None].expand(-1, len(x), -1)
        log_weight = x.new_zeros(len(self.x_sim), len(x)).log_softmax(dim=0)
        return Corrections(candidates, log_weight, torch.zeros_like(log_weight))


def _sizes(values: Tensor, x_sim: Tensor) -> tuple[Tensor, Tensor, Tensor]:
    """Return the centre, the scale, and how far each row is from the centre."""
    centre = values.median(dim=0).values
    away = (values - centre).abs()
    # In units of x, or of what nine in ten are within, if that is more.
    scale = torch.maximum(x_sim.std(dim=0, correction=0), away.quantile(0.9, dim=0))
    scale = scale.clamp(min=1e-200)
    return centre, scale, (away / scale).norm(dim=1)


def _threshold(size: Tensor) -> Tensor:
    return GROSS * (1 + size.median())
