"""Correctors composed of an encoder, a departure, a fit and an inference."""

from __future__ import annotations

import warnings
from abc import ABC, abstractmethod
from pathlib import Path
from typing import Any, NamedTuple

import torch
from sklearn.base import BaseEstimator
from sklearn.exceptions import NotFittedError
from torch import Tensor
from typing_extensions import Self

from ma_sbi.context import Entries, as_entries, distinct
from ma_sbi.correctors.departures import Departure
from ma_sbi.correctors.encoding import encode
from ma_sbi.correctors.fitting import Fitted, Fitting, Hypotheses, Pools, Triples
from ma_sbi.correctors.inference import Inference
from ma_sbi.correctors.observed_range import ObservedRange
from ma_sbi.correctors.unseen import Examples, SeenContexts, Unseen
from ma_sbi.labels import column_names, in_columns, match_rows
from ma_sbi.protocols import ArrayLike, Context, Corrections, Encoder
from ma_sbi.reading import about_context
from ma_sbi.scaling import about_pairs
from ma_sbi.storing.forms import stored
from ma_sbi.transforming import check_encoder, fit_encoder
from ma_sbi.validation import (
    about_vector,
    as_matrix,
    as_pairs,
    as_pools,
    warn_of_precision,
)

__all__ = [
    "FITTED",
    "Axes",
    "BaseCorrector",
    "ComposedCorrector",
    "FittableCorrector",
    "encode",
]

FITTED = ("fitted_", "departure_", "inference_", "seen_", "dim_x_", "columns_")
"""What a corrector knows after a fit."""
# Relative to its size, what the difference of two float32 numbers may be wrong by.
FLOAT32 = 4 * torch.finfo(torch.float32).eps


class BaseCorrector(ABC):
    """Base of all correctors; subclasses implement ``corrections``.

    Attributes:
        why: What was chosen, what was rejected, and why; None if nothing was chosen.
        columns_: Names of the columns of x that it was fitted to; None if x was no table.
    """

    why: Any = None
    columns_: tuple[str, ...] | None = None

    @abstractmethod
    def corrections(self, x: ArrayLike, context: Context) -> Corrections:
        """Return every candidate correction of x ``(batch, dim_x)`` with its weight."""

    def matched(
        self, x: ArrayLike, context: Context, dim: int | None = None
    ) -> tuple[Any, Any]:
        """Match tables by names: columns of x to the fit, rows of the context to x.

        Args:
            x: Observations.
            context: One entry per observation, or one for all.
            dim: Number of columns of x, if it is known.

        Raises:
            ValueError: If they have other names.
        """
        x, context = match_rows(x=in_columns(self.columns_, x, dim), context=context)
        return x, context

    def entries_of(self, context: Context, num_rows: int | None = None) -> Entries:
        """Check a context, and bring it into the form of those that were fitted to."""
        return as_entries(context, num_rows=num_rows)

    def correct(self, x: ArrayLike, context: Context) -> Tensor:
        """Return the correction, averaged over candidates, shape ``(batch, dim_x)``."""
        candidates = self.corrections(x, context)
        return (candidates.x * candidates.log_weight.exp()[..., None]).sum(dim=0)

    def examples(self) -> Examples:
        """Return a few calibration rows, which show what it does; none by default."""
        nothing = as_entries([None])
        return Examples(torch.zeros(1, 1), nothing, nothing)

    def far_outside(self, x: ArrayLike) -> Tensor:
        """Tell which rows of x lie far outside the observations of calibration.

        All do if some column of ten rows or more has numbers far smaller than calibration
        had, as in a larger unit, which shows in no single row.

        Args:
            x: Observations, shape ``(batch, dim_x)``.

        Returns:
            Shape ``(batch,)``; False where calibration's range is not known.
        """
        x = as_matrix(x, "x")
        known = self._x_range()
        if known is None:
            return torch.zeros(len(x), dtype=torch.bool, device=x.device)
        return known.far(x).any(dim=1) | known.far_smaller(x).any()

    def _x_range(self) -> ObservedRange | None:
        """Return the range of the observations that it was fitted to, if it knows."""
        return None

    def save(self, path: str | Path) -> None:
        """Write the fitted corrector to a file; :func:`~ma_sbi.load_corrector` reads it.

        With it go its encoder and the density that weighs its candidates. Those that are
        not of this package, such as an encoder of scikit-learn, are code and stay out: a
        :class:`~ma_sbi.NotSaved` warning says that they have to be passed again.

        Args:
            path: The file.

        Raises:
            ValueError: If it is not fitted, or of a kind that cannot be saved.
        """
        from ma_sbi.correctors.files import save_corrector

        save_corrector(self, path)


class Axes(NamedTuple):
    """The choices of a corrector besides its encoder."""

    departure: Departure
    fitting: Fitting
    inference: Inference


class FittableCorrector(BaseCorrector, BaseEstimator):
    """A corrector that is fitted to calibration data; subclasses name their axes."""

    encoder: Encoder
    fitted_: Fitted
    departure_: Departure
    inference_: Inference
    seen_: SeenContexts
    dim_x_: int

    @abstractmethod
    def axes(self) -> Axes:
        """Name the departure, the fit and the inference."""

    def fit(
        self,
        context: Context,
        x_obs: ArrayLike,
        x_sim: ArrayLike | None = None,
        *,
        simulations: ArrayLike | None = None,
        seed: int | None = None,
    ) -> Self:
        """Learn the departure from calibration data; no parameters are needed.

        Args:
            context: One entry per observation.
            x_obs: Observations, shape ``(n, dim_x)``.
            x_sim: Simulations at the same inputs, row by row, shape ``(n, dim_x)``: what
                a corrector that learns from pairs needs.
            simulations: Any number of simulations from the prior, shape
                ``(num_simulations, dim_x)``: what a corrector that matches distributions
                needs instead.
            seed: Makes a fit that draws random numbers repeatable.

        Raises:
            ValueError: If the data are not those the corrector learns from, do not match
                row by row, or are not finite.
        """
        axes = self.axes()
        x_obs, x_sim, context = match_rows(x_obs=x_obs, x_sim=x_sim, context=context)
        observed, simulated = self._check_data(axes.fitting, x_obs, x_sim, simulations)
        name = "x_sim" if axes.fitting.paired else "simulations"
        warn_of_precision(x_obs=observed, **{name: simulated})
        entries = as_entries(
            context, num_rows=len(observed), hint=about_vector(x_obs, "x_obs")
        )
        check_encoder(self.encoder)
        uniques, codes = distinct(entries)
        odd = about_context(entries, self.encoder)
        if axes.fitting.paired:
            odd += about_pairs(observed, simulated)
        for said in odd:
            warnings.warn(said, stacklevel=2)
        encoder = fit_encoder(self.encoder, entries)
        departure = axes.departure.fit(observed)
        encoding = encode(encoder, uniques).to(observed)
        self.seen_ = SeenContexts.of(entries, observed, encoder, encoding)
        rows = torch.as_tensor(codes, device=observed.device)
        basis = departure.basis(observed)
        if axes.fitting.paired:
            triples = Triples(
                encoding,
                rows,
                basis,
                delta=observed - simulated,
                rounding=FLOAT32 * observed.abs().amax(dim=0),
            )
            self.fitted_ = axes.fitting.fit(triples, seed=seed)
        else:
            pools = Pools(encoding, rows, basis, observed, simulated)
            self.fitted_ = axes.fitting.fit(pools, seed=seed)
        self.departure_, self.inference_ = departure, axes.inference
        self.dim_x_, self.columns_ = observed.shape[1], column_names(x_obs)
        return self

    @property
    def encoder_(self) -> Encoder:
        """The fitted encoder."""
        self._check_fitted()
        return self.seen_.encoder  # type: ignore[return-value]  # every fit has one

    def examples(self) -> Examples:
        """Return a few calibration rows."""
        self._check_fitted()
        return self.seen_.examples()

    def corrections(self, x: ArrayLike, context: Context) -> Corrections:
        """Return every candidate correction of x ``(batch, dim_x)`` with its weight."""
        self._check_fitted()
        x, context = self.matched(x, context, self.dim_x_)
        x = as_matrix(x, "x", dim=self.dim_x_)
        self.seen_.x_range.warn(x)
        coefficients, log_weight, offset = self._hypotheses(
            self.entries_of(context, len(x))
        )
        corrected, log_abs_det = self.departure_.undo(x, coefficients.to(x))
        if offset is not None:
            corrected = corrected - offset.to(x)
            log_abs_det = log_abs_det.expand(len(offset), -1)
        return self.inference_(Corrections(corrected, log_weight.to(x), log_abs_det))

    def shift(self, context: Context) -> Tensor:
        """Predict the shift for each context, shape ``(n, dim_x)``, float32.

        Raises:
            ValueError: If the departure is not the same for every x.
        """
        self._check_fitted()
        if not self.departure_.is_shift:
            raise ValueError(
                f"{type(self.departure_).__name__} departures depend on x, so there is "
                "no shift given the context alone; use correct(x, context)"
            )
        coefficients, log_weight, offset = self._hypotheses(self.entries_of(context))
        shift = coefficients[:, :, 0] + (0 if offset is None else offset)
        return (shift * log_weight.exp()[..., None]).sum(dim=0).float()

    def unseen(self, context: Context) -> Unseen:
        """Tell which contexts calibration has not seen; printed, it counts them."""
        self._check_fitted()
        return self.seen_.read(self.entries_of(context), unlike=self._unlike())

    def entries_of(self, context: Context, num_rows: int | None = None) -> Entries:
        """Check a context, and bring it into the form of those that were fitted to."""
        self._check_fitted()
        return self.seen_.conform(as_entries(context, num_rows=num_rows))

    def _x_range(self) -> ObservedRange:
        self._check_fitted()
        return self.seen_.x_range

    def _unlike(self) -> Any:
        """Return how the fit tells contexts that are unlike all others, if it does."""
        return getattr(self.fitted_, "unlike", None)

    def _hypotheses(self, entries: Any) -> Hypotheses:
        uniques, codes = distinct(entries)
        encoding = encode(self.encoder_, self.seen_.in_reach(uniques))
        found = self.seen_.read(entries, encoding, self._unlike())
        self.seen_.warn(found, getattr(self.fitted_, "about_unlike", ""))
        coefficients, log_weight, offset = self.fitted_(encoding)
        return Hypotheses(
            coefficients[:, codes],
            log_weight[:, codes],
            None if offset is None else offset[:, codes],
        )

    def _check_data(
        self,
        fitting: Fitting,
        x_obs: ArrayLike,
        x_sim: ArrayLike | None,
        simulations: ArrayLike | None,
    ) -> tuple[Tensor, Tensor]:
        """Return the observations and the simulations to compare them with."""
        if fitting.paired:
            if x_sim is None or simulations is not None:
                raise ValueError(
                    f"{type(self).__name__} learns from pairs: pass x_sim, the "
                    "simulations at the inputs of each observation; for a pool of "
                    "simulations that belong to no observation use MatchingCorrector"
                )
            return as_pairs(x_obs, x_sim)
        if simulations is None or x_sim is not None:
            raise ValueError(
                f"{type(self).__name__} matches distributions: pass simulations=, a pool "
                "of simulations from the prior; for simulations paired with the "
                "observations use ShiftCorrector"
            )
        return as_pools(x_obs, simulations)

    def _check_fitted(self) -> None:
        if not hasattr(self, "fitted_"):
            raise NotFittedError(
                f"this {type(self).__name__} is not fitted yet: call fit first"
            )


@stored(*FITTED)
class ComposedCorrector(FittableCorrector):
    """A corrector composed of four independent choices.

    Common choices have classes of their own, such as :class:`~ma_sbi.ShiftCorrector`;
    this class is for the others.

    Args:
        encoder: Context to features: any scikit-learn transformer or pipeline.
        departure: Family of departures, e.g. ``Shift()`` or ``Affine()``.
        fitting: How coefficients are fitted: ``Ridge()``, ``Network()``, ``Matching()``
            or ``ResidualPools()``.
        inference: How candidates are weighted: ``Point()``, ``Mixture()`` or
            ``Evidence(log_density)``.
    """

    def __init__(
        self,
        encoder: Encoder,
        departure: Departure,
        fitting: Fitting,
        inference: Inference,
    ) -> None:
        self.encoder = encoder
        self.departure = departure
        self.fitting = fitting
        self.inference = inference

    def axes(self) -> Axes:
        """Name the departure, the fit and the inference."""
        return Axes(self.departure, self.fitting, self.inference)
