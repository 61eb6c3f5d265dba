"""Tests for ma_sbi.metrics.equivalence."""

import numpy as np
import pytest
from scipy import stats

from ma_sbi.metrics import tost_paired


def paired(mean, std, num_pairs, seed=0):
    """Pairs whose differences have exactly this mean and standard deviation."""
    noise = np.random.default_rng(seed).standard_normal(num_pairs)
    noise = (noise - noise.mean()) / noise.std(ddof=1)
    b = np.linspace(0.6, 0.8, num_pairs)
    return b + mean + std * noise, b


@pytest.mark.parametrize("mean", [-0.015, 0.0, 0.004, 0.03])
def test_is_the_larger_of_two_one_sided_t_tests(mean):
    a, b = paired(mean, 0.01, 8)
    result = tost_paired(a, b, margin=0.02)
    above = stats.ttest_1samp(a - b, -0.02, alternative="greater")
    below = stats.ttest_1samp(a - b, 0.02, alternative="less")
    assert result.p_value == pytest.approx(max(above.pvalue, below.pvalue))
    interval = stats.ttest_1samp(a - b, 0.0).confidence_interval(0.95)
    assert (result.low, result.high) == pytest.approx(tuple(interval))
    assert (result.difference, result.std) == pytest.approx((mean, 0.01))
    assert result.num_pairs == 8


def test_figures_of_the_paper():
    result = tost_paired(*paired(0.003, 0.004, 10), margin=0.02)
    assert result.p_value == pytest.approx(stats.t.sf(0.017 / (0.004 / 10**0.5), 9))
    assert result.p_value < 1e-4
    assert result.equivalent


@pytest.mark.parametrize("side", [-1, 1])
def test_rejects_in_one_of_twenty_at_the_margin(side):
    rng = np.random.default_rng(0)
    num_trials, margin = 2000, 0.02
    differences = rng.normal(side * margin, 0.01, (num_trials, 10))
    rate = np.mean(
        [tost_paired(d, np.zeros(10), margin=margin).equivalent for d in differences]
    )
    # The test is exact here: the far bound is twelve standard errors away.
    assert abs(rate - 0.05) < 3 * (0.05 * 0.95 / num_trials) ** 0.5


def test_too_few_noisy_pairs_show_nothing():
    assert not tost_paired(*paired(0.0, 0.05, 4), margin=0.02).equivalent


@pytest.mark.parametrize(
    ("shift", "equivalent"), [(0.0, True), (0.25, True), (-0.5, False), (1.0, False)]
)
def test_equal_differences_are_judged_by_their_size(shift, equivalent):
    b = np.array([0.5, 0.75, 1.0])
    result = tost_paired(b + shift, b, margin=0.5)
    assert result.equivalent is equivalent
    assert (result.low, result.difference, result.high) == (shift, shift, shift)


def test_reads_as_a_verdict():
    b = np.array([0.5, 0.75, 1.0])
    assert str(tost_paired(b, b, margin=0.02)).startswith("equivalent within 0.02")
    assert str(tost_paired(b + 1, b, margin=0.02)).startswith("not shown equivalent")


@pytest.mark.parametrize(
    ("a", "b", "margin", "message"),
    [
        ([1.0, 2.0], [1.0, 2.0], 0.0, "margin must be a positive number, got 0.0"),
        ([1.0, 2.0], [1.0, 2.0], float("nan"), "margin must be a positive number"),
        ([1.0, 2.0], [1.0, 2.0, 3.0], 0.1, "must be paired, got 2 and 3 values"),
        ([1.0], [1.0], 0.1, "at least two pairs .* got 1"),
        ([1.0, np.nan], [1.0, 2.0], 0.1, "a must be finite"),
        (np.ones((2, 2)), np.ones((2, 2)), 0.1, "a must have 1 columns, got 2"),
    ],
    ids=["margin", "nan margin", "pairs", "single", "nan", "matrix"],
)
def test_rejects_bad_input(a, b, margin, message):
    with pytest.raises(ValueError, match=message):
        tost_paired(a, b, margin=margin)
