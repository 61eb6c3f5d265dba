"""Tests for ma_sbi.correctors.shift and the composition beneath it."""

import numpy as np
import pandas as pd
import pytest
import torch
from sklearn.base import clone
from sklearn.compose import ColumnTransformer
from sklearn.exceptions import NotFittedError
from sklearn.feature_extraction.text import TfidfVectorizer
from sklearn.pipeline import make_pipeline
from sklearn.preprocessing import FunctionTransformer

from ma_sbi import CategoryEncoder, HashEncoder, NumberEncoder, ShiftCorrector
from ma_sbi.correctors import Affine, Network, Ridge, Shift
from ma_sbi.correctors.fitting import Triples
from tests.correctors.worlds import TEXTS, shifted_world

RECIPES = ["converged", "paper"]


def relative_error(corrector, world):
    return ((corrector.shift(TEXTS) - world.shifts).norm() / world.shifts.norm()).item()


def root_mean_square_errors(recipe_errors):
    return torch.tensor(recipe_errors).square().mean(dim=0).sqrt()


@pytest.mark.parametrize("container", [np.asarray, torch.Tensor.tolist, pd.DataFrame])
def test_observations_may_be_of_any_kind(container):
    world = shifted_world(40)
    expected = ShiftCorrector(HashEncoder()).fit(*world[:3]).shift(TEXTS)
    data = (container(world.x_obs), container(world.x_sim))
    found = ShiftCorrector(HashEncoder()).fit(world.context, *data).shift(TEXTS)
    torch.testing.assert_close(found, expected)


@pytest.mark.parametrize("recipe", RECIPES)
def test_same_seed_same_shift(recipe):
    world = shifted_world(40, noise=0.1)
    first, second = (
        ShiftCorrector(HashEncoder(), recipe).fit(*world[:3], seed=7).shift(TEXTS)
        for _ in range(2)
    )
    assert torch.equal(first, second)


@pytest.mark.parametrize("recipe", RECIPES)
def test_fitting_leaves_the_global_generator_alone(recipe):
    world = shifted_world(40)
    before = torch.get_rng_state()
    ShiftCorrector(HashEncoder(), recipe).fit(*world[:3], seed=0)
    assert torch.equal(torch.get_rng_state(), before)


@pytest.mark.parametrize("recipe", RECIPES)
def test_correct_subtracts_the_shift_and_corrections_agree(recipe):
    world = shifted_world(40)
    corrector = ShiftCorrector(HashEncoder(), recipe).fit(*world[:3], seed=0)
    corrected = corrector.correct(world.x_obs, world.context)
    expected = world.x_obs - corrector.shift(world.context)
    torch.testing.assert_close(corrected, expected)
    candidates = corrector.corrections(world.x_obs, world.context)
    assert candidates.x.shape == (1, 40, 8)
    assert candidates.x.dtype == torch.float32
    assert torch.equal(candidates.x[0], corrected)
    assert torch.equal(candidates.log_weight, torch.zeros(1, 40))
    assert torch.equal(candidates.log_abs_det, torch.zeros(1, 40))


@pytest.mark.parametrize("n", [20, 100, 500])
def test_converged_recovers_deterministic_shifts(n):
    world = shifted_world(n)
    corrector = ShiftCorrector(HashEncoder()).fit(*world[:3])
    assert relative_error(corrector, world) <= 1e-3


def test_the_paper_recipe_stops_far_from_the_solution_at_100_triples():
    world = shifted_world(100)
    corrector = ShiftCorrector(HashEncoder(), "paper").fit(*world[:3], seed=0)
    assert 0.2 < relative_error(corrector, world) < 0.8


@pytest.mark.parametrize("shares", [(1, 1, 1, 1), (17, 1, 1, 1), (4, 4, 1, 1)], ids=str)
@pytest.mark.parametrize("noise", [0.1, 0.5, 1.0, 3.0])
@pytest.mark.parametrize("n", [20, 100, 500])
def test_converged_is_no_worse_than_the_mean_of_each_regime(n, noise, shares):
    errors = []
    for seed in range(30):
        world = shifted_world(n, noise=noise, seed=seed, shares=shares)
        corrector = ShiftCorrector(HashEncoder()).fit(*world[:3])
        delta = world.x_obs - world.x_sim
        means = torch.stack([delta[world.regime == k].mean(dim=0) for k in range(4)])
        errors.append(
            [
                (estimate - world.shifts).norm().item()
                for estimate in (corrector.shift(TEXTS), means)
            ]
        )
    ours, regime_mean = root_mean_square_errors(errors)
    assert ours <= 1.05 * regime_mean


def test_a_context_that_tells_nothing_leaves_the_average_shift():
    world = shifted_world(400, noise=0.5)
    shuffled = torch.randperm(400, generator=torch.Generator().manual_seed(1))
    context = [world.context[i] for i in shuffled]
    corrector = ShiftCorrector(HashEncoder()).fit(context, world.x_obs, world.x_sim)
    delta = world.x_obs - world.x_sim
    average = delta.mean(dim=0)
    labels = torch.tensor([TEXTS.index(text) for text in context])
    means = torch.stack([delta[labels == k].mean(dim=0) for k in range(4)])
    # The means of the shuffled regimes differ by chance; most of that must be undone.
    spread = (means - average).norm()
    assert (corrector.shift(TEXTS) - average).norm() < 0.5 * spread


def test_a_missing_context_gets_the_average_shift_if_none_was_seen():
    world = shifted_world(40)
    corrector = ShiftCorrector(HashEncoder()).fit(*world[:3])
    average = (world.x_obs - world.x_sim).mean(dim=0)
    torch.testing.assert_close(
        corrector.shift([None, ""]), average.expand(2, -1), atol=1e-5, rtol=0
    )


def test_missing_contexts_among_the_triples_form_a_regime():
    world = shifted_world(40)
    context = [None if text == TEXTS[0] else text for text in world.context]
    corrector = ShiftCorrector(HashEncoder()).fit(context, world.x_obs, world.x_sim)
    shift = corrector.shift([None, *TEXTS[1:]])
    torch.testing.assert_close(shift, world.shifts, atol=1e-4, rtol=0)


def test_a_label_treated_as_missing_gets_the_average_shift():
    world = shifted_world(40)
    corrector = ShiftCorrector(CategoryEncoder(unseen="zero")).fit(*world[:3])
    average = (world.x_obs - world.x_sim).mean(dim=0)
    torch.testing.assert_close(corrector.shift("new")[0], average, atol=1e-5, rtol=0)


def test_a_zero_of_another_encoder_is_not_a_missing_context():
    z = torch.linspace(0, 1, 50)
    x_sim = torch.randn(50, 1)
    encoder = make_pipeline(FunctionTransformer(lambda s: np.asarray(s, float)[:, None]))
    corrector = ShiftCorrector(encoder).fit(z, x_sim + 3 + z[:, None], x_sim)
    near, at = corrector.shift([1e-6, 0.0])
    torch.testing.assert_close(near, at, atol=1e-3, rtol=0)


def test_a_vector_of_scalar_observations_is_a_column():
    world = shifted_world(40)
    corrector = ShiftCorrector(HashEncoder())
    corrector.fit(world.context, world.x_obs[:, 0], world.x_sim[:, 0])
    torch.testing.assert_close(
        corrector.shift(TEXTS), world.shifts[:, :1], atol=1e-4, rtol=0
    )


def test_a_text_unlike_any_other_is_not_extrapolated():
    world = shifted_world(40)
    corrector = ShiftCorrector(HashEncoder()).fit(*world[:3])
    length = corrector.shift(["Zwölf Boxkämpfer jagen Viktor quer"]).norm()
    assert length < 1.2 * world.shifts.norm(dim=1).max()


def test_a_smooth_function_of_a_number_is_learned():
    z = torch.rand(500, generator=torch.Generator().manual_seed(0))
    x_sim = torch.randn(500, 2)
    shift = torch.stack([torch.sin(6 * z), z.square()], dim=1)
    corrector = ShiftCorrector(NumberEncoder()).fit(z, x_sim + shift, x_sim)
    grid = torch.linspace(0.05, 0.95, 19)
    expected = torch.stack([torch.sin(6 * grid), grid.square()], dim=1)
    torch.testing.assert_close(corrector.shift(grid), expected, atol=5e-3, rtol=0)


@pytest.mark.parametrize("max_landmarks", [20, 64])
def test_more_contexts_than_landmarks_are_approximated(max_landmarks):
    z = torch.rand(3000, generator=torch.Generator().manual_seed(0))
    x_sim = torch.randn(3000, 1)
    x_obs = x_sim + torch.sin(3 * z)[:, None]
    recipe = Ridge(max_landmarks=max_landmarks)
    corrector = ShiftCorrector(NumberEncoder(), recipe).fit(z, x_obs, x_sim, seed=0)
    grid = torch.linspace(0.05, 0.95, 19)
    torch.testing.assert_close(
        corrector.shift(grid), torch.sin(3 * grid)[:, None], atol=1e-2, rtol=0
    )


def triples(departure, n=40, num_contexts=6):
    """Noisy triples, with a departure that depends on a context of two numbers."""
    rng = torch.Generator().manual_seed(3)
    encoding = torch.randn(num_contexts, 2, generator=rng, dtype=torch.float64)
    codes = torch.arange(n) % num_contexts
    x_obs = torch.randn(n, 3, generator=rng, dtype=torch.float64)
    noise = torch.randn(n, 3, generator=rng, dtype=torch.float64)
    delta = encoding[codes] @ torch.ones(2, 3).double() + 0.3 * x_obs.flip(1) + noise
    return Triples(encoding, codes, departure.fit(x_obs).basis(x_obs), delta)


def ridge_at(design, target, strength):
    """Minimise squared error plus a penalty on all but the constant."""
    mean, constant = design.mean(dim=0), target.mean(dim=0)
    centred = design - mean
    gram = centred.T @ centred + strength * torch.eye(design.shape[1]).double()
    weights = torch.linalg.solve(gram, centred.T @ (target - constant))
    return weights, constant - mean @ weights


@pytest.mark.parametrize("n", [12, 40, 300])
@pytest.mark.parametrize("departure", [Shift(), Affine()], ids=["shift", "affine"])
def test_left_out_residuals_are_those_of_fits_without_the_row(departure, n):
    data = triples(departure, n)
    fitted, left_out = Ridge().fit_and_leave_out(data)
    features = fitted.kernel(data.encoding)[data.codes]
    features = torch.cat([features, torch.ones(n, 1).double()], dim=1)
    design = torch.einsum("nm,nq->nmq", features, data.basis).flatten(1)
    found = torch.cat([fitted.deviation, fitted.common[None]]).flatten(0, 1)
    found[-data.basis.shape[1]] = 0.0  # the constant is not penalised
    # At the minimum, the penalty's gradient is that of the squared error.
    residual = data.delta - fitted_values(fitted, data)
    pull = (design - design.mean(dim=0)).T @ residual
    strength = ((pull * found).sum() / found.square().sum()).item()
    weights, constant = ridge_at(design, data.delta, strength)
    torch.testing.assert_close(design @ weights + constant, fitted_values(fitted, data))
    for row in range(0, n, max(1, n // 12)):
        others = torch.arange(n) != row
        weights, constant = ridge_at(design[others], data.delta[others], strength)
        expected = data.delta[row] - design[row] @ weights - constant
        torch.testing.assert_close(left_out[row], expected, rtol=1e-4, atol=1e-6)


def fitted_values(fitted, data):
    coefficients = fitted(data.encoding).coefficients[0][data.codes]
    return torch.einsum("nq,nqd->nd", data.basis, coefficients)


def test_leaving_out_fits_as_fit_does():
    data = triples(Shift())
    fitted, left_out = Ridge().fit_and_leave_out(data)
    alone = Ridge().fit(data)
    torch.testing.assert_close(fitted_values(fitted, data), fitted_values(alone, data))
    within = data.delta - fitted_values(fitted, data)
    assert (left_out.norm(dim=1) > within.norm(dim=1)).all()


def test_more_triples_do_not_narrow_the_kernel_to_fit_rounding():
    # Ten wordings of each of four regimes; shifts are certain, up to float32.
    rng = torch.Generator().manual_seed(0)
    centres, shifts = torch.randn(4, 16, generator=rng), torch.randn(4, 3, generator=rng)
    wordings = centres.repeat(15, 1) + 0.6 * torch.randn(60, 16, generator=rng)
    known, new = wordings[:40], wordings[40:]
    errors = []
    for n in (80, 4000):
        x_sim = 30 * torch.randn(n, 3, generator=rng)
        x_obs = x_sim + shifts[torch.arange(n) % 4]
        corrector = ShiftCorrector(FunctionTransformer(), Ridge(rounding=1e-8))
        corrector.fit(known[torch.arange(n) % 40].numpy(), x_obs, x_sim)
        wrong = corrector.shift(new.numpy()) - shifts.repeat(5, 1)
        errors.append((wrong.norm() / shifts.repeat(5, 1).norm()).item())
    few, many = errors
    # A width that fits the rounding of 4000 rows: 1.8 to 3 times the error.
    assert many < 1.2 * few


def test_mixed_columns_go_through_a_column_transformer():
    world = shifted_world(200)
    dose = torch.rand(200)
    table = pd.DataFrame({"note": world.context, "dose": dose.numpy()})
    x_obs = world.x_obs + dose[:, None]
    encoder = ColumnTransformer(
        [("note", CategoryEncoder(), "note"), ("dose", NumberEncoder(), ["dose"])]
    )
    corrector = ShiftCorrector(encoder).fit(table, x_obs, world.x_sim)
    query = pd.DataFrame({"note": TEXTS, "dose": [0.5] * 4})
    torch.testing.assert_close(
        corrector.shift(query), world.shifts + 0.5, atol=0.05, rtol=0
    )


def test_any_sklearn_transformer_is_an_encoder():
    world = shifted_world(100)
    corrector = ShiftCorrector(TfidfVectorizer()).fit(*world[:3])
    assert relative_error(corrector, world) <= 1e-3


def test_parameters_can_be_read_and_cloned():
    corrector = ShiftCorrector(HashEncoder(dim=32), recipe="paper")
    params = corrector.get_params()
    assert params["recipe"] == "paper"
    assert params["encoder__dim"] == 32
    assert clone(corrector).get_params()["encoder__dim"] == 32


def test_the_paper_recipe_is_the_appendix():
    network = ShiftCorrector(HashEncoder(), "paper").axes().fitting
    assert network == Network(
        layers=3,
        hidden=128,
        learning_rate=1e-3,
        batch_size=256,
        epochs=30,
        weight_decay=0.0,
    )
    world = shifted_world(20)
    fitted = ShiftCorrector(HashEncoder(), "paper").fit(*world[:3], seed=0)
    first, second, last = fitted.fitted_.weights
    assert [len(weight) for weight in (first, second, last)] == [128, 128, 8]
    biases = fitted.fitted_.biases
    encoding = torch.randn(5, 64, generator=torch.Generator().manual_seed(0))
    inner = torch.nn.functional.gelu(encoding @ first.T + biases[0])
    inner = torch.nn.functional.gelu(inner @ second.T + biases[1])
    expected = inner @ last.T + biases[2]
    found = fitted.fitted_(encoding).coefficients[0, :, 0]
    assert torch.allclose(found, expected, atol=1e-5)


class TestBadInput:
    world = shifted_world(20)

    def fit(self, **changed):
        inputs = {
            "context": self.world.context,
            "x_obs": self.world.x_obs,
            "x_sim": self.world.x_sim,
            **changed,
        }
        return ShiftCorrector(HashEncoder()).fit(**inputs)

    def test_pairs_of_different_lengths(self):
        with pytest.raises(ValueError, match="20 rows x 8 columns and 19 rows"):
            self.fit(x_sim=self.world.x_sim[:-1])

    def test_pairs_of_different_width(self):
        with pytest.raises(ValueError, match="20 rows x 8 columns and 20 rows x 7"):
            self.fit(x_sim=self.world.x_sim[:, :7])

    def test_context_of_another_length(self):
        with pytest.raises(ValueError, match="expected 20, got 3"):
            self.fit(context=["a", "b", "c"])

    @pytest.mark.parametrize("bad", [float("nan"), float("inf")])
    @pytest.mark.parametrize("name", ["x_obs", "x_sim"])
    def test_values_that_are_not_finite(self, name, bad):
        values = getattr(self.world, name).clone()
        values[3, 1] = bad
        with pytest.raises(ValueError, match=rf"{name} must be finite.*row 3"):
            self.fit(**{name: values})

    def test_an_empty_context(self):
        with pytest.raises(ValueError, match="context is empty"):
            self.fit(context=[])

    def test_a_text_that_is_not_a_string(self):
        with pytest.raises(ValueError, match="encodes texts, got 7"):
            self.fit(context=[*self.world.context[:-1], 7])

    def test_one_regime_only(self):
        with pytest.warns(UserWarning, match="same context"):
            corrector = self.fit(context=["all the same"] * 20)
        average = (self.world.x_obs - self.world.x_sim).mean(dim=0)
        torch.testing.assert_close(
            corrector.shift("anything")[0], average, atol=1e-5, rtol=0
        )

    def test_an_unfitted_corrector(self):
        with pytest.raises(NotFittedError, match="not fitted yet"):
            ShiftCorrector(HashEncoder()).correct(torch.zeros(1, 8), "a")
        with pytest.raises(ValueError, match="not fitted yet"):
            ShiftCorrector(HashEncoder()).shift("a")

    def test_an_x_of_another_width(self):
        with pytest.raises(ValueError, match="x must have 8 columns, got 5"):
            self.fit().correct(torch.zeros(2, 5), ["a", "b"])

    def test_an_x_that_is_not_finite(self):
        with pytest.raises(ValueError, match="x must be finite"):
            self.fit().correct(torch.full((1, 8), torch.nan), "a")

    def test_an_unknown_recipe(self):
        with pytest.raises(ValueError, match="recipe must be one of"):
            ShiftCorrector(HashEncoder(), "fast").fit(*self.world[:3])

    def test_nonsense_for_numbers(self):
        with pytest.raises(ValueError, match="x_obs must hold numbers"):
            self.fit(x_obs="not data")

    def test_an_impossible_network(self):
        with pytest.raises(ValueError, match="epochs must be at least 1"):
            Network(epochs=0)
