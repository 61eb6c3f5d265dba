"""Tests for ma_sbi_bench.theory.tails."""

import math

import numpy as np
import pytest
from scipy import stats

from ma_sbi_bench.theory import (
    ModalDeparture,
    announced_tail,
    bounded_bound,
    sub_gaussian_bound,
    sub_gaussian_proxy,
    truncation_bound,
    truncation_residual,
    two_point_proxy,
)


def test_a_bounded_law_has_a_proxy_of_at_most_its_squared_radius():
    """Hoeffding: the bounded-noise theorem is a case of the sub-Gaussian one."""
    rng = np.random.default_rng(0)
    for _ in range(20):
        values, weight = rng.standard_normal(4), rng.dirichlet(np.ones(4)) + 1e-6
        weight = weight / weight.sum()
        radius = np.abs(values - weight @ values).max()
        assert sub_gaussian_proxy(values, weight) <= radius**2 * (1 + 1e-9)


def test_for_independent_coins_the_bounded_bound_is_d_times_as_loose():
    coins = ModalDeparture([-1.0, 1.0], dim=5).couple(0.1)
    loose = bounded_bound(coins.information, math.sqrt(5))
    assert coins.explained <= loose
    assert loose == pytest.approx(5 * sub_gaussian_bound(coins.information, 1.0))


@pytest.mark.parametrize(("cutoff", "dim"), [(1.0, 1), (2.0, 3), (1.5, 5)])
def test_the_residual_of_a_gaussian_agrees_with_draws(cutoff, dim):
    squares = np.square(np.random.default_rng(0).standard_normal((200_000, dim))).sum(1)
    left = np.where(squares > cutoff**2 * dim, squares, 0.0) / dim
    error = left.std() / math.sqrt(len(left))
    assert abs(left.mean() - truncation_residual(cutoff, dim)) < 4 * error


def test_the_residual_at_three_is_above_the_papers_in_one_dimension_only():
    assert truncation_residual(3.0, 1) > 2.6 * math.exp(-4.5)
    assert truncation_residual(3.0, 2) < math.exp(-4.5)
    assert all(truncation_residual(1.0, dim) > 0.5 for dim in (1, 10, 1000))


def test_a_sub_gaussian_law_can_leave_eight_times_the_papers_residual():
    """Two points, the far one just beyond three tau in one dimension."""
    share = 0.01099
    tau = math.sqrt(two_point_proxy(share))
    far = 1 - share
    assert far > 3 * tau
    assert share * far**2 / tau**2 > 8 * math.exp(-4.5)


def test_the_truncation_corollary_is_implied_without_its_residual():
    for dim in (1, 5):
        assert truncation_bound(0.3, 0.7, dim) == pytest.approx(
            9 * dim * sub_gaussian_bound(0.3, 0.7)
        )


def test_heavy_tails_exceed_every_constant_and_a_gaussian_does_not():
    for law in (stats.t(3), stats.laplace()):
        ratios = [announced_tail(law, threshold).ratio for threshold in (10, 100)]
        assert 1 < ratios[0] < ratios[1] / 5
    assert all(announced_tail(stats.norm(), cut).ratio < 1 for cut in (0.1, 1, 3, 8))


def test_an_announced_tail_agrees_with_laplace_in_closed_form():
    share = 0.5 * math.exp(-4)
    seen = announced_tail(stats.laplace(), 4.0)
    assert seen.explained == pytest.approx(2 * share * 5.0**2, rel=1e-6)
    rest = 1 - 2 * share
    information = -2 * share * math.log(share) - rest * math.log(rest)
    assert seen.information == pytest.approx(information)


def test_bad_input_is_refused():
    with pytest.raises(ValueError, match="cutoff must be at least 1"):
        truncation_residual(0.5, 2)
    with pytest.raises(ValueError, match="symmetric about 0"):
        announced_tail(stats.t(2), 1.0)
    with pytest.raises(ValueError, match="symmetric about 0"):
        announced_tail(stats.expon(), 1.0)
