"""Tests for ma_sbi_bench.theory.talagrand."""

import numpy as np
import pytest
from scipy.stats import norm

from ma_sbi_bench.theory import (
    gaussian_transport,
    quantile_distance,
    tilted_transport,
    two_point_transport,
)


@pytest.mark.parametrize("mean", [0.0, 0.3, 2.0])
@pytest.mark.parametrize("scale", [0.2, 0.9, 1.0, 1.1, 3.0])
def test_t2_holds_for_gaussians_and_the_mean_shift_is_at_most_the_distance(mean, scale):
    case = gaussian_transport(mean, scale)
    if case.divergence > 0:
        assert case.ratio(1.0) <= 1 + 1e-12
    assert case.mean_shift <= case.distance


def test_a_moved_gaussian_is_the_equality():
    assert gaussian_transport(0.7, 1.3, base_scale=1.3).ratio(1.3**2) == pytest.approx(1)


def test_the_numerical_distance_agrees_with_the_closed_form():
    x = np.linspace(-12, 12, 100_001)
    seen = quantile_distance(x, norm.cdf(x), norm.cdf(x, 0.5, 0.8))
    assert seen == pytest.approx(gaussian_transport(0.5, 0.8).distance, rel=1e-3)
    tilted = tilted_transport(lambda x: -0.5 * x**2, 0.5)
    moved = gaussian_transport(0.5, 1.0)
    assert tilted == pytest.approx(moved, rel=1e-6)


@pytest.mark.parametrize("tilt", [0.1, 1.0, 3.0])
def test_t2_holds_for_a_cut_gaussian(tilt):
    """Log-concave with curvature 1, so the constant is 1 whatever its variance."""
    case = tilted_transport(lambda x: np.where(np.abs(x) < 1.5, -0.5 * x**2, -np.inf), tilt)
    assert case.mean_shift < case.distance
    assert case.ratio(1.0) < 1


def test_t2_fails_for_a_coin_with_every_constant_while_the_means_obey():
    ratios = [two_point_transport(lean).ratio(1.0) for lean in (0.1, 0.01, 0.001)]
    assert ratios == pytest.approx([20, 200, 2000], rel=0.01)
    for lean in (1e-3, 0.1, 0.5, 0.999):
        assert two_point_transport(lean).mean_ratio(1.0) <= 1 + 1e-9


def test_bad_input_is_refused():
    with pytest.raises(ValueError, match="lean must lie between"):
        two_point_transport(1.0)
    with pytest.raises(ValueError, match="scale must be a positive"):
        gaussian_transport(0.0, 0.0)
