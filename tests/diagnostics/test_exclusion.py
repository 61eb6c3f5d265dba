"""The exclusion test on contexts that may and that may not be used."""

import math

import numpy as np
import pytest
import torch

from ma_sbi import HashEncoder
from ma_sbi.diagnostics import exclusion_test, held_out_r2
from ma_sbi.diagnostics.exclusion import held_out_r2_error
from tests.worlds import World, hidden_leaks


@pytest.fixture(scope="module")
def draws():
    return World(n=1000, seed=1)


def test_a_context_of_regimes_passes(draws):
    found = exclusion_test(
        draws.context, draws.x_sim, draws.x_obs, draws.theta, num_permutations=99, seed=0
    )
    assert found.passed is True
    # Noise alone: under independence R^2 has a deviation of about (K - 1) / n.
    assert abs(found.r2_sim) < 0.02
    assert found.r2_delta == pytest.approx(1.0, abs=1e-3)
    assert found.verdict == "passed"
    assert len(found.reasons) == 3


@pytest.mark.parametrize("leak", ["sign", "size"])
def test_a_leak_that_the_threshold_lets_through_is_refused(leak):
    theta, x_sim = hidden_leaks(1000)
    context = (theta[:, 0] > 0 if leak == "sign" else theta[:, 1].abs() > 0.7).tolist()
    found = exclusion_test(context, x_sim, seed=0)
    assert found.r2_sim < found.threshold
    assert found.passed is False
    assert "A dependence of the simulations" in str(found)


def test_a_leak_above_the_threshold_is_said_to_be(draws):
    found = exclusion_test(draws.x_sim[:, 0], draws.x_sim, seed=0)
    assert found.r2_sim > 0.10
    assert found.passed is False
    assert "not below the threshold" in str(found)


def test_theta_alone_is_enough_to_refuse(draws):
    found = exclusion_test((draws.theta[:, 1] > 0).tolist(), theta=draws.theta, seed=0)
    assert found.passed is False
    assert math.isnan(found.r2_sim)


def test_observations_alone_decide_nothing(draws):
    found = exclusion_test(draws.context, x_obs=draws.x_obs, seed=0)
    assert found.passed is None
    assert found.verdict == "not tested"
    assert "Neither simulations nor parameters" in str(found)


def test_the_level_holds_for_both_tests_together():
    refused = 0
    for seed in range(100):
        rng = np.random.default_rng(seed)
        x, theta = rng.standard_normal((2, 60, 1))
        found = exclusion_test(
            rng.integers(2, size=60), x, theta=theta, num_permutations=99, seed=seed
        )
        refused += not found.passed
    assert abs(refused / 100 - 0.05) < 4 * math.sqrt(0.05 * 0.95 / 100)


def test_held_out_r2_is_that_of_the_analysis_of_variance():
    rng = np.random.default_rng(0)
    label = np.arange(4000) % 4
    values = label[:, None] * [2.0, 0.0] + rng.standard_normal((4000, 2))
    # Between labels 4 * 1.25 = 5, within 1 + 1.
    truth = 5 / 7
    # Delta method: the deviation of a squared correlation is 2 r (1 - r^2) / sqrt(n).
    error = 2 * math.sqrt(truth) * (1 - truth) / math.sqrt(4000)
    assert abs(held_out_r2(values, label, seed=0) - truth) < 4 * error


def test_held_out_r2_of_a_number_is_the_squared_correlation():
    rng = np.random.default_rng(0)
    number = rng.standard_normal(4000)
    values = number + rng.standard_normal(4000)
    error = 2 * math.sqrt(0.5) * 0.5 / math.sqrt(4000)
    assert abs(held_out_r2(values, number, seed=0) - 0.5) < 4 * error


def test_it_is_held_out():
    # A label for each pair of rows would explain half of pure noise in its own rows.
    rng = np.random.default_rng(0)
    values = rng.standard_normal((600, 1))
    label = np.repeat(np.arange(100), 6)
    assert held_out_r2(values, label, seed=0) < 0.05


def test_groups_are_held_out_as_a_whole():
    # Each person has a level and a label of his own: nothing carries over to others.
    rng = np.random.default_rng(0)
    person = np.repeat(np.arange(20), 20)
    values = 5 * rng.standard_normal(20)[person] + rng.standard_normal(400)
    label = [f"person {one}" for one in person]
    assert held_out_r2(values, label, seed=0) > 0.9
    assert held_out_r2(values, label, groups=person, seed=0) < 0.05


@pytest.mark.parametrize("kind", ["labels", "numbers"])
def test_a_context_that_never_changes_within_groups_is_not_said_to_pass(kind):
    """A perfect leak between people, of which permutations within people know nothing."""
    rng = np.random.default_rng(0)
    person = np.repeat(np.arange(100), 4)
    theta = np.abs(rng.standard_normal(100))[person] * np.where(
        rng.random(400) < 0.5, 1, -1
    )
    size = np.abs(theta)
    context = size if kind == "numbers" else np.where(size > 0.7, "large", "small")
    found = exclusion_test(context, theta, groups=person, num_permutations=9, seed=0)
    assert found.passed is None
    assert "never changes within a group" in str(found)
    moved = exclusion_test(np.roll(context, 1), theta, groups=person, num_permutations=9)
    assert moved.passed is not None


def test_equal_departures_have_no_share(draws):
    found = exclusion_test(
        draws.context, draws.x_sim, draws.x_sim, num_permutations=9, seed=0
    )
    assert math.isnan(found.r2_delta)


def test_a_constant_context_passes_and_says_so(draws):
    found = exclusion_test(["same"] * 1000, draws.x_sim, seed=0)
    assert found.passed is True
    assert "the same in every row" in str(found)


def test_texts_that_never_repeat_go_through_the_encoder(draws):
    notes = [f"{text} ({i})" for i, text in enumerate(draws.context)]
    options = {"num_permutations": 99, "seed": 0}
    with pytest.raises(ValueError, match="pass encoder="):
        exclusion_test(notes, draws.x_sim, **options)
    found = exclusion_test(
        notes, draws.x_sim, draws.x_obs, encoder=HashEncoder(), **options
    )
    assert found.passed is True
    assert found.r2_delta > 0.9


def test_the_error_of_r2_is_its_spread_over_samples():
    rng = np.random.default_rng(5)
    found, errors = [], []
    for seed in range(40):
        label = rng.integers(3, size=300)
        values = label[:, None] + rng.standard_normal((300, 2))
        found.append(held_out_r2(values, label.tolist(), seed=seed))
        errors.append(held_out_r2_error(values, label.tolist(), seed=seed))
    # A deviation of 40 has a relative error of about 0.11.
    assert np.mean(errors) == pytest.approx(np.std(found, ddof=1), rel=0.4)


def test_rows_of_one_group_count_once_in_the_error():
    rng = np.random.default_rng(6)
    label = rng.integers(2, size=50)
    values = label[:, None] + rng.standard_normal((50, 1))
    alone = held_out_r2_error(values, label.tolist(), seed=0)
    group = np.repeat(np.arange(50), 4).tolist()
    repeated = held_out_r2_error(values[group], label[group].tolist(), groups=group, seed=0)
    assert repeated == pytest.approx(alone, rel=0.2)
    assert math.isnan(held_out_r2_error(np.ones((50, 1)), label.tolist(), seed=0))


def test_missing_entries_are_allowed(draws):
    context = [None if i % 5 == 0 else text for i, text in enumerate(draws.context)]
    found = exclusion_test(context, draws.x_sim, draws.x_obs, num_permutations=99, seed=0)
    # Shifts that do not depend on i, a fifth of them unnamed: a share of 0.8 with the
    # standard error of a proportion of 1000 rows.
    assert found.r2_delta == pytest.approx(0.8, abs=4 * math.sqrt(0.16 / 1000))


def test_the_same_seed_gives_the_same(draws):
    first, second = (
        exclusion_test(draws.context, draws.x_sim, num_permutations=9, seed=2)
        for _ in range(2)
    )
    assert (first.r2_sim, first.x_sim) == (second.r2_sim, second.x_sim)


@pytest.mark.parametrize(
    ("given", "message"),
    [
        ({}, "context alone cannot be tested"),
        ({"x_sim": torch.zeros(3, 2)}, "at least 20 rows, got 3"),
        ({"x_sim": torch.zeros(30, 2), "x_obs": torch.zeros(30, 3)}, "paired row by row"),
        ({"x_sim": torch.zeros(30, 2), "theta": torch.zeros(29, 1)}, "theta has 29"),
        ({"x_sim": torch.zeros(30, 2), "level": 2.0}, "level must lie between 0 and 1"),
        ({"x_sim": torch.zeros(30, 2), "threshold": 0}, "threshold must lie between"),
        ({"x_sim": torch.zeros(31, 2)}, "expected 31"),
    ],
)
def test_bad_input_is_refused(given, message):
    with pytest.raises(ValueError, match=message):
        exclusion_test(["calm", "storm"] * 15, **given)
