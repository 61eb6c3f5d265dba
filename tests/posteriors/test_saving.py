"""A saved backbone comes back the same, from a file that cannot run code."""

import json
import pickle

import pytest
import torch
from safetensors import safe_open
from sbi.inference import NPE
from sbi.utils import BoxUniform
from torch import nn
from torch.distributions import (
    Gamma,
    Independent,
    LogNormal,
    MultivariateNormal,
    Normal,
    Uniform,
)

from ma_sbi import fit_flow, from_sbi, load_ddpm, load_flow, load_posterior
from ma_sbi.posteriors import PickledPosterior
from ma_sbi.posteriors.priors import pack_prior, unpack_prior
from ma_sbi.posteriors.training_range import TrainingRange
from ma_sbi.saving import write
from tests.crafted_models import open_model
from tests.largest import NewTensors
from tests.some_posteriors import (
    PRIOR,
    ddpm_posterior,
    flow_posterior,
    sbi_embedded,
    sbi_fmpe,
    sbi_npe,
    simulations,
    spline_posterior,
)

BACKBONES = {
    "maf": (flow_posterior, load_flow),
    "nsf": (spline_posterior, load_flow),
    "ddpm": (ddpm_posterior, load_ddpm),
}


@pytest.mark.parametrize("name", BACKBONES)
def test_a_saved_posterior_draws_the_same(name, tmp_path):
    make, load = BACKBONES[name]
    posterior, path = make(), tmp_path / "posterior.safetensors"
    posterior.save(path)
    before = torch.get_rng_state()
    loaded = load(path, PRIOR)
    assert torch.equal(torch.get_rng_state(), before)
    x = torch.tensor([[0.2, -0.3, 0.5]])
    assert torch.equal(loaded.sample(5, x, seed=0), posterior.sample(5, x, seed=0))
    assert torch.equal(loaded.training_range.center, posterior.training_range.center)
    theta = torch.zeros(1, 1, 3)
    assert torch.equal(loaded.log_prob(theta, x), posterior.log_prob(theta, x))


def test_an_embedding_net_is_passed_again(tmp_path):
    theta, x = simulations(100)
    options = {"num_transforms": 1, "hidden": (8,), "max_epochs": 2, "seed": 0}
    posterior = fit_flow(PRIOR, theta, x, embedding_net=nn.Linear(3, 2), **options)
    posterior.save(tmp_path / "flow")
    loaded = load_flow(tmp_path / "flow", PRIOR, embedding_net=nn.Linear(3, 2))
    assert torch.equal(loaded.sample(3, x[:1], seed=0), posterior.sample(3, x[:1], seed=0))


def test_the_file_says_what_wrote_it(tmp_path):
    path = tmp_path / "ddpm.safetensors"
    ddpm_posterior().save(path)
    with safe_open(path, framework="pt") as file:
        header = json.loads(file.metadata()["ma_sbi"])
    assert header["kind"] == "ddpm"
    assert {"ma_sbi", "torch", "sbi", "zuko"} == set(header["versions"])


def test_another_file_is_refused(tmp_path):
    ddpm_posterior().save(tmp_path / "ddpm")
    with pytest.raises(ValueError, match="holds 'ddpm', expected 'flow'"):
        load_flow(tmp_path / "ddpm", PRIOR)
    (tmp_path / "text").write_text("not tensors")
    with pytest.raises(ValueError, match="not a file that ma-sbi saved"):
        load_ddpm(tmp_path / "text", PRIOR)


def test_a_failed_save_leaves_the_older_file(tmp_path, monkeypatch):
    path = tmp_path / "ddpm"
    posterior = ddpm_posterior()
    posterior.save(path)
    before = path.read_bytes()

    def fail(*args, **kwargs):
        raise OSError("disk full")

    monkeypatch.setattr("ma_sbi.saving.save_file", fail)
    with pytest.raises(OSError, match="disk full"):
        posterior.save(path)
    assert path.read_bytes() == before


@pytest.mark.parametrize("name", BACKBONES)
def test_the_prior_comes_from_the_file(name, tmp_path):
    posterior, path = BACKBONES[name][0](), tmp_path / "posterior"
    posterior.save(path)
    loaded = load_posterior(path)
    assert type(loaded) is type(posterior)
    x = torch.tensor([[0.2, -0.3, 0.5]])
    assert torch.equal(loaded.sample(5, x, seed=0), posterior.sample(5, x, seed=0))


LOC, SCALE = torch.tensor([0.5, 1.0]), torch.tensor([0.3, 2.0])
PRIORS = {
    "box": BoxUniform(-LOC, SCALE),
    "uniform": Independent(Uniform(-LOC, SCALE), 1),
    "normal": Independent(Normal(LOC, SCALE), 1),
    "lognormal": Independent(LogNormal(LOC, SCALE), 1),
    "correlated": MultivariateNormal(LOC, torch.tensor([[2.0, 0.3], [0.3, 1.0]])),
}


@pytest.mark.parametrize("name", PRIORS)
def test_a_prior_survives_as_numbers(name):
    prior = PRIORS[name]
    again = unpack_prior(*pack_prior(prior))
    points = torch.tensor([[0.1, 0.2], [0.25, 1.5]])
    torch.testing.assert_close(again.log_prob(points), prior.log_prob(points))


def test_another_prior_has_to_be_passed(tmp_path):
    prior = Independent(Gamma(torch.ones(2), torch.ones(2)), 1)
    assert pack_prior(prior) == (None, {})
    theta = prior.sample((50,))
    posterior = fit_flow(
        prior, theta, theta, num_transforms=1, hidden=(8,), max_epochs=2, seed=0
    )
    posterior.save(tmp_path / "flow")
    with pytest.raises(ValueError, match="pass prior= to load_posterior"):
        load_posterior(tmp_path / "flow")
    x = theta[:1]
    loaded = load_posterior(tmp_path / "flow", prior)
    assert torch.equal(loaded.sample(3, x, seed=0), posterior.sample(3, x, seed=0))


def test_a_missing_embedding_net_is_named(tmp_path):
    theta, x = simulations(100)
    options = {"num_transforms": 1, "hidden": (8,), "max_epochs": 2, "seed": 0}
    posterior = fit_flow(PRIOR, theta, x, embedding_net=nn.Linear(3, 2), **options)
    posterior.save(tmp_path / "flow")
    with pytest.raises(ValueError, match="embedding_net="):
        load_posterior(tmp_path / "flow")


SBI_OPTIONS = {"num_transforms": 2, "hidden_features": (32,)}


def test_an_sbi_posterior_comes_back_without_pickle(tmp_path):
    posterior, path = from_sbi(sbi_npe()), tmp_path / "posterior"
    posterior.save(path, "zuko_maf", **SBI_OPTIONS)
    loaded = load_posterior(path)
    x = torch.tensor([[0.2, -0.3, 0.5], [0.0, 0.1, 0.2]])
    draws = posterior.sample(20, x, seed=0)
    torch.testing.assert_close(loaded.sample(20, x, seed=0), draws)
    torch.testing.assert_close(loaded.log_prob(draws, x), posterior.log_prob(draws, x))
    with safe_open(path, framework="pt") as file:
        assert json.loads(file.metadata()["ma_sbi"])["kind"] == "sbi posterior"


def test_the_training_range_of_an_sbi_posterior_comes_back(tmp_path):
    x = simulations(200)[1]
    from_sbi(sbi_npe(), x_train=x).save(tmp_path / "p", "zuko_maf", **SBI_OPTIONS)
    assert torch.equal(
        load_posterior(tmp_path / "p").training_range.radius, TrainingRange.of(x).radius
    )


CLAIMS = {
    "a wide layer": {"options": SBI_OPTIONS | {"hidden_features": 10**9}},
    "wide layers": {"options": SBI_OPTIONS | {"hidden_features": [50_000, 50_000]}},
    "a negative width": {"options": SBI_OPTIONS | {"hidden_features": -32}},
    "a width that is no number": {"options": SBI_OPTIONS | {"hidden_features": "32"}},
    "many transforms": {"options": SBI_OPTIONS | {"num_transforms": 10**9}},
    "many bins of no width": {"network": "zuko_nsf", "options": {"num_bins": 10**5}},
    "many bins": {"network": "zuko_nsf", "options": SBI_OPTIONS | {"num_bins": 10**9}},
    "another network": {"network": "maf"},
    "no network": {"network": ["zuko_maf"]},
    "no options": {"options": 3},
    "code": {"options": SBI_OPTIONS | {"embedding_net": "torch.nn.Identity()"}},
    "many columns": {"shape_x": [10**9]},
    "no columns": {"shape_x": [0]},
    "many dimensions": {"shape_x": [1] * 1000},
    "many draws": {"leakage_samples": 10**12},
    "half a draw": {"leakage_samples": 0.5},
    "another prior": {"prior": "lognormal"},
}


@pytest.mark.parametrize("claim", CLAIMS)
def test_claims_of_an_sbi_posterior_are_compared_with_its_tensors(claim, tmp_path):
    path = tmp_path / "posterior"
    from_sbi(sbi_npe()).save(path, "zuko_maf", **SBI_OPTIONS)
    model = open_model(path, "sbi posterior")
    model.settings.update(CLAIMS[claim])
    model.write(path)
    with pytest.raises(ValueError, match="posterior") as caught:
        load_posterior(path)
    assert str(path) in str(caught.value)


def test_layers_are_counted_though_their_width_is_the_default(tmp_path):
    prior = BoxUniform(-torch.ones(1), torch.ones(1))
    theta = prior.sample((200,))
    trainer = NPE(prior, density_estimator="nsf", show_progress_bars=False)
    trainer.append_simulations(theta, theta + 0.1 * torch.randn(200, 1))
    trainer.train(max_num_epochs=1)
    path = tmp_path / "posterior"
    from_sbi(trainer.build_posterior()).save(path, "nsf")
    model = open_model(path, "sbi posterior")
    model.settings["options"] = {"hidden_layers_spline_context": 200}
    model.write(path)
    with NewTensors() as new, pytest.raises(ValueError, match="claims 1 layers"):
        load_posterior(path)
    assert new.num_bytes <= 2 * path.stat().st_size


def test_an_sbi_posterior_with_a_damaged_weight_is_refused(tmp_path):
    path = tmp_path / "posterior"
    from_sbi(sbi_npe()).save(path, "zuko_maf", **SBI_OPTIONS)
    model = open_model(path, "sbi posterior")
    model.tensors["estimator/net.transform.transforms.1.hyper.0.weight"][0, 0] = torch.nan
    model.write(path)
    with pytest.raises(ValueError, match="posterior holds tensor .* not finite"):
        load_posterior(path)


@pytest.mark.parametrize(
    ("network", "options"),
    [
        ("maf", {}),
        ("zuko_maf", {"num_transforms": 3}),
        ("zuko_maf", SBI_OPTIONS | {"no_such_option": 3}),
        ("no such network", {}),
    ],
    ids=str,
)
def test_words_that_do_not_build_the_network_are_refused(network, options, tmp_path):
    with pytest.raises(ValueError, match="does not build the network"):
        from_sbi(sbi_npe()).save(tmp_path / "p", network, **options)
    assert not (tmp_path / "p").exists()


def test_what_of_sbi_cannot_be_saved_is_refused(tmp_path):
    with pytest.raises(ValueError, match="embedding net"):
        from_sbi(sbi_embedded()).save(tmp_path / "p", "zuko_maf", **SBI_OPTIONS)
    with pytest.raises(ValueError, match="option embedding_net is a Linear, which is code"):
        from_sbi(sbi_embedded()).save(
            tmp_path / "p", "zuko_maf", embedding_net=nn.Linear(3, 3), **SBI_OPTIONS
        )
    with pytest.raises(ValueError, match="without pickle"):
        from_sbi(sbi_fmpe()).save(tmp_path / "p")


def test_a_pickle_is_read_only_where_it_is_allowed(tmp_path):
    path = tmp_path / "posterior.pkl"
    path.write_bytes(pickle.dumps(sbi_npe()))
    with pytest.raises(ValueError, match="is a pickle, and reading one can run any code"):
        load_posterior(path)
    with pytest.warns(PickledPosterior, match="can run any code"):
        loaded = load_posterior(path, allow_pickle=True)
    x = torch.zeros(1, 3)
    expected = from_sbi(sbi_npe()).sample(3, x, seed=0)
    assert torch.equal(loaded.sample(3, x, seed=0), expected)


@pytest.mark.parametrize("held", [{"weights": 1}, None], ids=str)
@pytest.mark.filterwarnings("ignore::ma_sbi.posteriors.PickledPosterior")
def test_a_pickle_of_something_else_is_refused(held, tmp_path):
    path = tmp_path / "posterior.pkl"
    path.write_bytes(pickle.dumps(held))
    with pytest.raises(ValueError, match="expected a posterior"):
        load_posterior(path, allow_pickle=True)


def test_a_type_that_could_not_be_read_again_is_not_saved(tmp_path):
    path = tmp_path / "model"
    with pytest.raises(ValueError, match="a/b has type torch.float16"):
        write(path, "flow", {}, {"a": {"b": torch.ones(2, dtype=torch.float16)}})
    assert not path.exists()
