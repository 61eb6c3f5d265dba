"""Tests for ma_sbi_bench.tasks.gaussian_mixture."""

import torch
from torch.distributions import (
    Categorical,
    Independent,
    MixtureSameFamily,
    MultivariateNormal,
    Normal,
)

from ma_sbi_bench.tasks.gaussian_mixture import GaussianMixture

CENTRES = torch.tensor([[1.5, 0.0], [-1.5, 0.0]])
LAW = MixtureSameFamily(
    Categorical(torch.ones(2)), Independent(Normal(CENTRES, 0.2**0.5), 1)
)


def test_the_density_is_that_of_two_clusters():
    x = 2 * torch.randn(100, 2)
    torch.testing.assert_close(GaussianMixture().log_evidence(x), LAW.log_prob(x))


def test_simulations_have_the_moments_of_the_density():
    x = GaussianMixture().draw(20_000, seed=1).x_sim
    normal = MultivariateNormal(torch.zeros(2), torch.diag(torch.tensor([2.45, 0.2])))
    error = normal.stddev / 20_000**0.5
    assert (x.mean(dim=0).abs() < 4.5 * error).all()
    # The variance of a square is at most twice the squared variance for these laws.
    assert ((x.var(dim=0) / normal.variance - 1).abs() < 4.5 * (2 / 20_000) ** 0.5).all()


def test_regimes_shift_x():
    task = GaussianMixture()
    rows = task.draw(40, seed=1)
    torch.testing.assert_close(rows.x_obs - rows.x_sim, task.shift(rows.regime))
