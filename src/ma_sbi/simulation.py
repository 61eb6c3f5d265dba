"""Drawing from a prior and running a simulator, repeatably."""

from __future__ import annotations

import inspect
from collections.abc import Callable
from typing import Any

from torch import Tensor

from ma_sbi.randomness import numpy_seeded, seeded
from ma_sbi.validation import as_count, as_matrix

__all__ = ["sample_prior", "simulate"]


def sample_prior(prior: Any, num: int, *, seed: int | None = None) -> Tensor:
    """Draw theta ``(num, dim_theta)``; torch's global generator stays as it was.

    Example:
        >>> from torch.distributions import Independent, Normal
        >>> import torch
        >>> prior = Independent(Normal(torch.zeros(2), 1.0), 1)
        >>> bool((sample_prior(prior, 3, seed=0) == sample_prior(prior, 3, seed=0)).all())
        True
    """
    with seeded(seed):
        return prior.sample((as_count(num, "num"),))


def simulate(
    simulator: Callable[..., Any],
    theta: Tensor,
    *,
    seed: int | None = None,
    dim_x: int | None = None,
) -> Tensor:
    """Run a simulator with a seed.

    Args:
        simulator: Called as ``simulator(theta, seed=seed)`` if it has an argument
            ``seed``. Else it is called as ``simulator(theta)`` while the global
            generators of torch and numpy run from the seed.
        theta: Parameters, shape ``(n, dim_theta)``.
        seed: Makes the simulations repeatable.
        dim_x: Number of columns that the simulations must have.

    Returns:
        Simulations, shape ``(n, dim_x)``, float32.

    Raises:
        ValueError: If the simulator does not return one finite row per theta.

    Example:
        >>> import torch
        >>> simulate(lambda theta: theta + torch.randn(3, 2), torch.ones(3, 2)).shape
        torch.Size([3, 2])
    """
    if _takes_a_seed(simulator):
        simulated = simulator(theta, seed=seed)
    else:
        with seeded(seed, theta.device), numpy_seeded(seed):
            simulated = simulator(theta)
    x = as_matrix(simulated, "what the simulator returned", dim=dim_x, column=True)
    if len(x) != len(theta):
        raise ValueError(
            f"the simulator must return one row per theta: expected {len(theta)}, got "
            f"{len(x)}"
        )
    return x


def _takes_a_seed(simulator: Callable[..., Any]) -> bool:
    try:
        return "seed" in inspect.signature(simulator).parameters
    except ValueError:  # functions in C have no signature
        return False
