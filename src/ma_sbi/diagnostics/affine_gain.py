"""What an affine correction gains where the departure depends on x."""

from __future__ import annotations

from dataclasses import dataclass
from typing import TYPE_CHECKING

import pandas as pd

from ma_sbi.diagnostics.diagnostic import CannotRun, Diagnostic
from ma_sbi.diagnostics.held_out import Gain
from ma_sbi.diagnostics.subject import affine_corrector
from ma_sbi.encoders import CategoryEncoder

if TYPE_CHECKING:
    from ma_sbi.diagnostics.subject import Subject

__all__ = ["DIAGNOSTIC", "AffineGain"]


@dataclass(frozen=True)
class AffineGain:
    """Gains of an affine corrector on rows held out.

    Attributes:
        marginal: Without the context.
        conditional: What the context adds.
        total: With the context.
    """

    marginal: Gain
    conditional: Gain
    total: Gain

    def __str__(self) -> str:
        return (
            f"an affine corrector removes {self.marginal} of the departure without the "
            f"context, which adds {self.conditional}"
        )


def _run(subject: Subject) -> AffineGain:
    if subject.found("family") is None:
        raise CannotRun("Whether the departure depends on x is not known.")
    if not subject.is_affine:
        raise CannotRun(
            "A shift is the right family."
            if subject.corrector is None
            else "Your own corrector is judged instead."
        )
    rows, held = subject.affine_subject, subject.affine_held_out
    same = pd.Series(["same"] * len(rows.x_obs))
    without = rows.hold_out(affine_corrector(CategoryEncoder()), same)
    none, common, total = (
        held.loss(one) for one in (0.0, without.predicted, held.predicted)
    )
    return AffineGain(
        without.gain(none, common), held.gain(common, total), held.gain(none, total)
    )


DIAGNOSTIC = Diagnostic(
    "affine", "What would an affine correction gain?", _run, needs=("x_sim",)
)
