"""Tests for ma_sbi_bench.methods.concat and ma_sbi_bench.methods.regression."""

from functools import partial

import pytest
import torch
from torch.distributions import MultivariateNormal

from bench.tests.methods.worlds import TEXTS, observe, small_flow
from ma_sbi import from_callable
from ma_sbi.correctors import Network
from ma_sbi_bench.methods import (
    Calibration,
    ConcatNPE,
    ContextToTheta,
    ContextToX,
    Materials,
    Simulations,
)
from tests.some_posteriors import PRIOR, exact, simulations

NORMAL = MultivariateNormal(torch.zeros(2), torch.eye(2))
CENTERS = torch.tensor([[-1.0, 0.0], [1.0, 0.5]])
SPREAD = 0.3


def told_by_the_context(n):
    """Draw theta around a center that the context names."""
    regime = torch.arange(n) % 2
    theta = CENTERS[regime] + SPREAD * torch.randn(n, 2)
    return Calibration(theta, [TEXTS[k] for k in regime], theta, theta)


def test_theta_follows_the_context_with_the_spread_of_the_residuals():
    num = 4000
    materials = Materials(prior=NORMAL, calibration=told_by_the_context(num))
    method = ContextToTheta().fit(materials)
    draws = method.sample(20_000, torch.zeros(2, 2), TEXTS, seed=0)
    error = 5 * SPREAD * (2 / num + 1 / 20_000) ** 0.5
    torch.testing.assert_close(draws.mean(dim=0), CENTERS, rtol=0, atol=error)
    deviation = draws.std(dim=0)
    error = 5 * SPREAD * (1 / (2 * num) + 1 / 40_000) ** 0.5
    torch.testing.assert_close(
        deviation, torch.full_like(deviation, SPREAD), rtol=0, atol=error
    )


def test_the_paper_takes_a_point_for_the_posterior():
    materials = Materials(prior=NORMAL, calibration=told_by_the_context(200))
    method = ContextToTheta(fitting=Network(), spread="none").fit(materials, seed=0)
    draws = method.sample(10, torch.zeros(2, 2), TEXTS)
    assert torch.equal(draws, draws[:1].expand_as(draws))


def test_another_spread_is_refused():
    materials = Materials(prior=NORMAL, calibration=told_by_the_context(40))
    with pytest.raises(ValueError, match="'residual' or 'none'"):
        ContextToTheta(spread="wide").fit(materials)


def test_the_posterior_is_shown_the_average_simulation_of_its_context():
    num = 4000
    posterior = from_callable(lambda n, x: exact(x).sample((n,)), batched=True)
    materials = Materials(
        prior=NORMAL, posterior=posterior, calibration=told_by_the_context(num)
    )
    shown = ContextToX().fit(materials).corrections(torch.zeros(2, 2), TEXTS).x[0]
    error = 5 * SPREAD * (2 / num) ** 0.5
    torch.testing.assert_close(shown, CENTERS, rtol=0, atol=error)


@pytest.mark.parametrize("with_simulations", [False, True])
def test_a_posterior_that_reads_the_context_removes_the_bias(with_simulations):
    """The exact answer is the posterior at x minus the shift of its context."""
    theta, x_sim, x_obs, context = observe(2000, seed=5)
    given = Materials(
        prior=PRIOR,
        simulations=Simulations(*simulations(2000)) if with_simulations else None,
        calibration=Calibration(x_obs, context, theta=theta),
    )
    backbone = partial(small_flow, max_epochs=40, patience=10)
    method = ConcatNPE(backbone=backbone, with_simulations=with_simulations)
    method.fit(given, seed=0)
    _, x_sim, x_obs, context = observe(200, seed=6)
    mean = method.sample(200, x_obs, context, seed=0).mean(dim=0)
    # Away from the edges of the prior the mean is x_sim. Without the context it would be
    # half a shift too high where the sensor read high, and half a shift too low elsewhere.
    inside = (x_sim.abs() < 1.4).all(dim=1)
    high = torch.tensor([text == TEXTS[1] for text in context])
    error = (mean - x_sim)[:, 0]
    left = error[inside & high].mean() - error[inside & ~high].mean()
    # Over eight training seeds what was left had a standard deviation of 0.07.
    assert abs(left) < 4 * 0.07
    assert error[inside].mean().abs() < 4 * 0.05  # the same seeds: 0.05
