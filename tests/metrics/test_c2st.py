"""Tests for ma_sbi.metrics.c2st."""

import json

import pytest
import torch
from sbi.utils.metrics import c2st as sbi_c2st
from scipy.stats import norm

from ma_sbi.metrics import RECIPES, c2st, c2st_batch, classifiers

pytestmark = pytest.mark.filterwarnings("ignore:recipe .* stops too early")


def gaussians(num_samples, dim, shift, batch=1, seed=0):
    """Draws of N(shift, I) and N(0, I); a Bayes classifier knows the shift."""
    generator = torch.Generator().manual_seed(seed)
    samples, reference = torch.randn(2, num_samples, batch, dim, generator=generator)
    samples[..., 0] += shift
    return samples, reference


def bayes_accuracy(shift):
    return norm.cdf(shift / 2)


def test_is_near_the_bayes_accuracy():
    num_samples, repeats = 250, 4
    shifts = torch.tensor([0.0, 1.0, 3.0])
    samples, reference = gaussians(
        num_samples, 2, shifts.repeat(repeats), batch=3 * repeats
    )
    values = c2st_batch(samples, reference, recipe="fast").reshape(repeats, 3).mean(0)
    accuracy = torch.from_numpy(bayes_accuracy(shifts.numpy()))
    error = (accuracy * (1 - accuracy) / (2 * num_samples * repeats)).sqrt()
    # A classifier that is trained in haste falls short of Bayes: by 0.04 +- 0.013 over four
    # seeds, where one that learns nothing would by 0.19 and 0.43. Beyond only by chance.
    assert (values > accuracy - 0.04 - 4 * 0.013).all()
    assert (values < accuracy + 4 * error).all()


@pytest.mark.slow
@pytest.mark.parametrize("recipe", sorted(RECIPES))
@pytest.mark.parametrize("shift", [0.0, 1.0, 4.0])
def test_every_recipe_is_near_the_bayes_accuracy(recipe, shift):
    samples, reference = gaussians(500, 3, shift)
    value = c2st(samples[:, 0], reference[:, 0], recipe=recipe)
    assert value == pytest.approx(bayes_accuracy(shift), abs=0.06)


def test_default_recipe_is_the_mlp_of_sbi_scaled_by_the_reference():
    samples, reference = gaussians(60, 2, 0.7)
    samples, reference = 3 * samples[:, 0], reference[:, 0]
    expected = sbi_c2st(reference, samples, classifier="mlp").item()
    assert c2st(samples, reference) == pytest.approx(expected, abs=1e-6)


@pytest.mark.slow
def test_random_forest_is_the_one_of_sbi():
    samples, reference = gaussians(40, 2, 0.7)
    expected = sbi_c2st(reference[:, 0], samples[:, 0]).item()
    value = c2st(samples[:, 0], reference[:, 0], recipe="rf")
    assert value == pytest.approx(expected, abs=1e-6)


def test_fast_recipe_follows_mlp():
    # Folds of 83 pairs are uneven. Rounding has no time to grow; one row is 1 / 166.
    samples, reference = gaussians(83, 2, 0.7, batch=2)
    fast = c2st_batch(samples, reference, recipe="fast")
    torch.testing.assert_close(fast, c2st_batch(samples, reference), atol=0.01, rtol=0.0)


@pytest.mark.slow
def test_fast_recipe_agrees_with_mlp_on_average():
    samples, reference = gaussians(500, 5, torch.linspace(0, 3, 12), batch=12)
    difference = c2st_batch(samples, reference, recipe="fast") - c2st_batch(
        samples, reference, num_workers=2
    )
    assert abs(difference.mean()) < 0.01
    assert difference.abs().mean() < 0.01


def test_batch_is_the_same_as_one_by_one():
    samples, reference = gaussians(50, 2, 1.0, batch=2)
    batch = c2st_batch(samples, reference, recipe="fast")
    singly = [
        c2st(samples[:, i], reference[:, i], recipe="fast") for i in range(len(batch))
    ]
    assert batch.tolist() == singly


@pytest.mark.slow
@pytest.mark.parametrize("recipe", ["mlp", "fast", "rf"])
def test_values_do_not_depend_on_the_number_of_workers(recipe):
    samples, reference = gaussians(50, 2, 1.0, batch=3)
    alone = c2st_batch(samples, reference, recipe=recipe)
    assert torch.equal(alone, c2st_batch(samples, reference, recipe=recipe, num_workers=2))


def test_same_seed_same_value_and_no_trace_in_the_callers_state():
    samples, reference = gaussians(50, 2, 0.5)
    state, threads = torch.get_rng_state(), torch.get_num_threads()
    first = c2st_batch(samples, reference, recipe="fast", seed=3)
    assert torch.equal(first, c2st_batch(samples, reference, recipe="fast", seed=3))
    assert not torch.equal(first, c2st_batch(samples, reference, recipe="fast", seed=4))
    assert torch.equal(torch.get_rng_state(), state)
    assert torch.get_num_threads() == threads


def test_fast_recipe_trains_where_gradients_are_switched_off():
    samples, reference = gaussians(50, 2, 6.0)
    expected = c2st_batch(samples, reference, recipe="fast")
    with torch.no_grad():
        value = c2st_batch(samples, reference, recipe="fast")
    assert torch.equal(value, expected)


@pytest.mark.parametrize("recipe", ["mlp", "fast"])
def test_a_constant_dimension_is_harmless(recipe):
    samples, reference = gaussians(50, 2, 6.0)
    samples[..., 1] = reference[..., 1] = 1.0
    assert c2st_batch(samples, reference, recipe=recipe).item() > 0.9


def test_warns_where_early_stopping_has_too_few_draws():
    samples, reference = gaussians(20, 1, 6.0)
    with pytest.warns(UserWarning, match="below 200 draws .* got 20 draws"):
        value = c2st_batch(samples, reference, recipe="fast")
    assert value.item() == 0.5  # although the draws hardly overlap


def test_recipes_can_be_stored_in_a_results_row():
    assert json.loads(json.dumps(RECIPES)) == RECIPES


@pytest.mark.parametrize(
    ("samples", "reference", "options", "message"),
    [
        (torch.ones(20, 2), torch.ones(20, 2), {"recipe": "svm"}, "recipe must be one"),
        (torch.ones(20, 2), torch.ones(30, 2), {}, r"\(20, 1, 2\) and \(30, 1, 2\)"),
        (torch.ones(20, 2), torch.ones(20, 3), {}, "same shape"),
        (
            torch.ones(20, 2),
            torch.full((20, 2), torch.nan),
            {},
            "reference must be fin",
        ),
        (torch.ones(5, 2), torch.ones(5, 2), {}, "at least 10 draws are needed, got 5"),
    ],
    ids=["recipe", "counts", "dimensions", "nan", "few"],
)
def test_rejects_bad_input(samples, reference, options, message):
    with pytest.raises(ValueError, match=message):
        c2st(samples, reference, **options)


def test_rejects_a_matrix_where_a_batch_is_expected():
    with pytest.raises(ValueError, match=r"shape \(num_samples, batch, dim\)"):
        c2st_batch(torch.ones(20, 2), torch.ones(20, 2))


def test_folds_of_unequal_size_follow_the_recipe_of_sklearn():
    """Of 2 x 101 rows two folds have one more than the others."""
    pair = gaussians(101, 2, 0.6, batch=2)
    fast, mlp = (c2st_batch(*pair, recipe=recipe) for recipe in ("fast", "mlp"))
    torch.testing.assert_close(fast, mlp, atol=0.01, rtol=0.0)


def test_values_depend_neither_on_the_batch_nor_on_what_fits_into_the_cache(monkeypatch):
    samples, reference = gaussians(200, 2, 0.5, batch=5)
    few = c2st_batch(samples, reference, recipe="fast")
    monkeypatch.setattr(classifiers, "NETWORKS_AT_ONCE", 1000)
    torch.testing.assert_close(
        c2st_batch(samples, reference, recipe="fast"), few, atol=0.01, rtol=0.0
    )


def test_the_gradient_is_that_of_the_penalised_log_loss():
    """Against autograd, without the penalty."""
    sizes, count = (3, 4, 5, 1), 2
    weights = torch.randn(1, 3 * 4 + 4 * 5 + 5 + 4 + 5 + 1, dtype=torch.float64)
    networks = classifiers._Networks(sizes, weights, count)
    networks.weights += 0.1 * torch.randn_like(networks.weights)
    rows = classifiers._Rows(
        torch.randn(count, 7, 3).double(), (torch.rand(count, 7) > 0.5).double()
    )
    with torch.no_grad():
        found = networks._gradient(rows)
    networks.weights.requires_grad_()
    matrices, biases = networks._split()
    x = rows.x
    for depth, (matrix, bias) in enumerate(zip(matrices, biases, strict=True)):
        x = (x.relu() if depth else x) @ matrix + bias[:, None]
    loss = torch.nn.functional.binary_cross_entropy_with_logits(
        x[..., 0], rows.labels, reduction="sum"
    )
    (expected,) = torch.autograd.grad(loss, networks.weights)
    torch.testing.assert_close(found, expected)


def test_only_the_fast_recipe_runs_on_a_device():
    draws = torch.randn(200, 1, 2)
    with pytest.raises(ValueError, match="'mlp' runs on the processor alone, got meta"):
        c2st_batch(draws, draws, recipe="mlp", device="meta")


@pytest.mark.skipif(not torch.cuda.is_available(), reason="needs a CUDA device")
def test_a_device_gives_the_values_of_the_processor():
    samples, reference = gaussians(500, 3, 0.5, batch=12)
    here, there = (
        c2st_batch(samples, reference, recipe="fast", device=device)
        for device in ("cpu", "cuda")
    )
    assert there.device.type == "cpu"
    # Rounding may end a training elsewhere, which one value in some shows.
    assert (there - here).abs().mean() < 0.005
