"""Tests for ma_sbi.metrics.paired."""

import numpy as np
import pytest
from scipy import stats

from ma_sbi.metrics import paired_gain


def test_gain_relative_and_test_are_those_of_the_differences():
    rng = np.random.default_rng(0)
    baseline, method = rng.normal(10, 1, 50), rng.normal(9, 1, 50)
    found = paired_gain(baseline, method)
    assert found.gain == pytest.approx((baseline - method).mean())
    assert found.relative == pytest.approx((baseline - method).mean() / baseline.mean())
    assert found.p_value == pytest.approx(stats.wilcoxon(baseline, method).pvalue)
    assert found.low < found.gain < found.high


def test_the_interval_of_independent_cases_is_the_normal_one():
    difference = np.random.default_rng(1).normal(0.3, 1.0, 400)
    found = paired_gain(difference, np.zeros(400), num_resamples=20_000)
    standard = difference.std() / 20
    assert found.low == pytest.approx(difference.mean() - 1.96 * standard, abs=0.004)
    assert found.high == pytest.approx(difference.mean() + 1.96 * standard, abs=0.004)


def test_blocks_widen_the_interval_of_cases_that_are_alike():
    # Ten times six equal neighbours: ten independent values, not sixty.
    values = np.random.default_rng(2).normal(size=10).repeat(6)
    alone = paired_gain(values, np.zeros(60))
    blocks = paired_gain(values, np.zeros(60), time=np.arange(60), block=6)
    assert blocks.high - blocks.low > 1.5 * (alone.high - alone.low)


def test_cases_of_one_time_are_drawn_together():
    # Two countries with opposite gains cancel at every time.
    found = paired_gain([1.0, -1.0] * 20, [0.0] * 40, time=np.arange(40) // 2, block=4)
    assert found.low == found.high == 0.0


def test_the_interval_covers_the_truth_as_often_as_it_says():
    rng = np.random.default_rng(3)
    hits = 0
    for trial in range(200):
        noise = rng.normal(size=(60, 3)) + rng.normal(size=(60, 1))
        found = paired_gain(
            noise.ravel(),
            np.zeros(180),
            time=np.arange(60).repeat(3),
            block=2,
            num_resamples=500,
            seed=trial,
        )
        hits += found.low < 0 < found.high
    # Binomial(200, 0.95) has deviation 3; a bootstrap of thirty blocks is a bit short.
    assert 176 <= hits <= 199


def test_no_difference_is_no_gain():
    found = paired_gain([1.0, 2.0], [1.0, 2.0])
    assert (found.gain, found.low, found.high, found.p_value) == (0.0, 0.0, 0.0, 1.0)


@pytest.mark.parametrize(
    ("options", "message"),
    [
        ({"method": [1.0]}, r"shapes \(2,\) and \(1,\)"),
        ({"method": [1.0, np.inf]}, "finite, got 1 pairs"),
        ({"time": [1]}, "time must have one entry per case"),
        ({"time": [1, 2], "block": 0}, "block must be a positive integer"),
    ],
    ids=["length", "infinite", "time", "block"],
)
def test_bad_input_is_refused(options, message):
    with pytest.raises(ValueError, match=message):
        paired_gain(**{"baseline": [1.0, 2.0], "method": [1.0, 1.0], **options})


def test_the_interval_of_the_share_knows_that_the_baseline_is_uncertain():
    """The delta method: the variance of a ratio of means."""
    rng = np.random.default_rng(4)
    baseline = rng.gamma(4.0, 1.0, 400)
    method = 0.7 * baseline + rng.normal(0, 0.1, 400)
    found = paired_gain(baseline, method, num_resamples=20_000)
    residual = baseline - method - found.relative * baseline
    half = 1.96 * residual.std() / 20 / baseline.mean()
    assert found.relative_low == pytest.approx(found.relative - half, abs=0.1 * half)
    assert found.relative_high == pytest.approx(found.relative + half, abs=0.1 * half)
    # Far narrower than what the interval of the gain alone says.
    assert 3 * (found.relative_high - found.relative_low) < (
        (found.high - found.low) / baseline.mean()
    )


def test_a_share_of_nothing_has_no_interval():
    found = paired_gain([0.0, 0.0], [1.0, 2.0])
    assert np.isnan([found.relative, found.relative_low, found.relative_high]).all()
