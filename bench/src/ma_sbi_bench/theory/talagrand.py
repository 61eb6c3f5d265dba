r"""The proof of the bound by transport, and where it does not apply.

A law with :math:`-\nabla^2 \log p \succeq I / \tau^2` satisfies Talagrand's T2 inequality

.. math:: W_2^2(Q, P) \le 2 \tau^2\, KL(Q \,\|\, P),

and the squared distance of two means is at most :math:`W_2^2`. That gives the bound of
the sub-Gaussian theorem under more than it needs: a sub-Gaussian law need not satisfy T2
with any constant. Rademacher's does not (:func:`two_point_transport`).
"""

from __future__ import annotations

import math
from collections.abc import Callable
from typing import Any, NamedTuple

import numpy as np
from numpy.typing import NDArray

from ma_sbi.validation import check_positive

__all__ = [
    "Transport",
    "gaussian_transport",
    "quantile_distance",
    "tilted_transport",
    "two_point_transport",
]

Array = NDArray[np.float64]


class Transport(NamedTuple):
    """How far one law is from another, in the three senses of the proof.

    Attributes:
        mean_shift: Squared distance of the means.
        distance: Squared Wasserstein distance, at least ``mean_shift``.
        divergence: Kullback-Leibler divergence, in nats.
    """

    mean_shift: float
    distance: float
    divergence: float

    def ratio(self, proxy: float) -> float:
        r"""Return :math:`W_2^2 / (2 \tau^2 KL)`: at most 1 where T2 holds."""
        check_positive(proxy, "proxy")
        return self.distance / (2 * proxy * self.divergence)

    def mean_ratio(self, proxy: float) -> float:
        """Return the same for the means: at most 1 for every sub-Gaussian law."""
        check_positive(proxy, "proxy")
        return self.mean_shift / (2 * proxy * self.divergence)


def gaussian_transport(mean: float, scale: float, base_scale: float = 1.0) -> Transport:
    r"""Compare :math:`N(m, s^2)` with :math:`N(0, \tau^2)`; T2 is an equality for s = tau.

    Args:
        mean: m.
        scale: s.
        base_scale: :math:`\tau`.

    Example:
        >>> gaussian_transport(0.5, 1.0).ratio(1.0)
        1.0
    """
    check_positive(scale, "scale")
    check_positive(base_scale, "base_scale")
    share = (scale / base_scale) ** 2
    divergence = 0.5 * ((mean / base_scale) ** 2 + share - 1 - math.log(share))
    return Transport(mean**2, mean**2 + (scale - base_scale) ** 2, divergence)


def two_point_transport(lean: float) -> Transport:
    r"""Compare a coin on :math:`\pm 1` with mean ``lean`` to a fair one.

    .. math:: W_2^2 = 2 \lambda, \qquad KL \approx \lambda^2 / 2

    so that :math:`W_2^2 / KL` has no bound: T2 fails, while the means still obey it.

    Args:
        lean: :math:`\lambda`, between 0 and 1, both excluded.

    Example:
        >>> round(two_point_transport(0.01).ratio(1.0))
        200
    """
    if not 0 < lean < 1:
        raise ValueError(f"lean must lie between 0 and 1, got {lean!r}")
    heads = [(1 + lean) / 2, (1 - lean) / 2]
    divergence = heads[0] * math.log1p(lean) + heads[1] * math.log1p(-lean)
    return Transport(lean**2, 2 * lean, divergence)


def tilted_transport(log_density: Callable[[Array], Array], tilt: float) -> Transport:
    r"""Compare a law on the line with itself times :math:`e^{u x}`, numerically.

    Args:
        log_density: Log density up to a constant, ``(n,) -> (n,)``; minus infinity
            outside the support. Nearly all of its mass, before and after, must lie
            within 12 of zero.
        tilt: u.
    """
    x = np.linspace(-12.0, 12.0, 480_001)
    log_base = np.asarray(log_density(x), dtype=np.float64)
    base, tilted = _normalise(log_base, x), _normalise(log_base + tilt * x, x)
    some = (tilted > 0) & (base > 0)
    odds = np.zeros_like(x)
    odds[some] = np.log(tilted[some] / base[some])
    step = x[1] - x[0]
    means = step * (base @ x), step * (tilted @ x)
    distance = quantile_distance(x, np.cumsum(base), np.cumsum(tilted))
    return Transport(
        float(means[1] - means[0]) ** 2, distance, float(step * (tilted @ odds))
    )


def quantile_distance(x: Any, first: Any, second: Any) -> float:
    r"""Return :math:`W_2^2 = \int_0^1 (F^{-1}(t) - G^{-1}(t))^2 dt` of two laws on a line.

    Args:
        x: Increasing points, shape ``(n,)``.
        first: Distribution function there, shape ``(n,)``.
        second: Distribution function of the other law there.
    """
    # Midpoints: the quantiles at 0 and 1 are the ends of the grid, not of the laws.
    level = (np.arange(200_000) + 0.5) / 200_000
    quantiles = [np.interp(level, _strictly(part), x) for part in (first, second)]
    return float(np.square(quantiles[0] - quantiles[1]).mean())


def _normalise(log_density: Array, x: Array) -> Array:
    density = np.exp(log_density - log_density.max())
    return density / (density.sum() * (x[1] - x[0]))


def _strictly(cumulative: Any) -> Array:
    """Let a distribution function rise everywhere, so that it can be inverted."""
    values = np.asarray(cumulative, dtype=np.float64)
    values = values / values[-1]
    return np.maximum.accumulate(values) + 1e-15 * np.arange(len(values))
