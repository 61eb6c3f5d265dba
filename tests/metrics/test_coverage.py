"""Tests for ma_sbi.metrics.coverage."""

import pytest
import torch
from scipy.stats import chi2
from torch.distributions import Independent, Normal

from ma_sbi.metrics import acauc, lpp, region_coverage

NUM_DRAWS, BATCH, DIM = 1000, 2000, 3
# |2 u - 1| of a uniform u has standard deviation 1 / sqrt(12).
ERROR = 4 / (12 * BATCH * DIM) ** 0.5 + 1 / (2 * NUM_DRAWS)


def test_the_prior_is_calibrated():
    theta = torch.rand(BATCH, DIM)
    assert acauc(torch.rand(NUM_DRAWS, BATCH, DIM), theta).mean().abs() < ERROR


def test_a_point_elsewhere_never_covers():
    draws = torch.ones(NUM_DRAWS, BATCH, DIM)
    torch.testing.assert_close(
        acauc(draws, torch.rand(BATCH, DIM)), torch.full((BATCH,), 0.5)
    )


def test_an_interval_that_always_covers_is_the_other_end():
    draws = torch.tensor([-9.0, 9.0]).repeat(NUM_DRAWS // 2)[:, None, None]
    draws = draws.expand(-1, BATCH, DIM)
    torch.testing.assert_close(
        acauc(draws, torch.rand(BATCH, DIM)), torch.full((BATCH,), -0.5)
    )


@pytest.mark.parametrize("scale", [0.5, 2.0])
def test_the_wrong_width_has_a_closed_form(scale):
    """The truth is N(0, 1), the draws N(0, scale^2): an integral over the truth."""
    theta, draws = torch.randn(BATCH, DIM), scale * torch.randn(NUM_DRAWS, BATCH, DIM)
    truth = torch.linspace(-8, 8, 20_001, dtype=torch.float64)
    inside = (2 * Normal(0.0, scale).cdf(truth) - 1).abs() - 0.5
    expected = (inside * Normal(0.0, 1.0).log_prob(truth).exp()).sum() * 16 / 20_000
    assert (acauc(draws, theta).mean() - expected).abs() < ERROR


def test_a_grid_of_levels_gives_the_same():
    theta, draws = torch.randn(50, 2), 0.7 * torch.randn(999, 50, 2)
    levels = torch.linspace(0.0005, 0.9995, 1000)
    lower, upper = (draws.quantile(q, dim=0) for q in ((1 - levels) / 2, (1 + levels) / 2))
    covered = (lower <= theta) & (theta <= upper)
    by_levels = (levels[:, None, None] - covered.float()).mean(dim=(0, 2))
    torch.testing.assert_close(acauc(draws, theta), by_levels, rtol=0, atol=3e-3)


def test_rows_must_match():
    with pytest.raises(ValueError, match="expected 5, got 4"):
        acauc(torch.zeros(10, 5, 2), torch.zeros(4, 2))


def test_lpp_of_the_truth_is_minus_its_entropy():
    class Exact:
        def log_prob(self, theta, x):
            return Independent(Normal(x, 1.0), 1).log_prob(theta)

    x = torch.zeros(BATCH, DIM)
    expected = -DIM * 0.5 * (1 + torch.tensor(2 * torch.pi).log())
    error = 4 * (DIM / 2 / BATCH) ** 0.5
    assert abs(lpp(Exact(), torch.randn(BATCH, DIM), x) - expected) < error


LEVELS = (0.5, 0.8, 0.9, 0.95)
# Parameters that go together, on scales that differ.
MIXING = torch.tensor([[1.0, 0.0, 0.0], [0.9, 0.1, 0.0], [0.0, 90.0, 50.0]])


def gaussian(*shape):
    return torch.randn(*shape, DIM) @ MIXING.T


def assert_covers(found, expected):
    """Compare within 4 standard errors, and half a step between two draws."""
    expected = torch.as_tensor(expected)
    error = 4 * (expected * (1 - expected) / BATCH).sqrt() + 1 / NUM_DRAWS
    assert ((found - expected).abs() < error).all()


def test_regions_of_the_right_posterior_cover_as_often_as_they_say():
    covered = region_coverage(gaussian(NUM_DRAWS, BATCH), gaussian(BATCH), LEVELS)
    assert_covers(covered, LEVELS)


def test_regions_of_a_shape_that_is_no_ellipsoid_are_right_as_well():
    covered = region_coverage(
        torch.rand(NUM_DRAWS, BATCH, DIM).exp(), torch.rand(BATCH, DIM).exp(), LEVELS
    )
    assert_covers(covered, LEVELS)


@pytest.mark.parametrize("scale", [0.7, 1.5])
def test_regions_of_the_wrong_width_have_a_closed_form(scale):
    """The truth's squared distance is chi-square; that of the draws scale^2 times one."""
    covered = region_coverage(scale * gaussian(NUM_DRAWS, BATCH), gaussian(BATCH), LEVELS)
    assert_covers(covered, chi2(DIM).cdf(scale**2 * chi2(DIM).ppf(LEVELS)))


def test_regions_see_what_intervals_of_single_parameters_do_not():
    """Each spread is right, and the draws of one parameter are those of another row."""
    draws, theta = gaussian(NUM_DRAWS, BATCH), gaussian(BATCH)
    draws[..., 1] = gaussian(NUM_DRAWS, BATCH)[..., 1]
    assert acauc(draws, theta).mean().abs() < ERROR * DIM**0.5  # parameters go together
    assert region_coverage(draws, theta, [0.5]) > 0.55


def test_a_region_of_no_size_holds_nothing_else():
    draws = torch.ones(10, 2, DIM)
    theta = torch.stack([torch.ones(DIM), torch.full((DIM,), 1.1)])
    torch.testing.assert_close(region_coverage(draws, theta, [0.9]), torch.tensor([0.5]))


def test_regions_need_draws():
    with pytest.raises(ValueError, match="at least 4 draws, got 3"):
        region_coverage(torch.rand(3, 5, 2), torch.rand(5, 2), LEVELS)
