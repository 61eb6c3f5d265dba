"""Shifts without pairs: cells, errors, ratios and lines."""

import math
import warnings
from dataclasses import replace

import numpy as np
import pytest
import torch

from ma_sbi import HashEncoder, MatchingCorrector
from ma_sbi_bench.engine.budget import Budget
from ma_sbi_bench.engine.cell import Measurement
from ma_sbi_bench.engine.models import Models
from ma_sbi_bench.engine.store import Store
from ma_sbi_bench.tables import unpaired as module
from ma_sbi_bench.tables.unpaired import (
    BARS,
    EXACT,
    LEARNED,
    MIXTURE,
    WORLDS,
    Unpaired,
    lines,
    ratio,
    replicate_seed,
    world_of,
)

TABLE = Unpaired()
NOWHERE = Models("nowhere")


def quick(world, method):
    (cell,) = (
        cell
        for cell in TABLE.cells(Budget(quick=True))
        if (cell.task, cell.method) == (world, method)
    )
    return cell


def test_every_method_is_tried_in_every_world_but_what_is_slow():
    found = {}
    for cell in TABLE.cells(Budget()):
        found.setdefault((cell.task, cell.num_calibration), set()).add(cell.method)
        assert cell.settings["replicates"] >= 100
    assert set(found) == {(world, num) for world in WORLDS for num in (200, 800)}
    everything = {"mean", "mmd", LEARNED, EXACT}
    for (world, num), methods in found.items():
        slow = {EXACT} if world == "slcp" else set()
        assert methods == everything - slow - ({"mmd"} if num == 800 else set())


def test_methods_of_a_world_differ_in_nothing_but_the_method():
    for world in WORLDS:
        cells = [cell for cell in TABLE.cells(Budget()) if cell.task == world]
        assert len({replace(cell, method="").key for cell in cells}) == 2


def test_a_density_is_trained_once_for_each_world():
    keys = {}
    for cell in TABLE.cells(Budget()):
        for one in TABLE.backbones(cell):
            keys.setdefault(cell.task, set()).add(one.key)
    assert {world: len(some) for world, some in keys.items()} == dict.fromkeys(
        set(WORLDS) - {MIXTURE}, 1
    )


def test_seeds_of_replicates_are_used_by_no_other_table():
    seeds = {replicate_seed(seed, number) for seed in range(3) for number in range(100)}
    assert len(seeds) == 300
    assert min(seeds) > 1000


def test_under_the_exact_normal_density_the_error_is_that_of_the_means():
    # Without the error of the pool's mean, which the exact density does not need.
    cell, task = quick("gaussian_linear", EXACT), world_of("gaussian_linear")
    (found,) = TABLE.run(cell, NOWHERE)
    regimes = torch.arange(4)
    for number, value in enumerate(found.values):
        rows = task.draw(160, seed=replicate_seed(0, number))
        with warnings.catch_warnings():
            warnings.simplefilter("ignore")
            means = MatchingCorrector(HashEncoder()).fit(
                rows.context, rows.x_obs, simulations=torch.eye(5)[:2] * 0
            )
        error = means.shift(task.contexts(regimes)) - task.shift(regimes)
        assert value == pytest.approx(error.square().sum(dim=1).mean().item(), rel=0.02)


def test_on_two_clusters_likelihood_is_more_precise_than_means():
    exact, mean = (
        np.array(TABLE.run(quick(MIXTURE, method), NOWHERE)[0].values)
        for method in (EXACT, "mean")
    )
    # Variances of 0.4 and 2.65; twelve shifts.
    assert exact.mean() < 0.5 * mean.mean()


def test_the_density_of_two_moons_is_read_from_a_table():
    task = world_of("two_moons")
    pool = task.draw(200, seed=77).x_sim
    # Around one simulation the table is small.
    table = module.exact_density(task, pool[:1], 0.005)
    near = pool[:1] + 0.4 * (torch.rand(50, 2) - 0.5)
    error = (table(near) - task.log_evidence(near)).abs()
    assert error.median() < 0.01


def test_ratios_are_paired():
    others = np.array([1.0, 2.0, 3.0, 6.0])
    same = ratio(2 * others, others)
    assert (same.value, same.low, same.high) == pytest.approx((2.0, 2.0, 2.0))
    # Ratio 1; differences -1, 1, 1, -1 have deviation sqrt(4 / 3), and the mean is 3.
    noisy = ratio(others + [-1.0, 1.0, 1.0, -1.0], others)
    half = 1.96 * math.sqrt(4 / 3) / 3 / 2
    assert (noisy.value, noisy.high) == pytest.approx((1.0, 1.0 + half))


@pytest.fixture
def made_up(tmp_path):
    """Return rows in which the bar of Two Moons is missed with 800 observations."""
    store = Store(tmp_path)
    level = {"mean": 3.0, "mmd": 2.0, LEARNED: 1.1, EXACT: 1.0}
    for cell in TABLE.cells(Budget()):
        value = level[cell.method] / cell.num_calibration
        if (cell.task, cell.num_calibration, cell.method) == ("two_moons", 800, LEARNED):
            value *= 2
        store.write(cell, [Measurement("squared_error", (value, value))], 1.0)
    return store.rows(TABLE.cells(Budget()))


def test_bars_are_reached_or_missed(made_up):
    shown = [line for line in lines(made_up) if line.table == module.RATIO]
    assert len(shown) == 2 * len(BARS)
    missed = [line for line in shown if line.note == "missed"]
    (one,) = missed
    assert (one.labels["world"], one.labels["observations"]) == ("Two Moons", 800)
    assert one.raw.value == pytest.approx(2.2)
    clusters = [line for line in shown if line.labels["world"] == "Two clusters"]
    assert [line.raw.value for line in clusters] == pytest.approx([1.1 / 3] * 2)


def test_every_cell_has_a_line(made_up):
    shown = [line for line in lines(made_up) if "method" in line.labels]
    assert len(shown) == len(TABLE.cells(Budget()))
    means = [line for line in shown if line.labels["method"] == "mean"]
    assert all(line.raw.value == pytest.approx(3.0) for line in means)
    assert {line.labels.get(f"ratio to {EXACT}") for line in means} == {
        "3.00 ± 0.00",
        None,
    }
