"""The world of a trial: which rows are tested, and which contexts are shown."""

from dataclasses import replace

import numpy as np
import pytest
import torch

from ma_sbi_bench.engine.budget import Budget
from ma_sbi_bench.tables.methods_compared import HIDE_CALIBRATION
from ma_sbi_bench.tasks import get_task
from ma_sbi_bench.trials.cells import trial_cell
from ma_sbi_bench.trials.published import published_draws
from ma_sbi_bench.trials.world import World, _reference_once, _test_rows


def trial(method, task="gaussian_linear", **known):
    return trial_cell(Budget(quick=True), task, "maf", method, **known)


def test_test_rows_are_the_same_for_every_seed_and_calibration_rows_are_not():
    first, second = (World.of(trial("npe", seed=seed)) for seed in (0, 1))
    assert torch.equal(first.test.x_obs, second.test.x_obs)
    assert torch.equal(first.reference, second.reference)
    assert not torch.equal(first.calibration.x_obs, second.calibration.x_obs)


def test_no_test_row_is_among_what_the_posterior_is_trained_on():
    task = get_task("gaussian_linear")
    test = World.of(trial("npe")).test
    for seed in range(3):
        trained_on = task.draw(2000, seed=seed)
        assert torch.cdist(test.theta, trained_on.theta).min() > 1e-4


def all_cases(method, **known):
    return replace(
        trial(method, **known),
        settings={k: v for k, v in trial(method, **known).settings.items() if k != "cases"},
    )


def test_every_observation_is_seen_in_every_regime_where_all_cases_are_tested():
    world = World.of(all_cases("npe"))
    num_regimes = len(world.task.regimes)
    assert world.test.regime.tolist() == list(range(num_regimes)) * 4
    by_observation = world.test.x_sim.unflatten(0, (4, num_regimes))
    assert torch.equal(by_observation[:, 0], by_observation[:, 1])
    assert torch.equal(
        world.test.x_obs, world.task.depart(world.test.x_sim, world.test.regime)
    )


def test_some_cases_are_each_observation_in_one_regime_in_turn():
    every, some = World.of(all_cases("npe")), World.of(trial("npe"))
    picked = torch.tensor([0, 5, 10, 15])
    assert some.test.regime.tolist() == [0, 1, 2, 3]
    assert torch.equal(some.test.x_obs, every.test.x_obs[picked])
    assert torch.equal(some.reference, every.reference[:, picked])
    assert [every.test.context[row] for row in picked] == some.test.context


def test_some_rows_are_the_first_half():
    every = World.of(all_cases("npe", task="ddm"))
    some = World.of(trial("npe", task="ddm"))
    assert len(every.test.theta) == 2 * len(some.test.theta) == 20
    assert torch.equal(some.test.x_obs, every.test.x_obs[:10])


def test_one_observation_and_one_regime_are_picked_from_all():
    every = World.of(all_cases("npe"))
    one = World.of(trial("npe", observation=1, regime=2))
    row = len(every.task.regimes) + 2
    assert torch.equal(one.test.x_obs, every.test.x_obs[[row]])
    assert torch.equal(one.reference, every.reference[:, [row]])
    regime = World.of(trial("npe", regime=2))
    assert torch.equal(regime.test.x_obs, every.test.x_obs[2::4])
    assert torch.equal(regime.reference, every.reference[:, 2::4])


def test_a_regime_that_is_left_out_is_in_no_calibration_row():
    world = World.of(trial("npe", num_calibration=60, left_out=3, regime=3))
    assert len(world.calibration.theta) == 60
    assert set(world.calibration.regime.tolist()) == {0, 1, 2}
    assert set(world.test.regime.tolist()) == {3}


def test_a_context_is_right_as_often_as_it_is_said_to_be():
    world = World.of(trial("npe", num_calibration=4000, reliability=0.25))
    texts = [regime.text for regime in world.task.regimes]
    said = [texts.index(text) for text in world.calibration.context]
    right = np.mean(np.array(said) == world.calibration.regime.numpy())
    expected = 0.25 + 0.75 / 4
    assert abs(right - expected) < 4 * (expected * (1 - expected) / 4000) ** 0.5
    assert torch.allclose(world.regime_weights.sum(dim=1), torch.ones(4))
    assert world.regime_weights.max().item() == pytest.approx(expected)


def test_shuffled_contexts_are_the_same_ones_in_another_order():
    plain, shuffled = (World.of(trial(m)) for m in ("ma_sbi", "ma_sbi_shuffled"))
    assert sorted(plain.calibration.context) == sorted(shuffled.calibration.context)
    assert plain.calibration.context != shuffled.calibration.context
    assert plain.test.context == shuffled.test.context


def test_an_index_is_new_or_that_of_the_nearest_calibration_row():
    new, nearest = (
        World.of(trial("i", form="ma_sbi_index", context=how))
        for how in ("index", "nearest")
    )
    assert not set(new.test.context) & set(new.calibration.context)
    row = int(nearest.test.context[0].removeprefix("row "))
    gaps = (nearest.calibration.x_obs - nearest.test.x_obs[0]).norm(dim=1)
    assert row == gaps.argmin().item()


def test_published_observations_are_sbibms_first_three_in_every_regime(
    tmp_path, monkeypatch
):
    theta, x = np.arange(50.0).reshape(10, 5) / 25 - 1, np.arange(80.0).reshape(10, 8)
    (tmp_path / "sbibm").mkdir()
    file = tmp_path / "sbibm" / "slcp.npz"
    np.savez(file, true_parameters=theta, observation=x)
    monkeypatch.setenv("MA_SBI_DATA", str(tmp_path))
    cell = trial("npe", "slcp", published=True)
    assert cell.settings["observations"] == 3
    theta_read, x_read = published_draws("slcp")
    assert torch.equal(theta_read, torch.from_numpy(theta[:3]).float())
    test, task = _test_rows(get_task("slcp"), cell), get_task("slcp")
    assert test.regime.tolist() == [0, 1, 2, 3] * 3
    assert torch.equal(test.theta, theta_read.repeat_interleave(4, dim=0))
    assert torch.equal(test.x_sim, x_read.repeat_interleave(4, dim=0))
    assert torch.equal(test.x_obs, task.depart(test.x_sim, test.regime))


@pytest.mark.parametrize("settings", [{}, {"published": True}, {"observation": 1}], ids=str)
def test_exact_draws_are_those_of_the_test_observations(settings, tmp_path, monkeypatch):
    task = get_task("two_moons")
    other = task.draw(10, seed=7)
    (tmp_path / "sbibm").mkdir()
    file = tmp_path / "sbibm" / "two_moons.npz"
    np.savez(file, true_parameters=other.theta.numpy(), observation=other.x_sim.numpy())
    monkeypatch.setenv("MA_SBI_DATA", str(tmp_path))
    world = World.of(trial("npe", "two_moons", **settings))
    _reference_once.cache_clear()
    x = world.test.x_sim.repeat(len(world.reference), 1)
    log_prob = task.reference_log_prob(world.reference.flatten(0, 1), x)
    # Two crescents, a hundredth wide: of another observation's they would be far outside.
    assert log_prob.min() > -30


def test_without_sbibms_files_its_observations_are_missing(monkeypatch):
    monkeypatch.delenv("MA_SBI_DATA", raising=False)
    wanted = [
        cell for cell in HIDE_CALIBRATION.cells(Budget()) if HIDE_CALIBRATION.missing(cell)
    ]
    assert {cell.settings.get("published") for cell in wanted} == {True}
    assert len(wanted) == 10 * (6 + 4)
