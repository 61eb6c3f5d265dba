"""Whether calibration rows and simulations are of the same population."""

from __future__ import annotations

from typing import Any

import numpy as np
import torch
from torch import Tensor

from ma_sbi.randomness import derive, generator, seeded
from ma_sbi.scaling import column_scale

__all__ = ["ELSEWHERE", "energy_p_value", "prior_p_value"]

ELSEWHERE = 0.001
"""Up to this p-value two samples are of different populations."""

MOST_ROWS = 300
NUM_PERMUTATIONS = 999
# Draws of the prior that theta is compared with.
NUM_DRAWN = 1_000


def energy_p_value(x: Tensor, simulations: Tensor, seed: int | None = None) -> float:
    """Test whether two samples have the same distribution, by their energy distance.

    Args:
        x: First sample, shape ``(n, dim_x)``.
        simulations: Second sample, shape ``(m, dim_x)``; its scale is the unit.
        seed: Of the permutations.

    Returns:
        The p-value of a permutation test; at least 1/1000.
    """
    rng = generator(0 if seed is None else derive(seed, "population"))
    first, second = (
        part[torch.randperm(len(part), generator=rng)[:MOST_ROWS].to(part.device)].cpu()
        for part in (x, simulations.to(x))
    )
    both = torch.cat([first, second]) / column_scale(second)
    distance = torch.cdist(both, both)
    member = torch.zeros(len(both), dtype=distance.dtype)
    member[: len(first)] = 1.0
    shuffled = [
        member[torch.randperm(len(both), generator=rng)] for _ in range(NUM_PERMUTATIONS)
    ]
    members = torch.stack([member, *shuffled])
    others = 1 - members
    n, m = len(first), len(second)
    within_first = ((members @ distance) * members).sum(dim=1) / n**2
    within_second = ((others @ distance) * others).sum(dim=1) / m**2
    between = ((members @ distance) * others).sum(dim=1) / (n * m)
    energy = 2 * between - within_first - within_second
    return ((energy[1:] >= energy[0]).sum().item() + 1) / (NUM_PERMUTATIONS + 1)


def prior_p_value(
    theta: Tensor, prior: Any, groups: np.ndarray | None = None, seed: int | None = None
) -> float:
    """Test whether parameters are draws from the prior.

    Args:
        theta: One for each row, shape ``(n, dim_theta)``.
        prior: A distribution.
        groups: Group of each row; those of one may share their theta, and count as one.
        seed: Of draws and permutations.
    """
    if groups is not None:
        theta = theta[np.unique(groups, return_index=True)[1]]
    with seeded(derive(seed, "prior")):
        drawn = prior.sample((NUM_DRAWN,))
    return energy_p_value(theta, drawn, derive(seed, "elsewhere"))
