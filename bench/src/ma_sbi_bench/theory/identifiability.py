r"""When theta is identified by x and an observed context.

The paper's theorem requires that :math:`(\theta, z) \mapsto p(x \mid \theta, z)` be
injective, and claims that this is necessary. The context is observed, so that two pairs
with different z are never confused: it suffices, and is necessary, that :math:`\theta
\mapsto p(x \mid \theta, z)` be injective for each z. :func:`exclusive_or` is a world that
is not jointly injective and whose theta is known from a single observation.
"""

from __future__ import annotations

from typing import Any

import numpy as np
from numpy.typing import NDArray

__all__ = [
    "exclusive_or",
    "is_identifiable",
    "is_jointly_injective",
    "posterior_table",
]

Array = NDArray[np.float64]


def is_jointly_injective(likelihood: Any) -> bool:
    """Tell whether all pairs (theta, z) have different laws: the paper's condition.

    Args:
        likelihood: p(x | theta, z), shape ``(num_theta, num_z, num_x)``.
    """
    table = _likelihood(likelihood)
    return _all_different(table.reshape(-1, table.shape[2]))


def is_identifiable(likelihood: Any) -> bool:
    """Tell whether the law of x identifies theta, for each z that is observed.

    Args:
        likelihood: p(x | theta, z), shape ``(num_theta, num_z, num_x)``.

    Example:
        >>> world = exclusive_or()
        >>> is_identifiable(world), is_jointly_injective(world)
        (True, False)
    """
    table = _likelihood(likelihood)
    return all(_all_different(table[:, z]) for z in range(table.shape[1]))


def posterior_table(likelihood: Any, prior: Any = None) -> Array:
    """Return p(theta | x, z) by Bayes' rule, for z independent of theta.

    It exists and is unique for any likelihood: that a posterior "is determined by
    (x, z)" says nothing about injectivity.

    Args:
        likelihood: p(x | theta, z), shape ``(num_theta, num_z, num_x)``.
        prior: p(theta), shape ``(num_theta,)``; uniform if None.

    Returns:
        Shape ``(num_theta, num_z, num_x)``; NaN for x that cannot occur under z.
    """
    table = _likelihood(likelihood)
    weight = np.ones(len(table)) if prior is None else np.asarray(prior, np.float64)
    if weight.shape != (len(table),) or not (weight >= 0).all() or weight.sum() == 0:
        raise ValueError(f"prior must give a weight to each of {len(table)} thetas")
    joint = weight[:, None, None] * table
    evidence = joint.sum(axis=0)
    return np.divide(joint, evidence, out=np.full_like(joint, np.nan), where=evidence > 0)


def exclusive_or() -> Array:
    """Return the counter-example: theta, z and x are bits, and x = theta XOR z.

    ``(theta, z) = (0, 0)`` and ``(1, 1)`` give the same law of x, so the map is not
    injective; ``theta = x XOR z`` is certain.

    Returns:
        p(x | theta, z), shape ``(2, 2, 2)``.
    """
    theta, z, x = np.indices((2, 2, 2))
    return (x == theta ^ z).astype(np.float64)


def _likelihood(likelihood: Any) -> Array:
    table = np.asarray(likelihood, dtype=np.float64)
    if table.ndim != 3 or not table.size:
        raise ValueError(
            f"likelihood must have shape (num_theta, num_z, num_x), got {table.shape}"
        )
    if not (table >= 0).all() or not np.allclose(table.sum(axis=2), 1):
        raise ValueError("likelihood must be probabilities that sum to 1 over x")
    return table


def _all_different(laws: Array) -> bool:
    apart = np.abs(laws[:, None] - laws[None]).max(axis=2)
    np.fill_diagonal(apart, np.inf)
    return bool(apart.min() > 1e-12)
