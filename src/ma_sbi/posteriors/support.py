"""The support of a prior: whether it has bounds, and what lies inside."""

from __future__ import annotations

from typing import Any

import torch
from torch import Tensor
from torch.distributions import constraints

__all__ = ["is_bounded", "within_support"]


def is_bounded(prior: Any) -> bool:
    """Tell whether draws may lie outside the prior's support; False for no prior."""
    if prior is None:
        return False
    try:
        support = prior.support
    except (AttributeError, NotImplementedError):
        return True  # unknown: within_support decides by the prior's density
    base = getattr(support, "base_constraint", support)
    return not isinstance(base, type(constraints.real))


def within_support(prior: Any, theta: Tensor) -> Tensor:
    """Tell which theta ``(..., dim_theta)`` lie inside, shape ``(...)``.

    The same rule as sbi's function of this name, without the import of sbi.

    Example:
        >>> from torch.distributions import Independent, Uniform
        >>> square = Independent(Uniform(-torch.ones(2), torch.ones(2)), 1)
        >>> within_support(square, torch.tensor([[0.0, 0.0], [0.0, 2.0]]))
        tensor([ True, False])
    """
    try:
        inside = prior.support.check(theta)
    except (AttributeError, NotImplementedError):
        return torch.isfinite(prior.log_prob(theta))
    return inside.all(dim=-1) if inside.shape == theta.shape else inside
