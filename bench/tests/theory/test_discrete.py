"""Tests for ma_sbi_bench.theory.discrete: the K-ary sweep of the paper."""

import math

import numpy as np
import pytest

from ma_sbi_bench.theory import (
    discrete_information,
    erasure_channel,
    explained_variance,
    gap_closed_by_context,
    sub_gaussian_bound,
    symmetric_channel,
)

RELIABILITIES = [0.0, 0.1, 0.25, 0.5, 0.9, 1.0]


@pytest.mark.parametrize("num_regimes", [2, 4, 16])
@pytest.mark.parametrize("reliability", RELIABILITIES)
def test_an_erasure_channel_closes_exactly_i_over_log_k(num_regimes, reliability):
    rng = np.random.default_rng(0)
    departures = rng.standard_normal((num_regimes, 3))
    joint = erasure_channel(num_regimes, reliability)
    information = discrete_information(joint)
    assert information == pytest.approx(reliability * math.log(num_regimes), abs=1e-12)
    closed = gap_closed_by_context(departures, joint)
    assert closed == pytest.approx(information / math.log(num_regimes), abs=1e-12)


@pytest.mark.parametrize("num_regimes", [2, 4, 16])
@pytest.mark.parametrize("reliability", RELIABILITIES)
def test_a_symmetric_channel_closes_the_square_of_its_reliability(num_regimes, reliability):
    rng = np.random.default_rng(0)
    departures = rng.standard_normal((num_regimes, 3))
    closed = gap_closed_by_context(departures, symmetric_channel(num_regimes, reliability))
    assert closed == pytest.approx(reliability**2, abs=1e-12)


def test_a_symmetric_channel_does_not_track_i_over_log_k():
    def misses(num_regimes):
        return [
            reliability**2
            - discrete_information(symmetric_channel(num_regimes, reliability))
            / math.log(num_regimes)
            for reliability in np.linspace(0, 1, 101)
        ]

    assert 0.06 < max(misses(4)) < 0.07
    assert max(misses(2)) > 0.1
    assert min(misses(16)) < -0.04


def test_information_of_a_symmetric_channel_in_closed_form():
    right = 0.5 + 0.5 / 4
    wrong = 1 - right
    entropy = -right * math.log(right) - wrong * math.log(wrong / 3)
    seen = discrete_information(symmetric_channel(4, 0.5))
    assert seen == pytest.approx(math.log(4) - entropy)


def test_explained_variance_ignores_a_common_shift_and_unused_contexts():
    joint = np.array([[0.3, 0.1, 0.0], [0.2, 0.4, 0.0]])
    here = explained_variance([1.0, -1.0], joint)
    assert explained_variance([6.0, 4.0], joint) == pytest.approx(here)
    assert here == pytest.approx(explained_variance([1.0, -1.0], joint[:, :2]))


def test_two_regimes_obey_the_sub_gaussian_theorem():
    for reliability in RELIABILITIES[1:]:
        joint = symmetric_channel(2, reliability)
        bound = sub_gaussian_bound(discrete_information(joint), 1.0)
        assert explained_variance([-1.0, 1.0], joint) <= bound


def test_bad_input_is_refused():
    with pytest.raises(ValueError, match="reliability must lie between"):
        symmetric_channel(4, 1.5)
    with pytest.raises(ValueError, match="sum to 1"):
        discrete_information([[0.5, 0.6]])
    with pytest.raises(ValueError, match="one row for each of 2 regimes"):
        explained_variance([1.0, 2.0, 3.0], symmetric_channel(2, 0.5))
    with pytest.raises(ValueError, match="no gap to close"):
        gap_closed_by_context([1.0, 1.0], symmetric_channel(2, 0.5))
