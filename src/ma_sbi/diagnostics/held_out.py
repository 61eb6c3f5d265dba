"""Departures with what a corrector that was fitted to other rows predicts of them."""

from __future__ import annotations

import math
import warnings
from collections.abc import Sequence
from dataclasses import dataclass
from typing import Any, NamedTuple

import numpy as np
import torch
from scipy import stats
from sklearn.base import clone
from torch import Tensor

from ma_sbi.context import as_codes, as_entries, distinct
from ma_sbi.correctors.composed import FittableCorrector, encode
from ma_sbi.correctors.cross_fitting import EncodingTable
from ma_sbi.correctors.shift import ShiftCorrector
from ma_sbi.labels import match_rows
from ma_sbi.one_at_a_time import local_filters
from ma_sbi.protocols import ArrayLike, Context
from ma_sbi.randomness import derive, generator
from ma_sbi.reading import read_context
from ma_sbi.scaling import column_scale
from ma_sbi.transforming import fit_encoder
from ma_sbi.validation import as_count, as_pairs

__all__ = ["Gain", "HeldOut", "hold_out"]

FEWEST_ROWS = 10
FEWEST_GROUPS = 3
# Above so many rows five folds are enough.
MANY_ROWS = 2_000


class Gain(NamedTuple):
    """What a correction removes, as a share of the departure, with its 95 % interval."""

    value: float
    low: float
    high: float

    def __str__(self) -> str:
        # Adding zero turns a rounded -0 into 0.
        value, low, high = (round(one, 2) + 0.0 for one in self)
        return f"{value:.0%} [{low:.0%}, {high:.0%}]"


@dataclass(frozen=True)
class HeldOut:
    """Departures with what was predicted of each by those of other folds.

    All in units of ``scale``.

    Attributes:
        delta: Observed minus simulated, shape ``(n, dim_x)``.
        marginal: Mean departure of the other folds, shape ``(n, dim_x)``.
        predicted: Departure that the corrector predicts, shape ``(n, dim_x)``.
        common: Mean of what it predicts for the rows that it was fitted to: its marginal
            part, shape ``(n, dim_x)``.
        training_loss: Mean squared length of what the corrector leaves of the rows that it
            was fitted to.
        groups: Group of each row, shape ``(n,)``.
        scale: The units, shape ``(dim_x,)``.
    """

    delta: Tensor
    marginal: Tensor
    predicted: Tensor
    common: Tensor
    training_loss: float
    groups: Tensor
    scale: Tensor

    def loss(self, predicted: Tensor | float) -> Tensor:
        """Measure what a prediction leaves of each departure, squared, shape ``(n,)``."""
        return (self.delta - predicted).square().sum(dim=1)

    @property
    def residual_variance(self) -> float:
        """Variance that the corrector leaves, summed over columns.

        With p free shifts, a least-squares fit leaves s^2 (1 - p/n) of the rows that it
        was fitted to and s^2 (1 + p/n) of others: two equations for s^2 and p.
        """
        return (self.loss(self.predicted).mean().item() + self.training_loss) / 2

    @property
    def num_shifts(self) -> float:
        """How many free shifts the corrector amounts to; at least one."""
        if self.residual_variance == 0:
            return 1.0
        optimism = self.loss(self.predicted).mean().item() - self.training_loss
        return max(1.0, len(self.delta) * optimism / (2 * self.residual_variance))

    def gain(self, before: Tensor, after: Tensor) -> Gain:
        """Average a gain over rows, as a share of the whole departure.

        The interval is that of a ratio of means (delta method). Its unit is the group:
        rows of one group may depend on each other in any way. Folds share most of their
        training rows, and with them the error of the fit, which the spread over rows does
        not show; its variance is added.

        Args:
            before: Loss of each row without, shape ``(n,)``.
            after: Loss of each row with, shape ``(n,)``.
        """
        gain, whole = before - after, self.loss(0.0)
        if whole.sum() == 0:
            return Gain(0.0, 0.0, 0.0)
        value = (gain.sum() / whole.sum()).item()
        influence = torch.zeros(int(self.groups.max()) + 1, dtype=gain.dtype)
        influence.index_add_(0, self.groups, (gain - value * whole) / whole.sum())
        units = len(influence)
        variance = influence.square().sum().item() * units / (units - 1)
        error = math.sqrt(variance + self._fit_variance(units) / whole.mean().item() ** 2)
        width = float(stats.t.ppf(0.975, units - 1)) * error
        return Gain(value, value - width, value + width)

    def _fit_variance(self, units: int) -> float:
        """Variance of the mean gain due to the fit, to leading order.

        2 p tr(S^2) / n^2 for the squared error of p estimated shifts, and twice that for
        every two rows being in each other's training set.
        """
        left = self.delta - self.predicted
        covariance = torch.atleast_2d(left.T.cov())
        per_row = self.num_shifts / len(left)
        return 6 * per_row * covariance.square().sum().item() / units


def hold_out(
    context: Context,
    x_obs: ArrayLike,
    x_sim: ArrayLike,
    *,
    corrector: FittableCorrector | None = None,
    folds: int | None = None,
    groups: ArrayLike | Sequence[Any] | None = None,
    scale: Tensor | None = None,
    seed: int | None = None,
) -> HeldOut:
    """Predict each departure from the rows of other folds.

    The same as ``cross_fit`` with folds for groups, but fold by fold: its table of which
    row may learn from which takes 40 s at 10,000 rows. The encoder is fitted once, to all
    contexts; it sees no observation.

    Args:
        context: One entry per observation.
        x_obs: Observations, shape ``(n, dim_x)``.
        x_sim: Simulations at the same inputs, shape ``(n, dim_x)``.
        corrector: An unfitted corrector; a closed-form shift with an encoder that suits
            the context if None.
        folds: Number of folds; 10, and 5 beyond 2000 rows, if None.
        groups: One label per row; rows that share one are held out together.
        scale: Units of the columns, shape ``(dim_x,)``; the standard deviations of
            ``x_sim`` if None.
        seed: Makes folds and fits repeatable.

    Raises:
        ValueError: If there are too few rows or groups to hold any out.
    """
    x_obs, x_sim, context, groups = match_rows(
        x_obs=x_obs, x_sim=x_sim, context=context, groups=groups
    )
    observed, simulated = (values.cpu() for values in as_pairs(x_obs, x_sim))
    n = len(observed)
    entries = as_entries(context, num_rows=n)
    if n < FEWEST_ROWS:
        raise ValueError(
            f"cross-validation needs at least {FEWEST_ROWS} rows, got {n}: there is not "
            "enough to learn from and to check with"
        )
    codes = np.arange(n) if groups is None else as_codes(groups, "groups", n)
    if codes.max() + 1 < FEWEST_GROUPS:
        raise ValueError(
            f"cross-validation needs at least {FEWEST_GROUPS} groups, got {codes.max() + 1}"
        )
    unit = torch.from_numpy(codes)
    fold = _assign(unit, folds, seed)
    if corrector is None:
        reading = read_context(entries)
        entries = reading.entries
        corrector = ShiftCorrector(reading.suitable_encoder())
    if scale is None:
        scale = column_scale(simulated)
    delta = observed - simulated
    marginal, predicted, common = (torch.empty_like(delta) for _ in range(3))
    uniques, numbers = distinct(entries)
    table = EncodingTable(encode(fit_encoder(corrector.encoder, entries), uniques).numpy())
    training: list[Tensor] = []
    with local_filters():
        # A context may be new to a fold, or the only one in it; that is no reason to warn.
        warnings.simplefilter("ignore")
        for number in range(int(fold.max()) + 1):
            held = fold == number
            rest = ~held
            copy = clone(corrector).set_params(encoder=table)
            copy.fit(numbers[rest], observed[rest], simulated[rest], seed=seed)
            corrected = copy.correct(observed, numbers).to(delta)
            left = (corrected - simulated) / scale
            training.append(left[rest].square().sum(dim=1).mean())
            shift = observed - corrected
            predicted[held], common[held] = shift[held], shift[rest].mean(dim=0)
            marginal[held] = delta[rest].mean(dim=0)
    return HeldOut(
        delta=delta / scale,
        marginal=marginal / scale,
        predicted=predicted / scale,
        common=common / scale,
        training_loss=torch.stack(training).mean().item(),
        groups=unit,
        scale=scale,
    )


def _assign(unit: Tensor, folds: int | None, seed: int | None) -> Tensor:
    """Assign groups to folds at random, shape ``(n,)``."""
    num_units = int(unit.max()) + 1
    if folds is None:
        folds = 10 if len(unit) <= MANY_ROWS else 5
    if as_count(folds, "folds") < 2:
        raise ValueError("folds must be at least 2")
    order = torch.randperm(num_units, generator=generator(derive(seed, "folds")))
    part = torch.empty_like(order)
    part[order] = torch.arange(num_units) % min(folds, num_units)
    return part[unit]
