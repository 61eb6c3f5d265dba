"""Gross outliers: rows that no departure explains, as a component of their own."""

from __future__ import annotations

from dataclasses import dataclass

import torch
from torch import Tensor

from ma_sbi.protocols import Corrections

__all__ = ["Outliers", "find_outliers"]

# An observation is gross if it lies so many deviations from the others, and alone.
GROSS = 8.0
# Simulations that an outlier may have been.
NUM_CANDIDATES = 128


def find_outliers(x_obs: Tensor, x_sim: Tensor) -> Tensor:
    """Find rows whose departure is far beyond the range of x, and unlike any other."""
    delta = x_obs - x_sim
    _, scale, size = _sizes(delta, x_sim)
    far = size > _threshold(size)
    for row in far.nonzero().flatten().tolist():
        apart = ((delta - delta[row]).abs() / scale).amax(dim=1)
        # Itself and one more: a regime seen twice is a regime.
        far[row] = bool(apart.sort().values[1] > size[row] / 4)
    return far


@dataclass(frozen=True)
class Outliers:
    """Observations as far away as the outliers were: each may be any simulation.

    Attributes:
        centre: Of the observations that are no outliers, shape ``(dim_x,)``.
        scale: Their scale, shape ``(dim_x,)``.
        farthest: How far from the centre the others may lie, in this scale.
        x_sim: What an outlier may have been, shape ``(K, dim_x)``.
    """

    centre: Tensor
    scale: Tensor
    farthest: Tensor
    x_sim: Tensor

    @classmethod
    def beyond(cls, x_obs: Tensor, x_sim: Tensor) -> Outliers:
        """Learn from the rows that are no outliers where others begin."""
        centre, scale, size = _sizes(x_obs, x_sim)
        few = torch.linspace(0, len(x_sim) - 1, min(NUM_CANDIDATES, len(x_sim))).long()
        farthest = torch.maximum(_threshold(size), 2 * size.max())
        return cls(centre, scale, farthest, x_sim[few.to(x_sim.device)])

    def among(self, x: Tensor) -> Tensor:
        """Tell which observations ``(batch, dim_x)`` are outliers."""
        away = (x.to(self.centre) - self.centre).abs() / self.scale
        return (away.amax(dim=1) > self.farthest).to(x.device)

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
    return centre, scale, (away / scale).amax(dim=1)


def _threshold(size: Tensor) -> Tensor:
    return GROSS * (1 + size.median())
