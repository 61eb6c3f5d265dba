"""A shift corrector split into the mean shift and what the context adds to it."""

from __future__ import annotations

from abc import abstractmethod
from typing import Any, NamedTuple

from torch import Tensor

from ma_sbi.context import as_entries
from ma_sbi.correctors.composed import BaseCorrector
from ma_sbi.correctors.inference import Point
from ma_sbi.correctors.unseen import Examples
from ma_sbi.protocols import ArrayLike, Context, Corrections
from ma_sbi.storing.forms import stored
from ma_sbi.validation import as_matrix

__all__ = ["ConditionalCorrector", "Decomposition", "MarginalCorrector", "decompose"]


class Decomposition(NamedTuple):
    """The two parts of a shift corrector; their shifts add up to its own."""

    marginal: MarginalCorrector
    conditional: ConditionalCorrector


class _PartialShift(BaseCorrector):
    """A corrector that subtracts its ``shift``."""

    def __init__(self, whole: Any, mean: Tensor) -> None:
        self.whole = whole
        self.mean = mean

    @property
    def columns_(self) -> tuple[str, ...] | None:  # type: ignore[override]
        """Names of the columns of x that the whole was fitted to."""
        return getattr(self.whole, "columns_", None)

    def examples(self) -> Examples:
        """Return a few calibration rows."""
        return self.whole.examples()

    @abstractmethod
    def shift(self, context: Context) -> Tensor:
        """Predict the shift for each context, shape ``(n, dim_x)``."""

    def corrections(self, x: ArrayLike, context: Context) -> Corrections:
        """Return the single candidate correction of x ``(batch, dim_x)``."""
        x, context = self.matched(x, context, len(self.mean))
        x = as_matrix(x, "x", dim=len(self.mean))
        shift = self.shift(as_entries(context, num_rows=len(x))).to(x)
        return Corrections.certain(x - shift)


@stored(mean="dim_x")
class MarginalCorrector(_PartialShift):
    """The same shift for every observation; the context is ignored."""

    def shift(self, context: Context) -> Tensor:
        """Repeat the mean shift, shape ``(n, dim_x)``."""
        return self.mean.expand(len(as_entries(context)), -1)


@stored(mean="dim_x")
class ConditionalCorrector(_PartialShift):
    """What the context adds to the mean shift."""

    def shift(self, context: Context) -> Tensor:
        """Predict the shift less its mean, shape ``(n, dim_x)``."""
        return self.whole.shift(context) - self.mean


def decompose(corrector: Any, contexts: Context) -> Decomposition:
    r"""Separate the constant part of a corrector's shift from the part that z explains.

    .. math:: \hat\delta(z) = E_z[\hat\delta(z)] + (\hat\delta(z) - E_z[\hat\delta(z)])

    The split is exact for shifts. It is not additive for posteriors: the gap that the two
    parts close need not sum to the gap that the whole closes.

    Args:
        corrector: A fitted corrector whose departure is a shift.
        contexts: Contexts over which to average, usually those of the calibration set.

    Returns:
        The Marginal and the Conditional corrector, each usable wherever a corrector is.

    Raises:
        ValueError: If the departure depends on x, or the corrector has several
            candidates; no such split exists then.
    """
    if not hasattr(corrector, "shift"):
        raise ValueError(
            f"decompose needs a corrector that shifts, got {type(corrector).__name__}, "
            "which has no shift(context)"
        )
    inference = getattr(corrector, "inference_", Point())
    if not isinstance(inference, Point):
        raise ValueError(
            "decompose splits a single shift, but this corrector weighs several "
            f"({type(inference).__name__}): decompose a point corrector fitted to the "
            "same data"
        )
    mean = corrector.shift(contexts).mean(dim=0)
    return Decomposition(
        MarginalCorrector(corrector, mean), ConditionalCorrector(corrector, mean)
    )
