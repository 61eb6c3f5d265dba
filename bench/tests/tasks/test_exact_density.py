"""Densities of exact posteriors and evidences against closed forms and integrals."""

import math

import pytest
import torch
from torch.distributions import MultivariateNormal

from ma_sbi_bench.tasks import SLCP, GaussianLinear, TwoMoons

NUM = 4000
# In the middle, at the fold, cut by the box, and barely within reach.
MOONS = [[-0.64, 0.16], [0.3, 0.02], [-0.5, 0.62], [-1.08, 0.05], [0.33, 0.0]]
SLCP_INSIDE = [1.0, -1.5, -2.0, 2.5, 3.0, 0.5, 0.5, -3.0]
SLCP_OUTSIDE = [6.0, -1.0, 2.5, 3.0, 7.0, -4.0, 3.0, 1.0]


def test_gaussian_linear_has_the_normal_densities():
    x = torch.randn(6, 5, generator=torch.Generator().manual_seed(0)).double()
    theta, identity = 0.3 * x.flip(0), torch.eye(5).double()
    task = GaussianLinear()
    posterior = MultivariateNormal(x / 2, 0.05 * identity)
    evidence = MultivariateNormal(torch.zeros(5).double(), 0.2 * identity)
    torch.testing.assert_close(
        task.reference_log_prob(theta, x), posterior.log_prob(theta).float()
    )
    torch.testing.assert_close(task.log_evidence(x), evidence.log_prob(x).float())


def moons_log_likelihood(theta, x):
    """Density of x for a uniform angle and a normal radius, which is never negative."""
    first = x[0] - 0.25 + theta.sum(dim=1).abs() / math.sqrt(2)
    second = x[1] - (theta[:, 1] - theta[:, 0]) / math.sqrt(2)
    radius = torch.hypot(first, second)
    log_radius = -0.5 * ((radius - 0.1) / 0.01) ** 2 - math.log(0.01 * (2 * math.pi) ** 0.5)
    return (log_radius - (math.pi * radius).log()).masked_fill(first < 0, -torch.inf)


def square_grid(count):
    axis = (2 * torch.arange(count, dtype=torch.float64) + 1) / count - 1
    return torch.cartesian_prod(axis, axis), (2 / count) ** 2


@pytest.mark.parametrize("x", MOONS, ids=str)
def test_two_moons_agrees_with_quadrature(x):
    theta, area = square_grid(1000)
    task, x = TwoMoons(), torch.tensor(x).double()
    log_joint = moons_log_likelihood(theta, x) - math.log(4)
    right = log_joint.logsumexp(dim=0).item() + math.log(area)
    # Cells of a fifth of the crescent's width, cut through by its ends.
    assert task.log_evidence(x[None]).item() == pytest.approx(right, abs=5e-3)
    log_prob = task.reference_log_prob(theta, x[None]).double()
    assert log_prob.exp().sum().item() * area == pytest.approx(1.0, abs=5e-3)
    likely = log_joint > log_joint.max() - 30
    torch.testing.assert_close(
        log_prob[likely], (log_joint - right)[likely], rtol=0, atol=5e-3
    )


@pytest.mark.parametrize("x", MOONS, ids=str)
def test_the_mean_density_of_two_moons_draws_is_the_entropy_of_the_grid(x):
    theta, area = square_grid(1000)
    task = TwoMoons()
    log_prob = task.reference_log_prob(theta, [x]).double()
    mass = log_prob.exp() * area
    exact = (mass[mass > 0] @ log_prob[mass > 0]).item()
    found = task.reference_log_prob(task.reference([x], NUM, seed=0)[:, 0], [x]).double()
    error = found.std().item() / NUM**0.5
    assert found.mean().item() == pytest.approx(exact, abs=4 * error + 0.02)


def test_the_evidence_of_two_moons_that_are_far_away_is_small_but_computable():
    x = torch.tensor([[5.0, 0.0], [-5.0, 0.5], [0.3, 40.0], [300.0, -200.0]])
    log_evidence = TwoMoons().log_evidence(x)
    assert torch.isfinite(log_evidence).all()
    assert (log_evidence < -1e4).all()


def slcp_log_likelihood(theta, x):
    theta, points = theta.double(), torch.tensor(x).double().reshape(4, 1, 2)
    s1, s2, rho = theta[:, 2] ** 2, theta[:, 3] ** 2, theta[:, 4].tanh()
    v11, v12, v22 = s1**2 + 1e-6, rho * s1 * s2, s2**2 + 1e-6
    rows = [torch.stack(row, dim=1) for row in ((v11, v12), (v12, v22))]
    law = MultivariateNormal(theta[:, :2], torch.stack(rows, dim=1))
    return law.log_prob(points).sum(dim=0)


@pytest.mark.parametrize("x", [SLCP_INSIDE, SLCP_OUTSIDE], ids=["inside", "outside"])
def test_the_evidence_of_slcp_is_the_mean_likelihood_over_the_prior(x):
    task = SLCP()
    log_likelihood = slcp_log_likelihood(task.draw(400_000, seed=0).theta, x)
    scale = log_likelihood.max()
    weight = (log_likelihood - scale).exp()
    error = (weight.std() / weight.mean() / len(weight) ** 0.5).item()
    assert error < 0.05
    expected = (weight.mean().log() + scale).item()
    assert task.log_evidence([x]).item() == pytest.approx(expected, abs=4 * error)


def test_the_evidence_of_slcp_near_the_floor_is_the_mean_likelihood_of_proposals():
    # The first axis is at the floor of the variance, so prior draws are too rarely near.
    task = SLCP()
    x = task.simulate([[-1.8, 0.5, 0.01, 1.2, -1.0]], seed=0)
    mean, source = x.reshape(4, 2).mean(dim=0), torch.Generator().manual_seed(0)
    level = torch.rand(400_000, 5, generator=source)
    low = torch.tensor([mean[0] - 0.01, -3.0, 0.0, 0.0, -3.0])
    high = torch.tensor([mean[0] + 0.01, 3.0, 0.3, 3.0, 3.0])
    proposals = low.double() + level.double() * (high - low).double()
    log_likelihood = slcp_log_likelihood(proposals, x[0].tolist())
    # The four signs have the same likelihood.
    log_share = (high - low).double().log().sum() + math.log(4) - 5 * math.log(6)
    scale = log_likelihood.max()
    weight = (log_likelihood - scale).exp()
    error = (weight.std() / weight.mean() / len(weight) ** 0.5).item()
    assert error < 0.05
    expected = (weight.mean().log() + scale + log_share).item()
    assert task.log_evidence(x).item() == pytest.approx(expected, abs=4 * error)


def test_density_and_evidence_of_slcp_make_up_the_joint_density():
    task = SLCP()
    draws = task.draw(3, seed=0)
    found = task.reference_log_prob(draws.theta, draws.x_sim)
    found = found + task.log_evidence(draws.x_sim)
    pairs = zip(draws.theta, draws.x_sim.tolist(), strict=True)
    right = [slcp_log_likelihood(theta[None], x).item() for theta, x in pairs]
    right = torch.tensor(right) - 5 * math.log(6)
    torch.testing.assert_close(found, right, rtol=1e-4, atol=1e-4)


def test_evidences_tell_the_regime_of_two_moons():
    task = TwoMoons(shift_length=3.0)
    draws = task.draw(20, seed=0)
    log_evidence = [task.log_evidence(draws.x_obs, regime=k) for k in range(4)]
    assert torch.equal(torch.stack(log_evidence).argmax(dim=0), draws.regime)
