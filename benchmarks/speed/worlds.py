"""The worlds that are timed: sizes are free, answers do not matter."""

from __future__ import annotations

import torch
from sbi.utils import BoxUniform
from torch import Tensor

NOISE = 0.2


def prior(dim: int = 2) -> BoxUniform:
    """Give a uniform prior of theta."""
    return BoxUniform(-2 * torch.ones(dim), 2 * torch.ones(dim))


def simulations(num: int, dim: int = 2, seed: int = 0) -> tuple[Tensor, Tensor]:
    """Draw theta from the prior, and x beside it."""
    rng = torch.Generator().manual_seed(seed)
    theta = 4 * torch.rand(num, dim, generator=rng) - 2
    return theta, theta + NOISE * torch.randn(num, dim, generator=rng)


def triples(
    num: int, num_contexts: int = 4, dim: int = 2, seed: int = 0
) -> tuple[list[str], Tensor, Tensor]:
    """Draw contexts, and x_obs that is shifted by context, with x_sim."""
    rng = torch.Generator().manual_seed(seed)
    number = torch.arange(num) % num_contexts
    shift = 0.5 * torch.randn(num_contexts, dim, generator=rng)
    x_sim = simulations(num, dim, seed + 1)[1]
    x_obs = x_sim + shift[number] + 0.1 * torch.randn(num, dim, generator=rng)
    return [f"the pump is in state {one}" for one in number.tolist()], x_obs, x_sim
