"""Tests for ma_sbi.choosing.population."""

import pytest
import torch

from ma_sbi.choosing.population import NUM_PERMUTATIONS, energy_p_value


def normal(n, seed, dim=2):
    return torch.randn(n, dim, generator=torch.Generator().manual_seed(seed))


def test_p_values_are_uniform_where_the_populations_are_the_same():
    found = torch.tensor(
        [energy_p_value(normal(40, i), normal(80, 500 + i), i) for i in range(60)]
    )
    # A uniform number has a deviation of 0.289; four standard errors.
    assert abs(found.mean() - 0.5) < 4 * 0.289 / 60**0.5
    # Kolmogorov and Smirnov: 1.95 / sqrt(n) is exceeded once in a thousand times.
    ends = torch.arange(1, 61) / 60
    assert (found.sort().values - ends).abs().max() < 1.95 / 60**0.5 + 1 / 60


@pytest.mark.parametrize(
    "moved", [lambda x: x + 1.0, lambda x: 3 * x], ids=["shifted", "wider"]
)
def test_another_population_has_the_smallest_p_value(moved):
    found = energy_p_value(moved(normal(100, 0)), normal(300, 1), 0)
    assert found == 1 / (NUM_PERMUTATIONS + 1)


def test_columns_of_any_unit_count_alike():
    unit = torch.tensor([1e-3, 1e6])
    x, pool = normal(60, 0), normal(100, 1)
    first, second = (
        energy_p_value(*pair, 0) for pair in ((x, pool), (x * unit, pool * unit))
    )
    assert first == pytest.approx(second, abs=0.01)


def test_the_seed_decides_and_the_global_generator_does_not():
    x, pool = normal(60, 0), normal(100, 1)
    before = torch.get_rng_state()
    assert energy_p_value(x, pool, 3) == energy_p_value(x, pool, 3)
    assert torch.equal(torch.get_rng_state(), before)
