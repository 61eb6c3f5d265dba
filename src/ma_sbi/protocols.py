"""The seams of the method: what an encoder, a corrector and a posterior must offer.

Shapes follow sbi and zuko: ``(num_samples, batch, dim)``. The paper's ``y`` is ``x``.
"""

from __future__ import annotations

from typing import Any, NamedTuple, Protocol

from torch import Tensor

__all__ = [
    "AmortizedPosterior",
    "Context",
    "Corrections",
    "Corrector",
    "DensePosterior",
    "Encoder",
    "has_density",
]

Context = Any
"""What is known beside the observations: one entry per observation.

A list, array, ``pandas.Series`` or ``DataFrame`` (mixed columns), or one bare string or
number that holds for every observation. ``None``, ``NaN`` and ``""`` are missing.
"""


class Corrections(NamedTuple):
    """What an observation may have been, had the simulator been right.

    Attributes:
        x: Candidate corrected observations, shape ``(K, batch, dim_x)``.
        log_weight: Log probability of each candidate, shape ``(K, batch)``; sums to one
            over ``K``.
        log_abs_det: Log absolute Jacobian determinant of each correction as a map of x,
            shape ``(K, batch)``; zero for a shift. It turns the simulations' density at
            the corrected x into the evidence for the candidate.
    """

    x: Tensor
    log_weight: Tensor
    log_abs_det: Tensor


class Encoder(Protocol):
    """A scikit-learn transformer from context to vectors."""

    def fit(self, context: Context, y: Any = None) -> Encoder:
        """Learn what the encoding needs (labels, scales); return self."""
        ...

    def transform(self, context: Context) -> Any:
        """Encode, one row per entry, shape ``(n, dim)``."""
        ...


class Corrector(Protocol):
    """How reality departs from the simulator, given the context."""

    def correct(self, x: Tensor, context: Context) -> Tensor:
        """Return the correction, averaged over candidates, shape ``(batch, dim_x)``."""
        ...

    def corrections(self, x: Tensor, context: Context) -> Corrections:
        """Return every candidate correction with its weight."""
        ...


class AmortizedPosterior(Protocol):
    """Anything that draws from q(theta | x) for a batch of observations."""

    def sample(self, num_samples: int, x: Tensor, *, seed: int | None = None) -> Tensor:
        """Draw for x of shape ``(batch, dim_x)``.

        Returns:
            Draws of shape ``(num_samples, batch, dim_theta)``.
        """
        ...


class DensePosterior(AmortizedPosterior, Protocol):
    """An amortized posterior whose density can be evaluated."""

    def log_prob(self, theta: Tensor, x: Tensor) -> Tensor:
        """Evaluate theta ``(num_samples, batch, dim_theta)`` at x ``(batch, dim_x)``.

        Returns:
            Log densities of shape ``(num_samples, batch)``.
        """
        ...


def has_density(posterior: Any) -> bool:
    """Tell whether the density of a posterior, or of a fitted method, can be evaluated.

    A ``log_prob`` alone does not say so: that of a corrected posterior needs the posterior
    within to have one. Where ``has_density`` is declared, it decides.
    """
    declared = getattr(posterior, "has_density", None)
    if declared is not None:
        return bool(declared)
    if not callable(getattr(posterior, "log_prob", None)):
        return False
    within = getattr(posterior, "posterior", None)
    return within is None or has_density(within)
