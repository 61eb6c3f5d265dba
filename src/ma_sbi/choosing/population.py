"""Whether calibration rows and simulations are of the same population."""

from __future__ import annotations

import torch
from torch import Tensor

from ma_sbi.choosing.sides import whitener_of
from ma_sbi.randomness import derive, generator
from ma_sbi.scaling import column_scale

__all__ = ["energy_p_value", "most_theta"]

MOST_ROWS = 300
NUM_PERMUTATIONS = 999
# Standard deviations of the simulations beyond which a row counts no more.
MOST_DEVIATIONS = 6.0


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


def most_theta(x_obs: Tensor, simulations: Tensor, features: Tensor) -> float:
    """Bound the share of the differences between contexts that may be theta.

    Without pairs, contexts under which means of x_obs differ may be departures, or may go
    with other parameters. But theta that differs between contexts varies less within each:
    if its distribution over all rows is that of the simulations, what it adds between
    contexts is missing within them. A departure leaves x within a context as wide as
    simulations are.

    Args:
        x_obs: Observations, shape ``(n, dim_x)``.
        simulations: From the same distribution of theta, shape ``(m, dim_x)``.
        features: Of the context, shape ``(n, num_features)``.

    Returns:
        The variance that may be missing, by two standard errors, in the directions in
        which means differ, over the variance between contexts; 1 if none is seen.

    Example:
        >>> import torch
        >>> rng = torch.Generator().manual_seed(0)
        >>> x = torch.randn(2000, 1, generator=rng, dtype=torch.float64)
        >>> which = (torch.arange(1000) % 2)[:, None].double()
        >>> most_theta(x[1000:] + 3 * which, x[:1000], which) < 0.2
        True
        >>> most_theta(x[1000:], x[:1000], (x[1000:] > 0).double()) > 0.8
        True
    """
    x_obs, simulations = (x.double().cpu() for x in (x_obs, simulations))
    middle = simulations.mean(dim=0)
    unit = whitener_of(simulations - middle)
    observed, simulated = (
        ((x - middle) @ unit).clamp(-MOST_DEVIATIONS, MOST_DEVIATIONS)
        for x in (x_obs, simulations)
    )
    num, centred = len(observed), features - features.mean(dim=0)
    basis, size, _ = torch.linalg.svd(centred, full_matrices=False)
    basis = basis[:, size > 1e-6 * num**0.5]
    rank = basis.shape[1]
    freedom = num - rank - 1
    if rank == 0 or freedom < 2:
        return 1.0
    observed = observed - observed.mean(dim=0)
    means = basis.T @ observed
    values, directions = torch.linalg.eigh(means.T @ means / num)
    within = ((observed - basis @ means) @ directions).square()
    expected = (simulated @ directions).square()
    inside = within.sum(dim=0) / freedom
    # Directions in which means differ by more than chance.
    differ = values * num > inside * (rank + 2 * (2 * rank) ** 0.5 + 2)
    if not differ.any():
        return 1.0
    error = (within.var(dim=0) / num + expected.var(dim=0) / len(simulated)).sqrt()
    missing = (expected.mean(dim=0) - inside + 2 * error).clamp(min=0.0)
    between = values - rank / num * inside
    return min(1.0, (missing[differ].sum() / between[differ].sum()).item())
