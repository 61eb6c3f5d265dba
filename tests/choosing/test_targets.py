"""Tests for ma_sbi.choosing.targets: what held-out rows are scored by."""

import math

import pytest
import torch
from torch.distributions import Independent, MultivariateNormal, Normal

from ma_sbi import fit_corrector, from_callable
from ma_sbi.choosing.targets import Parameters, Predicted, by_posterior

N, NOISE = 2000, 0.7
SHRINK = 1 / (1 + NOISE**2)
ROWS = torch.arange(N)


def normal(*shape, seed=0):
    rng = torch.Generator().manual_seed(2000 + seed)
    return torch.randn(*shape, generator=rng, dtype=torch.float64)


def exact_posterior(dim, prior=True):
    """Return the posterior of x = theta + noise, theta standard normal."""
    spread = (NOISE**2 * SHRINK) ** 0.5

    def at(x):
        return Independent(Normal(SHRINK * x, spread), 1)

    return from_callable(
        lambda num, x: at(x).sample((num,)),
        lambda theta, x: at(x).log_prob(theta),
        batched=True,
        prior=MultivariateNormal(torch.zeros(dim), torch.eye(dim)) if prior else None,
    )


def simulate(theta, seed):
    return theta + NOISE * normal(*theta.shape, seed=seed)


def log_ratio(x_sim, x):
    """Log density of x_sim under what the posterior at x predicts, less under the prior."""
    predicted = Normal(SHRINK * x, (NOISE**2 * SHRINK + NOISE**2) ** 0.5)
    return (predicted.log_prob(x_sim) - Normal(0.0, SHRINK**-0.5).log_prob(x_sim)).sum(-1)


def test_predicted_is_the_density_of_x_sim_under_the_posterior_predictive():
    theta = normal(N, 2)
    x_obs, x_sim = simulate(theta, 1), simulate(theta, 2)
    target = Predicted(exact_posterior(2), x_sim[:, None], seed=0)
    candidates = torch.stack([x_obs, 0.5 * x_obs + 0.3])
    score = target.score(ROWS, candidates)
    assert score.shape == (1, 2, N)
    # The average of densities over draws is unbiased; here it is divided by what it
    # estimates, so that every row has the mean one.
    ratio = (score[0] - log_ratio(x_sim, candidates)).exp()
    error = ratio.std(dim=1) / N**0.5
    assert ((ratio.mean(dim=1) - 1).abs() < 5 * error).all()


def test_predicting_by_the_prior_scores_zero():
    x_sim = simulate(normal(N, 1), 1)
    target = Predicted(exact_posterior(1), x_sim[:, None], seed=0)
    assert (target.floor(ROWS) == 0).all()
    assert log_ratio(x_sim, torch.full_like(x_sim, 1e-9)).mean() != 0


def test_nothing_beats_the_exact_posterior_where_only_noise_differs():
    theta = normal(N, 2)
    x_obs, x_sim = simulate(theta, 1), simulate(theta, 2)
    posterior = exact_posterior(2)
    towards = torch.stack([x_obs, SHRINK * x_obs, 0.5 * x_obs])
    own = Predicted(posterior, x_sim[:, None], seed=0).score(ROWS, towards)[0]
    for other in own[1:]:
        gain = other - own[0]
        assert gain.mean() < -3 * gain.std() / N**0.5


def test_every_simulation_of_a_row_is_predicted_by_itself():
    theta = normal(50, 2)
    x_obs = simulate(theta, 1)
    repeats = torch.stack([simulate(theta, seed) for seed in (2, 3, 4)], dim=1)
    target = Predicted(exact_posterior(2), repeats, seed=0)
    score = target.score(torch.arange(50), x_obs[None])
    assert score.shape == (2, 1, 50)
    exact = torch.stack([log_ratio(repeats[:, one], x_obs) for one in (0, 1)])
    apart = score[:, 0] - exact
    # Of 32 draws; a row that is compared with another's simulation differs by far more.
    assert apart.abs().median() < 0.5
    assert (score[:, 0] - exact.flip(0)).abs().median() > 0.5


def test_what_a_posterior_judges_by():
    x_sim = normal(20, 1, 2)
    posterior, theta = exact_posterior(2), normal(20, 2).float()
    judged = {own: by_posterior(posterior, x_sim, own_noise=own) for own in (True, False)}
    assert isinstance(judged[True], Predicted)
    assert isinstance(judged[False], Parameters)
    known = by_posterior(posterior, x_sim, own_noise=True, theta=theta)
    assert isinstance(known, Parameters)
    assert torch.equal(known.theta[0], theta)
    assert by_posterior(None, x_sim, own_noise=True) is None
    # Its density cannot be divided by that of the prior.
    assert by_posterior(exact_posterior(2, prior=False), x_sim, own_noise=True) is None


@pytest.mark.parametrize("departs", [True, False])
def test_a_gain_is_undone_although_x_sim_has_noise_of_its_own(departs):
    num, labels = 600, ["weak", "strong"] * 300
    theta = normal(num, 2, seed=5)
    gain = torch.tensor([[0.5], [1.8]]).double().repeat(num // 2, 1) if departs else 1.0
    latent = simulate(theta, 6)
    posterior = exact_posterior(2)
    corrector = fit_corrector(
        labels, gain * latent, simulate(theta, 7), posterior=posterior, seed=0
    )
    fresh = normal(num, 2, seed=8)
    x = simulate(fresh, 9)
    found = corrector.corrections((gain * x).float(), labels)
    each = posterior.log_prob(
        fresh.float()[None].expand(len(found.x), -1, -1).flatten(0, 1)[None],
        found.x.flatten(0, 1),
    )[0].unflatten(0, found.x.shape[:2])
    score = (each + found.log_weight).logsumexp(dim=0).double()
    left = posterior.log_prob(fresh.float()[None], (gain * x).float())[0].double()
    oracle = posterior.log_prob(fresh.float()[None], x.float())[0].double()
    if not departs:
        # What evens out noise of x_sim would lose: shrunk to SHRINK x, 0.1 nats.
        assert (score - oracle).mean() > -0.03
        return
    assert (oracle - left).mean() > 0.5
    assert (score - left).mean() > 0.8 * (oracle - left).mean()


def test_the_log_of_an_average_is_of_as_many_draws_as_it_says():
    x_sim = normal(10, 1, 1)
    target = Predicted(exact_posterior(1), x_sim, seed=0)
    every = Normal(0.0, 1.0).log_prob(target.theta.double()).squeeze(-1)
    torch.testing.assert_close(target.log_prior, every, atol=1e-5, rtol=1e-5)
    at = target.posterior.log_prob(target.theta, x_sim[:, 0].float()).double() - every
    expected = at.logsumexp(dim=0) - math.log(len(target.theta))
    found = target.score(torch.arange(10), x_sim[None, :, 0])[0, 0]
    torch.testing.assert_close(found, expected, atol=1e-5, rtol=1e-5)
