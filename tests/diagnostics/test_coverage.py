"""Coverage of posteriors whose calibration is known, with sbi's own checks as oracle.

theta ~ N(0, 1), x ~ N(theta, 0.5^2), two of each: the exact posterior is N(0.8 x, 0.2).
"""

import math

import pytest
import torch
from sbi.diagnostics import run_sbc
from sbi.diagnostics.tarp import _run_tarp, check_tarp
from scipy import stats
from torch.distributions import Independent, Normal

from ma_sbi import CategoryEncoder, CorrectedPosterior, ShiftCorrector, from_callable
from ma_sbi.diagnostics import coverage
from ma_sbi.diagnostics.coverage import _area, _ranks, _tarp_ranks

SCALE = math.sqrt(0.2)


def world(n, seed=0):
    rng = torch.Generator().manual_seed(seed)
    theta = torch.randn(n, 2, generator=rng)
    return theta, theta + 0.5 * torch.randn(n, 2, generator=rng)


def gaussian(shift=0.0, scale=SCALE, *, density=True):
    def law(x):
        return Independent(Normal(0.8 * x + shift, scale), 1)

    return from_callable(
        lambda num, x: law(x).sample((num,)),
        (lambda theta, x: law(x).log_prob(theta)) if density else None,
        batched=True,
    )


def test_p_values_of_the_exact_posterior_are_uniform():
    found = [
        coverage(gaussian(), *world(100, seed), num_samples=20, seed=seed)
        for seed in range(150)
    ]
    values = {
        "sbc": [one.sbc_p_values[0].item() for one in found],
        "tarp": [one.tarp_p_value for one in found],
        "expected": [one.expected_p_value for one in found],
    }
    for name, each in values.items():
        # A uniform sample gives a smaller one once in a thousand cases.
        assert stats.kstest(each, "uniform").pvalue > 1e-3, name


def test_tarp_is_exact_for_few_rows_of_many_parameters():
    """Random points in the box of the truths alone would be nearer to them."""
    rng = torch.Generator().manual_seed(0)
    values = []
    for _ in range(200):
        draws, truth = torch.randn(31, 20, 10, generator=rng).split([30, 1])
        values.append(_tarp_ranks(draws, truth[0], rng))
    assert stats.kstest(torch.cat(values).numpy(), "uniform").pvalue > 1e-3


def test_many_rows_and_few_draws_do_not_reject():
    """sbi's own test of the same ranks does: they are integers."""
    found = coverage(gaussian(), *world(20_000), num_samples=50, seed=0)
    assert found.p_value > 1e-3
    uniform = stats.uniform(0, 50).cdf
    assert stats.kstest(found.sbc_ranks[:, 0].numpy(), uniform).pvalue < 1e-3


@pytest.mark.parametrize(
    ("options", "sign"),
    [({"shift": 0.3}, 1), ({"scale": SCALE / 1.5}, 1), ({"scale": SCALE * 1.5}, -1)],
    ids=["biased", "narrow", "wide"],
)
def test_what_is_not_calibrated_is_found(options, sign):
    found = coverage(gaussian(**options), *world(500), seed=0)
    assert found.sbc_p_value < 1e-3
    assert found.expected_p_value < 1e-3
    assert sign * found.acauc > 0
    assert "not calibrated" in str(found)
    assert ("too wide" in str(found)) == (sign < 0)


def test_expected_coverage_is_that_of_the_closed_form():
    """A posterior r times too narrow: chi-squared with two degrees, scaled by r^2."""
    narrow = 1.5
    found = coverage(gaussian(scale=SCALE / narrow), *world(4000), seed=0)
    for one in found.expected:
        cut = stats.chi2(2).ppf(one.level)
        expected = stats.chi2(2).cdf(cut / narrow**2)
        error = math.sqrt(expected * (1 - expected) / 4000)
        assert one.share == pytest.approx(expected, abs=4 * error)
        assert one.low < one.share < one.high


def test_central_intervals_stand_in_where_there_is_no_density():
    found = coverage(gaussian(density=False), *world(2000), levels=(0.9,), seed=0)
    assert found.expected_p_value is None
    # Two columns of 2000 rows.
    assert found.expected[0].share == pytest.approx(0.9, abs=4 * math.sqrt(0.09 / 4000))
    assert "expected coverage" not in str(found)


def test_ranks_are_those_of_sbi():
    theta, x_sim = world(100)
    context = ["on", "off"] * 50
    x_obs = x_sim + torch.tensor([[0.5, 0.0], [0.0, 0.0]]).repeat(50, 1)
    corrector = ShiftCorrector(CategoryEncoder()).fit(context, x_obs, x_sim)
    corrected = CorrectedPosterior(gaussian(), corrector)
    packed = corrected.packed(context)
    rows = packed.pack(x_obs, context)
    torch.manual_seed(3)
    sbi_ranks, _ = run_sbc(
        theta, rows, packed, num_posterior_samples=100, show_progress_bar=False
    )
    torch.manual_seed(3)
    draws = corrected.sample(100, x_obs, context)
    ranks, _ = _ranks(draws, theta, None)
    torch.testing.assert_close(ranks.float(), sbi_ranks)


def test_tarp_is_that_of_sbi():
    theta, x = world(3000)
    draws = gaussian(scale=SCALE / 1.5).sample(500, x, seed=0)
    # Not the seed of theta, which the random points must not know.
    rng = torch.Generator().manual_seed(1)
    values = _tarp_ranks(draws, theta, rng)
    low, high = theta.min(dim=0).values, theta.max(dim=0).values
    place = torch.rand(theta.shape, generator=rng)
    ecp, alpha = _run_tarp(draws, theta, low + (high - low) * place, z_score_theta=True)
    # Other random points: a mean of 3000 values of at most 0.5, four standard errors.
    error = (1 - values.clamp(min=0.5)).std().item() / math.sqrt(3000)
    assert _area(values) == pytest.approx(check_tarp(ecp, alpha)[0], abs=4 * error)
    assert _area(values) < -0.02


def test_a_corrected_posterior_covers_and_the_uncorrected_does_not():
    theta, x_sim = world(600)
    context = ["on", "off"] * 300
    x_obs = x_sim + torch.tensor([[0.5, 0.0], [0.0, 0.0]]).repeat(300, 1)
    corrector = ShiftCorrector(CategoryEncoder()).fit(
        context[:300], x_obs[:300], x_sim[:300]
    )
    corrected = CorrectedPosterior(gaussian(), corrector)
    held = slice(300, None)
    after = coverage(corrected, theta[held], x_obs[held], context[held], seed=0)
    before = coverage(gaussian(), theta[held], x_obs[held], seed=0)
    assert after.p_value > 0.01
    assert before.p_value < 1e-3


def test_a_corrected_posterior_without_density_is_taken():
    theta, x_sim = world(50)
    corrector = ShiftCorrector(CategoryEncoder()).fit(["a", "b"] * 25, x_sim + 1, x_sim)
    corrected = CorrectedPosterior(gaussian(density=False), corrector)
    assert coverage(corrected, theta, x_sim + 1, ["a", "b"] * 25).expected_p_value is None


def test_anything_that_samples_is_taken():
    class Sampler:
        def sample(self, num_samples, x, *, seed=None):
            return gaussian().sample(num_samples, x, seed=seed)

    found = coverage(Sampler(), *world(200), seed=0)
    assert found.p_value > 0.01
    assert found.expected_p_value is None


def test_the_same_seed_gives_the_same_answer():
    first, second = (coverage(gaussian(), *world(50), seed=1) for _ in range(2))
    assert torch.equal(first.sbc_p_values, second.sbc_p_values)
    assert first.tarp_p_value == second.tarp_p_value


@pytest.mark.parametrize(
    ("options", "message"),
    [
        ({"rows": 5}, "at least 20 rows with known theta, got 5"),
        ({"drop": 1}, "paired row by row"),
        ({"levels": (1.5,)}, "levels must lie between 0 and 1"),
    ],
    ids=["few", "pairs", "levels"],
)
def test_bad_input_is_named(options, message):
    theta, x = world(options.pop("rows", 30))
    drop = options.pop("drop", 0)
    with pytest.raises(ValueError, match=message):
        coverage(gaussian(), theta[drop:], x, **options)
