"""Correcting calibration rows by correctors that were fitted without them."""

from __future__ import annotations

import warnings
from collections.abc import Sequence
from pathlib import Path
from typing import Any, ClassVar

import numpy as np
import torch
from sklearn.base import BaseEstimator, clone
from sklearn.exceptions import NotFittedError
from torch import Tensor
from typing_extensions import Self

from ma_sbi.context import as_codes, as_entries, distinct
from ma_sbi.correctors.composed import BaseCorrector, FittableCorrector, encode
from ma_sbi.correctors.unseen import UnseenContext
from ma_sbi.labels import column_names, match_columns, match_rows
from ma_sbi.one_at_a_time import recorded_warnings
from ma_sbi.protocols import ArrayLike, Context, Corrections
from ma_sbi.transforming import fit_encoder
from ma_sbi.validation import about_vector, as_matrix

__all__ = ["CrossFittedCorrector", "EncodingTable", "cross_fit"]


def cross_fit(
    corrector: FittableCorrector,
    *,
    groups: ArrayLike | Sequence[Any] | None = None,
    time: ArrayLike | Sequence[Any] | None = None,
) -> CrossFittedCorrector:
    """Correct calibration rows, each by a corrector that has not seen it.

    Each row is corrected by a copy of the corrector that was fitted to the rows of *other
    groups* and, if times are given, of *earlier times* only. The encoder is fitted once, to
    the contexts of all rows; it sees no observation.

    Args:
        corrector: An unfitted corrector; it stays unfitted.
        groups: One label per row; rows that share one never learn from each other. By
            default each row is a group of its own: leave one out.
        time: One time per row, of any type that sorts. Rows of the same time do not learn
            from each other. A row with no earlier row is not corrected, with a warning.

    Returns:
        A corrector for the rows that it is fitted to, in their order, and no others.

    Example:
        >>> from ma_sbi import BootstrapCorrector, CategoryEncoder, cross_fit
        >>> corrector = cross_fit(BootstrapCorrector(CategoryEncoder()), time=[1, 1, 2, 3])
        >>> x_sim = torch.zeros(4, 1)
        >>> x_obs = torch.tensor([[1.0], [2.0], [3.0], [4.0]])
        >>> with warnings.catch_warnings():
        ...     warnings.simplefilter("ignore")
        ...     corrector = corrector.fit(["calm", "storm", "storm", "calm"], x_obs, x_sim)
        >>> corrector.correct(x_obs, ["calm", "storm", "storm", "calm"]).flatten().tolist()
        [1.0, 2.0, 1.0, 3.0]
    """
    if not isinstance(corrector, FittableCorrector):
        is_class = isinstance(corrector, type)
        got = f"the class {corrector.__name__}" if is_class else type(corrector).__name__
        raise ValueError(
            f"cross_fit needs a corrector that it can fit, got {got}: pass one such as "
            "ShiftCorrector(encoder); fit_corrector leaves rows out by itself"
        )
    return CrossFittedCorrector(corrector, groups=groups, time=time)


class CrossFittedCorrector(BaseCorrector, BaseEstimator):
    """What :func:`cross_fit` returns.

    Attributes:
        num_training_: Rows that each row's copy was fitted to, shape ``(n,)``.
        correctors_: The fitted copy of each row; None for rows that are not corrected.
    """

    # Rows are known by their place among all.
    needs_every_row: ClassVar[bool] = True

    def __init__(
        self,
        corrector: FittableCorrector,
        *,
        groups: ArrayLike | Sequence[Any] | None = None,
        time: ArrayLike | Sequence[Any] | None = None,
    ) -> None:
        self.corrector = corrector
        self.groups = groups
        self.time = time

    def fit(
        self,
        context: Context,
        x_obs: ArrayLike,
        x_sim: ArrayLike | None = None,
        *,
        simulations: ArrayLike | None = None,
        seed: int | None = None,
    ) -> Self:
        """Fit one copy of the corrector for each set of rows that it may learn from.

        Args:
            context: One entry per observation.
            x_obs: Observations, shape ``(n, dim_x)``.
            x_sim: Simulations at the same inputs, or predictions of the observations.
            simulations: Pool of simulations, for a corrector that matches distributions;
                every copy sees all of it.
            seed: Makes fits that draw random numbers repeatable.
        """
        x_obs, x_sim, context, groups, time = match_rows(
            x_obs=x_obs, x_sim=x_sim, context=context, groups=self.groups, time=self.time
        )
        x_sim = match_columns(x_obs, x_sim, "x_sim")
        simulations = match_columns(x_obs, simulations, "simulations")
        hint, columns = about_vector(x_obs, "x_obs"), column_names(x_obs)
        x_obs = as_matrix(x_obs, "x_obs", column=True, dtype=torch.float64)
        if x_sim is not None:
            x_sim = as_matrix(x_sim, "x_sim", column=True, dtype=torch.float64)
        n = len(x_obs)
        entries = as_entries(context, num_rows=n, hint=hint)
        allowed = _allowed(n, groups, time)
        uniques, codes = distinct(entries)
        encoder = fit_encoder(self.corrector.encoder, entries)
        table = EncodingTable(encode(encoder, uniques).numpy())
        # Rows that learn from the same rows share a copy.
        sets, members = np.unique(allowed, axis=0, return_inverse=True)
        copies: list[FittableCorrector | None] = []
        with recorded_warnings() as caught:
            for rows in sets:
                if not rows.any():
                    copies.append(None)
                    continue
                index = np.flatnonzero(rows)
                copy = clone(self.corrector).set_params(encoder=table)
                copy.fit(
                    codes[index],
                    x_obs[index],
                    None if x_sim is None else x_sim[index],
                    simulations=simulations,
                    seed=seed,
                )
                copies.append(copy)
        _once(caught)
        self.correctors_ = [copies[member] for member in members.reshape(-1)]
        self.num_training_ = torch.from_numpy(allowed.sum(axis=1))
        self.x_obs_, self.entries_, self.codes_ = x_obs.float(), entries, codes
        self.columns_ = columns
        alone = [row for row, copy in enumerate(self.correctors_) if copy is None]
        if alone:
            warnings.warn(
                f"{len(alone)} of {n} rows have no other row to learn from and are left "
                f"uncorrected (first: row {alone[0]})",
                stacklevel=2,
            )
        return self

    def corrections(self, x: ArrayLike, context: Context) -> Corrections:
        """Correct the rows of the fit, each by its own copy.

        Raises:
            ValueError: If x and context are not those of the fit, in their order.
        """
        if not hasattr(self, "correctors_"):
            raise NotFittedError("this cross-fitted corrector is not fitted yet: call fit")
        x, context = self.matched(x, context, self.x_obs_.shape[1])
        x = as_matrix(x, "x", dim=self.x_obs_.shape[1])
        if x.shape != self.x_obs_.shape or not torch.equal(x.to(self.x_obs_), self.x_obs_):
            raise ValueError(
                "a cross-fitted corrector corrects only the observations it was fitted "
                "to, in their order, and x differs from them; for new observations fit "
                "the corrector itself"
            )
        entries: Any = as_entries(context, num_rows=len(x))
        if not entries.equals(self.entries_):
            raise ValueError(
                "a cross-fitted corrector corrects only the observations it was fitted "
                "to, and context differs from theirs: pass that of the fit"
            )
        with recorded_warnings() as caught:
            each = [
                Corrections.certain(x[[row]])
                if copy is None
                else copy.corrections(x[[row]], self.codes_[[row]])
                for row, copy in enumerate(self.correctors_)
            ]
        unseen = sum(issubclass(one.category, UnseenContext) for one in caught)
        _once([one for one in caught if not issubclass(one.category, UnseenContext)])
        if unseen:
            warnings.warn(
                f"{unseen} of {len(x)} rows have a context that none of the rows they may "
                "learn from has",
                UnseenContext,
                stacklevel=2,
            )
        return _side_by_side(each)

    def save(self, path: str | Path) -> None:
        """Refuse: what corrects only the rows that it was fitted to has no use later."""
        raise ValueError(
            "a cross-fitted corrector corrects only the observations that it was fitted "
            "to, and is not saved: save what it gives for them, or fit the corrector "
            "itself and save that"
        )


def _allowed(n: int, groups: Any, time: Any) -> np.ndarray:
    """Tell which rows each row may learn from, shape ``(n, n)``."""
    group = np.arange(n) if groups is None else as_codes(groups, "groups", n)
    allowed = group[:, None] != group
    if time is not None:
        moment = as_codes(time, "time", n)
        allowed &= moment < moment[:, None]
    return allowed


class EncodingTable(BaseEstimator):
    """Looks up encodings by the number of the context."""

    by_number = True

    def __init__(self, encoding: np.ndarray) -> None:
        self.encoding = encoding

    def fit(self, context: Context, y: Any = None) -> Self:
        """Do nothing: the encodings are known."""
        return self

    def transform(self, context: Context) -> np.ndarray:
        """Look up the rows of these numbers."""
        return self.encoding[np.asarray(context)]

    @property
    def dim_(self) -> int:
        """Length of the vectors."""
        return self.encoding.shape[1]


def _side_by_side(each: list[Corrections]) -> Corrections:
    """Join corrections of single rows, which may have different numbers of candidates."""
    most = max(len(one.x) for one in each)

    def filled(values: Tensor, value: float) -> Tensor:
        padding = values.new_full((most - len(values), *values.shape[1:]), value)
        return torch.cat([values, padding])

    return Corrections(
        # Padding repeats a candidate: the posterior is evaluated there, with weight zero.
        x=torch.cat(
            [one.x[[min(k, len(one.x) - 1) for k in range(most)]] for one in each], dim=1
        ),
        log_weight=torch.cat([filled(one.log_weight, -torch.inf) for one in each], dim=1),
        log_abs_det=torch.cat([filled(one.log_abs_det, 0.0) for one in each], dim=1),
    )


def _once(caught: list[warnings.WarningMessage]) -> None:
    """Repeat each warning once, however many copies gave it."""
    seen = {(str(one.message), one.category): one for one in caught}
    for one in seen.values():
        warnings.warn(one.message, one.category, stacklevel=3)
