"""Tests for ma_sbi.metrics.gap."""

import math

import numpy as np
import pytest

from ma_sbi.metrics import gap_closed

NPE = np.array([0.80, 0.90, 0.85, 0.95])
ORACLE = np.array([0.70, 0.72, 0.71, 0.73])


def test_one_seed_is_a_ratio_of_means_not_a_mean_of_ratios():
    method = np.array([0.80, 0.75, 0.75, 0.75])
    result = gap_closed(NPE, method, ORACLE)
    assert result.value == pytest.approx((0.875 - 0.7625) / (0.875 - 0.715))
    assert result.per_seed == pytest.approx((result.value,))
    assert result.gap == pytest.approx(0.16)
    assert result.low < result.value < result.high


def test_seeds_are_summarised_by_their_median():
    npe = np.stack([NPE, NPE, NPE])
    oracle = np.stack([ORACLE, ORACLE, ORACLE])
    closed = np.array([[0.1], [0.8], [0.9]])
    result = gap_closed(npe, npe - closed * (npe - oracle), oracle)
    assert result.per_seed == pytest.approx((0.1, 0.8, 0.9))
    assert result.value == pytest.approx(0.8)
    assert (result.low, result.high) == pytest.approx((0.1, 0.9))


@pytest.mark.parametrize(("method", "value"), [(NPE, 0.0), (ORACLE, 1.0)])
def test_the_ends_of_the_scale_are_exact(method, value):
    result = gap_closed(NPE, method, ORACLE)
    assert (result.value, result.low, result.high) == pytest.approx((value,) * 3)


def test_harm_is_negative():
    assert gap_closed(NPE, NPE + 0.16, ORACLE).value == pytest.approx(-1.0)


def test_blank_where_the_gap_is_within_its_noise():
    oracle = NPE - [0.02, -0.02, 0.03, -0.018]
    result = gap_closed(NPE, ORACLE, oracle)
    assert result.blank
    assert math.isnan(result.value)
    assert math.isnan(result.low)
    assert math.isnan(result.high)
    assert result.gap_low < 0 < result.gap < result.gap_high
    assert result.reason == "gap 0.003 within noise"
    assert str(result) == "– (gap 0.003 within noise)"


@pytest.mark.parametrize("lead", [0.0, 0.05])
def test_blank_where_npe_is_no_worse_than_the_oracle(lead):
    result = gap_closed(ORACLE - lead, NPE, ORACLE)
    assert result.blank
    assert "no gap" in result.reason
    assert all(math.isnan(value) for value in result.per_seed)


def test_blank_rule_keeps_its_level_when_there_is_no_gap():
    rng = np.random.default_rng(0)
    num_trials, num_cases = 400, 30
    noise = rng.normal(0.0, 0.02, (num_trials, 2, num_cases))
    shown = [
        not gap_closed(0.7 + a, 0.7 + a, 0.7 + b, num_bootstrap=400).blank for a, b in noise
    ]
    # One side of a 95 % interval; the percentile bootstrap of 30 cases adds about 1 %.
    standard_error = (0.025 * 0.975 / num_trials) ** 0.5
    assert np.mean(shown) < 0.035 + 3 * standard_error


@pytest.mark.parametrize("num_seeds", [1, 10])
def test_interval_covers_the_true_fraction(num_seeds):
    rng = np.random.default_rng(1)
    num_trials, num_cases, truth = 300, 40, 0.8
    covered = []
    for _ in range(num_trials):
        gap = rng.gamma(4.0, 0.05, num_cases)
        base = rng.normal(0.7, 0.02, (num_seeds, num_cases))
        noise = rng.normal(0.0, 0.02, (2, num_seeds, num_cases))
        method = base + (1 - truth) * gap + noise[1]
        result = gap_closed(base + gap + noise[0], method, base, num_bootstrap=400)
        covered.append(result.low <= truth <= result.high)
    # The percentile bootstrap of 40 cases falls short of 95 % by about 2 %.
    standard_error = (0.95 * 0.05 / num_trials) ** 0.5
    assert np.mean(covered) > 0.93 - 3 * standard_error


def test_a_seed_without_a_gap_has_no_fraction():
    npe, oracle = np.stack([NPE] * 10), np.stack([ORACLE] * 10)
    npe[7] = ORACLE - 0.001
    result = gap_closed(npe, oracle, oracle)
    assert not result.blank
    assert math.isnan(result.per_seed[7])
    assert (result.value, result.low, result.high) == pytest.approx((1.0, 1.0, 1.0))


def test_same_seed_same_interval():
    method = NPE - [0.02, 0.10, 0.05, 0.20]
    first, second, other = (
        gap_closed(NPE, method, ORACLE, seed=seed, num_bootstrap=50) for seed in (0, 0, 1)
    )
    assert first == second
    assert (first.low, first.high) != (other.low, other.high)


def test_reads_as_percent_with_its_interval():
    result = gap_closed([0.8] * 3, [0.7064] * 3, [0.7] * 3)
    assert str(result) == "93.6 % [94, 94]"


@pytest.mark.parametrize(
    ("npe", "oracle", "options", "message"),
    [
        (NPE, ORACLE[:3], {}, "must be paired, got shapes"),
        (NPE, [math.nan] * 4, {}, "oracle must be finite"),
        ([0.8], [0.7], {}, "at least two cases or two seeds"),
        (
            NPE,
            ORACLE,
            {"confidence": 95},
            "confidence must lie between 0 and 1, got 95",
        ),
        (NPE, ORACLE, {"num_bootstrap": 0}, "num_bootstrap must be a positive integer"),
    ],
    ids=["pairs", "nan", "single", "confidence", "bootstrap"],
)
def test_rejects_bad_input(npe, oracle, options, message):
    with pytest.raises(ValueError, match=message):
        gap_closed(npe, npe, oracle, **options)
