"""The density of the diffusion model against closed forms, grids and its own draws."""

import copy
import math
from functools import lru_cache
from typing import NamedTuple

import pytest
import torch
from torch import nn
from torch.distributions import Independent, MultivariateNormal, Normal

from ma_sbi import CorrectedPosterior, fit_ddpm
from ma_sbi.demo import Beacons
from ma_sbi.metrics import log_score
from ma_sbi.networks import Standardise
from ma_sbi.posteriors.diffusion import DiffusionPosterior, noise_schedule
from ma_sbi.posteriors.training_range import TrainingRange
from ma_sbi.posteriors.unconstrained import on_real_line
from ma_sbi.protocols import has_density
from ma_sbi.randomness import derive, generator
from ma_sbi.simulation import sample_prior
from tests.some_posteriors import ddpm_posterior


class Rows(NamedTuple):
    theta: torch.Tensor
    x_sim: torch.Tensor


class GaussianTask:
    """theta ~ N(0, 0.1 I), x ~ N(theta, 0.1 I): theta | x ~ N(x / 2, 0.05 I)."""

    dim_x = 5
    prior = MultivariateNormal(torch.zeros(5), 0.1 * torch.eye(5))

    def draw(self, n, *, seed):
        theta = sample_prior(self.prior, n, seed=seed)
        noise = torch.randn(n, self.dim_x, generator=generator(derive(seed, "noise")))
        return Rows(theta, theta + 0.1**0.5 * noise)


TASK = GaussianTask()
ROWS = TASK.draw(48, seed=3)
POSTERIOR_SCALE = 0.05**0.5
EXACT = Independent(Normal(ROWS.x_sim / 2, POSTERIOR_SCALE), 1)


class ExactDenoiser(nn.Module):
    """The noise in theta_t where theta given x is N(x / 2, scale^2)."""

    def __init__(self, signal, scale):
        super().__init__()
        # sbi's map to the real line divides by the deviation of a Gaussian prior.
        unit = 0.1**0.5
        dim = TASK.dim_x
        self.theta_scale = Standardise(torch.full((dim,), 0.3), torch.full((dim,), 0.8))
        self.x_scale = Standardise(torch.full((dim,), 0.1), torch.full((dim,), 0.4))
        self.signal = signal
        self.variance = (scale / unit / 0.8) ** 2
        self.mean = lambda x: self.theta_scale(self.x_scale.invert(x) / 2 / unit)

    def forward(self, theta, step, x):
        left = self.signal[step[0]]
        total = left * self.variance + 1 - left
        return (1 - left).sqrt() * (theta - left.sqrt() * self.mean(x)) / total


def exact_model(schedule, scale=POSTERIOR_SCALE):
    prior, to_real = on_real_line(TASK.prior, None)
    signal = noise_schedule(schedule).float()
    return DiffusionPosterior(
        ExactDenoiser(signal, scale),
        signal,
        prior=prior,
        to_real=to_real,
        training_range=TrainingRange.of(TASK.draw(1000, seed=0).x_sim),
    )


def exact_flow(model, x):
    """Give the law of theta where N(0, I) follows the exact flow back from the end.

    It carries N(sqrt(a) m, a s^2 + 1 - a) to N(m, s^2), linearly.
    """
    network, left = model.network, model.signal[-1]
    mean = network.mean(network.x_scale(x))
    shrink = (network.variance / (left * network.variance + 1 - left)) ** 0.5
    unit = 0.1**0.5
    center = network.theta_scale.invert(mean - shrink * left.sqrt() * mean) * unit
    return Independent(Normal(center, shrink * network.theta_scale.scale * unit), 1)


@pytest.mark.parametrize("schedule", ["paper", "rescaled"])
@pytest.mark.parametrize(
    ("num_steps", "tolerance"), [(None, 0.005), (50, 0.02), (20, 0.15)]
)
def test_the_exact_denoiser_has_the_closed_form(schedule, num_steps, tolerance):
    model = exact_model(schedule)
    if num_steps is not None:
        model = model.deterministic(num_steps)
    theta = EXACT.sample((20,))
    expected = exact_flow(model, ROWS.x_sim).log_prob(theta)
    found = model.log_prob(theta, ROWS.x_sim)
    assert (found - expected).abs().max() < tolerance


def test_the_rescaled_schedule_gives_the_posterior_itself():
    theta = EXACT.sample((20,))
    found = exact_model("rescaled").log_prob(theta, ROWS.x_sim)
    # A share of 3e-5 of the signal's variance is left at the end, which moves the mean by
    # 0.0055 of itself, about as many deviations in each of five dimensions.
    difference = found - EXACT.log_prob(theta)
    assert difference.square().mean().sqrt() < 2 * 0.0055 * 5**0.5
    assert difference.mean().abs() < 0.005


def test_a_posterior_ten_times_narrower_than_the_prior():
    scale = 0.1**0.5 / 10
    narrow = Independent(Normal(ROWS.x_sim / 2, scale), 1)
    theta = narrow.sample((20,))
    found = exact_model("rescaled", scale).log_prob(theta, ROWS.x_sim)
    # The noise of the first step is a quarter as wide.
    assert (found - narrow.log_prob(theta)).mean().abs() < 0.02


@lru_cache
def trained():
    rows = TASK.draw(10_000, seed=1)
    options = {"schedule": "rescaled", "hidden": 128, "decay": "cosine"}
    size = {"epochs": 20, "batch_size": 128}
    return fit_ddpm(TASK.prior, rows.theta, rows.x_sim, **options, **size, seed=0)


@pytest.mark.slow
def test_a_trained_model_scores_nearly_as_well_as_the_exact_posterior():
    rows = TASK.draw(400, seed=4)
    exact = Independent(Normal(rows.x_sim / 2, POSTERIOR_SCALE), 1).log_prob(rows.theta)
    found = log_score(trained().deterministic(50), rows.theta, rows.x_sim)
    # A tenth of a nat in five dimensions, and the error of 400 rows.
    difference = exact - found
    error = difference.std() / math.sqrt(len(difference))
    assert -4 * error < difference.mean() < 0.1 + 4 * error


@pytest.mark.slow
def test_the_density_is_that_of_the_deterministic_draws():
    # The average of p / q over draws of q is one for every density p, here a Gaussian
    # somewhat narrower than the draws.
    model = trained().deterministic(50)
    x = ROWS.x_sim[:2]
    draws = model.sample(2000, x, seed=0)
    log_prob = model.log_prob(draws, x)
    for row in range(len(x)):
        mean, covariance = draws[:, row].mean(dim=0), draws[:, row].T.cov()
        fitted = MultivariateNormal(mean, 0.8 * covariance)
        weight = (fitted.log_prob(draws[:, row]) - log_prob[:, row]).exp()
        assert abs(weight.mean() - 1) < 4 * weight.std() / math.sqrt(len(weight)) + 0.02
        # The entropy is at most that of a Gaussian, and the draws are nearly Gaussian.
        entropy = MultivariateNormal(mean, covariance).entropy()
        spread = log_prob[:, row].std() / math.sqrt(len(draws))
        assert -4 * spread < log_prob[:, row].mean() + entropy < 4 * spread + 0.1


@lru_cache
def beacons():
    world = Beacons()
    rows = world.draw(5000, seed=0)
    options = {"schedule": "rescaled", "hidden": 64, "batch_size": 128, "epochs": 10}
    model = fit_ddpm(world.prior, rows.theta, rows.x_sim, **options, seed=0)
    # Far from the edges of the prior, which a grid cannot follow.
    middle = rows.theta.abs().amax(dim=1).argmin()
    return model.deterministic(50), rows.x_sim[middle][None]


def test_the_density_integrates_to_one_over_a_bounded_prior():
    model, x = beacons()
    num = 100
    middle = -1 + (torch.arange(num) + 0.5) * 2 / num
    theta = torch.cartesian_prod(middle, middle)[:, None]
    mass = model.log_prob(theta, x).exp().sum() * (2 / num) ** 2
    assert abs(mass - 1) < 0.03


def test_there_is_no_mass_outside_the_prior_and_its_edge_is_no_trouble():
    model, x = beacons()
    theta = torch.tensor([[1.0001, 0.0], [0.0, -7.0], [1.0, 0.0], [-1.0, -1.0]])[:, None]
    log_prob = model.log_prob(theta, x)[:, 0]
    assert (log_prob[:2] == -torch.inf).all()
    assert not log_prob.isnan().any()


def test_it_needs_no_gradients_of_the_caller_and_leaves_none_behind():
    model = trained().deterministic(5)
    with torch.no_grad():
        without = model.log_prob(ROWS.theta[None], ROWS.x_sim)
    assert torch.equal(without, model.log_prob(ROWS.theta[None], ROWS.x_sim))
    assert not without.requires_grad


def test_its_gradient_is_that_of_the_closed_form():
    model = exact_model("rescaled").deterministic(50)
    theta = (ROWS.x_sim[:4] / 2 + 0.1)[None].requires_grad_()
    (slope,) = torch.autograd.grad(model.log_prob(theta, ROWS.x_sim[:4]).sum(), theta)
    expected = exact_flow(model, ROWS.x_sim[:4]).log_prob(theta)
    (exact_slope,) = torch.autograd.grad(expected.sum(), theta)
    torch.testing.assert_close(slope, exact_slope, rtol=0.01, atol=0.01)


def test_many_rows_are_evaluated_in_several_passes(monkeypatch):
    model = trained().deterministic(5)
    theta = EXACT.sample((3,))
    whole = model.log_prob(theta, ROWS.x_sim)
    monkeypatch.setattr(model, "max_density_rows", 50)
    torch.testing.assert_close(model.log_prob(theta, ROWS.x_sim), whole)


def test_a_model_that_declares_no_density_refuses_to_evaluate():
    class Guided(DiffusionPosterior):
        has_density = False

    guided = copy.copy(ddpm_posterior())
    guided.__class__ = Guided
    assert has_density(ddpm_posterior())
    assert not has_density(guided)
    assert not has_density(CorrectedPosterior(guided, _Nothing()))
    with pytest.raises(ValueError, match="Guided can be sampled but has no density"):
        guided.log_prob(torch.zeros(1, 2, 3), torch.zeros(2, 3))


class _Nothing:
    def corrections(self, x, context):
        raise NotImplementedError
