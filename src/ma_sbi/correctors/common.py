"""What is the same under every context."""

from __future__ import annotations

from typing import Any

from ma_sbi.correctors.composed import BaseCorrector
from ma_sbi.correctors.unseen import Examples
from ma_sbi.protocols import ArrayLike, Context, Corrections
from ma_sbi.storing.forms import stored

__all__ = ["SAME", "CommonCorrector"]

SAME = "same"
"""In place of every context."""


@stored()
class CommonCorrector(BaseCorrector):
    """Corrects every observation alike, whatever its context.

    Attributes:
        corrector: A corrector that was fitted with the same context in every row.
    """

    def __init__(self, corrector: BaseCorrector) -> None:
        self.corrector = corrector

    @property
    def columns_(self) -> tuple[str, ...] | None:
        """Names of the columns of x that it was fitted to."""
        return self.corrector.columns_

    @columns_.setter
    def columns_(self, names: tuple[str, ...] | None) -> None:
        self.corrector.columns_ = names

    @property
    def why(self) -> Any:
        """What was chosen, what was rejected, and why."""
        return self.corrector.why

    def corrections(self, x: ArrayLike, context: Context) -> Corrections:
        """Return every candidate correction of x ``(batch, dim_x)`` with its weight."""
        return self.corrector.corrections(x, SAME)

    def examples(self) -> Examples:
        """Return a few calibration rows."""
        return self.corrector.examples()

    def __repr__(self) -> str:
        return f"CommonCorrector({self.corrector!r})"
