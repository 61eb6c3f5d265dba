"""Tests for ma_sbi.choosing.population."""

import pytest
import torch

from ma_sbi.checking.judging import MOST_THETA
from ma_sbi.choosing.features import describe
from ma_sbi.choosing.population import NUM_PERMUTATIONS, energy_p_value, most_theta
from tests.worlds import SHIFTS


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


NUM_SETS = 40
NUM_ROWS, NUM_POOL = 400, 1000
# A simulation varies by 1 + 0.5^2 in each column.
VARIANCE = 1.25


def drawn(num, seed):
    """Draw parameters, simulations of them, and numbers that are independent of both."""
    rng = torch.Generator().manual_seed(seed)
    theta = torch.randn(num, 2, generator=rng, dtype=torch.float64)
    noise = 0.5 * torch.randn(num, 2, generator=rng, dtype=torch.float64)
    return theta, theta + noise, torch.rand(num, generator=rng, dtype=torch.float64)


def bounds(make):
    """Bound the share of theta in many sets, shape ``(NUM_SETS,)``."""
    found = []
    for seed in range(NUM_SETS):
        pool = drawn(NUM_POOL, 1000 + seed)[1]
        x_obs, entries = make(*drawn(NUM_ROWS, seed))
        found.append(most_theta(x_obs, pool, describe(entries)))
    return torch.tensor(found)


def shifted_by_label(theta, x, number):
    codes = torch.arange(len(x)) % 3
    return x + 2 * SHIFTS[codes], [f"regime {one}" for one in codes]


def shifted_by_number(theta, x, number):
    return x + 4 * number[:, None] * torch.tensor([1.0, -0.5]), number.numpy()


# What is shifted, the variance between contexts, and in how many directions it is.
SHIFTED = {
    "labels": (shifted_by_label, 4 * SHIFTS.var(dim=0, correction=0).sum().item(), 2),
    "numbers": (shifted_by_number, (16 + 4) / 12, 1),
}


@pytest.mark.parametrize("name", SHIFTED)
def test_little_of_a_shift_by_context_may_be_theta(name):
    make, between, num_directions = SHIFTED[name]
    found = bounds(make)
    # Nothing is missing within contexts, but for two standard errors of a variance.
    error = VARIANCE * (2 / NUM_ROWS + 2 / NUM_POOL) ** 0.5 / between
    expected = 2 * error * num_directions
    off = error * (num_directions / NUM_SETS) ** 0.5
    assert abs(found.mean().item() - expected) < 4 * off
    assert (found < MOST_THETA).all()


def told(theta):
    return ["high" if one else "low" for one in theta[:, 0] > 0]


def told_and_shifted(theta, x, number):
    """What theta decides is shifted as well: by 1.5, along the same column."""
    return x + (theta[:, :1] > 0) * torch.tensor([[1.5, 0.0]]), told(theta)


# Means of theta differ by twice 0.8, the mean of half a normal variable.
HALF = (2 / torch.pi) ** 0.5
# What differs, which share of its variance is theta, and that variance.
LEAKS = {
    "labels": (lambda theta, x, number: (x, told(theta)), 1.0, HALF**2),
    "numbers": (
        lambda theta, x, number: (x, (theta[:, 0] + number - 0.5).numpy()),
        1.0,
        12 / 13,
    ),
    "labels that shift": (
        told_and_shifted,
        (HALF / (HALF + 0.75)) ** 2,
        (HALF + 0.75) ** 2,
    ),
}


@pytest.mark.parametrize("name", LEAKS)
def test_what_is_theta_is_about_within_the_bound(name):
    make, share, between = LEAKS[name]
    found = bounds(make)
    # The error of a difference of variances; two are added to what is missing.
    error = VARIANCE * (2 / NUM_ROWS + 2 / NUM_POOL) ** 0.5 / between
    assert found.mean() > share - error
    assert (found > share - 3 * error).all()


def test_nothing_is_bounded_where_contexts_do_not_differ():
    _, x_obs, _ = drawn(60, 0)
    pool = drawn(NUM_POOL, 1)[1]
    codes = torch.arange(60) % 3
    found = most_theta(x_obs, pool, describe([f"regime {one}" for one in codes]))
    assert found == 1.0
