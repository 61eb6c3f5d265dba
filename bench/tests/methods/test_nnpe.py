"""The error model of Ward et al. 2022, and posteriors trained on noisy simulations."""

import math

import pytest
import torch

from bench.tests.methods.worlds import SHIFTS, fitted, materials
from ma_sbi.networks import Standardise
from ma_sbi_bench.methods import NNPE, IsotropicNNPE
from ma_sbi_bench.methods.error_model import SpikeAndSlab

NUM = 100_000
SIGMAS = 4


def within(interval):
    """Closed form of P(|noise| < interval) with the default scales."""
    spike = math.erf(interval / 0.01 / math.sqrt(2))
    slab = 2 / math.pi * math.atan(interval / 0.25)
    return 0.5 * spike + 0.5 * slab


@pytest.mark.parametrize("interval", [0.01, 0.05, 0.25, 5.0])
def test_half_of_the_noise_is_slab(interval):
    noise = SpikeAndSlab().sample((NUM,), seed=0)
    expected = within(interval)
    error = math.sqrt(expected * (1 - expected) / NUM)
    share = (noise.abs() < interval).double().mean().item()
    assert abs(share - expected) < SIGMAS * error


def test_the_median_of_the_slab_is_its_scale():
    noise = SpikeAndSlab(slab_probability=1 - 1e-9).sample((NUM,), seed=0)
    error = math.pi * 0.25 / 2 / math.sqrt(NUM)  # 1 / (2 density sqrt(n)) at the median
    assert abs(noise.abs().median().item() - 0.25) < SIGMAS * error


@pytest.mark.parametrize("interval", [0.01, 0.05, 0.25, 5.0])
def test_the_density_is_that_of_the_noise(interval):
    grid = torch.linspace(-interval, interval, 200_001, dtype=torch.float64)
    mass = torch.trapezoid(SpikeAndSlab().log_prob(grid).exp(), grid).item()
    assert mass == pytest.approx(within(interval), rel=1e-6)


def test_responsibility_is_bayes_rule():
    spike, slab = 0.7 / (math.sqrt(2 * math.pi) * 0.1), 0.3 / (math.pi * 2.0)
    responsibility = SpikeAndSlab(0.1, 2.0, 0.3).responsibility(torch.zeros(1)).item()
    assert responsibility == pytest.approx(slab / (slab + spike), rel=1e-5)


def test_noise_from_a_generator_goes_on_where_it_was():
    rng = torch.Generator().manual_seed(0)
    first, second = (SpikeAndSlab().sample((5,), seed=rng) for _ in range(2))
    assert torch.equal(first, SpikeAndSlab().sample((5,), seed=0))
    assert not torch.equal(first, second)


@pytest.mark.parametrize(
    "options",
    [{"spike_scale": 0}, {"slab_scale": -1.0}, {"slab_probability": 1.0}],
    ids=lambda options: next(iter(options)),
)
def test_an_impossible_error_model_is_refused(options):
    name = next(iter(options))
    with pytest.raises(ValueError, match=name):
        SpikeAndSlab(**options)
    with pytest.raises(ValueError, match=name):
        NNPE(**options).fit(materials())


def test_standardising_can_be_undone_and_keeps_what_never_varies():
    x = torch.tensor([[1.0, 3.0], [5.0, 3.0]])
    standardise = Standardise.of(x)
    assert standardise(x)[:, 1].tolist() == [0.0, 0.0]
    torch.testing.assert_close(standardise.invert(standardise(x)), x)


class Recorder:
    """A backbone that keeps what it was trained on, and draws what it is shown."""

    def __call__(self, prior, theta, x, *, seed=None):
        self.theta, self.x = theta, x
        return self

    def sample(self, num_samples, x, *, seed=None):
        return x.expand(num_samples, -1, -1)


def test_nnpe_trains_on_simulations_with_noise_of_their_own_scale():
    simulations, backbone = materials().simulations, Recorder()
    NNPE(backbone).fit(materials(), seed=0)
    standardised = Standardise.of(simulations.x)(simulations.x)
    noise = torch.sinh(backbone.x) - standardised
    assert torch.equal(backbone.theta, simulations.theta)
    for interval in (0.05, 0.25):
        expected = within(interval)
        error = math.sqrt(expected * (1 - expected) / noise.numel())
        share = (noise.abs() < interval).double().mean().item()
        assert abs(share - expected) < SIGMAS * error


def test_nnpe_shows_an_observation_as_it_did_the_simulations():
    x = materials().simulations.x
    shown = NNPE(Recorder()).fit(materials(), seed=0).sample(1, x[:3])[0]
    expected = torch.asinh((x[:3] - x.mean(dim=0)) / x.std(dim=0))
    torch.testing.assert_close(shown, expected)


@pytest.mark.filterwarnings("ignore::ma_sbi.posteriors.training_range.OutsideTrainingRange")
def test_nnpe_stays_finite_far_from_all_simulations():
    assert fitted("nnpe").sample(10, torch.full((1, 3), 1e6), seed=0).isfinite().all()


def test_isotropic_noise_has_its_scale_in_the_units_of_x():
    backbone = Recorder()
    IsotropicNNPE(backbone, scale=0.3).fit(materials(), seed=0)
    noise = backbone.x - materials().simulations.x
    error = 0.3 / math.sqrt(2 * noise.numel())
    assert abs(noise.std().item() - 0.3) < SIGMAS * error


def test_matched_noise_has_the_norm_of_the_departure():
    method = IsotropicNNPE(Recorder(), scale="matched").fit(materials(), seed=0)
    # Both regimes are equally frequent in the calibration set.
    assert method.scale_ == pytest.approx(SHIFTS.square().mean().sqrt().item(), rel=1e-5)


def test_matched_noise_needs_pairs_and_given_noise_does_not():
    assert IsotropicNNPE(scale="matched").needs == {"simulations", "pairs"}
    assert IsotropicNNPE(scale=0.1).needs == {"simulations"}


@pytest.mark.parametrize("scale", [0.0, -1, math.inf, "matching"])
def test_noise_without_a_scale_is_refused(scale):
    with pytest.raises(ValueError, match="positive, or 'matched'"):
        IsotropicNNPE(scale=scale).fit(materials())
