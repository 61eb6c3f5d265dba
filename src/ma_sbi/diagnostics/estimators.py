"""Plain estimators of information, by neighbours or by counting, without calibration."""

from __future__ import annotations

from typing import Any

import numpy as np
from scipy.spatial import cKDTree
from scipy.spatial.distance import cdist
from scipy.special import digamma

from ma_sbi.diagnostics.columns import as_columns
from ma_sbi.validation import as_count

__all__ = [
    "ksg",
    "ksg_from_distances",
    "ksg_of_columns",
    "largest_entropy",
    "plug_in",
    "ross",
    "ross_of_columns",
]

# Up to so many rows, all distances at once are faster than a tree.
MOST_ROWS_AT_ONCE = 2_500


def ksg(a: Any, b: Any, *, num_neighbours: int = 5) -> float:
    r"""Estimate information between numbers (Kraskov et al. 2004, estimator 1), in nats.

    .. math:: \psi(k) + \psi(n) - \langle \psi(n_a + 1) + \psi(n_b + 1) \rangle

    Plain: no calibration, so about 20 % low at five dimensions. Columns should have
    comparable scales.

    Args:
        a: Shape ``(n, dim_a)``, or ``(n,)``.
        b: Shape ``(n, dim_b)``, or ``(n,)``.
        num_neighbours: The k of the estimator.
    """
    k = as_count(num_neighbours, "num_neighbours")
    first, second = as_columns(a, "a"), as_columns(b, "b")
    if len(first) != len(second):
        raise ValueError(f"a and b must be paired, got {len(first)} and {len(second)} rows")
    if first.shape[1] == 0 or second.shape[1] == 0:
        return 0.0
    return ksg_of_columns(first, second, k)


def ross(a: Any, labels: Any, *, num_neighbours: int = 5) -> float:
    r"""Estimate information between numbers and labels (Ross 2014), in nats.

    .. math:: \psi(n) + \langle \psi(k) - \psi(n_z) - \psi(m) \rangle

    Args:
        a: Shape ``(n, dim_a)``, or ``(n,)``.
        labels: One per row; those of a single row are left out.
        num_neighbours: The k of the estimator, fewer where a label has not so many.
    """
    k = as_count(num_neighbours, "num_neighbours")
    columns = as_columns(a, "a")
    codes = np.unique(np.asarray(labels), return_inverse=True)[1].reshape(-1)
    if len(codes) != len(columns):
        raise ValueError(
            f"a and labels must be paired, got {len(columns)} and {len(codes)}"
        )
    return ross_of_columns(columns, codes, k) if columns.shape[1] else 0.0


def ksg_of_columns(a: np.ndarray, b: np.ndarray, k: int) -> float:
    """Estimate as :func:`ksg`, from columns that were checked."""
    n = len(a)
    k = min(k, n - 1)
    joint = np.hstack([a, b])
    radius = _reach(joint, k)
    near = _near(joint, radius, k)
    terms = digamma(near) - sum(digamma(_around(side, radius)) for side in (a, b))
    return float(digamma(n) + terms.mean())


def ksg_from_distances(left: np.ndarray, right: np.ndarray, k: int) -> float:
    """Estimate as :func:`ksg`, from all distances within each side."""
    n = len(left)
    k = min(k, n - 1)
    # The diagonal holds the zero distance of each row to itself.
    radius = np.partition(np.maximum(left, right), k, axis=1)[:, [k]]
    radius = np.maximum(radius, 1e-12)
    inside = [(side < radius).sum(axis=1) for side in (left, right)]
    return float(digamma(k) + digamma(n) - sum(digamma(count).mean() for count in inside))


def ross_of_columns(a: np.ndarray, labels: np.ndarray, k: int) -> float:
    """Estimate as :func:`ross`, from columns and codes that were checked."""
    n = len(a)
    sizes = np.bincount(labels)[labels]
    radius, near = np.zeros(n), np.zeros(n)
    for label in np.unique(labels[sizes > 1]):
        rows = np.flatnonzero(labels == label)
        own, few = a[rows], min(k, len(rows) - 1)
        radius[rows] = _reach(own, few)
        near[rows] = _near(own, radius[rows], few)
    use = sizes > 1
    if not use.any():
        return 0.0
    around = _around(a, radius)
    terms = digamma(near[use]) - digamma(sizes[use]) - digamma(around[use])
    return float(digamma(n) + terms.mean())


def _reach(points: np.ndarray, k: int) -> np.ndarray:
    """Measure the distance of each point to its k-th neighbour."""
    return np.asarray(cKDTree(points).query(points, k + 1, p=np.inf)[0])[:, -1]


def _near(points: np.ndarray, radius: np.ndarray, k: int) -> np.ndarray:
    """Count neighbours within reach: k, or all others on an atom, at no distance."""
    if radius.all():
        return np.full(len(points), k)
    return np.where(radius > 0, k, _multiplicity(points) - 1)


def _around(points: np.ndarray, radius: np.ndarray) -> np.ndarray:
    """Count the points nearer than the radius, and itself for the one that is as far.

    Where the radius is zero, count the others at the same place.
    """
    free = radius > 0
    counts = _multiplicity(points) - 1 if not free.all() else np.zeros(len(points), int)
    if points.shape[1] == 1:
        ordered, value = np.sort(points[:, 0]), points[free, 0]
        low = np.searchsorted(ordered, value - radius[free], "right")
        high = np.searchsorted(ordered, value + radius[free], "left")
        counts[free] = np.maximum(high - low, 1)
    elif len(points) <= MOST_ROWS_AT_ONCE:
        # All distances at once: near independence a tree would visit most points, too.
        nearer = cdist(points[free], points, "chebyshev") < radius[free, None]
        counts[free] = nearer.sum(axis=1)
    elif free.any():
        counts[free] = cKDTree(points).query_ball_point(
            points[free], np.nextafter(radius[free], 0), p=np.inf, return_length=True
        )
    return np.maximum(counts, 1)


def _multiplicity(points: np.ndarray) -> np.ndarray:
    """Count how often each row occurs."""
    _, place, counts = np.unique(points, axis=0, return_inverse=True, return_counts=True)
    return counts[place.reshape(-1)]


def plug_in(a: np.ndarray, b: np.ndarray) -> float:
    """Estimate between codes, with Miller and Madow's correction of each entropy."""
    joint = a.astype(np.int64) * (int(b.max()) + 1) + b
    return _entropy(a) + _entropy(b) - _entropy(joint)


def _entropy(codes: np.ndarray) -> float:
    counts = np.unique(codes, return_counts=True)[1]
    share = counts / len(codes)
    plug_in = -(share * np.log(share)).sum()
    return float(plug_in + (len(counts) - 1) / (2 * len(codes)))


def largest_entropy(codes: np.ndarray) -> float:
    """Return the entropy, which correction must not push past that of equal shares."""
    return min(_entropy(codes), float(np.log(len(np.unique(codes)))))
