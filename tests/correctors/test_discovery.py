"""Tests for ma_sbi.correctors.discovery and clouds."""

import math
import warnings

import pytest
import torch
from torch.distributions import MultivariateNormal

from ma_sbi.correctors.clouds import Clouds
from ma_sbi.correctors.discovery import discover

EXACT = torch.full((2,), 1e-9, dtype=torch.float64)
SHIFTS = torch.tensor([[1.0, 0.0], [0.0, 1.0], [-1.0, 0.0]], dtype=torch.float64)


def draw(*shape, seed=0):
    rng = torch.Generator().manual_seed(seed)
    return torch.randn(*shape, generator=rng, dtype=torch.float64)


def no_context(delta):
    return torch.zeros(len(delta), dtype=torch.long)


def same_groups(member, regime):
    """Whether the most probable groups are the regimes, whatever their order."""
    pairs = set(zip(member.argmax(dim=1).tolist(), regime.tolist(), strict=True))
    return len(pairs) == member.shape[1] == len(regime.unique())


def test_departures_that_repeat_are_regimes():
    regime = torch.arange(30) % 3
    member = discover(SHIFTS[regime], no_context(regime), EXACT, most=12)
    assert same_groups(member, regime)
    assert member.sum() == (member == 1).sum() == 30


def test_rounding_makes_no_regime():
    regime = torch.arange(30) % 3
    delta = SHIFTS[regime] + 1e-10 * draw(30, 2)
    assert same_groups(discover(delta, no_context(delta), EXACT, most=12), regime)


def test_a_single_departure_is_one_regime():
    member = discover(SHIFTS[:1].repeat(20, 1), torch.arange(20), EXACT, most=12)
    assert torch.equal(member, torch.ones(20, 1, dtype=torch.float64))


def test_one_cloud_is_one_regime():
    # Two Gaussians instead of one must add 1.5 log 200 = 8 nats: rare, so one of three may.
    found = [
        discover(delta, torch.arange(200) % 10, EXACT, most=12).shape[1]
        for delta in (draw(200, 2, seed=seed) for seed in range(3))
    ]
    assert sorted(found)[1] == 1


@pytest.mark.parametrize("columns", [2, 40], ids=["few columns", "many columns"])
def test_clouds_far_apart_are_found(columns):
    regime = torch.arange(120) % 3
    delta = 0.05 * draw(120, columns)
    delta[:, :2] += SHIFTS[regime]
    rounding = torch.full((columns,), 1e-9, dtype=torch.float64)
    member = discover(delta, no_context(delta), rounding, most=12)
    assert same_groups(member, regime)
    torch.testing.assert_close(member.sum(dim=1), torch.ones(120, dtype=torch.float64))


def test_columns_of_large_numbers_do_not_hide_regimes():
    regime = torch.arange(120) % 2
    delta = draw(120, 40)
    delta[:, :20] = 0.2 * delta[:, :20] + regime[:, None]
    delta[:, 20:] *= 1000
    rounding = torch.full((40,), 1e-9, dtype=torch.float64)
    assert same_groups(discover(delta, no_context(delta), rounding, most=6), regime)


def test_contexts_tell_clouds_apart_that_overlap():
    # Two standard deviations apart, two Gaussians of one direction have one mode.
    regime = torch.arange(240) % 2
    delta = draw(240, 2)
    delta[:, 0] += 2.0 * regime
    contexts = regime + 2 * (torch.arange(240) // 2 % 4)
    assert discover(delta, no_context(delta), EXACT, most=6).shape[1] == 1
    member = discover(delta, contexts, EXACT, most=6)
    assert same_groups(member, regime)


def test_many_rows_in_a_regular_order():
    # More rows than are looked at, and rare contexts that may have none of these.
    regime = torch.arange(2400) % 3
    delta = SHIFTS[regime] + 0.2 * draw(2400, 2)
    contexts = regime + 3 * (torch.arange(2400) // 2300)
    contexts[-1] = 6
    member = discover(delta, contexts, EXACT, most=6)
    assert member.shape[1] == 3
    right = [member[regime == one].mean(dim=0).max() for one in range(3)]
    assert min(right) > 0.99


def test_what_repeats_and_what_spreads_are_told_apart():
    regime = torch.arange(90) % 3
    delta = SHIFTS[regime]
    delta[regime == 2] += 0.1 * draw(30, 2)
    member = discover(delta, no_context(delta), EXACT, most=12)
    assert same_groups(member, regime)


def test_whole_numbers_that_repeat_by_chance_are_no_regimes():
    delta = (4 * draw(300, 2)).round()
    assert discover(delta, no_context(delta), EXACT, most=12).shape[1] < 4


def test_decimals_that_agree_by_chance_are_no_regimes():
    regime = torch.arange(240) % 2
    delta = (3 * regime[:, None] + 0.5 * draw(240, 1)).round(decimals=3)
    assert len(delta.unique()) < 240
    assert same_groups(discover(delta, no_context(delta), EXACT[:1], most=12), regime)


def test_more_regimes_than_are_allowed_are_said():
    delta = 10 * torch.eye(6, dtype=torch.float64)[torch.arange(120) % 6]
    delta += 0.1 * draw(120, 6)
    rounding = EXACT[:1].expand(6)
    with pytest.warns(UserWarning, match="try a larger most_regimes"):
        discover(delta, no_context(delta), rounding, most=4)
    with warnings.catch_warnings():
        warnings.simplefilter("error")
        discover(delta, no_context(delta), rounding, most=8)


def test_without_noise_every_departure_is_a_regime():
    regime = torch.arange(120) % 20
    member = discover(draw(20, 2)[regime], no_context(regime), EXACT, most=12)
    assert same_groups(member, regime)


def test_few_rows_that_differ_are_one_regime_each_or_together():
    delta = draw(20, 2)
    assert discover(delta[:3], no_context(delta[:3]), EXACT, most=12).shape == (3, 3)
    assert discover(delta[:3], no_context(delta[:3]), EXACT, most=2).shape == (3, 1)


@pytest.mark.parametrize("tied", [True, False])
def test_the_criterion_of_one_cloud_is_that_of_a_gaussian(tied):
    points = draw(50, 3)
    cloud = Clouds.fit(points, no_context(points), no_context(points), tied=tied)
    covariance = points.T.cov(correction=0)
    covariance = covariance if tied else covariance.diag().diag()
    law = MultivariateNormal(points.mean(dim=0), covariance)
    numbers = 3 + (6 if tied else 3)
    expected = numbers * math.log(50) - 2 * law.log_prob(points).sum().item()
    assert cloud.criterion == pytest.approx(expected, abs=1e-3)


def test_shares_are_those_of_each_group():
    regime = torch.tensor([0] * 30 + [1] * 10 + [0] * 20)
    groups = torch.tensor([0] * 40 + [1] * 20)
    points = 0.01 * draw(60, 2) + SHIFTS[regime]
    clouds = Clouds.fit(points, regime, groups, 3, tied=True)
    expected = [[0.75, 0.25], [1.0, 0.0], [50 / 60, 10 / 60]]  # the last has no points
    expected = torch.tensor(expected, dtype=torch.float64)
    torch.testing.assert_close(clouds.share, expected, atol=1e-6, rtol=0)
