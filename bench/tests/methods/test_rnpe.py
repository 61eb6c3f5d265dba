"""Denoising against integrals on a grid, the density of simulations, and RNPE."""

from dataclasses import replace

import pytest
import torch
from torch.distributions import MultivariateNormal

from bench.tests.methods.worlds import fitted, materials, small_marginal
from ma_sbi.networks import Standardise
from ma_sbi.randomness import seeded
from ma_sbi_bench.methods import RNPE, Simulations
from ma_sbi_bench.methods.denoising import denoise, split_r_hat
from ma_sbi_bench.methods.error_model import SpikeAndSlab
from ma_sbi_bench.methods.marginal import fit_marginal
from ma_sbi_bench.methods.rnpe import ChainsNotMixed

pytestmark = [
    pytest.mark.filterwarnings("ignore:training of q"),
    pytest.mark.filterwarnings("ignore::ma_sbi_bench.methods.rnpe.ChainsNotMixed"),
]

SIGMAS = 4
ERROR_MODEL = SpikeAndSlab()
# As usual; in conflict, so that either may be wrong; one far outside; both a bit outside.
Y = torch.tensor([[0.5, 0.4], [1.5, -0.5], [7.0, 0.3], [2.5, 2.6]])


def correlated(correlation, dim=2):
    covariance = correlation + (1 - correlation) * torch.eye(dim)
    return MultivariateNormal(torch.zeros(dim), covariance)


def axis(y):
    """A grid for one statistic, fine around the spike, with trapezoidal weights."""
    coarse = torch.arange(-8, 8, 0.04, dtype=torch.float64)
    fine = y + torch.arange(-0.06, 0.0601, 0.002, dtype=torch.float64)
    points = torch.cat([coarse[(coarse - y).abs() > 0.06], fine]).sort().values
    gaps = torch.nn.functional.pad(points.diff(), (1, 1))
    return points, (gaps[1:] + gaps[:-1]) / 2


def on_grid(density, y):
    """Points of x and the probability of each given y."""
    points, weights = zip(*(axis(value) for value in y.double()), strict=True)
    x = torch.cartesian_prod(*points).reshape(-1, len(y))
    weight = torch.cartesian_prod(*weights).reshape(-1, len(y)).prod(dim=1)
    precision = density.precision_matrix.double()
    log_prob = -0.5 * ((x @ precision) * x).sum(dim=1)
    log_prob = log_prob + ERROR_MODEL.log_prob(y.double() - x).sum(dim=1)
    return x, (log_prob + weight.log()).softmax(dim=0)[:, None]


def check_moments(draws, x, probability, transform):
    """Compare the average of a transform over draws with that over the grid."""
    exact = (probability * transform(x)).sum(dim=0)
    spread = (probability * (transform(x) - exact).square()).sum(dim=0).sqrt()
    error = SIGMAS * spread / len(draws) ** 0.5
    assert ((transform(draws).mean(dim=0) - exact).abs() <= error + 1e-6).all()


@pytest.mark.parametrize("correlation", [0.0, 0.9])
def test_denoising_agrees_with_a_grid(correlation):
    density = correlated(correlation)
    rng = torch.Generator().manual_seed(0)
    start = torch.randn(400, len(Y), 2, generator=rng) @ density.scale_tril.T
    found = denoise(density.log_prob, Y, start, ERROR_MODEL, num_steps=300, seed=0)
    for row, y in enumerate(Y):
        x, probability = on_grid(density, y)
        draws, y = found.x[:, row].double(), y.double()
        mean = (probability * x).sum(dim=0)
        check_moments(draws, x, probability, lambda x: x)
        check_moments(draws, x, probability, lambda x, mean=mean: (x - mean).square())
        check_moments(draws, x, probability, lambda x, mean=mean: (x - mean).prod(-1, True))
        responsibility = ERROR_MODEL.responsibility(y - x)
        exact = (probability * responsibility).sum(dim=0)
        spread = (probability * (responsibility - exact).square()).sum(dim=0).sqrt()
        # An average over chains and time is no worse than one over the last states.
        distance = (found.misspecified[row] - exact).abs()
        assert (distance <= SIGMAS * spread / 400**0.5 + 1e-6).all()


def test_denoising_one_statistic_agrees_with_a_grid():
    density, y = correlated(0.0, dim=1), torch.tensor([[1.0], [4.0]])
    start = torch.randn(1000, 2, 1, generator=torch.Generator().manual_seed(0))
    found = denoise(density.log_prob, y, start, ERROR_MODEL, num_steps=100, seed=0)
    for row in range(2):
        x, probability = on_grid(density, y[row])
        check_moments(found.x[:, row].double(), x, probability, lambda x: x)
        check_moments(found.x[:, row].double(), x, probability, torch.square)


def test_chains_of_one_observation_do_not_look_at_those_of_another():
    density = correlated(0.9)
    with seeded(0):
        start = density.expand((20, 2)).sample()
    elsewhere = start.clone()
    elsewhere[:, 1] += 1.0
    options = {"error_model": ERROR_MODEL, "num_steps": 30, "seed": 0}
    first = denoise(density.log_prob, Y[[0, 1]], start, **options)
    second = denoise(density.log_prob, Y[[0, 2]], elsewhere, **options)
    assert torch.equal(first.x[:, 0], second.x[:, 0])
    assert not torch.equal(first.x[:, 1], second.x[:, 1])


def test_several_states_of_each_chain_can_be_kept():
    density = correlated(0.0)
    with seeded(0):
        start = density.expand((20, 4)).sample()
    options = {"error_model": ERROR_MODEL, "num_steps": 30, "seed": 0}
    last = denoise(density.log_prob, Y, start, **options).x
    several = denoise(density.log_prob, Y, start, num_states=4, **options).x
    assert several.shape == (80, 4, 2)
    assert torch.equal(several[-20:], last)
    assert not torch.equal(several[-40:-20], last)


def test_r_hat_is_one_for_independent_draws_and_large_for_chains_apart():
    rng = torch.Generator().manual_seed(0)
    chains = torch.randn(100, 50, generator=rng)  # 100 half chains of 50 states
    assert split_r_hat(chains.mean(1), chains.var(1), 50).item() == pytest.approx(
        1, abs=0.01
    )
    chains[:50] += 3.0  # between variance 2.25 (100 / 99), within 1
    expected = (1 + 2.25 * 100 / 99) ** 0.5
    r_hat = split_r_hat(chains.mean(1), chains.var(1), 50).item()
    assert r_hat == pytest.approx(expected, rel=0.05)


@pytest.mark.parametrize("flow", ["nsf", "maf"])
def test_the_density_of_simulations_integrates_to_one(flow):
    with seeded(0):
        x = correlated(0.9).sample((500,)) * torch.tensor([1.0, 0.3]) + 2.0
    marginal = fit_marginal(x, flow=flow, max_epochs=1, seed=0)
    grid = [torch.linspace(-4, 8, 241), torch.linspace(0, 4, 201)]
    density = marginal.log_prob(torch.cartesian_prod(*grid)).exp()
    assert density.sum().item() * 0.05 * 0.02 == pytest.approx(1.0, abs=0.01)


def test_the_density_of_simulations_is_learned():
    truth = correlated(0.9, dim=3)
    with seeded(0):
        x, fresh = truth.sample((2000,)), truth.sample((2000,))
    marginal = fit_marginal(x, flow="maf", num_transforms=2, learning_rate=5e-3, seed=0)
    loss = truth.log_prob(fresh) - marginal.log_prob(fresh)
    assert loss.mean().item() < 0.05  # nats, of about 2.4 that the correlation is worth


def test_the_density_is_zero_far_from_all_simulations():
    log_prob = fitted("rnpe").marginal_.log_prob(torch.tensor([[0.0] * 3, [50.0] * 3]))
    assert log_prob.isfinite().tolist() == [True, False]


def test_a_statistic_that_the_simulator_cannot_give_is_found():
    x = torch.tensor([[0.2, -0.3, 0.1], [6.0, -0.3, 0.1]])
    usual, strange = fitted("rnpe").misspecification(x, seed=0)
    assert (usual < 0.6).all()
    assert strange[0] > 0.99
    assert (strange[1:] < 0.6).all()


@pytest.mark.filterwarnings("error::ma_sbi.posteriors.training_range.OutsideTrainingRange")
def test_the_posterior_is_never_shown_what_no_simulation_is_like():
    x = torch.tensor([[1e4, 0.0, 0.0]])
    shown = fitted("rnpe").corrections(x).x
    simulations = materials().simulations.x
    # The tails of the density are about Gaussian: none of 600 values is six deviations out.
    distance = (shown - simulations.mean(dim=0)) / simulations.std(dim=0)
    assert distance.abs().max() < 6
    assert fitted("rnpe").sample(20, x, seed=0).isfinite().all()


def test_a_statistic_that_never_varies_does_no_harm():
    given = materials().simulations
    x = torch.cat([given.x[:, :2], torch.full((len(given.x), 1), 3.0)], dim=1)
    simulations = Simulations(given.theta, x)
    method = RNPE(density=small_marginal, num_steps=200)
    method.fit(replace(materials(), simulations=simulations), seed=0)
    found = method.denoise([[0.2, -0.3, 3.0], [0.2, -0.3, 4.0]], seed=0)
    assert found.misspecified[0, 2] < 0.1
    assert found.misspecified[1, 2] > 0.99
    assert (found.r_hat < 1.2).all()
    assert (found.x[..., 2] - 3.0).abs().max() < 0.1  # ten spikes


def test_observations_in_turns_are_as_good_as_together(monkeypatch):
    x = materials().calibration.x_obs[:4]
    together = fitted("rnpe").denoise(x, seed=0)
    monkeypatch.setattr(RNPE, "max_rows", 400)
    in_turns = fitted("rnpe").denoise(x, seed=0)
    assert in_turns.x.shape == together.x.shape
    spread = together.x.var(dim=0).add(in_turns.x.var(dim=0)).div(200).sqrt()
    distance = (together.x.mean(dim=0) - in_turns.x.mean(dim=0)).abs()
    assert (distance < SIGMAS * spread).all()


def test_chains_too_short_to_mix_are_reported():
    method = RNPE(density=small_marginal, num_steps=8).fit(materials(), seed=0)
    with pytest.warns(ChainsNotMixed, match="raise num_steps=8"):
        method.denoise(torch.zeros(1, 3), seed=0)


@pytest.mark.parametrize(
    ("options", "message"),
    [
        ({"num_chains": 2}, "num_chains must be at least 6"),
        ({"num_chains": 5000}, "as many simulations"),
        ({"num_steps": 2}, "num_steps must be at least 8"),
        ({"num_steps": 10, "num_states": 6}, "raise num_steps"),
        ({"slab_scale": 0}, "slab_scale must be positive"),
        ({"density": "kde"}, "flow must be one of nsf, maf"),
    ],
    ids=lambda value: next(iter(value)) if isinstance(value, dict) else "",
)
def test_impossible_options_are_refused(options, message):
    with pytest.raises(ValueError, match=message):
        RNPE(**options).fit(materials())


def test_the_number_of_steps_follows_the_number_of_statistics():
    method = RNPE(density=small_marginal).fit(materials(), seed=0)
    assert method._find_num_steps() == 300
    method.standardise_ = Standardise.of(torch.randn(5, 10))
    assert method._find_num_steps() == 500
