"""Tests for ma_sbi_bench.engine.hosted."""

from types import SimpleNamespace

import pytest
import torch

from ma_sbi import fit_flow
from ma_sbi.posteriors import fit_ddpm
from ma_sbi_bench.engine import models as engine_models
from ma_sbi_bench.engine.cell import Backbone
from ma_sbi_bench.engine.hosted import Hosted, hosted
from ma_sbi_bench.engine.models import Models
from ma_sbi_bench.methods import Calibration, Materials, get_method
from ma_sbi_bench.tasks import get_task

TASK = get_task("gaussian_linear", dim=2)
DRAWS = TASK.draw(200, seed=0)
needs_cuda = pytest.mark.skipif(not torch.cuda.is_available(), reason="needs a CUDA device")


@pytest.fixture(scope="module")
def model():
    return fit_ddpm(TASK.prior, DRAWS.theta, DRAWS.x_sim, epochs=2, hidden=8, seed=0)


@pytest.fixture(scope="module")
def flow():
    data = (TASK.prior, DRAWS.theta, DRAWS.x_sim)
    with pytest.warns(UserWarning, match="stopped at max_epochs"):
        return fit_flow(*data, flow="maf", max_epochs=2, seed=0)


def test_what_is_on_the_processor_is_left_alone(model):
    assert hosted(model, TASK.prior) is model


@pytest.mark.parametrize("kind", ["model", "flow"])
def test_draws_and_densities_are_those_of_the_posterior_behind_it(kind, request):
    there = request.getfixturevalue(kind)
    here = Hosted(there, TASK.prior)
    x, theta = DRAWS.x_sim[:3], DRAWS.theta[:3]
    # In several passes, too: all of them come from one seed.
    here.max_rows = 6
    assert torch.equal(here.sample(5, x, seed=1), there.sample(5, x, seed=1))
    assert torch.equal(here.log_prob(theta[None], x), there.log_prob(theta[None], x))
    assert here.expensive_density == there.expensive_density
    assert repr(here.quick()) == repr(there.quick())


def test_a_method_is_the_same_with_it(model):
    rows = Calibration(DRAWS.x_obs, DRAWS.context, DRAWS.x_sim, DRAWS.theta)
    draws = [
        get_method("ma_sbi")
        .fit(Materials(prior=TASK.prior, posterior=one, calibration=rows), seed=0)
        .sample(4, DRAWS.x_obs[:3], DRAWS.context[:3], seed=0)
        for one in (model, Hosted(model, TASK.prior))
    ]
    assert torch.equal(*draws)


def test_training_time_is_kept_beside_the_posterior(tmp_path, monkeypatch):
    clock, processor = iter([10.0, 13.5]), iter([1.0, 3.25])
    clocks = SimpleNamespace(
        perf_counter=lambda: next(clock), process_time=lambda: next(processor)
    )
    monkeypatch.setattr(engine_models, "time", clocks)
    options = {"epochs": 2, "hidden": 8}
    backbone = Backbone("gaussian_linear", "ddpm", 0, 200, {"dim": 2}, options)
    models = Models(tmp_path)
    assert models.training(backbone) == {}
    models.posterior(backbone)
    took = models.training(backbone)
    assert took == {"seconds": 3.5, "cpu_seconds": 2.25, "device": "cpu"}
    again = Models(tmp_path)
    again.posterior(backbone)
    assert again.training(backbone) == took


@needs_cuda
@pytest.mark.parametrize("kind", ["ddpm", "maf"])
def test_a_posterior_trained_elsewhere_is_the_same_definition_here(tmp_path, kind):
    options = {"epochs": 5} if kind == "ddpm" else {"max_epochs": 5}
    backbone = Backbone("gaussian_linear", kind, 0, 2000, {"dim": 2}, options)
    x = torch.zeros(1, 2)
    there = Models(tmp_path, "cuda").posterior(backbone)
    assert there.device.type == ("cuda" if kind == "ddpm" else "cpu")
    draws = hosted(there, TASK.prior).sample(2000, x, seed=0)[:, 0]
    assert draws.device.type == "cpu"
    here = Models(tmp_path).posterior(backbone).sample(2000, x, seed=0)[:, 0]
    # Two samples of one distribution: means within four standard errors.
    error = (2 / 2000) ** 0.5 * here.std(dim=0)
    assert ((draws.mean(dim=0) - here.mean(dim=0)).abs() < 4 * error).all()
    assert Models(tmp_path).training(backbone)["device"] == "cuda"
