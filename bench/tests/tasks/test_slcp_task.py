"""SLCP against importance sampling, symmetry and scaling."""

import math

import pytest
import torch

from ma_sbi_bench.tasks import SLCP

NUM = 4000
INSIDE = [1.0, -1.5, -2.0, 2.5, 3.0, 0.5, 0.5, -3.0]
# The mean of the points is outside the box: both truncations matter.
OUTSIDE = [6.0, -1.0, 2.5, 3.0, 7.0, -4.0, 3.0, 1.0]
FAR = [20.0, 20.1, 20.3, 19.8, 19.9, 20.2, 20.05, 20.0]


def log_likelihood(theta, x):
    """Density of four points, written as in the definition; float64."""
    mean1, mean2, theta3, theta4, theta5 = theta.double().unbind(dim=-1)
    s1, s2, rho = theta3**2, theta4**2, theta5.tanh()
    v11, v12, v22 = s1**2 + 1e-6, rho * s1 * s2, s2**2 + 1e-6
    det = v11 * v22 - v12**2
    points = torch.as_tensor(x, dtype=torch.float64).reshape(4, 2)
    result = -2 * det.log()
    for point in points:
        d1, d2 = point[0] - mean1, point[1] - mean2
        quadratic = v22 * d1**2 - 2 * v12 * d1 * d2 + v11 * d2**2
        result = result - quadratic / (2 * det)
    return result


def features(theta):
    """First and second moments of what the signs leave alone."""
    theta = torch.cat([theta[:, :2], theta[:, 2:4].abs(), theta[:, 4:]], dim=1).double()
    products = theta[:, :, None] * theta[:, None]
    row, column = torch.triu_indices(5, 5)
    return torch.cat([theta, products[:, row, column]], dim=1)


@pytest.mark.parametrize("x", [INSIDE, OUTSIDE], ids=["inside", "outside"])
def test_reference_has_the_moments_of_importance_sampling(x):
    task = SLCP()
    proposals = task.draw(500_000, seed=0).theta
    log_weight = log_likelihood(proposals, x)
    keep = log_weight > log_weight.max() - 15
    weight = log_weight[keep].softmax(dim=0)[:, None]
    proposed = features(proposals[keep])
    expected = (weight * proposed).sum(dim=0)
    variance = (weight**2 * (proposed - expected) ** 2).sum(dim=0)
    assert 1 / (weight**2).sum() > 500
    found = features(task.reference([x], NUM, seed=0)[:, 0])
    error = (variance + found.var(dim=0) / NUM).sqrt()
    assert ((found.mean(dim=0) - expected).abs() < 4 * error).all()


def test_simulator_has_the_stated_mean_and_covariance():
    theta = torch.tensor([[0.5, -1.0, 1.2, -0.8, 0.7]])
    points = SLCP().simulate(theta.expand(NUM, -1), seed=0).reshape(-1, 2).double()
    s1, s2, rho = 1.2**2, 0.8**2, math.tanh(0.7)
    scale = torch.tensor([s1, s2], dtype=torch.float64)
    n = len(points)
    mean = torch.tensor([0.5, -1.0], dtype=torch.float64)
    assert ((points.mean(dim=0) - mean).abs() < 4 * scale / n**0.5).all()
    assert ((points.std(dim=0) / scale - 1).abs() < 4 / (2 * n) ** 0.5).all()
    correlation = torch.corrcoef(points.T)[0, 1].item()
    assert abs(correlation - rho) < 4 * (1 - rho**2) / n**0.5


def test_points_of_one_simulation_are_independent():
    theta = torch.tensor([[0.0, 0.0, 1.0, 1.0, 0.0]])
    x = SLCP().simulate(theta.expand(NUM, -1), seed=0)
    correlation = torch.corrcoef(x.T) - torch.eye(8)
    assert correlation.abs().max() < 5 / NUM**0.5


def test_scales_of_zero_leave_the_floor_of_the_variance():
    theta = torch.tensor([[1.0, -1.0, 0.0, 0.0, 2.0]])
    x = SLCP().simulate(theta.expand(NUM, -1), seed=0).reshape(-1, 2).double()
    deviation = x - torch.tensor([1.0, -1.0])
    # Float32 near one adds a rounding error of 6e-8, far below the floor of 1e-3.
    assert deviation.std().item() == pytest.approx(1e-3, rel=0.05)


@pytest.mark.parametrize("x", [INSIDE, OUTSIDE, FAR], ids=["inside", "outside", "far"])
def test_four_modes_have_a_quarter_of_the_mass_each(x):
    theta = SLCP().reference([x], NUM, seed=0)[:, 0]
    mode = 2 * (theta[:, 2] > 0).long() + (theta[:, 3] > 0).long()
    share = torch.bincount(mode, minlength=4) / NUM
    assert ((share - 0.25).abs() < 3 * (0.25 * 0.75 / NUM) ** 0.5).all()


def test_exchanging_the_axes_exchanges_the_parameters():
    x = torch.tensor([OUTSIDE])
    flipped = x.reshape(4, 2).flip(1).reshape(1, 8)
    first = features(SLCP().reference(x, NUM, seed=0)[:, 0])
    second = SLCP().reference(flipped, NUM, seed=1)[:, 0]
    second = features(second[:, [1, 0, 3, 2, 4]])
    error = ((first.var(dim=0) + second.var(dim=0)) / NUM).sqrt()
    assert ((first.mean(dim=0) - second.mean(dim=0)).abs() < 4 * error).all()


@pytest.mark.parametrize(
    "x",
    [
        FAR,
        [20.0] * 8,
        [0.0] * 8,
        [1000.0, 500.0, 1001.0, 502.0, 990.0, 510.0, 1004.0, 490.0],
        [-400.0, 0.0, 400.0, 0.1, -400.0, 0.2, 400.0, 0.3],
    ],
    ids=["far", "far_point", "point", "very_far", "very_wide"],
)
def test_extreme_x_have_a_posterior_in_the_box(x):
    theta = SLCP().reference([x], 200, seed=0)
    assert torch.isfinite(SLCP().prior.log_prob(theta)).all()
    assert (theta.std(dim=0) > 0).all()


def test_means_outside_the_box_press_against_its_edge():
    theta = SLCP().reference([FAR], 500, seed=0)[:, 0]
    assert (theta[:, :2].mean(dim=0) > 1.5).all()
    assert theta[:, 4].mean() > 1


def test_rows_are_answered_in_their_order():
    x = torch.tensor([INSIDE, FAR, OUTSIDE, INSIDE, FAR])
    theta = SLCP().reference(x, 500, seed=0)
    torch.testing.assert_close(
        theta[:, :2].abs().mean(dim=0),
        theta[:, 3:].abs().mean(dim=0),
        rtol=0,
        # Every coordinate's standard deviation is below 1.8.
        atol=4 * 1.8 * (2 / 500) ** 0.5,
    )
    assert (theta[:, 1, 0].mean() - theta[:, 0, 0].mean()) > 1
