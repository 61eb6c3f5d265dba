"""Inference: which candidate corrections of an observation to believe, and how much."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Protocol

from torch import Tensor

from ma_sbi.correctors.departures import Departure
from ma_sbi.protocols import Corrections

__all__ = ["Inference", "Point"]


class Inference(Protocol):
    """From coefficients to weighted candidates."""

    def __call__(
        self, departure: Departure, coefficients: Tensor, x: Tensor
    ) -> Corrections:
        """Correct x ``(batch, dim_x)``."""
        ...


@dataclass(frozen=True)
class Point:
    """One candidate: the departure that the context predicts."""

    def __call__(
        self, departure: Departure, coefficients: Tensor, x: Tensor
    ) -> Corrections:
        """Correct x ``(batch, dim_x)``; K = 1."""
        corrected, log_abs_det = departure.undo(x, coefficients)
        return Corrections(
            x=corrected[None],
            log_weight=x.new_zeros(1, len(x)),
            log_abs_det=log_abs_det[None],
        )
