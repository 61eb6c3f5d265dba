"""Whether observations lie where the posterior was trained."""

from __future__ import annotations

from dataclasses import dataclass
from typing import TYPE_CHECKING

from torch import Tensor

from ma_sbi.diagnostics.diagnostic import CannotRun, Diagnostic

if TYPE_CHECKING:
    from ma_sbi.diagnostics.subject import Subject

__all__ = ["DIAGNOSTIC", "OutsideRange"]


@dataclass(frozen=True)
class OutsideRange:
    """Share of observations far outside the posterior's training range.

    Attributes:
        before: As they are.
        after: Corrected; None without a correction.
    """

    before: float
    after: float | None

    def __str__(self) -> str:
        after = "" if self.after is None else f", {self.after:.1%} after correction"
        return (
            f"{self.before:.1%} of observations lie far outside the training range{after}"
        )


def _run(subject: Subject) -> OutsideRange:
    training_range = getattr(subject.posterior, "training_range", None)
    if training_range is None:
        raise CannotRun("The posterior does not know the range of its simulations.")

    def share(x: Tensor) -> float:
        return training_range.outside(x.float()).double().mean().item()

    corrected = None if subject.corrected is None else subject.corrected.drawn
    after = None if corrected is None else share(corrected)
    return OutsideRange(share(subject.x_obs), after)


DIAGNOSTIC = Diagnostic(
    "training_range",
    "Are they where the posterior was trained?",
    _run,
    needs=("posterior",),
)
