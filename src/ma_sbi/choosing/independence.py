"""Tools of permutation tests: ranks, centring within contexts, and independence."""

from __future__ import annotations

import torch
from scipy import special, stats
from torch import Tensor

__all__ = [
    "centre",
    "centred_twice",
    "dependence_p_value",
    "means_of",
    "normal_scores",
    "permuted_within",
    "share_above",
]


def normal_scores(x: Tensor) -> Tensor:
    """Replace each column by its normal scores, which no outlier dominates; ties stay."""
    rank = stats.rankdata(x.numpy(), axis=0)
    return torch.from_numpy(special.ndtri((rank - 0.5) / len(x)))


def means_of(x: Tensor, codes: Tensor) -> Tensor:
    """Average rows of the same number, shape ``(num, dim)``."""
    count = codes.bincount()
    total = x.new_zeros(len(count), x.shape[1]).index_add_(0, codes, x)
    return total / count[:, None]


def centre(x: Tensor, codes: Tensor) -> Tensor:
    """Subtract the mean of each context."""
    return x - means_of(x, codes)[codes]


def permuted_within(codes: Tensor, num: int, rng: torch.Generator | None) -> Tensor:
    """Draw permutations of rows within contexts, shape ``(num, n)``."""
    start = codes.argsort(stable=True)
    noise = torch.rand(num, len(codes), generator=rng)
    # Sorted by context first, at random within it.
    shuffled = (codes + noise).argsort(dim=1)
    result = torch.empty_like(shuffled)
    result[:, start] = shuffled
    return result


def dependence_p_value(x: Tensor, y: Tensor, codes: Tensor, shuffles: Tensor) -> float:
    """Test independence by the distance covariance (Szekely, Rizzo & Bakirov 2007).

    Of all rows together, and of each context by itself: one may turn what another does
    not. The smaller p-value counts, doubled for having chosen (Bonferroni).
    """
    p_values = []
    for same in (torch.ones(len(codes), len(codes)), codes[:, None] == codes):
        first, second = (centred_twice(torch.cdist(z, z), same.to(z)) for z in (x, y))
        found = (first * second).sum()
        by_chance = torch.stack([(first * second[p][:, p]).sum() for p in shuffles])
        p_values.append(share_above(by_chance, found))
    return min(1.0, 2 * min(p_values))


def share_above(by_chance: Tensor, found: Tensor) -> float:
    """Return the p-value of a permutation test."""
    return ((by_chance >= found).sum().item() + 1) / (len(by_chance) + 1)


def centred_twice(distance: Tensor, same: Tensor) -> Tensor:
    """Centre distances twice, within blocks of rows that count as the same."""
    share = same / same.sum(dim=1)
    mean = share @ (distance * same)
    return same * (distance - mean - mean.T + mean @ share)
