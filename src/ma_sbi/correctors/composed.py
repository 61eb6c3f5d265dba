"""The corrector as a composition of its four axes."""

from __future__ import annotations

import warnings
from abc import ABC, abstractmethod
from typing import Any

import numpy as np
import torch
from sklearn.base import BaseEstimator, clone
from sklearn.exceptions import NotFittedError
from torch import Tensor

from ma_sbi.context import as_entries, distinct
from ma_sbi.correctors.departures import Departure
from ma_sbi.correctors.fitting import Fitting, Triples
from ma_sbi.correctors.inference import Inference
from ma_sbi.protocols import Context, Corrections, Encoder
from ma_sbi.validation import as_matrix, as_pairs

__all__ = ["BaseCorrector", "ComposedCorrector"]


class BaseCorrector(ABC):
    """What follows for every corrector from its ``corrections``."""

    @abstractmethod
    def corrections(self, x: Any, context: Context) -> Corrections:
        """Return every candidate correction of x ``(batch, dim_x)`` with its weight."""

    def correct(self, x: Any, context: Context) -> Tensor:
        """Return the most plausible correction, shape ``(batch, dim_x)``, float32."""
        candidates = self.corrections(x, context)
        best = candidates.log_weight.argmax(dim=0)
        return candidates.x[best, torch.arange(len(best), device=best.device)]


class ComposedCorrector(BaseCorrector, BaseEstimator):
    """A corrector composed of four independent choices.

    The named correctors, such as :class:`~ma_sbi.ShiftCorrector`, are choices worth a
    name; this class is for the others.

    Args:
        encoder: Context to features: any scikit-learn transformer or pipeline.
        departure: Family of departures, e.g. ``Shift()`` or ``Affine()``.
        fitting: How coefficients are fitted, e.g. ``Ridge()`` or ``Network()``.
        inference: How candidates are weighted, e.g. ``Point()``.
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

    def fit(
        self, context: Context, x_obs: Any, x_sim: Any, *, seed: int | None = None
    ) -> ComposedCorrector:
        """Learn the departure from calibration triples; no parameters are needed.

        Args:
            context: One entry per observation.
            x_obs: Observations, shape ``(n, dim_x)``.
            x_sim: Simulations at the same inputs, row by row, shape ``(n, dim_x)``.
            seed: Makes a fit that draws random numbers repeatable.

        Raises:
            ValueError: If the three do not match row by row, or are not finite.
        """
        observed, simulated = as_pairs(x_obs, x_sim)
        entries = as_entries(context, num_rows=len(observed))
        uniques, codes = distinct(entries)
        if len(uniques) == 1:
            warnings.warn(
                "every calibration row has the same context, so only the average "
                "departure can be learned and the context will change nothing",
                stacklevel=2,
            )
        encoder = clone(self.encoder).fit(entries)
        departure = self.departure.fit(observed)
        triples = Triples(
            encoding=_encode(encoder, uniques).to(observed),
            codes=torch.as_tensor(codes, device=observed.device),
            basis=departure.basis(observed),
            delta=observed - simulated,
        )
        self.coefficients_ = self.fitting.fit(triples, seed=seed)
        self.encoder_, self.departure_ = encoder, departure
        self.dim_x_ = observed.shape[1]
        return self

    def corrections(self, x: Any, context: Context) -> Corrections:
        """Return every candidate correction of x ``(batch, dim_x)`` with its weight."""
        self._check_fitted()
        x = as_matrix(x, "x", dim=self.dim_x_)
        coefficients = self._coefficients(as_entries(context, num_rows=len(x)))
        return self.inference(self.departure_, coefficients.to(x), x)

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
        return self._coefficients(as_entries(context))[:, 0].float()

    def _coefficients(self, entries: Any) -> Tensor:
        uniques, codes = distinct(entries)
        return self.coefficients_(_encode(self.encoder_, uniques))[codes]

    def _check_fitted(self) -> None:
        if not hasattr(self, "coefficients_"):
            raise NotFittedError(
                f"this {type(self).__name__} is not fitted yet: call "
                "fit(context, x_obs, x_sim) first"
            )


def _encode(encoder: Encoder, entries: Any) -> Tensor:
    encoding = encoder.transform(entries)
    if hasattr(encoding, "toarray"):
        encoding = encoding.toarray()
    return torch.as_tensor(np.asarray(encoding, dtype=np.float64))
