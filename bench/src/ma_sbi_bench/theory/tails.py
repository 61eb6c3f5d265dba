r"""Bounded, truncated and heavy-tailed departures: where the linear bound ends.

A bounded departure is sub-Gaussian with proxy at most its squared radius (Hoeffding), so
the bounded-noise theorem is a case of the sub-Gaussian one. The corollary by truncation
is true for the same reason, not for the residual it adds. Beyond sub-Gaussian tails no
constant exists: a rare context that announces a large departure explains more than any
multiple of its information.
"""

from __future__ import annotations

import math
from typing import Any

from scipy import integrate
from scipy.stats import chi2

from ma_sbi.theory.sub_gaussian import Coupling, lipschitz_bound
from ma_sbi.validation import as_count, check_positive

__all__ = ["announced_tail", "bounded_bound", "truncation_bound", "truncation_residual"]


def bounded_bound(information: float, radius: float, lipschitz: float = 1.0) -> float:
    r"""Return :math:`2 L^2 M^2 I` for a departure with :math:`\|\delta\| \le M`, mean 0.

    Args:
        information: I(delta; z), in nats.
        radius: M. For d independent coordinates of size m it is :math:`m \sqrt d`, and
            the bound d times as large as that of the sub-Gaussian theorem.
        lipschitz: L; 1 for the departure itself.
    """
    check_positive(radius, "radius")
    return lipschitz_bound(information, radius**2, lipschitz)


def truncation_bound(
    information: float, proxy: float, dim: int, cutoff: float = 3.0
) -> float:
    r"""Return :math:`2 c^2 \tau^2 d\, I`, the truncation corollary without its residual.

    The sub-Gaussian theorem gives :math:`2 \tau^2 I`, without a residual: :math:`c^2 d`
    times less.

    Args:
        information: I(delta; z), in nats.
        proxy: :math:`\tau^2`.
        dim: d.
        cutoff: c, at least 1.
    """
    _check_cutoff(cutoff)
    return bounded_bound(information, cutoff * math.sqrt(proxy * as_count(dim, "dim")))


def truncation_residual(cutoff: float, dim: int) -> float:
    r"""Return what truncating a Gaussian departure leaves out, in units of its variance.

    .. math:: \frac{E[\|\delta\|^2; \|\delta\| > c \tau \sqrt d]}{d \tau^2}
        = P(\chi^2_{d+2} > c^2 d)

    The paper puts it at :math:`e^{-c^2/2}`, about 0.01 for c = 3. In one dimension it is
    0.029; in more it falls as :math:`e^{-d (c^2 - 1 - 2 \log c)/2}`, and at c = 1 it
    stays above one half in every dimension.

    Args:
        cutoff: c, at least 1.
        dim: d.

    Example:
        >>> round(truncation_residual(3.0, 1), 4)
        0.0293
    """
    _check_cutoff(cutoff)
    dim = as_count(dim, "dim")
    return float(chi2.sf(cutoff**2 * dim, dim + 2))


def announced_tail(law: Any, threshold: float) -> Coupling:
    r"""Couple a symmetric departure to a context that announces the tail and its side.

    The context says "above t", "below -t" or "between". The ratio is taken against the
    variance, :math:`2 \operatorname{Var}(\delta)\, I`: it grows without bound in t for
    Student's or Laplace's law, and stays below 1 for a Gaussian.

    Args:
        law: A frozen, symmetric distribution of ``scipy.stats`` with finite variance.
        threshold: t, positive.

    Example:
        >>> from scipy import stats
        >>> announced_tail(stats.t(3), 30.0).ratio > 1 > announced_tail(
        ...     stats.norm(), 3.0
        ... ).ratio
        True
    """
    check_positive(threshold, "threshold")
    variance, share = float(law.var()), float(law.sf(threshold))
    if not (math.isfinite(variance) and abs(law.cdf(0) - 0.5) < 1e-12 and 0 < share < 0.5):
        raise ValueError(
            "law must be symmetric about 0, with finite variance and mass beyond threshold"
        )
    beyond = threshold + integrate.quad(law.sf, threshold, math.inf)[0] / share
    between = 1 - 2 * share
    information = -2 * share * math.log(share) - between * math.log1p(-2 * share)
    explained = 2 * share * beyond**2
    return Coupling(information, explained, explained / (2 * variance * information))


def _check_cutoff(cutoff: float) -> None:
    if not 1 <= cutoff < math.inf:
        raise ValueError(f"cutoff must be at least 1, got {cutoff!r}")
