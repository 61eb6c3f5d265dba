"""Departures: the ways in which reality may differ from the simulator.

A departure is linear in its coefficients, which the context decides: what is added to the
simulation is ``basis(x) @ coefficients(z)``. The family is the choice of basis.
"""

from __future__ import annotations

from dataclasses import dataclass, replace
from typing import Protocol

import torch
from torch import Tensor

from ma_sbi.scaling import column_scale
from ma_sbi.storing.forms import stored

__all__ = ["Affine", "Departure", "Shift"]


class Departure(Protocol):
    """A family of departures."""

    @property
    def is_shift(self) -> bool:
        """Whether the departure is the same for every x."""
        ...

    def fit(self, x_obs: Tensor) -> Departure:
        """Return the family adapted to the scale of the observations."""
        ...

    def basis(self, x: Tensor) -> Tensor:
        """Evaluate the basis at x ``(n, dim_x)``: shape ``(n, num_basis)``."""
        ...

    def undo(self, x: Tensor, coefficients: Tensor) -> tuple[Tensor, Tensor]:
        """Remove the departure, under K hypotheses about its coefficients.

        Args:
            x: Observations, shape ``(n, dim_x)``.
            coefficients: Shape ``(K, n, num_basis, dim_x)``.

        Returns:
            The corrected observations, shape ``(K, n, dim_x)``, and the log absolute
            Jacobian determinant of the correction, shape ``(K, n)``.
        """
        ...


@stored()
@dataclass(frozen=True)
class Shift:
    """A constant added to the simulation: Eq. 2 of the paper."""

    is_shift = True

    def fit(self, x_obs: Tensor) -> Shift:
        """Return itself: a shift has no scale."""
        return self

    def basis(self, x: Tensor) -> Tensor:
        """Return ones, shape ``(n, 1)``."""
        return x.new_ones(len(x), 1)

    def undo(self, x: Tensor, coefficients: Tensor) -> tuple[Tensor, Tensor]:
        """Subtract the shift."""
        return x - coefficients[:, :, 0], x.new_zeros(coefficients.shape[:2])


@stored(center="...", scale="...")
@dataclass(frozen=True)
class Affine:
    """A shift that grows linearly with x: delays, gains, mixing between coordinates.

    The correction is fitted directly, as a map from the observed to the simulated x, so
    it needs no inverse and tolerates departures that lose information.
    """

    center: Tensor = torch.tensor(0.0)
    scale: Tensor = torch.tensor(1.0)

    is_shift = False

    def fit(self, x_obs: Tensor) -> Affine:
        """Store centre and scale of the observations, so that no column dominates."""
        return replace(self, center=x_obs.mean(dim=0), scale=column_scale(x_obs))

    def basis(self, x: Tensor) -> Tensor:
        """Return one and the standardised x, shape ``(n, 1 + dim_x)``."""
        standardised = (x - self.center.to(x)) / self.scale.to(x)
        return torch.cat([x.new_ones(len(x), 1), standardised], dim=1)

    def undo(self, x: Tensor, coefficients: Tensor) -> tuple[Tensor, Tensor]:
        """Subtract the affine departure."""
        departure = torch.einsum("nq,knqd->knd", self.basis(x), coefficients)
        slope = coefficients[:, :, 1:] / self.scale.to(x).reshape(-1, 1)
        jacobian = torch.eye(x.shape[1]).to(x) - slope
        return x - departure, torch.linalg.slogdet(jacobian).logabsdet
