"""Residuals that are lent to simulations."""

import pytest
import torch

from ma_sbi.correctors import ForwardCorrector
from ma_sbi.correctors.forward_maps import choose_map
from ma_sbi.correctors.lending import SHARES, independent_share, lend_residuals
from ma_sbi.metrics import region_coverage


def normal(num, dim, seed):
    return torch.randn(num, dim, generator=torch.Generator().manual_seed(seed))


def folds(num):
    return torch.arange(num) % 5


@pytest.mark.parametrize("num", [25, 500])
def test_noise_of_independent_columns_is_taken_as_such(num):
    assert independent_share(normal(num, 10, 0), folds(num)) >= 0.6


def test_columns_that_go_together_stay_together():
    together = normal(500, 1, 0) + 0.1 * normal(500, 10, 1)
    assert independent_share(together, folds(500)) <= SHARES[1]


def test_the_size_of_a_residual_is_no_reason():
    """Columns go together within each row, and rows have sizes of their own."""
    together = normal(500, 1, 0) + 0.1 * normal(500, 10, 1)
    sizes = (3 * normal(500, 1, 2)).exp()
    assert independent_share(sizes * together, folds(500)) <= SHARES[1]


def test_few_pairs_cannot_rule_out_independence():
    together = normal(10, 1, 0).expand(-1, 10)
    assert independent_share(together, folds(10)) >= (10 / 20) ** 2


@pytest.mark.parametrize("num", [1, 10])
def test_residuals_that_are_zero_do_no_harm(num):
    assert 0 < independent_share(torch.zeros(num, 3), folds(num)) < 1


def test_noise_is_as_large_as_residuals_in_every_column():
    x_sim, pool = normal(50, 3, 0), normal(3000, 3, 1)
    x_obs = x_sim + torch.tensor([0.0, 0.01, 0.3]) * normal(50, 3, 2)
    chosen = choose_map(x_sim, x_obs, pool)
    _, noise = lend_residuals(chosen, x_sim, pool, 0)
    sizes = (part.square().mean(dim=0).sqrt() for part in (noise, chosen.residuals))
    # Not every pair is near to as many simulations.
    torch.testing.assert_close(*sizes, rtol=0.3, atol=1e-6)


def test_candidates_of_few_pairs_are_not_sure_of_how_columns_go_together():
    """Ten columns with independent noise: regions of candidates hold the simulation.

    Lent as they are, residuals of 50 pairs leave regions of 80 % that hold 36 %.
    """
    x_sim, new = normal(50, 10, 0), normal(500, 10, 1)
    x_obs = x_sim + 0.5 * normal(50, 10, 2)
    corrector = ForwardCorrector(normal(3000, 10, 3)).fit(["-"] * 50, x_obs, x_sim, seed=0)
    found = corrector.corrections(new + 0.5 * normal(500, 10, 4), "-").x[:128]
    # Candidates come in order.
    order = torch.randperm(128, generator=torch.Generator().manual_seed(0))
    assert region_coverage(found[order], new, [0.8]) > 0.7
