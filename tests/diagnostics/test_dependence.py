"""Level and power of the dependence test."""

import math

import numpy as np
import pandas as pd
import pytest

from ma_sbi import HashEncoder
from ma_sbi.diagnostics import dependence_test
from tests.worlds import hidden_leaks


def uniform(n, dim, seed=0):
    return np.random.default_rng(seed).uniform(-3, 3, (n, dim))


CLEAN = {
    "labels": lambda rng, n: rng.integers(3, size=n),
    "number": lambda rng, n: rng.standard_cauchy(n),
    "columns": lambda rng, n: rng.standard_normal((n, 3)),
    "gaps": lambda rng, n: np.where(rng.random(n) < 0.3, np.nan, rng.random(n)),
}


@pytest.mark.slow
@pytest.mark.parametrize("context", CLEAN)
def test_the_level_is_five_percent(context):
    repeats, small = 300, 0
    for seed in range(repeats):
        rng = np.random.default_rng(seed)
        a = rng.standard_cauchy((60, 2))
        found = dependence_test(a, CLEAN[context](rng, 60), num_permutations=19, seed=seed)
        small += found.p_value <= 0.05
    error = math.sqrt(0.05 * 0.95 / repeats)
    assert abs(small / repeats - 0.05) < 3 * error


LEAKS = {
    "sign": lambda t, rng: np.sign(t[:, 0]),
    "size": lambda t, rng: np.abs(t[:, 2]) > 1.5,
    "quartile": lambda t, rng: pd.qcut(t[:, 1], 4, labels=False),
    "noisy": lambda t, rng: np.where(
        rng.random(len(t)) < 0.3, t[:, 0] > 0, rng.random(len(t)) < 0.5
    ),
    "number": lambda t, rng: t[:, 0] + 2 * rng.standard_normal(len(t)),
    "square": lambda t, rng: t[:, 0] ** 2 + rng.standard_normal(len(t)),
    "product of signs": lambda t, rng: np.sign(t[:, 0] * t[:, 1]),
}


@pytest.mark.parametrize("leak", LEAKS)
def test_every_kind_of_leak_is_found(leak):
    theta = uniform(1000, 5)
    context = LEAKS[leak](theta, np.random.default_rng(1))
    assert dependence_test(theta, context, num_permutations=199, seed=0).p_value == 1 / 200


@pytest.mark.parametrize("leak", ["sign", "size"])
def test_leaks_that_regression_misses_are_found_in_simulations(leak):
    theta, x_sim = hidden_leaks(1000)
    context = theta[:, 0] > 0 if leak == "sign" else theta[:, 1].abs() > 0.7
    assert dependence_test(x_sim, context, num_permutations=199, seed=0).p_value == 1 / 200


def test_texts_that_name_the_leak():
    theta = uniform(300, 2)
    notes = [f"run {i}: {'high' if t > 0 else 'low'}" for i, t in enumerate(theta[:, 0])]
    found = dependence_test(theta, notes, encoder=HashEncoder(), seed=0)
    assert found.p_value < 0.01
    with pytest.raises(ValueError, match="pass encoder="):
        dependence_test(theta, notes)


def test_missing_entries_may_leak_by_being_missing():
    theta = uniform(300, 1)
    number = np.random.default_rng(0).standard_normal(300)
    context = np.where(theta[:, 0] > 0, np.nan, number)
    assert dependence_test(theta, context, seed=0).p_value < 0.01


def test_groups_keep_what_people_have_in_common_out_of_it():
    # Each person has a level and mostly one context: between them nothing is to be learned.
    rng = np.random.default_rng(0)
    person = np.repeat(np.arange(10), 40)
    level = 3 * rng.standard_normal(10)[person]
    a = level + rng.standard_normal(400)
    usual = (np.arange(10) % 2)[person]
    context = np.where(rng.random(400) < 0.9, usual, 1 - usual)
    assert dependence_test(a, context, seed=0).p_value < 0.05
    assert dependence_test(a, context, groups=person, seed=0).p_value > 0.05


def test_what_never_changes_depends_on_nothing():
    a = uniform(50, 2)
    assert dependence_test(a, ["same"] * 50).p_value == 1.0
    assert dependence_test(np.ones((50, 2)), np.arange(50) % 2).p_value == 1.0


def test_the_smallest_p_value_follows_the_rule_of_one():
    theta = uniform(200, 1)
    found = dependence_test(theta, theta[:, 0] > 0, num_permutations=9, seed=0)
    assert found.p_value == 0.1


def test_the_same_seed_gives_the_same():
    theta = uniform(100, 3)
    first, second = (dependence_test(theta, np.arange(100) % 3, seed=5) for _ in range(2))
    assert first == second


@pytest.mark.parametrize(
    ("options", "message"),
    [
        ({"num_permutations": 0}, "num_permutations must be a positive integer"),
        (
            {"groups": [1, 2]},
            "groups must have one entry per observation: expected 50, got 2",
        ),
    ],
)
def test_bad_options_are_refused(options, message):
    with pytest.raises(ValueError, match=message):
        dependence_test(uniform(50, 2), np.arange(50) % 2, **options)
