"""A posterior averaged over candidate observations, in one pass."""

from __future__ import annotations

import torch
from torch import Tensor

from ma_sbi.protocols import AmortizedPosterior, Corrections
from ma_sbi.randomness import derive, generator

__all__ = ["log_prob_mixture", "sample_mixture"]


def sample_mixture(
    posterior: AmortizedPosterior,
    num_samples: int,
    candidates: Corrections,
    *,
    seed: int | None = None,
) -> Tensor:
    """Draw ``(num_samples, batch, dim_theta)`` from the mixture over candidates.

    Each draw picks its candidate afresh, so that draws are exchangeable and not grouped by
    candidate.
    """
    if len(candidates.x) == 1:
        return posterior.sample(num_samples, candidates.x[0], seed=seed)
    weight = candidates.log_weight.exp().T
    rng = generator(derive(seed, "candidates"), weight.device)
    pick = torch.multinomial(weight, num_samples, replacement=True, generator=rng).T
    # The posterior draws for every candidate that was picked, as often as the most picked
    # one needs; the n-th pick of a candidate takes its n-th draw.
    count = torch.zeros_like(candidates.log_weight, dtype=torch.long)
    count = count.scatter_add(0, pick, torch.ones_like(pick))
    used = count > 0
    draws = posterior.sample(int(count.max()), candidates.x[used], seed=seed)
    row = used.flatten().cumsum(dim=0).reshape(used.shape) - 1
    return draws[_turn(pick, count), row.gather(0, pick)]


def _turn(pick: Tensor, count: Tensor) -> Tensor:
    """Number the picks of each candidate, column by column: its first, its second, ..."""
    ordered, order = pick.sort(dim=0, stable=True)
    first = count.cumsum(dim=0) - count
    position = torch.arange(len(pick), device=pick.device)[:, None]
    return torch.empty_like(pick).scatter(0, order, position - first.gather(0, ordered))


def log_prob_mixture(
    posterior: AmortizedPosterior, theta: Tensor, candidates: Corrections
) -> Tensor:
    """Evaluate theta ``(num_samples, batch, dim_theta)`` under the mixture.

    Raises:
        ValueError: If the posterior has no density.
    """
    log_prob = getattr(posterior, "log_prob", None)
    if log_prob is None:
        raise ValueError(f"{type(posterior).__name__} can be sampled but has no density")
    num_candidates, batch, dim_x = candidates.x.shape
    theta = torch.as_tensor(theta, dtype=torch.float32)
    if num_candidates == 1:
        return log_prob(theta, candidates.x[0])
    theta = theta.expand(-1, batch, -1).repeat(1, num_candidates, 1)
    each = log_prob(theta, candidates.x.reshape(-1, dim_x))
    weighted = each.unflatten(1, (num_candidates, batch)) + candidates.log_weight
    return weighted.logsumexp(dim=1)
