"""What a corrector may be chosen from: a registry of families of departures and fits."""

from __future__ import annotations

import math
import warnings
from abc import ABC, abstractmethod
from collections import Counter
from collections.abc import Callable, Sequence
from dataclasses import dataclass, field
from typing import Any

import numpy as np
import pandas as pd
import torch
from sklearn.base import BaseEstimator
from torch import Tensor
from typing_extensions import Self

from ma_sbi.choosing.calibration import Calibration
from ma_sbi.choosing.likeliest import likeliest_departures
from ma_sbi.context import as_entries
from ma_sbi.correctors.bootstrap import ResidualPools
from ma_sbi.correctors.composed import BaseCorrector, ComposedCorrector
from ma_sbi.correctors.departures import Affine, Departure, Shift
from ma_sbi.correctors.fitting import Fitting
from ma_sbi.correctors.forward import ForwardCorrector
from ma_sbi.correctors.inference import Mixture
from ma_sbi.correctors.located import RidgeWithResiduals
from ma_sbi.correctors.regimes import Regimes
from ma_sbi.correctors.ridge import Ridge
from ma_sbi.one_at_a_time import local_filters
from ma_sbi.protocols import ArrayLike, Context, Corrections, Encoder
from ma_sbi.storing.forms import stored
from ma_sbi.validation import as_matrix

__all__ = [
    "NOTHING",
    "PROPOSALS",
    "BaseProposal",
    "LearnedForwards",
    "LikeliestShift",
    "NoContext",
    "Nothing",
    "NothingDeparts",
    "Proposal",
    "RegimeShift",
]

# Candidates of one proposal for one observation.
NUM_DRAWS = 128
# Contexts that a regression is centred on: it is fitted many times.
MOST_LANDMARKS = 200
NOTHING = "nothing departs"


@stored()
class NothingDeparts(BaseCorrector):
    """Leaves every observation as it is."""

    def corrections(self, x: ArrayLike, context: Context) -> Corrections:
        """Return x itself, with weight one."""
        x, _ = self.matched(x, context)
        return Corrections.certain(as_matrix(x, "x"))

    def __repr__(self) -> str:
        return "NothingDeparts()"


@stored()
class NoContext(BaseEstimator):
    """Encodes every context alike."""

    any_form = True

    def fit(self, context: Context, y: Any = None) -> Self:
        """Learn nothing."""
        return self

    def transform(self, context: Context) -> np.ndarray:
        """Return a column of zeros."""
        return np.zeros((len(as_entries(context)), self.dim_))

    @property
    def dim_(self) -> int:
        """Length of the vectors."""
        return 1


@dataclass(frozen=True)
class BaseProposal(ABC):
    """A way to correct, for :func:`~ma_sbi.fit_corrector` to try.

    Attributes:
        words: What it assumes, for people.
        reads_context: Whether it uses the context.
        fewest_rows: Rows without which it is not tried.
        needs_pairs: Whether it needs a simulation for each observation.
    """

    words: str
    reads_context: bool = field(default=True, kw_only=True)
    fewest_rows: int = field(default=16, kw_only=True)
    needs_pairs: bool = field(default=False, kw_only=True)

    def suits(self, data: Calibration) -> bool:
        """Tell whether it can be fitted to such data."""
        if len(data) < self.fewest_rows or (self.needs_pairs and not data.paired):
            return False
        return data.num_contexts > 1 or not self.reads_context

    @property
    @abstractmethod
    def is_forward(self) -> bool:
        """Whether it says how x_obs comes from x_sim, so that evidence weighs it."""

    @abstractmethod
    def fit(self, encoder: Any, data: Calibration, seed: int | None) -> BaseCorrector:
        """Fit it to calibration rows.

        Args:
            encoder: Context to vectors.
            data: The rows, with all that is known besides.
            seed: Makes the fit repeatable.
        """

    def tell(self, fitted: Any) -> Sequence[str]:
        """Say what a fit has found, in a few words; nothing, if it says no more."""
        return ()


class Nothing(BaseProposal):
    """That nothing departs."""

    is_forward = True

    def fit(self, encoder: Any, data: Calibration, seed: int | None) -> NothingDeparts:
        """Learn nothing."""
        return NothingDeparts()


@dataclass(frozen=True)
class Proposal(BaseProposal):
    """A family of departures with a fit.

    Attributes:
        departure: The family.
        fitting: Makes the fit, given the variance of x_obs - x_sim that is noise, shape
            ``(dim_x,)``.
    """

    departure: Departure
    fitting: Callable[[Tensor], Fitting]

    @property
    def is_forward(self) -> bool:
        """Whether it says how x_obs comes from x_sim, so that evidence weighs it.

        A departure that depends on x is fitted backwards, as x_sim given x_obs: how
        probable the simulation is has been counted already.
        """
        return self.departure.is_shift

    def fit(self, encoder: Any, data: Calibration, seed: int | None) -> BaseCorrector:
        """Fit the departure to pairs."""
        x_sim, noise = self._pairs(data, seed)
        entries = data.entries
        if not self.reads_context:
            entries = pd.Series(np.zeros(len(data)))  # a missing context is like all others
        with local_filters():
            # That all contexts are the same is said once, and not by every fit.
            warnings.simplefilter("ignore")
            return self.corrector(encoder, noise).fit(entries, data.x_obs, x_sim, seed=seed)

    def corrector(self, encoder: Encoder, noise: Tensor) -> ComposedCorrector:
        """Make the corrector, not fitted yet."""
        encoder = encoder if self.reads_context else NoContext()
        return ComposedCorrector(encoder, self.departure, self.fitting(noise), Mixture())

    def _pairs(self, data: Calibration, seed: int | None) -> tuple[Tensor, Tensor]:
        """Return what x_obs departs from, and the variance of the noise between them."""
        if self.is_forward:
            return data.mean_x_sim, data.noise.variance
        return data.noise.undo_attenuation(data.mean_x_sim, data.x_sim.shape[1])


class RegimeShift(Proposal):
    """A shift for each regime that is discovered."""

    def tell(self, fitted: Any) -> Sequence[str]:
        """Say how many regimes there are."""
        return [f"{fitted.fitted_.member.shape[1]} regimes found"]


class LikeliestShift(Proposal):
    """The shift after which observations are most probable under a density.

    It takes the place of pairs where there are none.
    """

    def suits(self, data: Calibration) -> bool:
        """Tell whether there is a density, and no pairs."""
        return data.likelihood is not None and not data.paired and super().suits(data)

    def _pairs(self, data: Calibration, seed: int | None) -> tuple[Tensor, Tensor]:
        assert data.likelihood is not None  # noqa: S101 (else it does not suit)
        codes = torch.as_tensor(data.codes, device=data.x_obs.device)
        codes = codes if self.reads_context else torch.zeros_like(codes)
        departures = likeliest_departures(data.likelihood, data.x_obs, codes, seed)
        # What is left after a shift is noise.
        return data.x_obs - departures, torch.full_like(data.noise.variance, torch.inf)


class LearnedForwards(BaseProposal):
    """A map from x_sim to x_obs, inverted on simulations from the prior.

    Its candidates are already as probable as the simulations make them.
    """

    is_forward = False

    def suits(self, data: Calibration) -> bool:
        """Tell whether there are simulations to invert it on."""
        return data.pool is not None and super().suits(data)

    def fit(self, encoder: Any, data: Calibration, seed: int | None) -> ForwardCorrector:
        """Learn the map and its way back."""
        assert data.pool is not None  # noqa: S101 (else it does not suit)
        corrector = ForwardCorrector(data.pool, NUM_DRAWS)
        with local_filters():
            warnings.simplefilter("ignore")
            return corrector.fit(data.entries, data.x_obs, data.mean_x_sim, seed=seed)

    def tell(self, fitted: Any) -> Sequence[str]:
        """Say which maps were found."""
        own = Counter(name for code, name in fitted.maps_.items() if code is not None)
        total = len(fitted.known_)
        said = [f"{name} ({count} of {total} contexts)" for name, count in own.items()]
        return ["; ".join([*said, f"{fitted.maps_[None]} (all rows together)"])]


def _pools(width: float) -> Callable[[Tensor], Fitting]:
    return lambda noise: ResidualPools(NUM_DRAWS, width, noise=noise)


def _regression(noise: Tensor) -> Fitting:
    pools = ResidualPools(NUM_DRAWS, width=0.0, noise=noise, others=1.0)
    return RidgeWithResiduals(Ridge(MOST_LANDMARKS, rounding=1e-8), pools)


PROPOSALS: dict[str, BaseProposal] = {
    "shift": Proposal(
        "a shift, the same departures under every context",
        Shift(),
        _pools(math.inf),
        reads_context=False,
    ),
    "likeliest shift": LikeliestShift(
        "the shift after which observations are most probable, under every context",
        Shift(),
        _pools(math.inf),
        reads_context=False,
    ),
    "likeliest shift by context": LikeliestShift(
        "the shift after which observations of the context are most probable",
        Shift(),
        _regression,
    ),
    "shift by context": Proposal(
        "a shift, the departures seen under the context", Shift(), _pools(0.0)
    ),
    "shift by regime": RegimeShift(
        "a shift, the departures of the regime that the context reads like",
        Shift(),
        lambda noise: Regimes(NUM_DRAWS, noise=noise),
        needs_pairs=True,
    ),
    "shift by regression": Proposal(
        "a shift that is regressed on the context", Shift(), _regression
    ),
    "affine": Proposal(
        "a departure that is linear in x, the same under every context",
        Affine(),
        _regression,
        reads_context=False,
        fewest_rows=20,
        needs_pairs=True,
    ),
    "affine by regression": Proposal(
        "a departure that is linear in x, regressed on the context",
        Affine(),
        _regression,
        fewest_rows=20,
        needs_pairs=True,
    ),
    "learned forwards": LearnedForwards(
        "a map from x_sim to x_obs for each context, inverted on simulations",
        fewest_rows=20,
        needs_pairs=True,
        # What every context shares is a map, too.
        reads_context=False,
    ),
}
"""Every proposal by name, the simplest first. A new one joins by being put here."""
