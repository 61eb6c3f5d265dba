r"""Regimes and labels: information and gain of a context that is sometimes wrong.

A joint table of K regimes (rows) and contexts (columns) gives the information and what
the best corrector explains. Two tables have a closed form. In both the context is right
with probability ``reliability``, and else

- a symmetric channel names a regime at random: :math:`\lambda^2` of the departure's
  variance is explained;
- an erasure channel says nothing: :math:`\lambda` of it is explained, and the information
  is :math:`\lambda \log K`.

So "gap closed = I / log K" is exact for erasures, for any K, and for no other of these.
"""

from __future__ import annotations

from typing import Any

import numpy as np
from numpy.typing import NDArray

from ma_sbi.validation import as_count

__all__ = [
    "discrete_information",
    "erasure_channel",
    "explained_variance",
    "gap_closed_by_context",
    "symmetric_channel",
]

Array = NDArray[np.float64]


def symmetric_channel(num_regimes: int, reliability: float) -> Array:
    r"""Tabulate a context that names the regime, or else any one of K at random.

    It names the right one with probability :math:`\lambda + (1 - \lambda) / K`.

    Args:
        num_regimes: K, equally likely.
        reliability: :math:`\lambda`, from 0 (noise) to 1 (always right).

    Returns:
        Joint probabilities, shape ``(K, K)``, regimes by contexts.

    Example:
        >>> symmetric_channel(2, 0.5).tolist()
        [[0.375, 0.125], [0.125, 0.375]]
    """
    num_regimes, reliability = _check(num_regimes, reliability)
    noise = np.full((num_regimes, num_regimes), (1 - reliability) / num_regimes)
    return (noise + reliability * np.eye(num_regimes)) / num_regimes


def erasure_channel(num_regimes: int, reliability: float) -> Array:
    r"""Tabulate a context that names the regime, or else is missing.

    Args:
        num_regimes: K, equally likely.
        reliability: :math:`\lambda`, the share of contexts that are there.

    Returns:
        Joint probabilities, shape ``(K, K + 1)``; the last context is the missing one.
    """
    num_regimes, reliability = _check(num_regimes, reliability)
    missing = np.full((num_regimes, 1), 1 - reliability)
    return np.hstack([reliability * np.eye(num_regimes), missing]) / num_regimes


def discrete_information(joint: Any) -> float:
    """Return the mutual information of rows and columns of a joint table, in nats.

    Args:
        joint: Joint probabilities, shape ``(K, num_contexts)``.

    Example:
        >>> round(discrete_information(symmetric_channel(4, 1.0)), 4)
        1.3863
    """
    table = _table(joint)
    product = table.sum(axis=1, keepdims=True) * table.sum(axis=0)
    some = table > 0
    return max(0.0, float((table[some] * np.log(table[some] / product[some])).sum()))


def explained_variance(departures: Any, joint: Any) -> float:
    r"""Return :math:`\operatorname{Var}(E[\delta \mid z])`, summed over dim_x.

    Args:
        departures: Departure of each regime, shape ``(K, dim_x)`` or ``(K,)``.
        joint: Joint probabilities of regimes and contexts, shape ``(K, num_contexts)``.
    """
    table = _table(joint)
    departures = _departures(departures, len(table))
    contexts = table.sum(axis=0)
    used = contexts > 0
    centred = departures - table.sum(axis=1) @ departures
    means = (table[:, used] / contexts[used]).T @ centred
    return float(contexts[used] @ np.square(means).sum(axis=1))


def gap_closed_by_context(departures: Any, joint: Any) -> float:
    r"""Return the share of the departure's variance that the best corrector explains.

    .. math:: \operatorname{Var}(E[\delta \mid z]) / \operatorname{Var}(\delta)

    It is the share of the excess squared error that a corrector removes where the
    posterior mean is linear, beyond what a constant shift removes without any context.

    Args:
        departures: Departure of each regime, shape ``(K, dim_x)`` or ``(K,)``.
        joint: Joint probabilities of regimes and contexts, shape ``(K, num_contexts)``.

    Example:
        >>> shifts = [[1.0, 0.0], [0.0, 1.0], [-1.0, 0.0], [0.0, -1.0]]
        >>> round(gap_closed_by_context(shifts, symmetric_channel(4, 0.5)), 6)
        0.25
    """
    table = _table(joint)
    total = explained_variance(departures, np.diag(table.sum(axis=1)))
    if total == 0:
        raise ValueError("all regimes have the same departure: there is no gap to close")
    return explained_variance(departures, table) / total


def _check(num_regimes: int, reliability: float) -> tuple[int, float]:
    if not 0 <= reliability <= 1:
        raise ValueError(f"reliability must lie between 0 and 1, got {reliability!r}")
    return as_count(num_regimes, "num_regimes"), float(reliability)


def _table(joint: Any) -> Array:
    table = np.asarray(joint, dtype=np.float64)
    if table.ndim != 2 or not (table >= 0).all() or not np.isclose(table.sum(), 1):
        raise ValueError("joint must be a matrix of probabilities that sum to 1")
    return table


def _departures(values: Any, num_regimes: int) -> Array:
    departures = np.asarray(values, dtype=np.float64)
    departures = departures[:, None] if departures.ndim == 1 else departures
    if departures.ndim != 2 or len(departures) != num_regimes:
        raise ValueError(
            f"departures must have one row for each of {num_regimes} regimes, got shape "
            f"{departures.shape}"
        )
    return departures
