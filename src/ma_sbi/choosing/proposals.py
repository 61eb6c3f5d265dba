"""What a corrector may be chosen from: a registry of families of departures and fits."""

from __future__ import annotations

import math
import warnings
from collections.abc import Callable
from dataclasses import dataclass
from typing import Any

import numpy as np
import pandas as pd
from sklearn.base import BaseEstimator
from torch import Tensor
from typing_extensions import Self

from ma_sbi.choosing.calibration import Calibration
from ma_sbi.correctors.bootstrap import ResidualPools
from ma_sbi.correctors.composed import BaseCorrector, ComposedCorrector
from ma_sbi.correctors.departures import Affine, Departure, Shift
from ma_sbi.correctors.fitting import Fitting
from ma_sbi.correctors.inference import Mixture
from ma_sbi.correctors.located import RidgeWithResiduals
from ma_sbi.correctors.regimes import Regimes
from ma_sbi.correctors.ridge import Ridge
from ma_sbi.protocols import Context, Corrections, Encoder
from ma_sbi.validation import as_matrix

__all__ = [
    "NOTHING",
    "PROPOSALS",
    "NoContext",
    "NothingDeparts",
    "Proposal",
    "fit_proposal",
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
class Proposal:
    """A family of departures with a fit, for :func:`~ma_sbi.fit_corrector` to try.

    Attributes:
        words: What it assumes, for people.
        departure: The family.
        fitting: Makes the fit, given the variance of x_obs - x_sim that is noise, shape
            ``(dim_x,)``.
        reads_context: Whether it uses the context.
        fewest_rows: Rows without which it is not tried.
        needs_pairs: Whether it needs a simulation for each observation.
        by_likelihood: Whether departures are those of highest likelihood under a density
            of the simulations, instead of pairs.
    """

    words: str
    departure: Departure
    fitting: Callable[[Tensor], Fitting]
    reads_context: bool = True
    fewest_rows: int = 16
    needs_pairs: bool = False
    by_likelihood: bool = False

    def suits(
        self, num_rows: int, num_contexts: int, *, paired: bool, density: bool = False
    ) -> bool:
        """Tell whether it can be fitted to such data."""
        if self.by_likelihood and (paired or not density):
            return False
        if num_rows < self.fewest_rows or (self.needs_pairs and not paired):
            return False
        return num_contexts > 1 or not self.reads_context

    @property
    def is_forward(self) -> bool:
        """Whether it says how x_obs comes from x_sim, so that evidence weighs it.

        A departure that depends on x is fitted backwards, as x_sim given x_obs: how
        probable the simulation is has been counted already.
        """
        return self.departure.is_shift

    def corrector(self, encoder: Encoder, noise: Tensor) -> ComposedCorrector:
        """Make the corrector, not fitted yet."""
        encoder = encoder if self.reads_context else NoContext()
        return ComposedCorrector(encoder, self.departure, self.fitting(noise), Mixture())


def _pools(width: float) -> Callable[[Tensor], Fitting]:
    return lambda noise: ResidualPools(NUM_DRAWS, width, noise=noise)


def _regression(noise: Tensor) -> Fitting:
    pools = ResidualPools(NUM_DRAWS, width=0.0, noise=noise, others=1.0)
    return RidgeWithResiduals(Ridge(MOST_LANDMARKS, rounding=1e-8), pools)


PROPOSALS: dict[str, Proposal] = {
    "shift": Proposal(
        "a shift, the same departures under every context",
        Shift(),
        _pools(math.inf),
        reads_context=False,
    ),
    "likeliest shift": Proposal(
        "the shift after which observations are most probable, under every context",
        Shift(),
        _pools(math.inf),
        reads_context=False,
        by_likelihood=True,
    ),
    "likeliest shift by context": Proposal(
        "the shift after which observations of the context are most probable",
        Shift(),
        _regression,
        by_likelihood=True,
    ),
    "shift by context": Proposal(
        "a shift, the departures seen under the context", Shift(), _pools(0.0)
    ),
    "shift by regime": Proposal(
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
}
"""Every proposal by name, the simplest first. A new one joins by being put here."""


def fit_proposal(
    proposal: Proposal | None, encoder: Any, data: Calibration, seed: int | None
) -> BaseCorrector:
    """Fit a proposal to calibration rows; None is that nothing departs."""
    if proposal is None:
        return NothingDeparts()
    x_sim, entries = data.mean_x_sim, data.entries
    if not proposal.reads_context:
        entries = pd.Series(np.zeros(len(data)))  # a missing context is like all others
    if not proposal.is_forward:
        x_sim = data.noise.undo_attenuation(x_sim, data.x_sim.shape[1])
    corrector = proposal.corrector(encoder, data.noise.variance)
    with warnings.catch_warnings():
        # That all contexts are the same is said once, and not by every fit.
        warnings.simplefilter("ignore")
        return corrector.fit(entries, data.x_obs, x_sim, seed=seed)
