"""What the operator wrote down, and what it did to the data."""

from __future__ import annotations

import math
from dataclasses import dataclass

import torch
from torch import Tensor

__all__ = [
    "INFORMATIVE_TEXTS",
    "UNINFORMATIVE_TEXTS",
    "Regime",
    "ShiftRegime",
    "as_length",
    "random_directions",
    "shift_regimes",
]

INFORMATIVE_TEXTS = {
    "power_cut": "The morning power cut left sensor two with an offset nobody zeroed.",
    "warm_coolant": "Cooling water ran warm overnight and the baseline crept upwards.",
    "new_reagent": "New reagent is in use with the calibration of the old supplier.",
    "realignment": "We opened the detector for a repair and realigned it by eye.",
}
"""One sentence per regime, each naming its cause."""

UNINFORMATIVE_TEXTS = (
    "Quiet shift, nothing to report.",
    "Logbook signed and handed over to the evening crew.",
    "Visitors from the university toured the building before lunch.",
    "Weekly paperwork was filed and the coffee machine works again.",
)
"""Filler that says nothing about the data."""


@dataclass(frozen=True, eq=False)
class Regime:
    """One way in which reality departs from the simulator.

    Attributes:
        name: Short label.
        text: What the operator's log says while the regime is active.
    """

    name: str
    text: str


@dataclass(frozen=True, eq=False)
class ShiftRegime(Regime):
    """A regime that adds a constant to the data.

    Attributes:
        shift: What it adds to the simulator's output, shape ``(dim_x,)``.
    """

    shift: Tensor


def random_directions(count: int, dim_x: int, seed: int = 0) -> Tensor:
    """Draw unit vectors, shape ``(count, dim_x)``.

    Args:
        count: How many.
        dim_x: Dimension of the simulator's output.
        seed: Seed of the directions. All tasks keep the default, so that no task's
            directions can have been picked.
    """
    source = torch.Generator().manual_seed(seed)
    directions = torch.randn(count, dim_x, generator=source)
    return torch.nn.functional.normalize(directions, dim=1)


def shift_regimes(dim_x: int, length: float, seed: int = 0) -> tuple[ShiftRegime, ...]:
    """Make four regimes that shift x by the same length in four random directions.

    Args:
        dim_x: Dimension of the simulator's output.
        length: Euclidean length of every shift.
        seed: Seed of the directions.

    Returns:
        The regimes, each with its informative text.

    Raises:
        ValueError: If ``length`` is not a positive number.

    Example:
        >>> [round(regime.shift.norm().item(), 4) for regime in shift_regimes(5, 0.3)]
        [0.3, 0.3, 0.3, 0.3]
    """
    length = as_length(length)
    shifts = length * random_directions(len(INFORMATIVE_TEXTS), dim_x, seed)
    named = zip(INFORMATIVE_TEXTS.items(), shifts, strict=True)
    return tuple(ShiftRegime(name, text, shift) for (name, text), shift in named)


def as_length(length: float) -> float:
    """Check the length of a shift."""
    if not (math.isfinite(length) and length > 0):
        raise ValueError(f"the shift length must be a positive number, got {length!r}")
    return length
