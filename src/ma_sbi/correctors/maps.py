"""Maps from simulations to observations, in the spaces where they may be simple."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass

import torch
from torch import Tensor

from ma_sbi.storing.forms import stored

__all__ = [
    "COUNTS_OF_LOGARITHMS",
    "LOGARITHMS",
    "PLAIN",
    "ROOTS",
    "SPACES",
    "AddedShift",
    "CurveMap",
    "LinearMap",
    "MixingMap",
    "Predict",
    "Space",
]

# Larger logarithms of counts are none.
LARGEST_LOG = 20.0

Predict = Callable[[Tensor], Tensor]
"""From simulations ``(n, dim_x)`` to what would have been observed, the same shape."""


@dataclass(frozen=True)
class Space:
    """Where a departure may be simple: a monotone function of x.

    Attributes:
        name: Its name in :data:`SPACES`.
        into: From x to the space.
        back: From the space to x.
        positive: Whether x must not be negative.
    """

    name: str
    into: Predict
    back: Predict
    positive: bool = True

    def suits(self, x: Tensor) -> bool:
        """Tell whether such x have values in the space."""
        if self.positive and (x < 0).any():
            return False
        return self.into is not torch.expm1 or bool((x < LARGEST_LOG).all())


def _square(u: Tensor) -> Tensor:
    return u.clamp(min=0.0).square()


def _exp(u: Tensor) -> Tensor:
    return torch.expm1(u.clamp(0.0, LARGEST_LOG))


def _log(u: Tensor) -> Tensor:
    return torch.log1p(u.clamp(min=0.0))


PLAIN = Space("x", lambda x: x, lambda u: u, positive=False)
ROOTS = Space("square root of x", lambda x: x.clamp(min=0.0).sqrt(), _square)
LOGARITHMS = Space("log(1 + x)", torch.log1p, _exp)
COUNTS_OF_LOGARITHMS = Space("exp(x) - 1", torch.expm1, _log)
SPACES = {one.name: one for one in (PLAIN, ROOTS, LOGARITHMS, COUNTS_OF_LOGARITHMS)}


@stored(shift="dim_x")
@dataclass(frozen=True)
class AddedShift:
    """A constant that is added to x."""

    shift: Tensor

    def __call__(self, x: Tensor) -> Tensor:
        """Predict observations of simulations ``(n, dim_x)``."""
        return x + self.shift


@dataclass(frozen=True)
class _InSpace:
    """A map in a space, which is known by its name."""

    space: str

    def __post_init__(self) -> None:
        if self.space not in SPACES:
            raise ValueError(f"there is no space {self.space[:60]!r}")


@stored(centre="dim_x", scale="dim_x", coefficients="basis dim_x")
@dataclass(frozen=True)
class LinearMap(_InSpace):
    """A map that is linear in a space.

    Attributes:
        centre: From which x is measured in the space, shape ``(dim_x,)``.
        scale: Its unit.
        coefficients: Of one and x, of what is added, shape ``(1 + dim_x, dim_x)``.
    """

    centre: Tensor
    scale: Tensor
    coefficients: Tensor

    def basis(self, x: Tensor) -> Tensor:
        """Return one and x in the space, shape ``(n, 1 + dim_x)``."""
        standardised = (SPACES[self.space].into(x) - self.centre) / self.scale
        return torch.cat([x.new_ones(len(x), 1), standardised], dim=1)

    def __call__(self, x: Tensor) -> Tensor:
        """Predict observations of simulations ``(n, dim_x)``."""
        space = SPACES[self.space]
        return space.back(space.into(x) + self.basis(x) @ self.coefficients)


@stored(
    centre="columns", scale="columns", knots="knots columns", coefficients="columns basis"
)
@dataclass(frozen=True)
class CurveMap:
    """A function of each column by itself, linear between knots.

    Attributes:
        centre: From which x is measured, shape ``(dim_x,)``, or ``(1,)`` if all columns
            have the same function.
        scale: Its unit.
        knots: Where it bends, shape ``(num_knots, dim_x)``, or ``(num_knots, 1)``.
        coefficients: Of the basis, of what is added, shape ``(dim_x, num_basis)``, or
            ``(1, num_basis)``.
    """

    centre: Tensor
    scale: Tensor
    knots: Tensor
    coefficients: Tensor

    def basis(self, x: Tensor) -> Tensor:
        """Evaluate the basis at each entry, shape ``(n, dim_x, num_basis)``."""
        standardised = (x - self.centre) / self.scale
        bends = (standardised[..., None] - self.knots.T).clamp(min=0.0)
        line = torch.stack([torch.ones_like(x), standardised], dim=-1)
        return torch.cat([line, bends], dim=-1)

    def __call__(self, x: Tensor) -> Tensor:
        """Predict observations of simulations ``(n, dim_x)``."""
        return x + (self.basis(x) * self.coefficients).sum(dim=-1)


@stored(weights="dim_x dim_x")
@dataclass(frozen=True)
class MixingMap(_InSpace):
    """A map that moves what a column holds to columns nearby, by weights."""

    weights: Tensor

    def __call__(self, x: Tensor) -> Tensor:
        """Predict observations of simulations ``(n, dim_x)``."""
        space = SPACES[self.space]
        return space.back(space.into(x) @ self.weights)
