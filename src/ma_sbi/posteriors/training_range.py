"""The range of the training simulations, for warnings about an x far outside."""

from __future__ import annotations

import warnings
from dataclasses import dataclass
from typing import ClassVar

import torch
from torch import Tensor

from ma_sbi.protocols import ArrayLike
from ma_sbi.saved import Saved
from ma_sbi.telling import levels_to_caller, tell
from ma_sbi.validation import as_matrix, double_device

__all__ = ["MomentRange", "OutsideTrainingRange", "TrainingRange"]


class OutsideTrainingRange(UserWarning):
    """An observation lies far from every simulation that the posterior was trained on."""


@dataclass(frozen=True)
class TrainingRange:
    """The simulations as an ellipsoid.

    Distance is measured after whitening; far outside means ``slack`` times farther from
    the centre than the farthest simulation.

    Attributes:
        center: Mean of the simulations, shape ``(dim_x,)``.
        whitener: Matrix that makes their covariance the identity, ``(dim_x, dim_x)``.
        radius: Distance beyond which an x is far outside, a scalar.
    """

    center: Tensor
    whitener: Tensor
    radius: Tensor

    category: ClassVar[type[Warning]] = OutsideTrainingRange

    @classmethod
    def of(cls, x: ArrayLike, slack: float = 1.5) -> TrainingRange:
        """Measure the range of simulations x, shape ``(n, dim_x)``."""
        x = as_matrix(x, "x")
        x = x.to(double_device(x.device), torch.float64)
        center = x.mean(dim=0)
        centred = x - center
        values, vectors = torch.linalg.eigh(centred.T @ centred / len(x))
        # A direction in which the simulations do not vary gets a tiny scale.
        values = values.clamp(min=max(1e-12 * values[-1].item(), 1e-30))
        whitener = vectors / values.sqrt()
        radius = slack * (centred @ whitener).norm(dim=1).max()
        return cls(center.float(), whitener.float(), radius.float())

    @classmethod
    def stored(cls, saved: Saved, dim_x: int) -> TrainingRange:
        """Read a range that was saved with a posterior."""
        center = saved.tensor("training_range", "center", (dim_x,))
        whitener = saved.tensor("training_range", "whitener", (dim_x, dim_x))
        return cls(center, whitener, saved.tensor("training_range", "radius", ()))

    def outside(self, x: Tensor) -> Tensor:
        """Tell which rows of x ``(batch, dim_x)`` lie far outside."""
        whitened = (x - self.center.to(x)) @ self.whitener.to(x)
        return self._length(whitened) > self.radius.to(x)

    def _length(self, whitened: Tensor) -> Tensor:
        return whitened.norm(dim=1)

    def warn(self, x: Tensor) -> None:
        """Warn if rows of x ``(batch, dim_x)`` lie far outside."""
        self.warn_of(self.outside(x))

    def warn_of(self, outside: Tensor) -> None:
        """Warn of the observations that lie far outside, shape ``(batch,)``."""

        def say(parts: list[Tensor]) -> None:
            everywhere = torch.cat(parts)
            rows = everywhere.nonzero().flatten().tolist()
            if rows:
                warnings.warn(
                    f"{len(rows)} of {len(everywhere)} observations (first: row {rows[0]}) "
                    "lie far outside the simulations that the posterior was trained on, "
                    "where its draws are unreliable; check the correction, its context and "
                    "the units",
                    self.category,
                    stacklevel=levels_to_caller(),
                )

        tell("outside", id(self), outside, say)


class MomentRange(TrainingRange):
    """The range from means and standard deviations, without the simulations.

    Far outside means ten deviations in any coordinate: the correlations are not known, so
    there is no common length.
    """

    @classmethod
    def of_moments(cls, mean: Tensor, std: Tensor) -> MomentRange:
        """Take mean and standard deviation, shape ``(dim_x,)`` each."""
        mean, std = mean.detach().float(), std.detach().float()
        return cls(mean, torch.diag(1 / std), torch.tensor(10.0))

    def _length(self, whitened: Tensor) -> Tensor:
        return whitened.abs().amax(dim=1)
