r"""What a fitted corrector loses by estimation, and how many triples it needs.

The theorems are about the best corrector that reads z. A fitted one estimates the mean of
each regime from noisy triples, which costs the same whether or not the context is
informative:

.. math:: \text{gain}(n) = \operatorname{Var}(E[\delta \mid z]) - K s^2 / n

with K regimes (or coefficients of a linear fit), n triples and s^2 the variance of delta
within regimes, summed over the columns of x. All quantities are expectations in the space
of x; the baseline is no correction, for a departure with mean zero.
"""

from __future__ import annotations

import math

from ma_sbi.validation import as_count, check_positive

__all__ = [
    "break_even_information",
    "estimation_error",
    "expected_gain",
    "triples_needed",
]


def estimation_error(num_regimes: int, num_triples: int, residual_variance: float) -> float:
    r"""Return the expected squared error of the estimated means, :math:`K s^2 / n`.

    Each mean is an average over about :math:`n p_k` triples and is used a share
    :math:`p_k` of the time, so that rare regimes cost as much as frequent ones. Exact
    for a balanced design and for least squares on K fixed columns; for random counts
    it is the leading term, and low by a factor of about :math:`1 + K / n`.

    Args:
        num_regimes: K, the means (or coefficients per column) that are estimated.
        num_triples: n, the triples they are estimated from.
        residual_variance: s^2, the variance of delta within regimes, summed over dim_x.

    Example:
        >>> estimation_error(4, 500, residual_variance=2.0)
        0.016
    """
    num_regimes, num_triples = _counts(num_regimes, num_triples)
    return num_regimes * _variance(residual_variance, "residual_variance") / num_triples


def expected_gain(
    explained_variance: float,
    num_regimes: int,
    num_triples: int,
    residual_variance: float,
) -> float:
    r"""Return the expected gain of a fitted point corrector; negative if it does harm.

    .. math:: E\|\delta\|^2 - E\|\delta - \hat\delta(z)\|^2
        = \operatorname{Var}(E[\delta \mid z]) - K s^2 / n

    Args:
        explained_variance: Var(E[delta | z]), summed over dim_x; a bound on it from
            ``2 * proxy * information`` gives a bound on the gain.
        num_regimes: K, the means that are estimated.
        num_triples: n, the triples they are estimated from.
        residual_variance: s^2, the variance of delta within regimes, summed over dim_x.

    Example:
        >>> round(expected_gain(0.01, 4, 500, residual_variance=2.0), 6)
        -0.006
    """
    explained = _variance(explained_variance, "explained_variance")
    return explained - estimation_error(num_regimes, num_triples, residual_variance)


def break_even_information(
    num_regimes: int,
    num_triples: int,
    residual_variance: float,
    proxy_variance: float,
) -> float:
    r"""Return the information below which a fitted point corrector does harm.

    .. math:: I_0 = \frac{K s^2}{2 \tau^2 n}

    is where the bound :math:`2 \tau^2 I` of the sub-Gaussian theorem equals the
    estimation error. It is necessary, not sufficient: a context with more information
    than this may still explain less than the bound allows.

    Args:
        num_regimes: K, the means that are estimated.
        num_triples: n, the triples they are estimated from.
        residual_variance: s^2, the variance of delta within regimes, summed over dim_x.
        proxy_variance: tau^2, the sub-Gaussian proxy of delta in any one direction (not
            summed); for Gaussian delta its largest variance.

    Returns:
        Information in nats.

    Example:
        >>> break_even_information(4, 500, residual_variance=2.0, proxy_variance=1.0)
        0.008
    """
    check_positive(proxy_variance, "proxy_variance")
    return estimation_error(num_regimes, num_triples, residual_variance) / (
        2 * proxy_variance
    )


def triples_needed(
    num_regimes: int,
    residual_variance: float,
    explained_variance: float,
    share: float = 0.9,
) -> int:
    r"""Return the triples at which the expected gain is this share of the best gain.

    .. math:: n = \left\lceil \frac{K s^2}{(1 - \text{share})
        \operatorname{Var}(E[\delta \mid z])} \right\rceil

    and never fewer than one for each regime. ``share=0`` gives the break-even.

    Args:
        num_regimes: K, the means that are estimated.
        residual_variance: s^2, the variance of delta within regimes, summed over dim_x.
        explained_variance: Var(E[delta | z]), summed over dim_x.
        share: Share of the best gain, from 0 to below 1.

    Raises:
        ValueError: If the context explains nothing, so that no number is enough.

    Example:
        >>> triples_needed(4, residual_variance=2.0, explained_variance=1.0)
        80
    """
    num_regimes = as_count(num_regimes, "num_regimes")
    if not explained_variance > 0:
        raise ValueError(
            "no number of triples is enough for a context that explains nothing: "
            f"explained_variance must be positive, got {explained_variance!r}"
        )
    explained = _variance(explained_variance, "explained_variance")
    if not 0 <= share < 1:
        raise ValueError(f"share must be at least 0 and below 1, got {share!r}")
    residual = _variance(residual_variance, "residual_variance")
    needed = num_regimes * residual / ((1 - share) * explained)
    # 1 - 0.9 is not exactly 0.1: rounding must not ask for one triple more.
    return max(num_regimes, math.ceil(needed * (1 - 1e-12)))


def _counts(num_regimes: int, num_triples: int) -> tuple[int, int]:
    return as_count(num_regimes, "num_regimes"), as_count(num_triples, "num_triples")


def _variance(value: float, name: str) -> float:
    """Check that a value is a variance, zero included."""
    value = float(value)
    if not 0 <= value < math.inf:
        raise ValueError(f"{name} must be a finite number, 0 or more, got {value!r}")
    return value
