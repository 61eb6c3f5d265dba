"""Conditions do what they say; closed forms on the Gaussian linear world."""

import math
from collections import Counter

import numpy as np
import pytest
import torch

from ma_sbi_bench.tasks import TASKS, get_task
from ma_sbi_bench.trials.conditions import CONDITIONS, START, Condition, draw_world
from ma_sbi_bench.trials.run import exact_log_score

GAUSSIAN = get_task("gaussian_linear")
NUM = 4000
MANY = {"num_calibration": NUM}


def drawn(condition=START, task=GAUSSIAN, num_test=40, seed=1, **changed):
    known = CONDITIONS[condition] if isinstance(condition, str) else condition
    if changed:
        known = Condition(**vars(known) | changed)
    return draw_world(task, known, num_test, seed=seed)


def share_right(rows, task=GAUSSIAN):
    said = np.array(rows.context)
    return np.mean(said == np.array(task.contexts(rows.regime)))


def about(expected, num=NUM):
    """Allow four standard errors of a share."""
    return pytest.approx(expected, abs=4 * math.sqrt(expected * (1 - expected) / num))


def same(first, second, *names):
    return all(torch.equal(getattr(first, one), getattr(second, one)) for one in names)


@pytest.mark.parametrize(
    ("condition", "right"),
    [
        ("start", 0.75),
        ("right 0 %", 0.0),
        ("right 25 %", 0.25),
        ("right 50 %", 0.5),
        ("right 100 %", 1.0),
    ],
)
def test_contexts_are_right_as_often_as_the_condition_says(condition, right):
    world = drawn(condition, num_test=NUM, **MANY)
    # One in four of those picked at random is right, too.
    for rows in (world.calibration, world.test):
        assert share_right(rows) == about(right + (1 - right) / 4)


def test_contexts_may_be_right_in_calibration_and_random_at_test():
    world = drawn("random at test", num_test=NUM, **MANY)
    assert share_right(world.calibration) == 1
    assert share_right(world.test) == about(1 / 4)


def test_a_wrong_intensity_is_any_other_one():
    task = get_task("slcp_continuous")
    rows = drawn(task=task, **MANY).calibration
    assert share_right(rows, task) == about(0.75 + 0.25 / 101)
    assert len(set(rows.context)) == 101


@pytest.mark.parametrize("num", [20, 100, 500])
def test_there_are_as_many_triples_as_the_condition_says(num):
    world = drawn(START if num == 100 else f"{num} triples")
    assert len(world.calibration.theta) == num
    assert sorted(Counter(world.calibration.regime.tolist()).values()) == [num // 4] * 4


def test_conditions_share_what_they_do_not_change():
    start = drawn()
    everything = ("theta", "x_sim", "x_obs", "regime")
    for name in ("right 0 %", "right 100 %", "random at test"):
        other = drawn(name)
        assert same(start.calibration, other.calibration, *everything)
        assert same(start.test, other.test, *everything)
    for name in (
        "20 triples",
        "x_sim has own noise",
        "5 % outliers",
        "a regime never seen",
    ):
        other = drawn(name)
        assert same(start.test, other.test, *everything)
        assert start.test.context == other.test.context
    rare = drawn("regimes 17:1:1:1")
    assert same(start.calibration, rare.calibration, "theta", "x_sim")


def test_sets_and_their_tests_have_nothing_in_common():
    first, second = drawn(seed=1), drawn(seed=2)
    theta = torch.cat(
        [one.theta for w in (first, second) for one in (w.calibration, w.test)]
    )
    assert len(theta.unique(dim=0)) == len(theta) == 280


def test_own_noise_is_that_of_the_simulator_and_shared_with_nothing():
    shared, own = (
        drawn(name, **MANY).calibration for name in (START, "x_sim has own noise")
    )
    assert same(shared, own, "theta", "x_obs", "regime")
    noise = (own.x_obs - GAUSSIAN.shift(own.regime) - own.theta).double()
    for rows, covariance in ((shared, 0.1), (own, 0.0)):
        of_sim = (rows.x_sim - rows.theta).double()
        # N(0, 0.1) in five columns: the error of a variance, and of a covariance.
        num = 5 * NUM
        assert of_sim.square().mean().item() == pytest.approx(
            0.1, abs=4 * 0.1 * math.sqrt(2 / num)
        )
        assert (of_sim * noise).mean().item() == pytest.approx(
            covariance, abs=4 * 0.1 * math.sqrt(2 / num)
        )


def test_one_row_in_twenty_is_twenty_deviations_off_in_every_column():
    clean, dirty = (drawn(name).calibration for name in (START, "5 % outliers"))
    assert same(clean, dirty, "theta", "x_sim", "regime")
    assert clean.context == dirty.context
    moved = (dirty.x_obs - clean.x_obs) / clean.x_sim.std(dim=0)
    rows = moved.abs().sum(dim=1) > 0
    assert int(rows.sum()) == 5
    torch.testing.assert_close(
        moved[rows].abs(), torch.full((5, 5), 20.0), rtol=1e-4, atol=0
    )
    assert {-1.0, 1.0} == set(moved[rows].sign().flatten().tolist())


def test_a_frequent_regime_is_the_same_in_calibration_and_test():
    frequent = set()
    for seed in range(12):
        world = drawn("regimes 17:1:1:1", num_test=400, seed=seed)
        for rows, counts in (
            (world.calibration, [5, 5, 5, 85]),
            (world.test, [20] * 3 + [340]),
        ):
            found = Counter(rows.regime.tolist())
            assert sorted(found.values()) == counts
            frequent.add((seed, found.most_common(1)[0][0]))
    assert len(frequent) == 12  # one for each set
    assert len({regime for _, regime in frequent}) > 1


def test_a_regime_that_is_never_seen_is_in_the_test_alone_and_so_is_its_text():
    left_out = set()
    for seed in range(12):
        world = drawn("a regime never seen", seed=seed)
        (unseen,) = set(range(4)) - set(world.calibration.regime.tolist())
        assert GAUSSIAN.regimes[unseen].text not in world.calibration.context
        assert Counter(world.test.regime.tolist()) == dict.fromkeys(range(4), 10)
        left_out.add(unseen)
    assert len(left_out) > 1


@pytest.mark.parametrize("name", TASKS)
def test_the_other_population_is_the_largest_tenth(name):
    task = get_task(name)
    world = drawn("other population", task=task, num_test=NUM)
    usual = task.draw(NUM, seed=0).theta
    theta = world.test.theta
    if name == "sir_delay":
        usual, theta = usual.log(), theta.log()
    score = ((theta - usual.mean(dim=0)) / usual.std(dim=0)).sum(dim=1)
    usual_score = ((usual - usual.mean(dim=0)) / usual.std(dim=0)).sum(dim=1)
    # The quantile of 4000 draws has an error of 0.005 in probability.
    low, high = usual_score.quantile(torch.tensor([0.88, 0.92])).tolist()
    assert low < score.min().item() < high
    assert drawn("other population", task=task).calibration.theta.shape == (
        100,
        task.dim_theta,
    )


def test_the_other_population_has_the_moments_of_a_truncated_normal():
    theta = drawn("other population", num_test=NUM).test.theta.double()
    score = theta.sum(dim=1) / math.sqrt(0.1 * 5)
    # A normal above its 0.9 quantile q: mean phi(q) / 0.1, variance 1 + q mean - mean^2.
    mean, variance = 1.75498, 0.169137
    assert score.mean().item() == pytest.approx(mean, abs=5 * math.sqrt(variance / NUM))


def test_weights_of_regimes_are_bayes_rule_for_text_and_frequency():
    world = drawn("regimes 17:1:1:1", num_test=400)
    share = torch.bincount(world.test.regime).double() / 400
    texts = [one.text for one in GAUSSIAN.regimes]
    for row in (0, 1, 2, 3):
        said = texts.index(world.test.context[row])
        likelihood = torch.full((4,), 0.25 / 4, dtype=torch.float64)
        likelihood[said] += 0.75
        expected = share * likelihood / (share * likelihood).sum()
        torch.testing.assert_close(world.regime_weights[row].double(), expected)


@pytest.mark.parametrize("condition", ["start", "right 100 %", "regimes 17:1:1:1"])
def test_the_exact_score_is_bayes_rule_in_closed_form(condition):
    world = drawn(condition)
    test = world.test
    x, theta = test.x_obs.double(), test.theta.double()
    normal = torch.distributions.Normal
    joint, evidence = [], []
    for regime, weight in zip(
        GAUSSIAN.regimes, world.regime_weights.T.double(), strict=True
    ):
        clean = x - regime.shift.double()
        seen = weight.log() + normal(0.0, math.sqrt(0.2)).log_prob(clean).sum(dim=1)
        inside = normal(clean / 2, math.sqrt(0.05)).log_prob(theta).sum(dim=1)
        evidence.append(seen)
        joint.append(seen + inside)
    expected = torch.stack(joint).logsumexp(dim=0) - torch.stack(evidence).logsumexp(dim=0)
    torch.testing.assert_close(
        exact_log_score(world).double(), expected, rtol=1e-4, atol=1e-4
    )


def test_only_conditions_on_regimes_need_them():
    needed = {name for name, one in CONDITIONS.items() if one.needs_regimes}
    assert needed == {"regimes 17:1:1:1", "a regime never seen"}


def test_every_condition_differs_from_the_start_in_one_respect():
    for name, one in CONDITIONS.items():
        num = 2 if name == "random at test" else 0 if name == START else 1
        assert len(one.settings) == num
    assert len({str(one.settings) for one in CONDITIONS.values()}) == len(CONDITIONS)
