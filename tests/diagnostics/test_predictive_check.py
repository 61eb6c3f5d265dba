"""The posterior-predictive check on a Gaussian whose every law is known.

theta ~ N(0, 1), x ~ N(theta, s^2): the posterior is N(k x, v) with k = 1 / (1 + s^2) and
v = s^2 k, and predicts x' ~ N(k x, v + s^2) of an observation x.
"""

import math

import pytest
import torch
from scipy import stats

from ma_sbi import CategoryEncoder, CorrectedPosterior, ShiftCorrector, from_callable
from ma_sbi.correctors import ComposedCorrector, Mixture, ResidualPools, Shift
from ma_sbi.diagnostics import predictive_check

NOISE = 2.0
SHARE = 1 / (1 + NOISE**2)
SPREAD = NOISE * math.sqrt(SHARE)


def posterior(scale=SPREAD, share=SHARE):
    return from_callable(
        lambda num, x: share * x + scale * torch.randn(num, *x.shape), batched=True
    )


def simulate(theta, noise=NOISE):
    return theta + noise * torch.randn_like(theta)


def observe(n, seed, noise=NOISE):
    rng = torch.Generator().manual_seed(seed)
    theta = torch.randn(n, 2, generator=rng)
    return theta + noise * torch.randn(n, 2, generator=rng)


@pytest.mark.parametrize(("n", "num_samples"), [(1, 200), (40, 50)])
def test_p_values_of_the_right_simulator_are_uniform(n, num_samples):
    # With little noise the posterior follows x, and plain p-values stay about one half.
    noise = 0.5
    share = 1 / (1 + noise**2)
    exact = posterior(noise * math.sqrt(share), share)
    values = [
        predictive_check(
            exact,
            lambda theta: simulate(theta, noise),
            observe(n, seed, noise),
            num_samples=num_samples,
            seed=seed,
        ).p_value
        for seed in range(200)
    ]
    # A uniform sample gives a smaller one once in a thousand cases.
    assert stats.kstest(values, "uniform").pvalue > 1e-3


def test_the_share_inside_is_that_of_the_closed_form():
    found = predictive_check(
        posterior(), simulate, observe(2000, 0), num_samples=400, max_rows=2000, seed=0
    )
    distance = (1 - SHARE) * math.sqrt(1 + NOISE**2)  # deviation of x - k x
    width = stats.norm.ppf(0.95) * math.sqrt(SPREAD**2 + NOISE**2)
    expected = 2 * stats.norm.cdf(width / distance) - 1
    error = math.sqrt(expected * (1 - expected) / 4000)
    # 400 predictions know their own quantiles to about 0.01 of the share.
    assert found.inside == pytest.approx(expected, abs=4 * error + 0.005)
    assert found.inside_expected == pytest.approx(expected, abs=4 * error + 0.005)
    assert found.inside > found.level
    assert found.num_rows == 2000


@pytest.mark.parametrize("n", [1, 5, 100])
def test_what_the_simulator_cannot_explain_is_found(n):
    x = observe(n, 0)
    x[:, 0] += 12.0
    found = predictive_check(posterior(), simulate, x, seed=0)
    assert found.p_value < 0.01
    assert found.inside_by_column[0] < found.inside_by_column[1]
    assert "does not explain" in str(found)


def test_a_correction_is_checked_where_the_posterior_looks():
    x_sim = observe(200, 0)
    x_obs = x_sim + torch.tensor([[9.0, 0.0], [0.0, 0.0]]).repeat(100, 1)
    context = ["on", "off"] * 100
    corrector = ShiftCorrector(CategoryEncoder()).fit(context, x_obs, x_sim)
    corrected = CorrectedPosterior(posterior(), corrector)
    assert predictive_check(posterior(), simulate, x_obs, seed=0).p_value < 1e-8
    # Uniform if the correction is right: below this once in 10,000 times.
    assert predictive_check(corrected, simulate, x_obs, context, seed=0).p_value > 1e-4


def test_one_candidate_of_a_mixture_is_drawn_for_each_row():
    """The average of two candidates, 0 and 20, is no observation; each of them is one."""
    x_sim = torch.zeros(40, 1)
    x_obs = torch.tensor([[-10.0], [10.0]]).repeat(20, 1)
    corrector = ComposedCorrector(CategoryEncoder(), Shift(), ResidualPools(), Mixture())
    with pytest.warns(UserWarning, match="same context"):
        corrector.fit(["same"] * 40, x_obs, x_sim)
    corrected = CorrectedPosterior(posterior(), corrector)
    found = predictive_check(corrected, simulate, x_obs, "same", seed=0)
    # Half of the candidates are 0, which is explained, half are +-20, which is not.
    assert found.inside == pytest.approx(0.5, abs=4 * 0.5 / math.sqrt(40))


def test_a_simulator_that_takes_a_seed_gets_one():
    seeds = []

    def seeded(theta, seed):
        seeds.append(seed)
        rng = torch.Generator().manual_seed(seed)
        return theta + NOISE * torch.randn(theta.shape, generator=rng)

    first, second = (
        predictive_check(posterior(), seeded, observe(30, 0), seed=1) for _ in range(2)
    )
    assert first.p_value == second.p_value
    assert len(set(seeds)) == 3


def test_at_most_so_many_rows_are_checked():
    assert (
        predictive_check(posterior(), simulate, observe(50, 0), max_rows=30).num_rows == 30
    )


@pytest.mark.parametrize(
    ("options", "message"),
    [
        ({"level": 1.0}, "level must lie between"),
        ({"num_samples": 5}, "num_samples must be at least 20"),
        ({"simulator": lambda theta: theta[:, :1]}, "must have 2 columns"),
        ({"simulator": lambda theta: theta[:3]}, "one row per theta"),
    ],
    ids=["level", "samples", "columns", "rows"],
)
def test_bad_input_is_named(options, message):
    simulator = options.pop("simulator", simulate)
    with pytest.raises(ValueError, match=message):
        predictive_check(posterior(), simulator, observe(30, 0), **options)
