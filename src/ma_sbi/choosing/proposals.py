"""What a corrector may be chosen from: a registry of families of departures and fits."""

from __future__ import annotations

import math
from abc import ABC, abstractmethod
from collections.abc import Callable
from dataclasses import dataclass, field
from typing import Any, ClassVar

import numpy as np
from sklearn.base import BaseEstimator
from torch import Tensor
from typing_extensions import Self

from ma_sbi.correctors.bootstrap import ResidualPools
from ma_sbi.correctors.composed import BaseCorrector, ComposedCorrector
from ma_sbi.correctors.departures import Affine, Departure, Shift
from ma_sbi.correctors.fitting import Fitting
from ma_sbi.correctors.forward import ForwardCorrector
from ma_sbi.correctors.inference import Mixture
from ma_sbi.correctors.located import RidgeWithResiduals
from ma_sbi.correctors.ridge import Ridge
from ma_sbi.protocols import Context, Corrections, Encoder
from ma_sbi.validation import as_matrix

__all__ = [
    "NOTHING",
    "PROPOSALS",
    "BaseProposal",
    "LearnedForwards",
    "NoContext",
    "NothingDeparts",
    "Proposal",
]

# Candidates of one proposal for one observation.
NUM_DRAWS = 128
# Contexts that a regression is centred on: it is fitted many times.
MOST_LANDMARKS = 200
NOTHING = "nothing departs"


class NothingDeparts(BaseCorrector):
    """Leaves every observation as it is."""

    def corrections(self, x: Any, context: Context) -> Corrections:
        """Return x itself, with weight one."""
        return Corrections.certain(as_matrix(x, "x"))

    def __repr__(self) -> str:
        return "NothingDeparts()"


class NoContext(BaseEstimator):
    """Encodes every context alike."""

    def fit(self, context: Context, y: Any = None) -> Self:
        """Learn nothing."""
        return self

    def transform(self, context: Context) -> np.ndarray:
        """Return a column of zeros."""
        return np.zeros((len(context), 1))


@dataclass(frozen=True)
class BaseProposal(ABC):
    """A way to correct, for :func:`~ma_sbi.fit_corrector` to try.

    Attributes:
        words: What it assumes, for people.
        reads_context: Whether it uses the context.
        fewest_rows: Rows without which it is not tried.
        needs_pairs: Whether it needs a simulation for each observation.
        needs_pool: Whether it needs simulations from the prior.
    """

    words: str
    reads_context: bool = field(default=True, kw_only=True)
    fewest_rows: int = field(default=16, kw_only=True)
    needs_pairs: bool = field(default=False, kw_only=True)
    needs_pool: ClassVar[bool] = False

    def suits(
        self, num_rows: int, num_contexts: int, *, paired: bool, pool: Tensor | None = None
    ) -> bool:
        """Tell whether it can be fitted to such data."""
        if num_rows < self.fewest_rows or (self.needs_pairs and not paired):
            return False
        if self.needs_pool:
            return pool is not None
        return num_contexts > 1 or not self.reads_context

    @property
    @abstractmethod
    def is_forward(self) -> bool:
        """Whether it says how x_obs comes from x_sim, so that evidence weighs it."""

    @abstractmethod
    def corrector(
        self, encoder: Encoder, noise: Tensor, pool: Tensor | None = None
    ) -> ComposedCorrector | ForwardCorrector:
        """Make the corrector, not fitted yet.

        Args:
            encoder: Context to vectors.
            noise: Variance of x_obs - x_sim that is noise, shape ``(dim_x,)``.
            pool: Simulations from the prior, if there are any.
        """


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

    def corrector(
        self, encoder: Encoder, noise: Tensor, pool: Tensor | None = None
    ) -> ComposedCorrector:
        """Make the corrector, not fitted yet."""
        encoder = encoder if self.reads_context else NoContext()
        return ComposedCorrector(encoder, self.departure, self.fitting(noise), Mixture())


@dataclass(frozen=True)
class LearnedForwards(BaseProposal):
    """A map from x_sim to x_obs, inverted on simulations from the prior.

    Its candidates are already as probable as the simulations make them.
    """

    needs_pool: ClassVar[bool] = True

    @property
    def is_forward(self) -> bool:
        """Return false: evidence must not weigh it again."""
        return False

    def corrector(
        self, encoder: Encoder, noise: Tensor, pool: Tensor | None = None
    ) -> ForwardCorrector:
        """Make the corrector, not fitted yet."""
        return ForwardCorrector(pool, NUM_DRAWS)


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
    "shift by context": Proposal(
        "a shift, the departures seen under the context", Shift(), _pools(0.0)
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
    ),
}
"""Every proposal by name, the simplest first. A new one joins by being put here."""
