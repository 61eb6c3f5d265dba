"""Departures that a corrector has not seen, and what it predicts of them."""

from __future__ import annotations

import math
import warnings
from dataclasses import dataclass
from typing import Any, NamedTuple

import numpy as np
import torch
from pandas.api.types import is_numeric_dtype
from scipy import stats
from sklearn.base import clone
from torch import Tensor

from ma_sbi.context import as_codes, as_entries, distinct, is_missing
from ma_sbi.correctors.composed import FittableCorrector, encode
from ma_sbi.correctors.cross_fitting import EncodingTable
from ma_sbi.correctors.shift import ShiftCorrector
from ma_sbi.encoders import CategoryEncoder, HashEncoder, NumberEncoder
from ma_sbi.protocols import Context, Encoder
from ma_sbi.randomness import derive, generator
from ma_sbi.validation import as_count, as_pairs

__all__ = ["Estimate", "HeldOut", "encoder_for", "hold_out", "spread_of"]

FEWEST_ROWS = 10
FEWEST_GROUPS = 3
# More folds than these change nothing where there are thousands of rows.
MANY_ROWS = 2_000


class Estimate(NamedTuple):
    """A value with its 95 % interval."""

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

    All in units of the simulations' standard deviation, column by column, if no others
    were asked for.

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

    def share(self, before: Tensor, after: Tensor) -> Estimate:
        """Average a gain over rows, as a share of the whole departure.

        The interval is that of a ratio of means (delta method). Its unit is the group:
        rows of one group may depend on each other in any way. Folds share most of their
        training rows, and with them the luck of the fit, which rows alone do not show;
        its variance is added.

        Args:
            before: Loss of each row without, shape ``(n,)``.
            after: Loss of each row with, shape ``(n,)``.
        """
        gain, whole = before - after, self.loss(0.0)
        if whole.sum() == 0:
            return Estimate(0.0, 0.0, 0.0)
        value = (gain.sum() / whole.sum()).item()
        influence = torch.zeros(int(self.groups.max()) + 1, dtype=gain.dtype)
        influence.index_add_(0, self.groups, (gain - value * whole) / whole.sum())
        units = len(influence)
        variance = influence.square().sum().item() * units / (units - 1)
        error = math.sqrt(variance + self._luck(units) / whole.mean().item() ** 2)
        width = float(stats.t.ppf(0.975, units - 1)) * error
        return Estimate(value, value - width, value + width)

    def _luck(self, units: int) -> float:
        """Variance of the mean gain that rows alone do not show, to leading order.

        2 p tr(S^2) / n^2 for the squared error of p estimated shifts, and twice that for
        every two rows being in each other's training set.
        """
        left = self.delta - self.predicted
        covariance = torch.atleast_2d(left.T.cov())
        per_row = self.num_shifts / len(left)
        return 6 * per_row * covariance.square().sum().item() / units


def hold_out(
    context: Context,
    x_obs: Any,
    x_sim: Any,
    *,
    corrector: FittableCorrector | None = None,
    folds: int | None = None,
    groups: Any = None,
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
        corrector = ShiftCorrector(encoder_for(entries))
    if scale is None:
        scale = spread_of(simulated)
    delta = observed - simulated
    marginal, predicted, common = (torch.empty_like(delta) for _ in range(3))
    uniques, numbers = distinct(entries)
    table = EncodingTable(encode(clone(corrector.encoder).fit(entries), uniques).numpy())
    training: list[Tensor] = []
    with warnings.catch_warnings():
        # That all contexts of a fold are equal, or one is new in it, says nothing of all.
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


def encoder_for(context: Context) -> Encoder:
    """Choose an encoder for a context that comes without one.

    Numbers are standardised; labels and texts that repeat are regimes; texts that do not
    are hashed, which knows spelling alone: pass a ``SentenceEncoder`` for free text.

    Raises:
        ValueError: If the context is missing throughout, or has columns of texts.

    Example:
        >>> encoder_for([0.1, 0.2, 0.3])
        NumberEncoder()
        >>> encoder_for(["calm", "storm", "calm", "storm"])
        CategoryEncoder(unseen='zero')
    """
    entries: Any = as_entries(context)
    there = entries[~is_missing(entries).reshape(len(entries), -1).all(axis=1)]
    if len(there) == 0:
        raise ValueError("the context is missing in every row: there is nothing to read")
    uniques, _ = distinct(there)
    texts = entries.ndim == 1 and any(isinstance(entry, str) for entry in uniques)
    if 2 * len(uniques) <= len(there) and (
        texts or entries.ndim == 1 and len(uniques) < 20
    ):
        return CategoryEncoder(unseen="zero")
    if texts:
        return HashEncoder()
    if entries.ndim == 2 and not all(is_numeric_dtype(kind) for kind in entries.dtypes):
        raise ValueError(
            "context has columns that are not numbers: pass a corrector whose encoder is a "
            "sklearn.compose.ColumnTransformer"
        )
    return NumberEncoder()


def spread_of(x: Tensor) -> Tensor:
    """Measure the columns of x by their standard deviations; 1 for a constant one."""
    spread = x.std(dim=0)
    return torch.where(spread > 0, spread, torch.ones_like(spread))


def _assign(unit: Tensor, folds: int | None, seed: int | None) -> Tensor:
    """Deal the groups out to folds at random, shape ``(n,)``."""
    num_units = int(unit.max()) + 1
    if folds is None:
        folds = 10 if len(unit) <= MANY_ROWS else 5
    if as_count(folds, "folds") < 2:
        raise ValueError("folds must be at least 2")
    order = torch.randperm(num_units, generator=generator(derive(seed, "folds")))
    part = torch.empty_like(order)
    part[order] = torch.arange(num_units) % min(folds, num_units)
    return part[unit]
