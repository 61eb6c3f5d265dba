r"""Whether a correction by the context helps, when it was fitted to few triples.

The best corrector that uses z cannot do harm. A fitted one can: it knows the mean of each
regime only up to an error of :math:`K s^2 / n`, whether or not the context is informative.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from typing import Any, Literal

import numpy as np
import torch
from torch import Tensor

from ma_sbi.correctors.composed import FittableCorrector
from ma_sbi.diagnostics.held_out import Gain, HeldOut, hold_out
from ma_sbi.labels import match_rows
from ma_sbi.protocols import ArrayLike, Context
from ma_sbi.reading import ContextReading, read_context
from ma_sbi.theory.estimation import (
    break_even_information,
    estimation_error,
    triples_needed,
)
from ma_sbi.theory.sub_gaussian import sub_gaussian_proxy

__all__ = ["WeakContext", "weak_context"]

# A conditional gain or loss below this share of the departure is nothing.
NEGLIGIBLE = 0.02
# Directions in which the departures' sub-Gaussian proxy is sought.
LEADING_AXES = 3


@dataclass(frozen=True)
class WeakContext:
    """What a corrector gains on rows that it has not seen, and what it would need.

    Gains are shares of the mean squared departure, in units of the simulations' standard
    deviation; 1 is all of it, a negative one is harm.

    Attributes:
        marginal: Gain of the mean departure over no correction.
        conditional: Gain of the corrector over the mean departure: what the context adds.
        total: Gain of the corrector over no correction.
        size: Root mean square of the departure, in standard deviations of the simulations.
        num_triples: Number of rows.
        num_regimes: Distinct contexts where they repeat; else how many free shifts the
            corrector amounts to, estimated by how much better it does on training rows.
        contexts_repeat: Which of the two ``num_regimes`` is.
        within: Share of the departure's variance that the context cannot explain.
        estimation_error: What a corrector with one free shift per regime pays, as a share
            of the mean squared departure.
        min_information: Information, in nats, below which it must expect to do worse than
            the mean departure.
        information: Estimated information of the context about the departure, in nats;
            None if unknown.
        num_needed: Triples for 90 % of what the context can give; None if it gives
            nothing that could be seen.
    """

    marginal: Gain
    conditional: Gain
    total: Gain
    size: float
    num_triples: int
    num_regimes: int
    contexts_repeat: bool
    within: float
    estimation_error: float
    min_information: float
    information: float | None
    num_needed: int | None

    @property
    def verdict(self) -> Literal["helps", "nothing", "harms", "unclear"]:
        """What the context does beyond the mean departure, by the interval.

        ``"nothing"`` if the interval lies within 2 % of zero.
        """
        low, high = self.conditional.low, self.conditional.high
        if low > 0:
            return "helps"
        if low > -NEGLIGIBLE and high < NEGLIGIBLE:
            return "nothing"
        return "harms" if high < 0 else "unclear"

    @property
    def enough(self) -> bool:
        """Whether there are triples enough for 90 % of what the context can give."""
        return self.num_needed is not None and self.num_triples >= self.num_needed

    @property
    def harm_expected(self) -> bool | None:
        """Whether the information is too little for any fitted point corrector.

        None if the information is unknown. Correctors that shrink towards the mean, such
        as the default one, avoid most of the harm.
        """
        return None if self.information is None else self.information < self.min_information

    def __str__(self) -> str:
        text = (
            f"it removes {self.total} of a departure of {self.size:.2g} standard "
            f"deviations, on rows held out: the mean removes {self.marginal}, the context "
            f"adds {self.conditional}. "
        )
        text += {
            "helps": "The context helps.",
            "nothing": "The context adds nothing.",
            "unclear": "These rows do not show whether the context helps.",
            "harms": "The context does harm: use the mean departure alone.",
        }[self.verdict]
        if self.harm_expected:
            text += (
                f" It has {self.information:.3f} nats on the departure, less than the "
                f"{self.min_information:.3f} at which a shift per regime equals the mean."
            )
        if self.num_needed is not None and self.verdict != "nothing":
            text += (
                f" About {self.num_needed} triples give 90 % of what the context can; "
                f"there are {self.num_triples}."
            )
        return text


def weak_context(
    context: Context,
    x_obs: ArrayLike,
    x_sim: ArrayLike,
    *,
    corrector: FittableCorrector | None = None,
    information: Any = None,
    folds: int | None = None,
    groups: ArrayLike | Sequence[Any] | None = None,
    held: HeldOut | None = None,
    seed: int | None = None,
) -> WeakContext:
    r"""Measure what a corrector gains on held-out rows, and what it takes to gain.

    .. math:: \text{marginal} = E|\delta|^2 - E|\delta - \bar\delta|^2, \qquad
        \text{conditional} = E|\delta - \bar\delta|^2 - E|\delta - \hat\delta(z)|^2

    Rows are the unit of the intervals: that many share a context does not make them one
    observation, as long as future rows have the same contexts. Pass ``groups`` where rows
    depend on each other (one participant, one day), and ``groups=context`` to ask what the
    corrector does for new contexts.

    The least information is where the sub-Gaussian bound :math:`2 \tau^2 I` on what the
    context can explain equals what a shift per regime costs more than the mean departure,
    :math:`(K - 1) s^2 / n`; the proxy :math:`\tau^2` is estimated from the departures along
    their leading axes. The threshold is necessary, not sufficient; where it and the
    held-out gain differ, trust the gain. It holds for correctors that use z alone;
    weighting candidates by the evidence in x can do better.

    Args:
        context: One entry per observation.
        x_obs: Observations, shape ``(n, dim_x)``.
        x_sim: Simulations at the same inputs, shape ``(n, dim_x)``.
        corrector: An unfitted point corrector; a closed-form shift if None.
        information: The context's information on the departure in nats: a number, or
            what ``mutual_information`` returned.
        folds: Number of folds; 10, and 5 beyond 2000 rows, if None.
        groups: One label per row; rows that share one are held out together.
        held: What ``hold_out`` gave for these rows, if that is known already.
        seed: Makes the folds repeatable.

    Example:
        >>> x_sim = torch.randn(200, 2, generator=torch.Generator().manual_seed(0))
        >>> notes = ["high", "low"] * 100
        >>> x_obs = x_sim + torch.tensor([[1.0, 0.0], [-1.0, 0.0]]).repeat(100, 1)
        >>> weak_context(notes, x_obs, x_sim, seed=0).verdict
        'helps'
    """
    x_obs, x_sim, context, groups = match_rows(
        x_obs=x_obs, x_sim=x_sim, context=context, groups=groups
    )
    if held is None:
        held = hold_out(
            context,
            x_obs,
            x_sim,
            corrector=corrector,
            folds=folds,
            groups=groups,
            seed=seed,
        )
    none, marginal, total = (held.loss(one) for one in (0.0, held.marginal, held.predicted))
    n = len(held.delta)
    variances = _variances(read_context(context, n), held)
    proxy = _proxy(held.delta)
    whole = none.mean().item()
    error = estimation_error(variances.num_regimes, n, variances.residual)
    value = getattr(information, "value", information)
    return WeakContext(
        marginal=held.gain(none, marginal),
        conditional=held.gain(marginal, total),
        total=held.gain(none, total),
        size=(whole / held.delta.shape[1]) ** 0.5,
        num_triples=n,
        num_regimes=variances.num_regimes,
        contexts_repeat=variances.counted,
        within=variances.within,
        estimation_error=error / whole if whole > 0 else 0.0,
        # The mean departure, one of the shifts, is estimated with and without a context.
        min_information=break_even_information(
            variances.num_regimes - 1, n, variances.residual, proxy
        )
        if proxy > 0 and variances.num_regimes > 1
        else 0.0,
        information=None if value is None else float(value),
        num_needed=triples_needed(
            variances.num_regimes, variances.residual, variances.explained
        )
        if variances.explained > 0
        else None,
    )


@dataclass(frozen=True)
class _Variances:
    """Parts of the departure's variance, summed over columns."""

    num_regimes: int
    counted: bool
    residual: float
    explained: float

    @property
    def within(self) -> float:
        whole = self.residual + max(self.explained, 0.0)
        return self.residual / whole if whole > 0 else 0.0


def _proxy(delta: Tensor) -> float:
    """Estimate the sub-Gaussian proxy of departures ``(n, dim_x)``; 0 if all are equal."""
    centred = delta - delta.mean(dim=0)
    axes = torch.linalg.eigh(centred.T @ centred).eigenvectors[:, -LEADING_AXES:]
    along = (centred @ axes).T
    return max(
        (sub_gaussian_proxy(one.numpy()) for one in along if one.std() > 0), default=0.0
    )


def _variances(reading: ContextReading, held: HeldOut) -> _Variances:
    """Split the variance into what lies within regimes and what lies between them."""
    delta = held.delta
    n = len(delta)
    centred = delta - delta.mean(dim=0)
    whole = centred.square().sum().item()
    if set(reading.kinds) == {"regimes"} and 2 * reading.num_distinct <= n:
        codes = torch.from_numpy(np.unique(reading.codes, return_inverse=True)[1])
        count = codes.bincount().to(delta)
        num_regimes = len(count)
        sums = torch.zeros(num_regimes, delta.shape[1], dtype=delta.dtype)
        means = sums.index_add_(0, codes, centred) / count[:, None]
        inside = (centred - means[codes]).square().sum().item()
        residual = inside / (n - num_regimes)
        # What the means of regimes differ by through noise alone is not explained.
        explained = (whole - inside - (num_regimes - 1) * residual) / n
        return _Variances(num_regimes, True, residual, explained)  # noqa: FBT003
    residual = held.residual_variance
    num_shifts = min(round(held.num_shifts), n)
    return _Variances(num_shifts, False, residual, whole / (n - 1) - residual)  # noqa: FBT003
