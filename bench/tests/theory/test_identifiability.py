"""Tests for ma_sbi_bench.theory.identifiability."""

import numpy as np
import pytest

from ma_sbi_bench.theory import (
    exclusive_or,
    is_identifiable,
    is_jointly_injective,
    posterior_table,
)


def test_the_exclusive_or_is_not_injective_and_yet_theta_is_certain():
    """Case B of the paper's necessity proof fails: z is observed."""
    world = exclusive_or()
    assert not is_jointly_injective(world)
    assert is_identifiable(world)
    np.testing.assert_array_equal(posterior_table(world, [0.3, 0.7]), world)


def test_a_joint_injection_identifies():
    rng = np.random.default_rng(0)
    world = rng.dirichlet(np.ones(4), size=(3, 2))
    assert is_jointly_injective(world)
    assert is_identifiable(world)


def test_equal_laws_under_one_context_do_not_identify_but_have_a_posterior():
    world = np.array([[[0.5, 0.5], [0.9, 0.1]], [[0.5, 0.5], [0.2, 0.8]]])
    assert not is_identifiable(world)
    posterior = posterior_table(world, [0.25, 0.75])
    np.testing.assert_allclose(posterior[:, 0], [[0.25, 0.25], [0.75, 0.75]])


def test_what_cannot_occur_has_no_posterior():
    world = np.array([[[1.0, 0.0]], [[1.0, 0.0]]])
    posterior = posterior_table(world)
    assert np.isnan(posterior[:, 0, 1]).all()
    np.testing.assert_allclose(posterior[:, 0, 0], 0.5)


def test_bad_input_is_refused():
    with pytest.raises(ValueError, match="num_theta, num_z, num_x"):
        is_identifiable([[1.0]])
    with pytest.raises(ValueError, match="sum to 1 over x"):
        is_identifiable(np.ones((2, 2, 2)))
    with pytest.raises(ValueError, match="weight to each of 2"):
        posterior_table(exclusive_or(), [1.0])
