"""Tests for ma_sbi.correctors.bootstrap."""

import math
import warnings

import pytest
import torch
from sklearn.preprocessing import FunctionTransformer

from ma_sbi import (
    BootstrapCorrector,
    CategoryEncoder,
    ComposedCorrector,
    CorrectedPosterior,
    HashEncoder,
    ShiftCorrector,
    decompose,
    predictive_mean,
)
from ma_sbi.correctors import Affine, Evidence, Mixture, ResidualPools, Shift, UnseenContext
from tests.correctors.worlds import TEXTS, shifted_world

CONTEXT = ["calm", "calm", "calm", "storm", "storm"]
X_SIM = torch.zeros(5, 3)
X_OBS = torch.tensor([[1.0, 0, 0], [2.0, 0, 0], [3.0, 0, 0], [0, 5.0, 0], [0, 7.0, 0]])


@pytest.fixture
def corrector():
    return BootstrapCorrector(CategoryEncoder()).fit(CONTEXT, X_OBS, X_SIM)


def candidates_of(corrector, context, x=None):
    x = torch.zeros(1, 3) if x is None else x
    found = corrector.corrections(x, [context])
    kept = found.log_weight[:, 0] > -torch.inf
    order = found.x[kept, 0].sum(dim=1).argsort()
    return found.x[kept, 0][order], found.log_weight[kept, 0][order].exp()


def test_candidates_are_the_residuals_of_the_same_context(corrector):
    x, weight = candidates_of(corrector, "calm")
    assert x.tolist() == [[-3.0, 0.0, 0.0], [-2.0, 0.0, 0.0], [-1.0, 0.0, 0.0]]
    torch.testing.assert_close(weight, torch.full((3,), 1 / 3))
    x, weight = candidates_of(corrector, "storm")
    assert x.tolist() == [[0.0, -7.0, 0.0], [0.0, -5.0, 0.0]]
    torch.testing.assert_close(weight, torch.full((2,), 1 / 2))


def test_weights_sum_to_one_and_padding_is_finite(corrector):
    found = corrector.corrections(torch.zeros(2, 3), ["calm", "storm"])
    torch.testing.assert_close(found.log_weight.exp().sum(dim=0), torch.ones(2))
    assert torch.isfinite(found.x).all()


def test_the_density_is_that_of_the_mixture(corrector, exact_gaussian):
    corrected = CorrectedPosterior(exact_gaussian, corrector)
    theta = torch.randn(6, 2, 3, generator=torch.Generator().manual_seed(0))
    x = torch.tensor([[0.5, 0.0, 0.0], [0.0, 6.0, 0.0]])
    found = corrected.log_prob(theta, x, ["calm", "storm"])
    for row, residuals in enumerate((X_OBS[:3], X_OBS[3:])):
        each = torch.stack(
            [
                exact_gaussian.log_prob(theta[:, [row]], x[[row]] - residual)[:, 0]
                for residual in residuals
            ]
        )
        expected = each.logsumexp(dim=0) - math.log(len(residuals))
        torch.testing.assert_close(found[:, row], expected)


def test_draws_are_exchangeable_and_have_the_moments_of_the_mixture(
    corrector, exact_gaussian
):
    corrected = CorrectedPosterior(exact_gaussian, corrector)
    n = 20_000
    draws = corrected.sample(n, torch.zeros(1, 3), ["calm"], seed=0)[:, 0, 0]
    each = exact_gaussian.sample(n, torch.zeros(1, 3), seed=1)[:, 0, 0]
    slope = exact_gaussian.sample(1, torch.tensor([[1.0, 0.0, 0.0]]), seed=2)
    slope = (slope - exact_gaussian.sample(1, torch.zeros(1, 3), seed=2))[0, 0, 0]
    spread = (each.var() + slope**2 * 2 / 3).sqrt()
    assert abs(draws.mean() + 2 * slope) < 4 * spread / n**0.5
    # Neighbours would be alike if draws came candidate by candidate.
    lagged = torch.corrcoef(torch.stack([draws[:-1], draws[1:]]))[0, 1]
    assert abs(lagged) < 4 / n**0.5
    halves = draws.reshape(2, -1).mean(dim=1)
    assert abs(halves[0] - halves[1]) < 4 * spread * (2 / (n / 2)) ** 0.5


def test_on_shifts_without_noise_it_equals_the_point_corrector():
    world = shifted_world(40, dim_x=3)
    bootstrap = BootstrapCorrector(HashEncoder()).fit(*world[:3])
    point = ShiftCorrector(HashEncoder()).fit(*world[:3])
    found = bootstrap.corrections(world.x_obs, world.context)
    expected = point.correct(world.x_obs, world.context)
    torch.testing.assert_close(found.x, expected.expand_as(found.x), atol=1e-5, rtol=1e-5)
    assert bootstrap.preflight().recommendation == "point"


def test_large_pools_are_drawn_from_and_small_ones_used_whole():
    n = 400
    residuals = torch.arange(n, dtype=torch.float32)[:, None]
    context = ["many"] * (n - 3) + ["few"] * 3
    corrector = BootstrapCorrector(CategoryEncoder(), num_draws=50).fit(
        context, residuals, torch.zeros(n, 1), seed=1
    )
    found = corrector.corrections(torch.zeros(2, 1), ["many", "few"])
    assert found.x.shape == (50, 2, 1)
    drawn = -found.x[:, 0, 0]
    assert set(drawn.tolist()) <= set(range(n - 3))
    # Uniform on 0 .. 396: mean 198, deviation 114.6.
    assert abs(drawn.mean() - 198) < 4 * 114.6 / 50**0.5
    assert (found.log_weight[:, 1] > -torch.inf).sum() == 3


def test_draws_depend_on_the_seed_alone():
    world = shifted_world(400, noise=1.0, dim_x=2)

    def drawn(seed, texts):
        corrector = BootstrapCorrector(HashEncoder(), num_draws=10)
        corrector.fit(*world[:3], seed=seed)
        return corrector.corrections(torch.zeros(len(texts), 2), texts).x

    assert torch.equal(drawn(0, TEXTS), drawn(0, TEXTS))
    assert not torch.equal(drawn(0, TEXTS), drawn(1, TEXTS))
    # Nor on the other contexts that are asked for.
    assert torch.equal(drawn(0, TEXTS)[:, [2]], drawn(0, TEXTS[2:3]))


def test_an_unseen_context_draws_from_all_and_says_so():
    corrector = BootstrapCorrector(HashEncoder()).fit(CONTEXT, X_OBS, X_SIM)
    with pytest.warns(UnseenContext, match="1 of 1 rows .* draws residuals of all"):
        x, _ = candidates_of(corrector, "never seen")
    assert len(x) == 5


def test_a_missing_context_draws_from_all_unless_some_of_the_pool_are_missing(corrector):
    x, _ = candidates_of(corrector, None)
    assert len(x) == 5
    gaps = ["calm", "calm", "calm", None, None]
    x, _ = candidates_of(
        BootstrapCorrector(CategoryEncoder()).fit(gaps, X_OBS, X_SIM), None
    )
    assert x.tolist() == [[0.0, -7.0, 0.0], [0.0, -5.0, 0.0]]


def test_an_infinite_width_ignores_the_context():
    corrector = BootstrapCorrector(CategoryEncoder(), width=math.inf)
    corrector.fit(CONTEXT, X_OBS, X_SIM)
    assert len(candidates_of(corrector, "calm")[0]) == 5


def numbers(n, informative, seed=0):
    rng = torch.Generator().manual_seed(seed)
    z = torch.rand(n, 1, generator=rng)
    spread = 0.1 * torch.randn(n, 1, generator=rng)
    told = z if informative else torch.rand(n, 1, generator=rng)
    return told.numpy(), 3 * z + spread, torch.zeros(n, 1)


def test_the_automatic_width_shares_residuals_between_similar_contexts():
    corrector = BootstrapCorrector(FunctionTransformer(), width="auto", num_draws=1000)
    corrector.fit(*numbers(500, informative=True))
    assert 0 < corrector.fitted_.width < math.inf
    found = corrector.corrections(torch.zeros(1, 1), [[0.5]])
    weight = found.log_weight[:, 0].exp()
    mean = (weight * -found.x[:, 0, 0]).sum()
    assert mean.item() == pytest.approx(1.5, abs=0.15)


def test_the_automatic_width_ignores_a_context_that_tells_nothing():
    corrector = BootstrapCorrector(FunctionTransformer(), width="auto")
    corrector.fit(*numbers(500, informative=False))
    assert corrector.fitted_.width == math.inf


def test_the_automatic_width_keeps_regimes_apart():
    world = shifted_world(200, noise=0.05, dim_x=2)
    corrector = BootstrapCorrector(HashEncoder(), width="auto").fit(*world[:3])
    shift = corrector.shift(TEXTS)
    torch.testing.assert_close(shift, world.shifts, atol=0.05, rtol=0)


def test_evidence_may_weigh_the_residuals():
    # Simulations live near zero, so of three residuals the one that explains x wins.
    def log_density(x):
        return -0.5 * (x / 0.1).square().sum(dim=1)

    corrector = ComposedCorrector(
        CategoryEncoder(), Shift(), ResidualPools(), Evidence(log_density)
    ).fit(CONTEXT, X_OBS, X_SIM)
    corrected = corrector.correct(torch.tensor([[2.05, 0.0, 0.0]]), ["calm"])
    torch.testing.assert_close(corrected, torch.tensor([[0.05, 0.0, 0.0]]))


def test_preflight_follows_the_papers_rule():
    context = ["a"] * 5 + ["b"] * 4
    lengths = [1.0, 1.0, 1.0, 1.0, 3.5, 2.0, 2.0, 2.0, 5.9]
    x_obs = torch.tensor(lengths)[:, None]
    corrector = BootstrapCorrector(CategoryEncoder()).fit(context, x_obs, 0 * x_obs)
    found = corrector.preflight()
    assert found.ratio.tolist() == pytest.approx(
        [1.0, 1.0, 1.0, 1.0, 3.5, 1.0, 1.0, 1.0, 2.95]
    )
    assert found.share == pytest.approx(1 / 9)
    assert found.recommendation == "stochastic"
    assert "stochastic: 11.1% of 9 residuals" in str(found)
    calm = BootstrapCorrector(CategoryEncoder()).fit(
        context[:4] + context[5:], x_obs[[0, 1, 2, 3, 5, 6, 7, 8]], torch.zeros(8, 1)
    )
    assert calm.preflight().recommendation == "point"


def test_preflight_measures_the_variance_within_regimes():
    x_obs = torch.tensor([[0.0], [2.0], [10.0], [12.0]])
    corrector = BootstrapCorrector(CategoryEncoder()).fit(
        ["a", "a", "b", "b"], x_obs, torch.zeros(4, 1)
    )
    assert corrector.preflight().within == pytest.approx(4 / 104)


def test_no_departure_at_all_recommends_a_point():
    x = torch.ones(4, 2)
    found = BootstrapCorrector(CategoryEncoder()).fit(["a", "b"] * 2, x, x).preflight()
    assert found.recommendation == "point"
    assert found.ratio.tolist() == [1.0] * 4


def test_preflight_needs_contexts_that_repeat():
    corrector = BootstrapCorrector(HashEncoder()).fit(TEXTS, X_OBS[:4], X_SIM[:4])
    with pytest.raises(ValueError, match="no two observations share a context"):
        corrector.preflight()
    one_regime = BootstrapCorrector(HashEncoder()).fit(
        [*TEXTS, TEXTS[0]], 7 * X_OBS[[0, 1, 2, 3, 0]], X_SIM
    )
    assert one_regime.preflight().ratio.tolist() == [1.0, 1.0]
    assert one_regime.width_ == 0.0


def test_contexts_that_an_encoder_rounds_differently_are_the_same():
    class Rounding(HashEncoder):
        def transform(self, context):
            vectors = super().transform(context)
            return vectors * (1 + 1e-7 * len(vectors))

    corrector = BootstrapCorrector(Rounding()).fit(CONTEXT, X_OBS, X_SIM)
    assert len(candidates_of(corrector, "calm")[0]) == 3


def test_a_single_row_is_a_pool():
    corrector = BootstrapCorrector(CategoryEncoder(), width="auto")
    with pytest.warns(UserWarning, match="same context"):
        corrector.fit(["calm"], X_OBS[:1], X_SIM[:1])
    assert candidates_of(corrector, "calm")[0].tolist() == [[-1.0, 0.0, 0.0]]


def test_the_average_correction_does_not_depend_on_the_order_of_rows(corrector):
    turned = BootstrapCorrector(CategoryEncoder())
    turned.fit(CONTEXT[::-1], X_OBS.flip(0), X_SIM)
    for one in (corrector, turned):
        found = one.correct(torch.zeros(1, 3), ["calm"])
        torch.testing.assert_close(found, torch.tensor([[-2.0, 0.0, 0.0]]))


def test_bad_choices_are_refused():
    with pytest.raises(ValueError, match="num_draws must be a positive integer, got 0"):
        BootstrapCorrector(CategoryEncoder(), 0).fit(CONTEXT, X_OBS, X_SIM)
    for width in (-1.0, float("nan"), "wide"):
        with pytest.raises(ValueError, match="width must be a number from 0 to inf"):
            BootstrapCorrector(CategoryEncoder(), width=width).fit(CONTEXT, X_OBS, X_SIM)
    affine = ComposedCorrector(CategoryEncoder(), Affine(), ResidualPools(), Mixture())
    with pytest.raises(ValueError, match="ResidualPools finds shifts only"):
        affine.fit(CONTEXT, X_OBS, X_SIM)


def test_a_mixture_is_not_decomposed(corrector):
    with pytest.raises(ValueError, match="weighs several"):
        decompose(corrector, CONTEXT)


def test_the_predictive_mean_of_a_gaussian_is_that_of_its_posterior(exact_gaussian):
    x = torch.tensor([[1.0, 0.0, 1.0], [0.0, -2.0, 0.0]])
    found = predictive_mean(
        exact_gaussian, lambda theta: theta, x, num_samples=4000, seed=0
    )
    draws = exact_gaussian.sample(4000, x, seed=0)
    torch.testing.assert_close(found, draws.mean(dim=0))
    with pytest.raises(ValueError, match=r"mean must map theta .*got \(1000, 1\)"):
        predictive_mean(exact_gaussian, lambda theta: theta[:, :1], x, num_samples=500)


def test_warnings_are_not_given_for_contexts_that_were_seen(corrector):
    with warnings.catch_warnings():
        warnings.simplefilter("error")
        corrector.corrections(X_OBS, CONTEXT)


def pools(context, x_obs, **options):
    """Residual pools around simulations that are all zero."""
    corrector = ComposedCorrector(
        CategoryEncoder(), Shift(), ResidualPools(**options), Mixture()
    )
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")  # every row has the same context
        return corrector.fit(context, x_obs, torch.zeros_like(x_obs), seed=0)


def test_equal_residuals_are_one_candidate_with_all_their_weight():
    x_obs = torch.tensor([[1.0], [1.0], [1.0], [4.0]])
    x, weight = candidates_of(pools(["a"] * 4, x_obs), "a", torch.zeros(1, 1))
    assert x.tolist() == [[-4.0], [-1.0]]
    torch.testing.assert_close(weight, torch.tensor([0.25, 0.75]))


def test_many_equal_residuals_are_used_whole_and_not_drawn():
    # 400 rows are more than num_draws; their 4 different residuals are not.
    x_obs = torch.arange(400, dtype=torch.float32).remainder(5).clamp(max=3)[:, None]
    found = pools(["a"] * 400, x_obs, num_draws=8)
    x, weight = candidates_of(found, "a", torch.zeros(1, 1))
    assert x.flatten().tolist() == [-3.0, -2.0, -1.0, 0.0]
    torch.testing.assert_close(weight, torch.tensor([0.4, 0.2, 0.2, 0.2]))


def test_merged_residuals_give_the_density_of_all_of_them(exact_gaussian):
    # Residuals 0.1 % of the smallest apart are merged by no rule of rounding: the same
    # mixture, but with every residual on its own.
    rows = torch.tensor([0, 0, 0, 1, 1, 2])
    residuals = torch.tensor([[0.3, 0, 0], [0, 0.2, 0], [0, 0, -0.4]])[rows]
    apart = residuals + 1e-4 * torch.randn(6, 3)
    merged, whole = (pools(["a"] * 6, part) for part in (residuals, apart))
    theta, x = 0.3 * torch.randn(50, 2, 3), torch.randn(2, 3)
    first, second = (
        CorrectedPosterior(exact_gaussian, one).log_prob(theta, x, "a")
        for one in (merged, whole)
    )
    assert len(merged.corrections(x, "a").x) == 3
    assert len(whole.corrections(x, "a").x) == 6
    # Gradients of the log density are about 10 per unit of x.
    torch.testing.assert_close(first, second, atol=2e-2, rtol=0)
    each = torch.stack([exact_gaussian.log_prob(theta, x - one) for one in residuals])
    torch.testing.assert_close(first, each.logsumexp(dim=0) - math.log(6))


def test_residuals_that_rounding_puts_apart_are_equal():
    x_sim = 100 * torch.randn(200, 3)
    x_obs = x_sim + torch.tensor([1.0, -2.0, 30.0])  # rounded to about 4e-6
    corrector = BootstrapCorrector(CategoryEncoder())
    corrector.fit(["a", "b"] * 100, x_obs, x_sim)
    assert len(corrector.corrections(x_obs[:2], ["a", "b"]).x) == 1


@pytest.mark.parametrize("noise", [0.0, 0.3, 1.0, [0.4, 0.25]])
def test_spread_is_that_of_the_departure_and_the_error_of_the_mean(noise):
    n = 100
    x_obs = torch.randn(n, 2, dtype=torch.float64)
    share = torch.tensor(noise, dtype=torch.float64)
    noisy = share * x_obs.var(dim=0)
    found = pools(["a"] * n, x_obs, noise=noisy, num_draws=50 * n).fitted_(torch.ones(1, 1))
    departures, weight = found.coefficients[:, 0, 0], found.log_weight[:, 0].exp()
    mean = (weight[:, None] * departures).sum(dim=0)
    torch.testing.assert_close(mean, x_obs.mean(dim=0))
    variance = (weight[:, None] * (departures - mean).square()).sum(dim=0)
    departure = (1 - share) * x_obs.var(dim=0, unbiased=False)
    error = x_obs.var(dim=0) / n * (share.amax() > 0)
    # The two are drawn independently: their product has a mean of zero, and this error.
    crossed = 2 * (departure * error).sqrt() / (50 * n) ** 0.5
    assert ((variance - departure - error).abs() < 5 * crossed + 1e-9).all()


def spread_of(x_obs, noise):
    found = pools(["a"] * len(x_obs), x_obs, noise=torch.tensor(noise)).fitted_
    departures, log_weight, _ = found(torch.ones(1, 1))
    weight = log_weight[:, :1].exp()
    mean = (weight * departures[:, 0, 0]).sum(dim=0)
    return (weight * (departures[:, 0, 0] - mean).square()).sum(dim=0).sqrt()


def test_noise_that_varies_from_pool_to_pool_is_no_departure():
    """Without the allowance, half of all columns would seem to have a departure."""
    spurious = [
        spread_of(torch.randn(25, 10, dtype=torch.float64), [1.0] * 10) > 0.25
        for _ in range(40)
    ]
    # The error of the mean is 0.2. A chi-square of 24 is 1.85 times its mean in 0.7 % of
    # 400 cases: 2.8, with a standard deviation of 1.7.
    assert torch.stack(spurious).sum() <= 10


def test_a_departure_in_one_of_many_columns_is_kept():
    x_obs = torch.randn(25, 50, dtype=torch.float64)
    x_obs[:, 0] *= 3
    spread = spread_of(x_obs, [1.0] * 50)
    assert spread[0] > 1.5
    assert spread[1:].median() < 0.25


def test_a_rare_departure_among_noise_is_kept():
    x_obs = torch.randn(60, 2, dtype=torch.float64)
    x_obs[0] += 1000.0
    assert (spread_of(x_obs, [1.0, 1.0]) > 100).all()


def test_a_column_without_noise_is_left_as_it_is():
    x_obs = torch.randn(60, 2, dtype=torch.float64) * torch.tensor([5.0, 1.0])
    spread = spread_of(x_obs, [0.0, 0.01])
    expected = x_obs.std(dim=0, unbiased=False)
    torch.testing.assert_close(spread, expected, rtol=0.1, atol=0)


def test_without_noise_residuals_are_left_as_they_are():
    x_obs = torch.randn(6, 2)
    found = pools(["a"] * 6, x_obs).corrections(torch.zeros(1, 2), "a").x[:, 0]
    assert torch.equal(found.sort(dim=0).values, (-x_obs).sort(dim=0).values)


@pytest.mark.parametrize("others", [0.0, 1.0, 5.0])
def test_a_pool_has_some_residuals_of_all_contexts(others):
    found = pools(CONTEXT, X_OBS, others=others)
    x = found.corrections(torch.zeros(1, 3), ["calm"])
    total = 3 + others
    weight = {
        tuple((-point).tolist()): weight.exp().item()
        for point, weight in zip(x.x[:, 0], x.log_weight[:, 0], strict=True)
    }
    for residual in X_OBS[:3]:
        assert weight[tuple(residual.tolist())] == pytest.approx((1 + others / 5) / total)
    for residual in X_OBS[3:]:
        expected = others / 5 / total
        assert weight.get(tuple(residual.tolist()), 0.0) == pytest.approx(expected)
