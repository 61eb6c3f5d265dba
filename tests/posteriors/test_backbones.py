"""Tests for ma_sbi.posteriors against closed forms."""

import inspect
import os

import pytest
import torch
from torch.distributions import (
    Dirichlet,
    Independent,
    LogNormal,
    MultivariateNormal,
    Normal,
)

from ma_sbi import fit_ddpm, fit_flow
from ma_sbi.posteriors import noise_schedule
from ma_sbi.randomness import seeded
from tests.some_posteriors import PRIOR, simulations

DIM = 3
GAUSSIAN = MultivariateNormal(torch.zeros(DIM), 0.1 * torch.eye(DIM))


def gaussian_simulations(n):
    with torch.random.fork_rng():
        torch.manual_seed(1)
        theta = GAUSSIAN.sample((n,))
        return theta, theta + 0.1**0.5 * torch.randn(n, DIM)


BACKBONES = {
    "maf": lambda *data, **o: fit_flow(
        *data, flow="maf", hidden=(32, 32), learning_rate=2e-3, max_epochs=22, **o
    ),
    "nsf": lambda *data, **o: fit_flow(
        *data, num_transforms=2, hidden=(32,), learning_rate=2e-3, max_epochs=22, **o
    ),
    "ddpm_paper": lambda *data, **o: fit_ddpm(
        *data, decay="cosine", hidden=128, batch_size=64, epochs=15, **o
    ),
    "ddpm_rescaled": lambda *data, **o: fit_ddpm(
        *data,
        schedule="rescaled",
        decay="cosine",
        hidden=128,
        batch_size=64,
        epochs=15,
        **o,
    ),
}


@pytest.mark.slow
@pytest.mark.parametrize("name", BACKBONES)
def test_the_gaussian_posterior_is_learned(name):
    posterior = BACKBONES[name](GAUSSIAN, *gaussian_simulations(8000), seed=0)
    x = torch.tensor([[0.3, -0.2, 0.1], [-0.4, 0.0, 0.5]])
    scale = 0.05**0.5
    quick, *others = [*_few_steps(posterior), posterior]
    for sampler in (quick, *others):
        draws = sampler.sample(2000, x, seed=0)
        # The paper's schedule pulls means towards the prior's: with 20 steps by 0.31
        # posterior deviations, which vary by 0.027 over eight training seeds.
        assert (draws.mean(dim=0) - x / 2).abs().max() < (0.31 + 4 * 0.027) * scale
        assert (draws.std(dim=0) / scale - 1).abs().max() < 0.2
    exact = Independent(Normal(x / 2, scale), 1)
    theta = exact.sample((2000,))
    divergence = (exact.log_prob(theta) - quick.log_prob(theta, x)).mean()
    assert divergence < 0.15


def _few_steps(posterior):
    if not hasattr(posterior, "deterministic"):
        return []
    return [posterior.deterministic(20), posterior.ancestral(100)]


@pytest.mark.parametrize("name", BACKBONES)
def test_a_seed_decides_the_network(name):
    data = gaussian_simulations(200)
    first, again, other = (
        BACKBONES[name](GAUSSIAN, *data, seed=seed).sample(3, data[1][:2], seed=0)
        for seed in (5, 5, 6)
    )
    assert torch.equal(first, again)
    assert not torch.equal(first, other)


def test_deterministic_sampling_is_fixed_by_its_noise_and_converges_in_steps():
    data = gaussian_simulations(2000)
    posterior = fit_ddpm(GAUSSIAN, *data, hidden=64, epochs=20, seed=0)
    x = torch.zeros(1, DIM)
    fine = posterior.deterministic(200).sample(200, x, seed=0)
    few, many = (
        (posterior.deterministic(steps).sample(200, x, seed=0) - fine).square().mean()
        for steps in (5, 40)
    )
    # Over eight fits 0.011 to 0.025 for few steps and 0.0015 to 0.006 for many, of a
    # posterior deviation of 0.25: the network is not smooth enough to tell 20 from 40.
    assert few > many
    assert many.sqrt() < 0.05 * fine.std()


@pytest.mark.parametrize("fit", [fit_flow, fit_ddpm])
@pytest.mark.parametrize(
    ("prior", "low"),
    [
        (PRIOR, -2.0),
        (Independent(LogNormal(torch.zeros(3), 0.5 * torch.ones(3)), 1), 0.0),
    ],
    ids=["box", "positive"],
)
def test_draws_respect_the_bounds_of_the_prior(fit, prior, low):
    torch.manual_seed(0)
    theta = prior.sample((300,))
    epochs = {"max_epochs": 2} if fit is fit_flow else {"epochs": 2}
    posterior = fit(prior, theta, theta + torch.randn(300, 3), seed=0, **epochs)
    draws = posterior.sample(300, torch.tensor([[4.0, -4.0, 0.0]]), seed=0)
    assert prior.support.check(draws).all()
    assert draws.min() >= low


@pytest.mark.parametrize("fit", [fit_flow, fit_ddpm])
def test_a_theta_exactly_on_the_bound_does_no_harm(fit):
    theta, x = simulations(300)
    theta[0], theta[1] = -2.0, 2.0
    epochs = {"max_epochs": 2} if fit is fit_flow else {"epochs": 2}
    posterior = fit(PRIOR, theta, x, seed=0, **epochs)
    draws = posterior.sample(200, x[2:3], seed=0)
    assert torch.isfinite(draws).all()
    # An image at -87 would make the standard deviation of the real line five times as big.
    assert 0.5 < draws.std() < 2.0


def test_training_writes_no_files_and_prints_nothing(tmp_path, monkeypatch, capsys):
    monkeypatch.chdir(tmp_path)
    theta, x = simulations(100)
    fit_flow(PRIOR, theta, x, num_transforms=1, hidden=(8,), max_epochs=2, seed=0)
    fit_ddpm(PRIOR, theta, x, hidden=8, epochs=1, seed=0)
    assert os.listdir() == []
    assert capsys.readouterr() == ("", "")


@pytest.mark.parametrize("fit", [fit_flow, fit_ddpm])
def test_training_leaves_the_global_generator_alone(fit):
    theta, x = simulations(100)
    epochs = {"max_epochs": 2} if fit is fit_flow else {"epochs": 2}
    before = torch.get_rng_state()
    fit(PRIOR, theta, x, seed=0, hidden=(8,) if fit is fit_flow else 8, **epochs)
    assert torch.equal(torch.get_rng_state(), before)


def test_the_users_embedding_net_is_neither_trained_nor_frozen():
    theta, x = simulations(100)
    net = torch.nn.Linear(3, 2)
    before = net.weight.detach().clone()
    fit_flow(PRIOR, theta, x, embedding_net=net, hidden=(8,), max_epochs=2, seed=0)
    assert torch.equal(net.weight, before)
    assert net.weight.requires_grad


def test_a_training_that_was_cut_short_says_so():
    theta, x = simulations(100)
    with pytest.warns(UserWarning, match="training stopped at max_epochs=3"):
        fit_flow(PRIOR, theta, x, num_transforms=1, hidden=(8,), max_epochs=3, seed=0)


def test_training_works_where_gradients_are_switched_off():
    theta, x = simulations(100)
    with torch.no_grad():
        fit_flow(PRIOR, theta, x, num_transforms=1, hidden=(8,), max_epochs=2, seed=0)
        fit_ddpm(PRIOR, theta, x, hidden=8, epochs=1, seed=0)


def test_the_defaults_of_the_ddpm_are_the_papers():
    defaults = {
        name: parameter.default
        for name, parameter in inspect.signature(fit_ddpm).parameters.items()
    }
    paper = {
        "schedule": "paper",
        "num_steps": 200,
        "layers": 4,
        "hidden": 256,
        "learning_rate": 1e-3,
        "batch_size": 256,
        "epochs": 30,
    }
    assert {name: defaults[name] for name in paper} == paper
    posterior = fit_ddpm(GAUSSIAN, *gaussian_simulations(50), epochs=1, seed=0)
    layers = posterior.network.layers
    assert [type(m).__name__ for m in layers] == ["Linear", "GELU"] * 3 + ["Linear"]
    assert layers[0].in_features == DIM + 64 + DIM
    assert [m.out_features for m in layers[::2]] == [256, 256, 256, DIM]


def test_the_papers_flow_has_eight_transforms():
    posterior = fit_flow(
        GAUSSIAN, *gaussian_simulations(50), flow="maf", max_epochs=2, seed=0
    )
    transforms = posterior.estimator.net.transform.transforms
    autoregressive = [t for t in transforms if "Autoregressive" in type(t).__name__]
    assert len(autoregressive) == 8
    layers = [m for m in autoregressive[0].hyper if hasattr(m, "out_features")]
    assert [layer.out_features for layer in layers[:-1]] == [64, 64]


def test_the_papers_schedule_leaves_signal_and_the_rescaled_one_does_not():
    betas = torch.linspace(1e-4, 0.02, 200, dtype=torch.float64)
    torch.testing.assert_close(noise_schedule(), torch.cumprod(1 - betas, 0))
    assert noise_schedule()[-1] == pytest.approx(0.132, abs=1e-3)
    assert noise_schedule("rescaled")[-1] < 1e-4


@pytest.mark.parametrize("fit", [fit_flow, fit_ddpm])
class TestBadInput:
    def test_different_lengths(self, fit):
        theta, x = simulations(50)
        with pytest.raises(ValueError, match="got 50 and 49 rows"):
            fit(PRIOR, theta, x[:-1])

    def test_theta_of_another_width(self, fit):
        theta, x = simulations(50)
        with pytest.raises(ValueError, match="theta must have 3 columns, got 2"):
            fit(PRIOR, theta[:, :2], x)

    def test_theta_outside_the_prior(self, fit):
        theta, x = simulations(50)
        theta[4, 0] = 9.0
        with pytest.raises(ValueError, match="1 of 50 theta .*row 4.* outside the prior"):
            fit(PRIOR, theta, x)

    def test_simulations_that_are_not_finite(self, fit):
        theta, x = simulations(50)
        x[7, 2] = torch.nan
        with pytest.raises(ValueError, match="x must be finite.*row 7"):
            fit(PRIOR, theta, x)

    @pytest.mark.parametrize("prior", ["uniform", None, [1.0, 2.0]], ids=repr)
    def test_what_is_no_prior(self, fit, prior):
        theta, x = simulations(50)
        with pytest.raises(ValueError, match="prior must be a torch distribution"):
            fit(prior, theta, x)

    def test_a_prior_on_a_simplex(self, fit):
        theta, x = simulations(50)
        with pytest.raises(ValueError, match="support that can be mapped"):
            fit(Dirichlet(torch.ones(3)), theta.softmax(dim=1), x)

    def test_too_few(self, fit):
        theta, x = simulations(10)
        with pytest.raises(ValueError, match="at least 20 pairs"):
            fit(PRIOR, theta, x)


def test_unknown_choices_are_refused():
    theta, x = simulations(50)
    with pytest.raises(ValueError, match="flow must be one of"):
        fit_flow(PRIOR, theta, x, flow="gaussian")
    with pytest.raises(ValueError, match="schedule must be one of"):
        fit_ddpm(PRIOR, theta, x, schedule="cosine")
    with pytest.raises(ValueError, match="decay must be one of"):
        fit_ddpm(PRIOR, theta, x, decay="linear")
    posterior = fit_ddpm(PRIOR, theta, x, hidden=8, epochs=1, seed=0)
    with pytest.raises(ValueError, match="num_steps must be between 2 and 200"):
        posterior.deterministic(0)


@pytest.mark.slow
def test_a_falling_learning_rate_leaves_less_noise_in_the_weights():
    # theta | x ~ N(x / 1.0025, 0.05^2): the mean over 20 x and 3 seeds.
    prior = MultivariateNormal(torch.zeros(1), torch.eye(1))
    x_test = torch.linspace(-1, 1, 20)[:, None]
    error = {"none": 0.0, "cosine": 0.0}
    options = {"schedule": "rescaled", "hidden": 64, "epochs": 15, "batch_size": 100}
    for seed in range(3):
        with seeded(seed):
            theta = prior.sample((3000,))
            x = theta + 0.05 * torch.randn(3000, 1)
        for decay in error:
            posterior = fit_ddpm(prior, theta, x, decay=decay, seed=seed, **options)
            mean = posterior.deterministic(30).sample(1000, x_test, seed=0).mean(dim=0)
            error[decay] += (mean - x_test / 1.0025).square().mean().item()
    # Single fits err by 3e-5 to 3e-4 where the rate falls, by 3e-4 to 5e-3 otherwise.
    assert error["cosine"] < error["none"] / 2


def test_a_sampler_says_what_it_is():
    posterior = fit_ddpm(PRIOR, *simulations(50), hidden=8, epochs=1, seed=0)
    assert repr(posterior) == "DiffusionPosterior(ancestral, 200 steps)"
    assert repr(posterior.ancestral(10)) == "DiffusionPosterior(ancestral, 10 steps)"
    few = posterior.ancestral(10).deterministic(20)
    assert repr(few) == f"DiffusionPosterior(deterministic, {len(few.steps)} steps)"


@pytest.mark.skipif(not torch.cuda.is_available(), reason="needs a CUDA device")
@pytest.mark.parametrize("fit", [fit_flow, fit_ddpm])
def test_everything_happens_on_the_device_asked_for(fit):
    theta, x = simulations(500)
    epochs = {"max_epochs": 2} if fit is fit_flow else {"epochs": 2}
    posterior = fit(PRIOR, theta, x, seed=0, device="cuda", **epochs)
    first, second = (posterior.sample(4, x[:2], seed=1) for _ in range(2))
    assert first.device.type == "cuda"
    assert torch.equal(first, second)
    assert PRIOR.support.check(first.cpu()).all()
    assert posterior.to("cuda") is posterior.to("cuda:0") is posterior
    with pytest.raises(ValueError, match="stays on cuda:0"):
        posterior.to("cpu")
