r"""Theorem 1: what the best corrector that reads z alone can gain, all Gaussian.

.. math:: \theta \sim N(0, \sigma_p^2 I_d),\quad y = \theta + \varepsilon,\quad
    y_{obs} = y + \delta,\quad \varepsilon \sim N(0, \sigma_s^2 I_d),\quad
    \delta \sim N(0, \sigma_\delta^2 I_d)

with z jointly Gaussian with delta. Errors are excess squared errors of the posterior mean
over that of the well-specified posterior, summed over the d parameters.
"""

from __future__ import annotations

import math
from dataclasses import dataclass
from typing import Any, NamedTuple

import numpy as np
from numpy.typing import NDArray

from ma_sbi.validation import as_count, check_positive

__all__ = ["GaussianWorld", "MonteCarloMean", "canonical_information", "canonical_mmse"]

Array = NDArray[np.float64]


class MonteCarloMean(NamedTuple):
    """A mean over draws.

    Attributes:
        value: The mean.
        error: Its standard error.
    """

    value: float
    error: float


def canonical_information(correlations: Any) -> float:
    r"""Return :math:`I(\delta; z) = -\frac12 \sum_k \log(1 - \rho_k^2)`, in nats.

    Args:
        correlations: Canonical correlations of delta and z, shape ``(d,)``; a 1 among
            them gives infinite information.

    Example:
        >>> round(canonical_information([0.5] * 5), 4)
        0.7192
    """
    rho = _correlations(correlations)
    with np.errstate(divide="ignore"):
        return float(-0.5 * np.log1p(-np.square(rho)).sum()) + 0.0


def canonical_mmse(correlations: Any, variance: float = 1.0) -> float:
    r"""Return :math:`E\|\delta - E[\delta \mid z]\|^2 = \sigma^2 \sum_k (1 - \rho_k^2)`.

    Args:
        correlations: Canonical correlations of delta and z, shape ``(d,)``.
        variance: Variance of delta in each direction, the same in all.
    """
    check_positive(variance, "variance")
    return float(variance * (1 - np.square(_correlations(correlations))).sum())


@dataclass(frozen=True)
class GaussianWorld:
    r"""The setting of Theorem 1; the defaults are the paper's verifier parameters.

    Attributes:
        prior_scale: :math:`\sigma_p`.
        noise_scale: :math:`\sigma_s`.
        departure_scale: :math:`\sigma_\delta`.
        dim: d, of theta, y and delta.

    Example:
        >>> world = GaussianWorld()
        >>> round(world.constant, 3), round(world.exact_bound(0.72), 4)
        (0.173, 0.1082)
    """

    prior_scale: float = 0.5
    noise_scale: float = 0.3
    departure_scale: float = 0.4
    dim: int = 5

    def __post_init__(self) -> None:
        for name in ("prior_scale", "noise_scale", "departure_scale"):
            check_positive(getattr(self, name), name)
        as_count(self.dim, "dim")

    @property
    def alpha(self) -> float:
        r"""Slope of the posterior mean, :math:`\sigma_p^2 / (\sigma_p^2 + \sigma_s^2)`."""
        return self.prior_scale**2 / (self.prior_scale**2 + self.noise_scale**2)

    @property
    def constant(self) -> float:
        r"""C of the linear bound, :math:`2 \alpha^2 \sigma_\delta^2`."""
        return 2 * self.alpha**2 * self.departure_scale**2

    @property
    def full_reduction(self) -> float:
        r"""All that there is to gain, :math:`\alpha^2 d \sigma_\delta^2`.

        Corollary "oracle recovery" says that it is reached as the information grows. The
        bound reaches it; the reduction does so only if *every* correlation tends to 1.
        """
        return self.dim * self.constant / 2

    def exact_bound(self, information: float) -> float:
        r"""Return :math:`\alpha^2 d \sigma_\delta^2 (1 - e^{-2 I / d})`.

        Reached where all canonical correlations are equal.
        """
        return -self.full_reduction * math.expm1(-2 * _information(information) / self.dim)

    def linear_bound(self, information: float) -> float:
        r"""Return :math:`C\, I`, which is tight for small :math:`I / d` only."""
        return self.constant * _information(information)

    def reduction(self, correlations: Any) -> float:
        r"""Return what :math:`\hat\delta = E[\delta \mid z]` gains, in closed form.

        .. math:: \alpha^2 \sigma_\delta^2 \textstyle\sum_k \rho_k^2

        Args:
            correlations: Canonical correlations, shape ``(d,)``.
        """
        left = canonical_mmse(self._match(correlations), self.departure_scale**2)
        return self.full_reduction - self.alpha**2 * left

    def bayes_reduction(self, correlations: Any) -> float:
        r"""Return what the exact posterior given (y_obs, z) gains: more than the bound.

        It knows that a part of delta is left after z, with variance
        :math:`m_k = \sigma_\delta^2 (1 - \rho_k^2)`, and trusts y_obs less:

        .. math:: \sum_k \alpha^2 \sigma_\delta^2 - \left[\frac{\sigma_p^2 (\sigma_s^2 +
            m_k)}{\sigma_p^2 + \sigma_s^2 + m_k} - \alpha \sigma_s^2\right]

        Theorem 1 bounds correctors :math:`\alpha (y_{obs} - \hat\delta(z))`, which read z
        alone and leave the posterior as it is. This one is no such corrector.

        Args:
            correlations: Canonical correlations, shape ``(d,)``.
        """
        rho = self._match(correlations)
        prior, noise = self.prior_scale**2, self.noise_scale**2
        left = noise + self.departure_scale**2 * (1 - np.square(rho))
        excess = prior * left / (prior + left) - self.alpha * noise
        return float(self.full_reduction - excess.sum())

    def simulate(
        self, correlations: Any, num_draws: int, *, seed: int = 0
    ) -> tuple[Array, Array]:
        """Draw departures and contexts together, each of shape ``(num_draws, d)``.

        Args:
            correlations: Canonical correlations, shape ``(d,)``.
            num_draws: Joint draws.
            seed: Fixes them.
        """
        rho = self._match(correlations)
        rng = np.random.default_rng(seed)
        shape = (as_count(num_draws, "num_draws"), self.dim)
        z, noise = rng.standard_normal(shape), rng.standard_normal(shape)
        return self.departure_scale * (rho * z + np.sqrt(1 - rho**2) * noise), z

    def gains(self, delta: Array, predicted: Array) -> Array:
        r"""Return what a prediction of the departure gains in each draw, shape ``(n,)``.

        .. math:: \alpha^2 \left(\|\delta\|^2 - \|\delta - \hat\delta\|^2\right)

        Args:
            delta: Departures, shape ``(n, d)``.
            predicted: What the corrector takes them to be, shape ``(n, d)``.
        """
        gain = np.square(delta) - np.square(delta - predicted)
        return self.alpha**2 * gain.sum(axis=1)

    def observe(self, delta: Array, *, seed: int = 0) -> tuple[Array, Array]:
        """Draw parameters, and observe them with departures; both of shape ``(n, d)``.

        Args:
            delta: Departures, shape ``(n, d)``.
            seed: Fixes the parameters and the noise.
        """
        rng = np.random.default_rng(seed)
        theta = self.prior_scale * rng.standard_normal(delta.shape)
        noise = self.noise_scale * rng.standard_normal(delta.shape)
        return theta, theta + noise + delta

    def reductions(self, theta: Array, y_obs: Array, predicted: Array) -> Array:
        r"""Return by how much a prediction lowers the error of each draw, shape ``(n,)``.

        .. math:: \|\alpha y_{obs} - \theta\|^2
            - \|\alpha (y_{obs} - \hat\delta) - \theta\|^2

        Its mean is that of :meth:`gains`, without the algebra that leads there.

        Args:
            theta: Parameters, shape ``(n, d)``.
            y_obs: Observations, shape ``(n, d)``.
            predicted: What the corrector takes the departures to be, shape ``(n, d)``.
        """
        before = np.square(self.alpha * y_obs - theta)
        after = np.square(self.alpha * (y_obs - predicted) - theta)
        return (before - after).sum(axis=1)

    def simulate_reduction(
        self, correlations: Any, num_draws: int = 200_000, *, seed: int = 0
    ) -> MonteCarloMean:
        r"""Estimate what :math:`\hat\delta = E[\delta \mid z]` gains from joint draws.

        Args:
            correlations: Canonical correlations, shape ``(d,)``.
            num_draws: Joint draws.
            seed: Fixes them.
        """
        delta, z = self.simulate(correlations, num_draws, seed=seed)
        gains = self.gains(delta, self.departure_scale * self._match(correlations) * z)
        return MonteCarloMean(
            float(gains.mean()), float(gains.std() / math.sqrt(num_draws))
        )

    def _match(self, correlations: Any) -> Array:
        rho = _correlations(correlations)
        if len(rho) != self.dim:
            raise ValueError(f"there must be {self.dim} correlations, got {len(rho)}")
        return rho


def _correlations(values: Any) -> Array:
    rho = np.atleast_1d(np.asarray(values, dtype=np.float64))
    if rho.ndim != 1 or not len(rho) or not (np.abs(rho) <= 1).all():
        raise ValueError(
            f"correlations must be a vector of numbers from -1 to 1, got {values!r}"
        )
    return rho


def _information(value: float) -> float:
    if not value >= 0:
        raise ValueError(f"information must be 0 or more nats, got {value!r}")
    return float(value)
