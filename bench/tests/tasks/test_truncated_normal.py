"""The truncated normal, near and far."""

import pytest
import torch
from scipy.stats import truncnorm

from ma_sbi_bench.tasks.truncated_normal import TruncatedNormal

INTERVALS = [(-1.0, 2.0), (-9.0, -8.0), (8.0, 9.0), (-0.1, 0.1), (-40.0, 3.0)]


def double(value):
    return torch.tensor(value, dtype=torch.float64)


@pytest.mark.parametrize(("low", "high"), INTERVALS, ids=str)
def test_quantiles_agree_with_scipy(low, high):
    level = torch.linspace(0.01, 0.99, 21, dtype=torch.float64)
    found = TruncatedNormal(1.0, 2.0, 1 + 2 * low, 1 + 2 * high).quantile(level)
    expected = torch.from_numpy(truncnorm.ppf(level.numpy(), low, high, 1.0, 2.0))
    torch.testing.assert_close(found, expected, rtol=0, atol=1e-7)


@pytest.mark.parametrize(("low", "high"), INTERVALS, ids=str)
def test_masses_agree_with_direct_integration(low, high):
    points = torch.linspace(low, high, 200_001, dtype=torch.float64)
    density = torch.distributions.Normal(double(0.0), double(1.0)).log_prob(points)
    expected = torch.trapezoid(density.exp(), points).log()
    found = TruncatedNormal(0.0, 1.0, low, high).log_mass()
    torch.testing.assert_close(found, expected, rtol=0, atol=1e-6)


def test_far_tails_follow_their_exponential_limit():
    # Beyond z the normal is exponential with rate z: mass and median follow.
    z = double(1e4)
    law = TruncatedNormal(0.0, 1.0, z, z + 1)
    expected = -(z**2) / 2 - z.log() - double(2 * torch.pi).log() / 2
    torch.testing.assert_close(law.log_mass(), expected)
    excess = (law.quantile(double(0.5)) - z) * z
    torch.testing.assert_close(excess, double(2.0).log(), rtol=0, atol=1e-3)


def test_quantiles_stay_inside_and_reach_the_limits():
    level = double([0.0, 0.3, 1.0])
    for low, high in INTERVALS:
        points = TruncatedNormal(0.0, 1.0, low, high).quantile(level)
        assert points[0] == pytest.approx(low)
        assert points[2] == pytest.approx(high)
        assert low <= points[1] <= high


def test_empty_intervals_have_no_mass():
    law = TruncatedNormal(0.0, 1.0, double([1.0, 2.0]), double([1.0, 1.0]))
    assert law.log_mass().tolist() == [-torch.inf, -torch.inf]


def test_the_whole_line_has_mass_one():
    law = TruncatedNormal(0.0, 1.0, -torch.inf, torch.inf)
    assert law.log_mass().item() == 0.0
