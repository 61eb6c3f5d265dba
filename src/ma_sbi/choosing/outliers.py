"""Gross outliers: rows that no departure explains, as a component of their own."""

from __future__ import annotations

from dataclasses import dataclass

import torch
from scipy import stats
from torch import Tensor

from ma_sbi.protocols import Corrections
from ma_sbi.storing.forms import stored

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
# Distances between rows that are held together.
DISTANCES_AT_ONCE = 4_000_000


def find_outliers(x_obs: Tensor, x_sim: Tensor) -> Tensor:
    """Find rows whose departure is far beyond the range of x, and unlike any other."""
    delta = x_obs - x_sim
    _, scale, size = _sizes(delta, x_sim)
    far = (size > _threshold(size)).nonzero().flatten()
    unit = delta[far] / scale
    apart = NEAR * delta.shape[1] ** 0.5
    blocks = unit.split(max(1, DISTANCES_AT_ONCE // max(1, len(unit))))
    near = torch.cat([(torch.cdist(some, unit) < apart).sum(dim=1) for some in blocks])
    # Itself and more than chance brings near: a regime, which is no accident.
    alone = near < max(1 + _more_than_chance(unit, apart), REGIME * len(far))
    found = torch.zeros_like(size, dtype=torch.bool)
    found[far[alone]] = True
    return found


@stored(centre="dim_x", scale="dim_x", ends="2", chances="3", x_sim="k dim_x")
@dataclass(frozen=True)
class Outliers:
    """Observations as far away as the outliers were: each may be any simulation.

    Attributes:
        centre: Of the observations that are no outliers, shape ``(dim_x,)``.
        scale: Their scale, shape ``(dim_x,)``.
        ends: How far from the centre the others lie at most, and where outliers begin, in
            this scale, shape ``(2,)``.
        chances: Probability that an observation is one: within the first end, between the
            two, and beyond, shape ``(3,)``.
        x_sim: What an outlier may have been, shape ``(K, dim_x)``.
    """

    centre: Tensor
    scale: Tensor
    ends: Tensor
    chances: Tensor
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
        ends = torch.stack([size.max(), torch.maximum(size.max(), away.min())])
        num, outside = len(size) + len(away), int((away > ends[0]).sum())
        within = 0.0
        if away.min() < FAR_APART * size.max():
            within = (len(away) - outside + 0.5) / (num + 1)
        # Where none was seen, as many as everywhere. One observation that is no outlier is
        # expected beyond all others.
        far = 1.0 if outside == len(away) else outside / (outside + 1)
        chances = torch.tensor([within, len(away) / num, far]).to(size)
        few = torch.linspace(0, len(x_sim) - 1, min(NUM_CANDIDATES, len(x_sim))).long()
        return cls(centre, scale, ends, chances, x_sim[few.to(x_sim.device)])

    def probability(self, x: Tensor) -> Tensor:
        """Tell how probably observations ``(batch, dim_x)`` are outliers."""
        away = ((x.to(self.centre) - self.centre) / self.scale).norm(dim=1)
        return self.chances[torch.bucketize(away, self.ends)].to(x)

    def corrections(self, x: Tensor) -> Corrections:
        """Return the simulations that any observation may have been, equally likely."""
        candidates = self.x_sim.to(x)[:, None].expand(-1, len(x), -1)
        log_weight = x.new_zeros(len(self.x_sim), len(x)).log_softmax(dim=0)
        return Corrections(candidates, log_weight, torch.zeros_like(log_weight))


def _more_than_chance(far: Tensor, apart: float) -> int:
    """Return how many rows must be near one of them to be more than chance.

    If rows that are far ``(m, dim_x)`` lay anywhere as far as the farthest, none would have
    so many neighbours, as surely as a test of 5 % tells.
    """
    if len(far) < 2:
        return 1
    chance = (apart / far.abs().amax(dim=0).clamp(min=apart)).prod().item()
    expected = (len(far) - 1) * chance
    return 1 + int(stats.poisson.isf(0.05 / len(far), expected))


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
