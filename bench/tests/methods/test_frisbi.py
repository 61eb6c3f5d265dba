"""FRISBI where mixtures are known in closed form, and a backbone is a regression."""

import math

import pytest
import torch
from torch import nn
from torch.distributions import MultivariateNormal

from bench.tests.methods import gaussian
from ma_sbi import from_callable
from ma_sbi_bench.methods import FRISBI
from ma_sbi_bench.methods.transport import semi_balanced_plan, squared_cost

SEVERAL = 5  # standard errors
SHIFT, GAMMA, DIM = 2.0, 0.5, 2


def linear_regression(prior, theta, x, *, seed=None):
    """Fit the best linear Gaussian posterior, by least squares: no training noise."""
    inputs = torch.cat([torch.ones(len(x), 1), x], dim=1)
    coefficients = torch.linalg.lstsq(inputs, theta).solution
    noise = MultivariateNormal(
        torch.zeros(theta.shape[1]), (theta - inputs @ coefficients).T.cov()
    )

    def mean(x):
        return coefficients[0] + x @ coefficients[1:]

    return from_callable(
        lambda n, x: mean(x) + noise.sample((n, len(x))),
        lambda theta, x: noise.log_prob(theta - mean(x)),
        batched=True,
    )


def fitted(given, **options):
    defaults = {
        "embedding": nn.Identity(),
        "backbone": linear_regression,
        "gamma": GAMMA,
        "learning_rate": 0.01,
        "epochs": 30,
        "num_draws": 20,
    }
    return FRISBI(**{**defaults, **options}).fit(given, seed=0)


def test_the_weights_are_the_plan_of_rope_with_free_columns():
    real, simulated = gaussian.draw(6, 1)[1].double(), gaussian.draw(9, 2)[1].double()
    cost = squared_cost(real, simulated)
    expected = (real[:, None] - simulated).square().sum(dim=2) / DIM
    torch.testing.assert_close(cost, expected)
    plan = semi_balanced_plan(cost, GAMMA, tau=0.0)
    torch.testing.assert_close(FRISBI(gamma=GAMMA)._weight(cost), 6 * plan)


def test_the_distilled_posterior_is_the_mixture_in_closed_form():
    r"""With g given, weights times density of simulations is normal, and so the mixture.

    x_s | g ~ N(keep g, keep c) with the kernel's variance c = gamma d / 2 and
    keep = v / (v + c), v the variance of simulations; theta | x_s is the posterior.
    """
    num, num_draws, num_simulations = 400, 50, 4_000
    given = gaussian.materials(num_calibration=50, num_unlabelled=num)
    # A rate of nearly zero: g stays the identity, and only stage C is looked at.
    frisbi = fitted(
        given,
        learning_rate=1e-12,
        epochs=1,
        num_draws=num_draws,
        num_simulations=num_simulations,
    )
    variance, kernel = 1 + gaussian.NOISE**2, GAMMA * DIM / 2
    keep = variance / (variance + kernel)
    spread = math.sqrt(gaussian.SPREAD**2 + gaussian.SHRINKAGE**2 * keep * kernel)
    x = gaussian.draw(200, 7)[1]
    draws = frisbi.sample(2_000, x, seed=0)
    # The coefficients know as much as the draws of all rows, and as the simulations,
    # of which each row uses the share under its kernel.
    shared = num_simulations * (kernel / (variance + kernel)) ** (DIM / 2)
    standard_error = spread * (1 / (num * num_draws) + 1 / shared + 1 / 2_000) ** 0.5
    far = 1 + x.norm(dim=1, keepdim=True) / variance**0.5  # a slope errs more far out
    error = draws.mean(dim=0) - gaussian.SHRINKAGE * keep * x
    assert (error.abs() < SEVERAL * standard_error * far).all()
    assert draws.std(dim=0).mean().item() == pytest.approx(spread, rel=0.05)


def test_a_shift_is_learned_from_pairs_and_forgotten_by_the_posterior():
    given = gaussian.materials(num_calibration=200, num_unlabelled=200, shift=SHIFT)
    frisbi = fitted(given)
    theta, x = gaussian.draw(2_000, 7, shift=SHIFT)
    error = frisbi.sample(20, x, seed=0).mean(dim=0) - theta
    standard_error = error.std(dim=0) / 200**0.5  # of a mean over the calibration pairs
    assert (error.mean(dim=0).abs() < SEVERAL * standard_error).all()
    assert (SEVERAL * standard_error < gaussian.SHRINKAGE * SHIFT / 2).all()
    assert (frisbi.g_(x).mean(dim=0) - (x - SHIFT).mean(dim=0)).abs().max() < SHIFT / 4


def test_the_transport_pulls_observations_towards_simulations():
    """Without pairs that pull back, the cost of transport is what g lowers."""
    given = gaussian.materials(num_calibration=5, num_unlabelled=200, shift=SHIFT)
    x = gaussian.draw(500, 7, shift=SHIFT)[1]
    x_sim = gaussian.draw(1_000, 9)[1]

    def moved(weight):
        cost = squared_cost(fitted(given, transport_weight=weight).g_(x), x_sim)
        return (FRISBI(gamma=GAMMA)._weight(cost) * cost).sum(dim=1).mean()

    assert moved(100.0) < 0.9 * moved(0.0)


def test_a_trained_embedding_is_copied_not_changed():
    h = nn.Linear(2, 3)
    before = h.weight.detach().clone()
    frisbi = fitted(gaussian.materials(shift=SHIFT), embedding=h, epochs=3)
    assert torch.equal(h.weight, before)
    assert not torch.equal(frisbi.g_.weight, before)
    assert not any(parameter.requires_grad for parameter in frisbi.g_.parameters())


@pytest.mark.parametrize(
    ("options", "message"),
    [
        ({"gamma": 0.0}, "gamma"),
        ({"transport_weight": -1.0}, "transport_weight"),
        ({"num_draws": 0}, "num_draws"),
        ({"epochs": 0.5}, "epochs"),
    ],
)
def test_bad_options_are_refused(options, message):
    with pytest.raises(ValueError, match=message):
        fitted(gaussian.materials(), **options)
