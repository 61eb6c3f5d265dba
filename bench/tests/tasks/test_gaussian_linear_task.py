"""Gaussian linear against its closed form."""

import pytest
import torch

from ma_sbi_bench.tasks import GaussianLinear

NUM = 20_000


def assert_moments(draws, mean, variance):
    """Compare with a normal law, within five standard errors."""
    n = len(draws)
    torch.testing.assert_close(
        draws.mean(dim=0),
        mean.expand(draws.shape[1:]),
        rtol=0,
        atol=5 * (variance / n) ** 0.5,
    )
    torch.testing.assert_close(
        draws.var(dim=0),
        torch.full(draws.shape[1:], variance),
        rtol=0,
        atol=5 * variance * (2 / n) ** 0.5,
    )


@pytest.mark.parametrize("dim", [1, 5, 10])
def test_prior_and_simulator_have_variance_a_tenth(dim):
    task = GaussianLinear(dim)
    draws = task.draw(NUM, seed=0)
    assert_moments(draws.theta, torch.zeros(dim), 0.1)
    assert_moments(draws.x_sim - draws.theta, torch.zeros(dim), 0.1)


@pytest.mark.parametrize("scale", [0.3, 100.0])
def test_reference_is_normal_around_half_of_x(scale):
    x = scale * torch.randn(2, 5, generator=torch.Generator().manual_seed(0))
    theta = GaussianLinear(dim=5).reference(x, NUM, seed=0)
    assert_moments(theta, x / 2, 0.05)


def test_coordinates_of_the_reference_are_independent():
    theta = GaussianLinear(dim=4).reference(torch.zeros(1, 4), NUM, seed=0)[:, 0]
    correlation = torch.corrcoef(theta.T) - torch.eye(4)
    assert correlation.abs().max() < 5 / NUM**0.5


def test_the_paper_uses_five_dimensions_and_shifts_of_length_three_tenths():
    task = GaussianLinear()
    assert task.dim_theta == task.dim_x == 5
    assert task.regimes[0].shift.norm().item() == pytest.approx(0.3)


def test_the_dimension_must_be_a_count():
    with pytest.raises(ValueError, match="dim must be a positive integer"):
        GaussianLinear(dim=0)
