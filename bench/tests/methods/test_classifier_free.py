"""Classifier-free guidance: what each strength must give, and what it is trained on."""

import math

import pytest
import torch
from torch import nn
from torch.distributions import MultivariateNormal, Normal

from bench.tests.methods.worlds import TEXTS, materials, observe, small_ddpm
from ma_sbi import CategoryEncoder
from ma_sbi.networks import Standardise
from ma_sbi.posteriors.diffusion import DiffusionPosterior, noise_schedule
from ma_sbi.posteriors.training_range import TrainingRange
from ma_sbi.posteriors.unconstrained import on_real_line
from ma_sbi.protocols import has_density
from ma_sbi_bench.methods.classifier_free import ClassifierFree
from ma_sbi_bench.methods.guidance import ContextGuided

SIGNAL = noise_schedule("rescaled").float()


class ExactDenoiser(nn.Module):
    """theta given x and a code of one number is N(x - code, (s + narrowing code)^2)."""

    def __init__(self, narrowing=0.0):
        super().__init__()
        self.theta_scale = Standardise(torch.zeros(1), torch.ones(1))
        # The code has a mean and a scale: its zero is not the network's zero.
        self.x_scale = Standardise(torch.tensor([0.0, 0.3]), torch.tensor([1.0, 0.5]))
        self.narrowing = narrowing

    def law(self, left, condition):
        x, code = self.x_scale.invert(condition).split(1, dim=1)
        variance = (0.5 - self.narrowing * code).square()
        return Normal(left.sqrt() * (x - code), (left * variance + 1 - left).sqrt())

    def forward(self, theta, step, condition):
        law = self.law(SIGNAL[step[0]], condition)
        return (1 - SIGNAL[step[0]]).sqrt() * (theta - law.mean) / law.variance


def posterior(network):
    prior, to_real = on_real_line(MultivariateNormal(torch.zeros(1), torch.eye(1)), None)
    scattered = TrainingRange.of(5 * torch.randn(100, 2))
    return DiffusionPosterior(
        network, SIGNAL, prior=prior, to_real=to_real, training_range=scattered
    )


X = torch.tensor([[0.2], [-0.7]])
CODE = torch.tensor([[0.4], [0.1]])


@pytest.mark.parametrize("strength", [-1.0, 0.0, 0.5, 2.0])
def test_equal_variances_give_the_gaussian_that_is_moved_further(strength):
    # With one variance s^2, p(.|x,z)^(1+l) / p(.|x)^l = N(x - (1+l) z, s^2) at every
    # noise level, so the guided draws are those of the model at that code.
    base = posterior(ExactDenoiser())
    guided = ContextGuided(base, 1, strength)
    draws = guided.sample(200, torch.cat([X, CODE], dim=1), seed=0)
    moved = torch.cat([X, (1 + strength) * CODE], dim=1)
    torch.testing.assert_close(draws, base.sample(200, moved, seed=0), atol=1e-4, rtol=1e-4)


@pytest.mark.parametrize("step", [0, 20, 100, 199])
def test_the_guided_score_is_the_combination_of_scores(step):
    network = ExactDenoiser(narrowing=0.6)
    guided = ContextGuided(posterior(network), 1, strength := 1.5)
    told, untold = (
        network.x_scale(torch.cat([X, code], dim=1)) for code in (CODE, 0 * CODE)
    )
    theta, left = torch.tensor([[0.3], [-1.0]], requires_grad=True), SIGNAL[step]
    log_density = (1 + strength) * network.law(left, told).log_prob(theta)
    log_density = log_density - strength * network.law(left, untold).log_prob(theta)
    (score,) = torch.autograd.grad(log_density.sum(), theta)
    clean = guided._clean(theta.detach(), step, told)
    found = (left.sqrt() * clean - theta.detach()) / (1 - left)
    torch.testing.assert_close(found, score, atol=1e-3, rtol=1e-3)


def fit(**options):
    method = ClassifierFree(CategoryEncoder(), backbone=small_ddpm, **options)
    return method.fit(materials(), seed=0)


_, _, X_OBS, CONTEXT = observe(40, seed=21)


def test_strength_zero_is_the_plain_conditional_model():
    method = fit()
    plain = DiffusionPosterior.sample  # of the network, without guidance
    base = method.posterior_
    condition = torch.cat([X_OBS, method.code_(materials().calibration.context[:40])], 1)
    unguided = DiffusionPosterior(
        base.network,
        base.signal,
        prior=base.prior,
        to_real=base.to_real,
        training_range=base.training_range,
    )
    expected = plain(unguided, 20, condition, seed=3)
    assert torch.equal(method.sample(20, X_OBS, CONTEXT, seed=3), expected)


def test_strength_minus_one_is_the_model_without_context():
    without = fit(strength=-1.0).sample(20, X_OBS, CONTEXT, seed=3)
    silent = fit().sample(20, X_OBS, [None] * 40, seed=3)
    assert torch.equal(without, silent)


@pytest.mark.slow
def test_the_context_moves_the_draws_and_guidance_moves_them_further():
    high = [TEXTS[1]] * 40

    def mean(strength, context):
        return fit(strength=strength).sample(200, X_OBS, context, seed=0)[..., 0].mean()

    moved, moved_further = (mean(s, high) - mean(-1.0, high) for s in (0.0, 1.0))
    # The sensor reads 0.5 too high; the model without context knows half of it at most.
    assert -0.6 < moved < -0.2
    assert moved_further < 1.5 * moved


class _Caught(Exception):  # noqa: N818 (no error: it ends the fit)
    pass


def test_training_rows_have_the_declared_shares():
    def catch(prior, theta, x, *, seed):
        raise _Caught(theta, x)

    method = ClassifierFree(
        CategoryEncoder(), drop_probability=0.2, calibration_share=0.25, backbone=catch
    )
    with pytest.raises(_Caught) as caught:
        method.fit(materials(), seed=0)
    theta, x = caught.value.args
    code = x[:, 3:]
    assert len(theta) == len(x) == 2667  # 2000 simulations, a third as many real rows
    assert not code[:2000].any()
    dropped = (~code[2000:].any(dim=1)).float().mean()
    assert abs(dropped - 0.2) < 4 * math.sqrt(0.2 * 0.8 / 667)
    _, count = theta[2000:].unique(dim=0, return_counts=True)
    assert len(count) == 200
    assert set(count.tolist()) == {3, 4}


@pytest.mark.parametrize(
    ("options", "message"),
    [
        ({"drop_probability": 1.0}, "drop_probability"),
        ({"calibration_share": 1.0}, "calibration_share"),
        ({"backbone": lambda *data, seed: "a flow"}, "must train a diffusion model"),
    ],
)
def test_bad_options_are_refused(options, message):
    with pytest.raises(ValueError, match=message):
        ClassifierFree(**options).fit(materials())


def test_a_guided_model_has_no_density_unless_it_guides_nowhere():
    base = posterior(ExactDenoiser()).deterministic(5)
    theta, rows = torch.zeros(1, 2, 1), torch.cat([X, CODE], dim=1)
    plain, guided = (ContextGuided(base, 1, strength) for strength in (0.0, 1.0))
    torch.testing.assert_close(plain.log_prob(theta, rows), base.log_prob(theta, rows))
    assert not has_density(guided)
    with pytest.raises(ValueError, match="ContextGuided can be sampled but has no density"):
        guided.log_prob(theta, rows)
