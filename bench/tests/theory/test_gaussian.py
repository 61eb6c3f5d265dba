"""Tests for ma_sbi_bench.theory.gaussian: Theorem 1 and its corollaries."""

import math

import numpy as np
import pytest

from ma_sbi_bench.theory import GaussianWorld, canonical_information, canonical_mmse

# Table "Numerical verification" of the paper: I, empirical, exact and linear bound.
TABLE = {
    "zero": ([0.0] * 5, 0.00, 0.00001, 0.0000, 0.0000),
    "graded": (np.linspace(0.1, 0.9, 5), 1.36, 0.1427, 0.1818, 0.2358),
    "uniform": ([0.5] * 5, 0.72, 0.1082, 0.1081, 0.1244),
    "oracle": ([0.999] * 5, 15.54, 0.4322, 0.4317, 2.6882),
}


@pytest.fixture
def world():
    return GaussianWorld()


@pytest.mark.parametrize("pattern", TABLE)
def test_the_verification_table_to_every_printed_digit(pattern, world):
    rho, information, _, exact, linear = TABLE[pattern]
    seen = canonical_information(rho)
    assert round(seen, 2) == information
    assert round(world.exact_bound(seen), 4) == exact
    assert round(world.linear_bound(seen), 4) == linear


@pytest.mark.parametrize("pattern", TABLE)
def test_simulated_reductions_agree_with_the_closed_form_and_the_paper(pattern, world):
    rho, _, paper, _, _ = TABLE[pattern]
    seen = world.simulate_reduction(rho, seed=3)
    slack = 3 * seen.error + 1e-12
    assert abs(seen.value - world.reduction(rho)) <= slack
    # The paper's own figure has the same error, and was rounded.
    assert abs(seen.value - paper) <= math.sqrt(2) * slack + 1e-4


def test_the_constant_of_the_verifier_parameters(world):
    assert round(world.constant, 3) == 0.173


def test_information_and_mmse_agree_with_covariances():
    rng = np.random.default_rng(0)
    rho = np.array([0.2, 0.6, 0.95])
    # Canonical correlations do not change under an invertible map of z.
    mixing = rng.standard_normal((3, 3))
    cross = np.diag(rho) @ mixing.T
    joint = np.block([[np.eye(3), cross], [cross.T, mixing @ mixing.T]])
    left = np.eye(3) - cross @ np.linalg.inv(mixing @ mixing.T) @ cross.T
    half_log_det = 0.5 * (
        np.linalg.slogdet(mixing @ mixing.T)[1] - np.linalg.slogdet(joint)[1]
    )
    assert canonical_information(rho) == pytest.approx(half_log_det)
    assert canonical_mmse(rho) == pytest.approx(np.trace(left))


def test_no_reduction_exceeds_the_bounds_and_equal_correlations_reach_the_exact_one(world):
    rng = np.random.default_rng(0)
    for rho in rng.uniform(-1, 1, size=(200, 5)):
        information = canonical_information(rho)
        exact = world.exact_bound(information)
        assert world.reduction(rho) <= exact + 1e-12
        assert exact <= world.linear_bound(information) + 1e-12
    equal = [0.7] * 5
    assert world.reduction(equal) == pytest.approx(
        world.exact_bound(canonical_information(equal))
    )


def test_no_information_leaves_nothing_to_gain_by_z(world):
    assert world.exact_bound(0.0) == 0
    assert world.reduction([0.0] * 5) == pytest.approx(0, abs=1e-15)


def test_infinite_information_reaches_the_bound_but_not_the_oracle(world):
    """Corollary 2 needs every correlation to grow, not the information alone."""
    one_known = [1.0, 0.0, 0.0, 0.0, 0.0]
    assert canonical_information(one_known) == math.inf
    assert world.exact_bound(math.inf) == pytest.approx(world.full_reduction)
    assert world.reduction(one_known) == pytest.approx(world.full_reduction / 5)
    assert world.reduction([1.0] * 5) == pytest.approx(world.full_reduction)


def test_what_reads_the_observation_beats_the_bound(world):
    """The exact posterior given (y_obs, z), simulated; z tells nothing, the bound is 0."""
    rng = np.random.default_rng(0)
    num = 100_000
    theta = world.prior_scale * rng.standard_normal((num, world.dim))
    y = theta + world.noise_scale * rng.standard_normal(theta.shape)
    y_obs = y + world.departure_scale * rng.standard_normal(theta.shape)
    prior, rest = world.prior_scale**2, world.noise_scale**2 + world.departure_scale**2
    gains = np.square(world.alpha * y_obs - theta).sum(axis=1)
    gains -= np.square(prior / (prior + rest) * y_obs - theta).sum(axis=1)
    error = gains.std() / math.sqrt(num)
    expected = world.bayes_reduction([0.0] * 5)
    assert abs(gains.mean() - expected) < 4 * error
    assert expected > 0.1 > world.exact_bound(0.0)


def test_bad_input_is_refused(world):
    with pytest.raises(ValueError, match="from -1 to 1"):
        canonical_information([0.5, 1.2])
    with pytest.raises(ValueError, match="must be 5 correlations, got 2"):
        world.reduction([0.1, 0.2])
    with pytest.raises(ValueError, match="information must be 0 or more"):
        world.exact_bound(-1.0)
    with pytest.raises(ValueError, match="noise_scale must be a positive number"):
        GaussianWorld(noise_scale=0.0)
