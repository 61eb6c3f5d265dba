import numpy as np
import pytest
import torch

from ma_sbi.randomness import derive, generator, seeded
from tests.seeds import SPACING, shifted_seeds


def _from_numpy():
    return np.random.default_rng(3).normal(size=4)


def _from_the_global_generator_of_numpy():
    state = np.random.get_state()  # noqa: NPY002
    np.random.seed(3)  # noqa: NPY002
    draws = np.random.normal(size=4)  # noqa: NPY002
    np.random.set_state(state)  # noqa: NPY002
    return draws


def _from_torch():
    return torch.randn(4, generator=torch.Generator().manual_seed(3)).numpy()


def _from_the_global_generator_of_torch():
    with torch.random.fork_rng():
        torch.manual_seed(3)
        return torch.randn(4).numpy()


def _from_the_library():
    return torch.randn(4, generator=generator(3)).numpy()


def _from_a_derived_seed():
    return torch.randn(4, generator=generator(derive(3, "noise"))).numpy()


def _within_the_library():
    with seeded(3):
        return torch.randn(4).numpy()


DRAWS = [
    _from_numpy,
    _from_the_global_generator_of_numpy,
    _from_torch,
    _from_the_global_generator_of_torch,
    _from_the_library,
    _from_a_derived_seed,
    _within_the_library,
]


@pytest.mark.fixed_seeds
@pytest.mark.parametrize("draw", DRAWS, ids=lambda draw: draw.__name__[1:])
def test_an_offset_changes_every_draw_and_zero_none(draw):
    plain = draw()
    with shifted_seeds(1):
        first, again = draw(), draw()
        with shifted_seeds(0):
            np.testing.assert_array_equal(draw(), plain)
    with shifted_seeds(2):
        second = draw()
    np.testing.assert_array_equal(first, again)
    assert not (set(first) & set(plain)) | (set(first) & set(second))
    np.testing.assert_array_equal(draw(), plain)


DRAWN_AT_IMPORT = _from_numpy()


@pytest.fixture(scope="module")
def drawn_in_a_fixture():
    return _from_numpy()


def test_this_run_has_the_offset_it_was_given(pytestconfig, drawn_in_a_fixture):
    """At import, in fixtures and in tests."""
    seed = 3 + SPACING * pytestconfig.getoption("seed_offset")
    expected = np.random.Generator(np.random.PCG64(seed)).normal(size=4)
    for draws in (_from_numpy(), drawn_in_a_fixture, DRAWN_AT_IMPORT):
        np.testing.assert_array_equal(draws, expected)


@pytest.mark.fixed_seeds
def test_marked_tests_keep_the_seeds_they_write():
    expected = np.random.Generator(np.random.PCG64(3)).normal(size=4)
    np.testing.assert_array_equal(_from_numpy(), expected)
