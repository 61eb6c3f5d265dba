r"""The sub-Gaussian theorem: :math:`\operatorname{Var}(E[\delta \mid z]) \le 2 \tau^2 I`.

:math:`\tau^2` is the sub-Gaussian proxy of delta, at least its variance and more where
the law is skewed or peaked. With the variance instead of it the inequality is false. With
the smallest proxy it is sharp for every law whose proxy is attained: see
:meth:`ModalDeparture.rare_context`.
"""

from __future__ import annotations

import math
from dataclasses import dataclass
from typing import Any, NamedTuple

import numpy as np
from numpy.typing import NDArray
from scipy.optimize import minimize_scalar
from scipy.special import rel_entr

from ma_sbi.validation import as_count, check_positive

__all__ = [
    "Coupling",
    "ModalDeparture",
    "lipschitz_bound",
    "sub_gaussian_bound",
    "sub_gaussian_proxy",
    "two_point_proxy",
]

Array = NDArray[np.float64]

# Starting points for the supremum, which need not be unimodal.
GRID = 2001
# Quadrature: standard deviations beyond the outer modes, and points per deviation.
REACH, FINENESS = 10.0, 40


class Coupling(NamedTuple):
    """The quantities that the theorem compares, for a departure and a context.

    Attributes:
        information: I(delta; z), in nats.
        explained: Var(E[delta | z]).
        ratio: ``explained / (2 * proxy * information)``, at most 1.
    """

    information: float
    explained: float
    ratio: float


def sub_gaussian_bound(information: float, proxy: float) -> float:
    r"""Return :math:`2 \tau^2 I`, at least :math:`\operatorname{Var}(E[\delta \mid z])`.

    The variance on the left is summed over dim_x; the proxy on the right is that of the
    worst single direction.

    Args:
        information: I(delta; z), in nats.
        proxy: :math:`\tau^2`, see :func:`sub_gaussian_proxy`.
    """
    if not information >= 0:
        raise ValueError(f"information must be 0 or more nats, got {information!r}")
    check_positive(proxy, "proxy")
    return 2 * proxy * float(information)


def lipschitz_bound(information: float, proxy: float, lipschitz: float) -> float:
    r"""Return :math:`2 L^2 \tau^2 I`, which bounds how far a posterior mean moves.

    .. math:: E\|\mu(x) - \mu(x - \hat\delta^\star(z))\|^2 \le 2 L^2 \tau^2 I

    It bounds how far the mean moves, not how much error that removes; the two are equal
    only for linear :math:`\mu`.

    Args:
        information: I(delta; z), in nats.
        proxy: :math:`\tau^2`, see :func:`sub_gaussian_proxy`.
        lipschitz: L, the largest slope of the posterior mean.
    """
    check_positive(lipschitz, "lipschitz")
    return lipschitz**2 * sub_gaussian_bound(information, proxy)


def two_point_proxy(probability: float, gap: float = 1.0) -> float:
    r"""Return the optimal proxy of a law on two points (Kearns and Saul 1998).

    .. math:: \tau^2 = \text{gap}^2 \frac{1 - 2p}{2 \log((1 - p) / p)}

    Args:
        probability: p, of one of the points.
        gap: Distance of the points.

    Example:
        >>> two_point_proxy(0.5, gap=2.0)
        1.0
    """
    if not 0 < probability < 1:
        raise ValueError(f"probability must lie between 0 and 1, got {probability!r}")
    check_positive(gap, "gap")
    odds = math.log1p(-probability) - math.log(probability)
    # (1 - 2p) / odds = tanh(odds / 2) / odds, which has a limit at even odds.
    share = math.tanh(odds / 2) / odds if abs(odds) > 1e-6 else 0.5
    return gap**2 * share / 2


def sub_gaussian_proxy(values: Any, probabilities: Any = None) -> float:
    r"""Return the optimal proxy of a discrete law, to about eight digits.

    .. math:: \tau^2 = \sup_{u \ne 0} \frac{2}{u^2} \log E\, e^{u (\delta - E \delta)}

    Args:
        values: Support, shape ``(K,)``. For independent coordinates the proxy of the
            vector is the largest of theirs.
        probabilities: Of each value; equal ones if None.

    Example:
        >>> round(sub_gaussian_proxy([0.0, 1.0], [0.9, 0.1]), 6) == round(
        ...     two_point_proxy(0.1), 6
        ... )
        True
    """
    return ModalDeparture(values, probabilities).proxy


@dataclass(frozen=True, eq=False)
class ModalDeparture:
    """A departure with modes: a discrete law, or a mixture of Gaussians of one width.

    Attributes:
        modes: Positions of the modes, shape ``(K,)``.
        probabilities: Of each; equal ones if None.
        width: Standard deviation within a mode; 0 for a discrete law.
        dim: Number of independent coordinates that all have this law.

    Example:
        >>> rademacher = ModalDeparture([-1.0, 1.0])
        >>> round(rademacher.couple(0.01).ratio, 3), round(rademacher.couple(0.99).ratio, 3)
        (1.0, 0.721)
    """

    modes: Any
    probabilities: Any = None
    width: float = 0.0
    dim: int = 1

    def __post_init__(self) -> None:
        modes = np.asarray(self.modes, dtype=np.float64)
        if modes.ndim != 1 or len(modes) < 1 or not np.isfinite(modes).all():
            raise ValueError(f"modes must be a vector of numbers, got {self.modes!r}")
        share = self.probabilities
        share = np.full(len(modes), 1 / len(modes)) if share is None else share
        share = np.asarray(share, dtype=np.float64)
        if share.shape != modes.shape or not (share > 0).all():
            raise ValueError(
                "probabilities must be positive, one for each mode, got "
                f"{self.probabilities!r}"
            )
        if not np.isclose(share.sum(), 1):
            raise ValueError(f"probabilities must sum to 1, got {share.sum()}")
        if not 0 <= self.width < math.inf:
            raise ValueError(f"width must be 0 or more, got {self.width!r}")
        as_count(self.dim, "dim")
        object.__setattr__(self, "width", float(self.width))
        # Frozen: this is the one place where checked values replace what was passed.
        object.__setattr__(self, "modes", modes - share @ modes)
        object.__setattr__(self, "probabilities", share)
        if self.variance == 0:
            raise ValueError("a departure must vary, got a single value")

    @property
    def variance(self) -> float:
        """Variance of one coordinate."""
        return float(self.probabilities @ self.modes**2) + self.width**2

    @property
    def proxy(self) -> float:
        """Optimal sub-Gaussian proxy: that of the modes, plus the squared width."""
        return self._modes_proxy()[0] + self.width**2

    def couple(self, rho: float) -> Coupling:
        r"""Compute the coupling with a noisy context, by quadrature.

        .. math:: z = \rho\, \delta + \sqrt{1 - \rho^2}\, \eta, \qquad \eta \sim N(0, 1)

        As :math:`\rho \to 0` the ratio tends to the variance over the proxy.

        Args:
            rho: Between 0 and 1, both excluded.
        """
        _check_rho(rho)
        scale = math.sqrt(1 - rho**2 + (rho * self.width) ** 2)
        centres = rho * self.modes
        reach = REACH * scale
        low, high = centres.min() - reach, centres.max() + reach
        z = np.linspace(low, high, math.ceil(FINENESS * (high - low) / scale))
        step = z[1] - z[0]
        log_joint = np.log(self.probabilities) - 0.5 * np.square(
            (z[:, None] - centres) / scale
        )
        log_density = np.logaddexp.reduce(log_joint, axis=1)
        density = np.exp(log_density) / (scale * math.sqrt(2 * math.pi))
        posterior = np.exp(log_joint - log_density[:, None])
        slope = rho * self.width**2 / scale**2
        mean = posterior @ (self.modes - slope * centres) + slope * z
        # The trapezoidal rule is exact up to rounding for smooth functions that vanish at
        # both ends.
        explained = step * (density @ mean**2)
        # Information about the mode, then about the position within it.
        of_mode = step * (density @ rel_entr(posterior, self.probabilities).sum(axis=1))
        within = math.log(scale) - 0.5 * math.log1p(-(rho**2))
        information = of_mode + within
        return self._coupling(float(information), float(explained))

    def rare_context(self, probability: float = 1e-3) -> Coupling:
        r"""Compute the coupling with a rare context, for which the ratio tends to 1.

        With this probability the context indicates the law tilted by :math:`e^{u\delta}`
        at the u that attains the proxy :math:`\tau^2`; otherwise it indicates the rest.
        There :math:`(E[\delta \mid z])^2 = \tau^4 u^2 = 2 \tau^2 KL`, so the constant
        cannot be improved. Where the proxy is attained only at u = 0 (it is the
        variance), a small u takes its place.

        Args:
            probability: Of the rare context; so small that the rest is a law.
        """
        if self.width:
            raise ValueError("the rare context is for a discrete law, width 0")
        if not 0 < probability < 1:
            raise ValueError(f"probability must lie between 0 and 1, got {probability!r}")
        _, u = self._modes_proxy()
        # Where the proxy is the variance, the tilt must be small, but not lost to rounding.
        u = u if u != 0 else 1e-2 / math.sqrt(self.variance)
        tilted = self.probabilities * np.exp(u * self.modes)
        tilted /= tilted.sum()
        rest = (self.probabilities - probability * tilted) / (1 - probability)
        if (rest < 0).any():
            raise ValueError(f"probability must be smaller, got {probability!r}")
        weights, laws = np.array([probability, 1 - probability]), np.stack([tilted, rest])
        explained = weights @ np.square(laws @ self.modes)
        divergence = rel_entr(laws, self.probabilities).sum(axis=1)
        return self._coupling(float(weights @ divergence), float(explained))

    def sample(self, num_draws: int, rho: float, *, seed: int = 0) -> tuple[Array, Array]:
        """Draw one coordinate of delta and its context, each of shape ``(num_draws,)``."""
        _check_rho(rho)
        num_draws = as_count(num_draws, "num_draws")
        rng = np.random.default_rng(seed)
        delta = rng.choice(self.modes, num_draws, p=self.probabilities)
        delta = delta + self.width * rng.standard_normal(num_draws)
        return delta, rho * delta + math.sqrt(1 - rho**2) * rng.standard_normal(num_draws)

    def _coupling(self, information: float, explained: float) -> Coupling:
        """Sum over coordinates; the proxy is that of one coordinate."""
        ratio = explained / sub_gaussian_bound(information, self.proxy)
        return Coupling(self.dim * information, self.dim * explained, ratio)

    def _modes_proxy(self) -> tuple[float, float]:
        """Return the optimal proxy of the modes, and the u that attains it."""
        spread = float(self.probabilities @ self.modes**2)
        if spread == 0:
            return 0.0, 0.0
        # Beyond, 2 |u| max|delta| / u^2 is less than the variance, the value at 0.
        farthest = 2 * np.abs(self.modes).max() / spread
        grid = np.linspace(-farthest, farthest, GRID)
        ratios = np.array([self._log_moment_ratio(u, spread) for u in grid])
        best = int(ratios.argmax())
        bracket = grid[max(best - 1, 0)], grid[min(best + 1, GRID - 1)]
        found = minimize_scalar(
            lambda u: -self._log_moment_ratio(u, spread),
            bounds=bracket,
            method="bounded",
            options={"xatol": 1e-10 * farthest},
        )
        if -found.fun <= spread * (1 + 1e-9):
            return spread, 0.0
        return float(-found.fun), float(found.x)

    def _log_moment_ratio(self, u: float, spread: float) -> float:
        """Evaluate 2 log E exp(u delta) / u^2, whose limit at 0 is the variance."""
        exponents = u * self.modes
        if np.abs(exponents).max() < 1e-3:
            # From cumulants: the direct form loses all digits.
            third, fourth = (float(self.probabilities @ self.modes**k) for k in (3, 4))
            return spread + u * third / 3 + u**2 * (fourth - 3 * spread**2) / 12
        peak = exponents.max()
        log_moment = peak + math.log(float(self.probabilities @ np.exp(exponents - peak)))
        return 2 * log_moment / u**2


def _check_rho(rho: float) -> None:
    if not 0 < rho < 1:
        raise ValueError(f"rho must lie between 0 and 1, got {rho!r}")
