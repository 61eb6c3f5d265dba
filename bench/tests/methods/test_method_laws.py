"""What holds for every method, or for every one that declares it."""

from copy import copy

import numpy as np
import pytest
import torch
from sbi.utils.sbiutils import within_support
from sklearn.base import clone
from sklearn.exceptions import NotFittedError

from bench.tests.methods.worlds import (
    NAMES,
    PRIOR,
    fitted,
    make,
    materials_for,
    observe,
    without,
)
from ma_sbi_bench.methods import (
    METHODS,
    NEEDS,
    CorrectingMethod,
    available_methods,
    get_method,
)

every_method = pytest.mark.parametrize("name", NAMES)

NUM_DRAWS, BATCH = 64, 4
X, CONTEXT = observe(BATCH, seed=3)[2:]
TEXT = "All is well."
SPREAD_TO_MEAN = 5  # standard errors


def sample(name, rows=slice(None), num_draws=NUM_DRAWS, seed=0):
    return fitted(name).sample(num_draws, X[rows], CONTEXT[rows], seed=seed)


@pytest.mark.slow
@every_method
def test_draws_have_one_column_per_observation(name):
    draws = sample(name)
    assert draws.shape == (NUM_DRAWS, BATCH, 3)
    assert draws.dtype == torch.float32


@every_method
def test_draws_are_finite_and_inside_the_prior(name):
    draws = sample(name)
    assert draws.isfinite().all()
    assert within_support(PRIOR, draws.reshape(-1, 3)).all()


@pytest.mark.slow
@every_method
def test_the_seed_decides_the_draws(name):
    assert torch.equal(sample(name, seed=1), sample(name, seed=1))
    assert not torch.equal(sample(name, seed=1), sample(name, seed=2))


@every_method
def test_a_seed_leaves_the_global_generator_alone(name):
    before = torch.random.get_rng_state()
    sample(name)
    make(name).fit(materials_for(make(name)), seed=0)
    assert torch.equal(before, torch.random.get_rng_state())


@pytest.mark.slow
@every_method
def test_the_seed_decides_the_fit(name):
    again = make(name).fit(materials_for(make(name)), seed=0)
    draws = again.sample(NUM_DRAWS, X, CONTEXT, seed=1)
    torch.testing.assert_close(draws, sample(name, seed=1))


@pytest.mark.slow
@every_method
def test_the_batch_equals_a_loop_where_declared(name):
    method = fitted(name)
    if not method.rows_independent:
        pytest.skip("its rows share one transport")
    if isinstance(method, CorrectingMethod) and method.amortised:
        together = method.corrections(X, CONTEXT).x[:, :1]
        torch.testing.assert_close(together, method.corrections(X[:1], CONTEXT[:1]).x)
    last = slice(BATCH - 1, BATCH)  # where the sensor reads high
    together, alone = sample(name, num_draws=400), sample(name, last, 400, seed=9)
    # RNPE's draws share the states of 200 chains, so they are worth 200 at least.
    spread = (together[:, last].var(dim=0) + alone.var(dim=0)).div(200).sqrt()
    distance = (together[:, last].mean(dim=0) - alone.mean(dim=0)).abs()
    assert (distance <= SPREAD_TO_MEAN * spread + 1e-6).all()


@every_method
def test_a_density_is_finite_at_its_own_draws(name):
    method, draws = fitted(name), sample(name)
    if not method.has_density:
        with pytest.raises(ValueError, match="no density"):
            method.log_prob(draws, X, CONTEXT)
        return
    log_prob = method.log_prob(draws, X, CONTEXT)
    assert log_prob.shape == (NUM_DRAWS, BATCH)
    assert log_prob.isfinite().all()


@every_method
@pytest.mark.parametrize(
    ("theta", "message"),
    [
        (torch.zeros(2, 3), "num_samples, batch"),
        (torch.zeros(2, BATCH, 4), "num_samples, batch"),
        (torch.full((1, BATCH, 3), torch.nan), "NaN"),
    ],
    ids=["flat", "width", "nan"],
)
def test_bad_parameters_are_refused(name, theta, message):
    method = fitted(name)
    if not method.has_density:
        pytest.skip("it has no density")
    with pytest.raises(ValueError, match=message):
        method.log_prob(theta, X, CONTEXT)


@every_method
def test_a_fit_that_fails_leaves_nothing_fitted(name, monkeypatch):
    method = copy(fitted(name))

    def fail(*_):
        raise ValueError("on purpose")

    monkeypatch.setattr(type(method), "_fit", fail)
    with pytest.raises(ValueError, match="on purpose"):
        method.fit(materials_for(method))
    with pytest.raises(NotFittedError):
        method.sample(2, X, CONTEXT)


@every_method
def test_arrays_do_as_well_as_tensors(name):
    draws = fitted(name).sample(NUM_DRAWS, X.numpy(), np.array(CONTEXT), seed=0)
    assert torch.equal(draws, sample(name))


@every_method
def test_each_missing_need_is_named(name):
    method = make(name)
    for kind in method.needs:
        with pytest.raises(ValueError, match="needs .*") as caught:
            make(name).fit(without(materials_for(method), kind))
        assert NEEDS[kind] in str(caught.value)


@every_method
def test_a_context_is_asked_for_only_if_it_is_read(name):
    method = fitted(name)
    if "context" in method.needs:
        with pytest.raises(ValueError, match="one entry per observation"):
            method.sample(2, X)
    else:
        assert torch.equal(method.sample(NUM_DRAWS, X, seed=0), sample(name))


@every_method
@pytest.mark.parametrize(
    ("x", "message"),
    [(torch.zeros(2, 4), "3 columns"), (torch.full((1, 3), torch.nan), "finite")],
    ids=["width", "nan"],
)
def test_bad_observations_are_refused(name, x, message):
    with pytest.raises(ValueError, match=message):
        fitted(name).sample(2, x, TEXT)


@every_method
def test_a_method_must_be_fitted_first(name):
    with pytest.raises(NotFittedError, match="call fit first"):
        make(name).sample(2, X, CONTEXT)


@every_method
def test_options_survive_cloning(name):
    cloned, original = clone(make(name)), make(name)
    assert type(cloned) is type(original)
    assert repr(cloned.get_params(deep=False)) == repr(original.get_params(deep=False))


@every_method
def test_each_says_where_it_is_described(name):
    assert make(name).reference
    assert make(name).needs <= NEEDS.keys()


def test_an_unknown_method_is_refused_with_the_known_ones():
    with pytest.raises(ValueError, match="did you mean 'ma_sbi'") as caught:
        get_method("MA-SBI")
    assert all(name in str(caught.value) for name in METHODS)


def test_an_unknown_option_is_refused_with_the_known_ones():
    with pytest.raises(ValueError, match="rope_emd has no option .* num_neighbours"):
        get_method("rope_emd", num_neighbors=3)


def test_only_what_can_be_fitted_is_available():
    given = materials_for(make("npe"))
    everything = set(available_methods(given))
    assert everything == {n for n in NAMES if "diffusion" not in make(n).needs}
    without_theta = set(available_methods(without(given, "theta*")))
    assert everything - without_theta == {
        n for n in everything if "theta*" in make(n).needs
    }


def test_only_materials_are_fitted_to():
    with pytest.raises(ValueError, match="Materials"):
        make("npe").fit(materials_for(make("npe")).posterior)
