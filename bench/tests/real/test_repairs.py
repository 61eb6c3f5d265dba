"""Tests for ma_sbi_bench.real.covid.repairs."""

import numpy as np
import pytest

from ma_sbi_bench.real import find_dumps, spread_corrections


def test_a_correction_is_shared_in_proportion():
    repaired = spread_corrections(np.array([10, 20, 30, -6, 7]))
    assert repaired.tolist() == [9, 18, 27, 0, 7]


def test_counts_without_corrections_are_left_alone():
    counts = np.array([0, 5, 0, 0, 700])
    assert spread_corrections(counts).tolist() == counts.tolist()
    assert find_dumps(np.full(60, 1000)).sum() == 0


@pytest.mark.parametrize("seed", range(20))
def test_corrections_keep_the_total_and_the_future(seed):
    generator = np.random.default_rng(seed)
    counts = generator.poisson(20, size=100)
    places = generator.choice(np.arange(5, 100), size=6, replace=False)
    counts[places] = -generator.integers(1, 60, size=6)
    before = counts.copy()
    repaired = spread_corrections(counts)
    assert (counts == before).all()
    assert (repaired >= 0).all()
    assert repaired.sum() == counts.sum()
    # The cumulative series ends every stretch between corrections where it did.
    for day in places:
        upto = spread_corrections(counts[: day + 1])
        assert upto.sum() == counts[: day + 1].sum()
    last = places.max()
    assert (repaired[last + 1 :] == counts[last + 1 :]).all()


def test_only_as_many_days_as_needed_share_a_correction():
    counts = np.r_[np.full(40, 10), -5]
    assert (spread_corrections(counts)[:26] == 10).all()
    counts = np.r_[np.full(40, 10), -150]
    repaired = spread_corrections(counts)
    assert (repaired[:12] == 10).all()
    assert (repaired[12:40] < 10).all()


def test_days_after_a_correction_do_not_matter():
    counts = np.r_[np.full(20, 10), -5, np.full(20, 3)]
    other = np.r_[np.full(20, 10), -5, np.full(20, 999)]
    assert (spread_corrections(counts)[:21] == spread_corrections(other)[:21]).all()


def test_a_correction_of_more_than_there_is_is_an_error():
    with pytest.raises(ValueError, match="count of -9 on day 2 takes away more than the 8"):
        spread_corrections(np.array([3, 5, -9]))
    with pytest.raises(ValueError, match="lookback must be a positive integer, got 0"):
        spread_corrections(np.array([3, -1]), lookback=0)


def test_a_dump_is_found():
    counts = np.full(60, 1000)
    counts[30] = 3001
    assert find_dumps(counts).nonzero()[0].tolist() == [30]
    counts[30] = 3000
    assert not find_dumps(counts).any()


def test_weekly_reports_are_no_dumps():
    counts = np.zeros(70, dtype=int)
    counts[::7] = 7000
    assert not find_dumps(counts).any()
    counts[35] = 30000
    assert find_dumps(counts).nonzero()[0].tolist() == [35]


def test_small_counts_and_short_series_tell_nothing():
    counts = np.full(60, 5)
    counts[30] = 99
    assert not find_dumps(counts).any()
    assert not find_dumps(np.array([1, 1, 5000])).any()
