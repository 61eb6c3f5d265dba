"""The Ricker model of Huang et al. (2023): sets of noisy counts of a population.

N_t = r N_{t-1} exp(-N_{t-1} + 0.3 e_t), y_t ~ Poisson(phi N_t), N_0 = 1. One x is a set
of 100 realisations of 100 counts each, laid out in one row; theta = (log r, phi). Some of
the observed realisations have phi = 100 instead of 10, which the prior excludes.
"""

import torch
from sbi.utils import BoxUniform
from torch import nn

NUM_REALISATIONS, NUM_TIMES, NOISE = 100, 100, 0.3
PRIOR = BoxUniform(torch.tensor([2.0, 0.0]), torch.tensor([8.0, 20.0]))
# Where a posterior may draw: beyond the prior, so that errors are not cut off at its edge.
WIDER_PRIOR = BoxUniform(torch.tensor([2.0, 0.0]), torch.tensor([8.0, 80.0]))
TRUTH, CONTAMINANT = torch.tensor([4.0, 10.0]), torch.tensor([4.0, 100.0])


def simulate(theta, *, num_realisations=NUM_REALISATIONS, seed=None):
    """Simulate at theta ``(n, 2)``; shape ``(n, num_realisations * NUM_TIMES)``."""
    rng = None if seed is None else torch.Generator().manual_seed(seed)
    log_r, phi = theta[:, :1], theta[:, 1:]
    population, counts = torch.ones(len(theta), num_realisations), []
    for _ in range(NUM_TIMES):
        noise = NOISE * torch.randn(population.shape, generator=rng)
        population = (log_r + noise - population).exp() * population
        counts.append(torch.poisson(phi * population, generator=rng))
    return torch.stack(counts, dim=2).flatten(1)


def observe(contamination, seed=None):
    """Observe a set at the truth of which a share is contaminated, one row."""
    num_wrong = round(contamination * NUM_REALISATIONS)
    parts = [
        simulate(theta[None], num_realisations=n, seed=None if seed is None else seed + k)
        for k, (theta, n) in enumerate(
            [(TRUTH, NUM_REALISATIONS - num_wrong), (CONTAMINANT, num_wrong)]
        )
        if n
    ]
    return torch.cat(parts, dim=1)


class Summary(nn.Module):
    """The authors' four summaries: convolutions over time, averaged over realisations.

    Theirs have no nonlinearity, so that averaging first gives the same, a hundred times
    faster.
    """

    def __init__(self, dim_summary=4):
        super().__init__()
        self.layers = nn.Sequential(
            nn.Conv1d(1, dim_summary, 3, 3),
            nn.Conv1d(dim_summary, dim_summary, 3, 3),
            nn.Conv1d(dim_summary, dim_summary, 3, 3),
            nn.AvgPool1d(3),
        )

    def forward(self, x):
        mean = x.unflatten(1, (-1, NUM_TIMES)).mean(dim=1, keepdim=True)
        return self.layers(mean).flatten(1)


def rmse(draws):
    """Root mean squared distance of draws ``(n, 2)`` from the truth, as they define it."""
    return (draws - TRUTH).square().mean().sqrt().item()
