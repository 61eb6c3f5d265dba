"""Two moons against its own geometry and against plain rejection."""

import math

import pytest
import torch
from scipy.stats import kstest, norm, uniform

from ma_sbi_bench.tasks import TwoMoons

NUM = 4000
FAR = [[5.0, 0.0], [-5.0, 0.5], [0.3, 40.0], [-0.9, 1.0], [300.0, -200.0]]


def noise(theta, x):
    """Angle and radius that lead from theta to x."""
    total, difference = theta.sum(dim=-1).abs(), theta[..., 1] - theta[..., 0]
    first = x[..., 0] - 0.25 + total / math.sqrt(2)
    second = x[..., 1] - difference / math.sqrt(2)
    return torch.atan2(second, first), torch.hypot(first, second)


def assert_noise_law(angle, radius):
    assert kstest(angle, uniform(-math.pi / 2, math.pi).cdf).pvalue > 1e-3
    assert kstest(radius, norm(0.1, 0.01).cdf).pvalue > 1e-3


def test_simulator_scatters_along_a_half_circle():
    draws = TwoMoons().draw(NUM, seed=0)
    assert_noise_law(*noise(draws.theta.double(), draws.x_sim.double()))


@pytest.mark.parametrize("x", [[-0.64, 0.16], [0.0, -0.65], [-0.3, 0.3]], ids=str)
def test_reference_draws_invert_the_simulator(x):
    x = torch.tensor([x])
    theta = TwoMoons().reference(x, NUM, seed=0)
    assert_noise_law(*noise(theta[:, 0].double(), x.double()))


@pytest.mark.parametrize("x", [[-0.64, 0.16], [0.28, -0.1], [0.0, -0.65]], ids=str)
def test_both_moons_have_half_of_the_mass(x):
    theta = TwoMoons().reference([x], NUM, seed=0)
    share = (theta.sum(dim=-1) > 0).double().mean().item()
    assert abs(share - 0.5) < 3 * (0.25 / NUM) ** 0.5


@pytest.mark.parametrize(
    "x", [[-1.08, 0.05], [0.3, 0.02], [-0.5, 0.62], [0.33, 0.0]], ids=str
)
def test_reference_agrees_with_rejection_where_the_box_cuts_the_moons(x):
    source = torch.Generator().manual_seed(0)
    angle = math.pi * (torch.rand(400_000, generator=source) - 0.5)
    radius = 0.1 + 0.01 * torch.randn(400_000, generator=source)
    total = radius * angle.cos() + 0.25 - x[0]
    difference = x[1] - radius * angle.sin()
    kept = (total > 0) & (total + difference.abs() < math.sqrt(2))
    assert 100 < kept.sum() < 390_000
    expected = torch.stack([total, difference], dim=1)[kept]
    theta = TwoMoons().reference([x], NUM, seed=0)[:, 0]
    found = torch.stack([theta.sum(dim=1).abs(), theta[:, 1] - theta[:, 0]], dim=1)
    found = found / math.sqrt(2)
    for power in (1, 2):
        error = (found**power).var(dim=0) / NUM
        error = (error + (expected**power).var(dim=0) / len(expected)).sqrt()
        gap = (found**power).mean(dim=0) - (expected**power).mean(dim=0)
        assert (gap.abs() < 4 * error).all()


def test_an_x_that_is_far_away_has_a_posterior_in_the_box():
    theta = TwoMoons().reference(FAR, 100, seed=0)
    assert torch.isfinite(TwoMoons().prior.log_prob(theta)).all()


def test_the_posterior_of_a_far_x_is_at_the_nearest_corner():
    theta = TwoMoons().reference([[5.0, 0.0], [0.25, 40.0]], 100, seed=0)
    torch.testing.assert_close(
        theta.abs().mean(dim=(0, 2)), torch.tensor([0.0, 1.0]), rtol=0, atol=0.05
    )


def test_many_rows_are_as_one_by_one_in_law():
    x = torch.tensor([[-0.64, 0.16]]).expand(300, 2)
    theta = TwoMoons().reference(x, 20, seed=0)
    angle, radius = noise(theta.double(), x.double())
    assert_noise_law(angle.flatten(), radius.flatten())
