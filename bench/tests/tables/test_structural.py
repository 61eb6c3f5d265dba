"""Structural departures: cells, scores and lines."""

from dataclasses import replace

import numpy as np
import pytest
import torch

from bench.tests.engine.finishing import finish
from ma_sbi.randomness import derive
from ma_sbi_bench.engine.budget import Budget
from ma_sbi_bench.engine.cell import Backbone, Measurement
from ma_sbi_bench.engine.store import Store
from ma_sbi_bench.tables.never_worse import LEVELS
from ma_sbi_bench.tables.structural import (
    LEARN_NOTHING,
    METHODS,
    WORLDS,
    Structural,
    lines,
)
from ma_sbi_bench.tasks.signal import Signal
from ma_sbi_bench.trials.conditions import Condition, draw_world

QUICK = Budget(quick=True)
TABLE = Structural()


def cells_of(world, budget=QUICK, methods=tuple(METHODS)):
    return [c for c in TABLE.cells(budget) if c.task == world and c.method in methods]


def test_every_method_is_in_every_world_at_both_sizes():
    for world, known in WORLDS.items():
        expected = {*METHODS, "exact"} if known.exact else set(METHODS)
        found = cells_of(world, Budget(), expected)
        assert {(c.method, c.num_calibration) for c in found} == {
            (method, num)
            for method in expected
            for num in ((0,) if method in LEARN_NOTHING else (100, 500))
        }


def test_there_are_as_many_rows_and_sets_as_the_bar_asks_for():
    for cell in TABLE.cells(Budget()):
        assert cell.settings["sets"] >= 10
        assert cell.settings["sets"] * cell.settings["rows"] >= 2000


def test_methods_of_a_place_differ_in_nothing_but_the_method():
    for world in WORLDS:
        found = cells_of(world)
        same = {replace(cell, method="", num_calibration=0).key for cell in found}
        assert len(same) == 1


def test_posteriors_are_trained_where_none_is_known():
    trained = {
        world: {
            one.key for cell in cells_of(world, Budget()) for one in TABLE.backbones(cell)
        }
        for world in WORLDS
    }
    daily = Backbone("sir_delay", "maf", 0, 200_000)
    surveys = replace(daily, world_options={"layout": "surveys"})
    assert trained["sir_daily"] == {daily.key}
    assert trained["sir_surveys"] == {surveys.key}
    assert trained["ddm_trials"] == {replace(daily, world="ddm").key}
    assert not trained["lag"]
    (exact,) = (c for c in cells_of("sir_daily", methods=["exact"]))
    assert not TABLE.backbones(exact)


@pytest.fixture(scope="module")
def finished(tmp_path_factory):
    cells = cells_of("saturation", methods=("npe", "affine", "forward", "oracle"))
    return finish(TABLE, tmp_path_factory.mktemp("structural"), cells)


def values_of(rows, method, metric, recipe=""):
    rows = rows[(rows["method"] == method) & (rows["metric"] == metric)]
    (values,) = rows[rows["recipe"].fillna("") == recipe]["values"]
    return values


def test_scores_are_the_closed_form_on_the_rows_that_all_share(finished):
    task = Signal("saturation")
    for method, data in (("npe", "x_obs"), ("oracle", "x_sim")):
        for number, value in enumerate(values_of(finished, method, "log_score")):
            seed = derive(derive(0, "structural"), f"set {number}")
            condition = Condition(num_calibration=100, right=1.0)
            test = draw_world(task, condition, 20, seed=seed).test
            expected = task.reference_log_prob(test.theta, getattr(test, data)).mean()
            assert value == pytest.approx(expected.item(), rel=1e-4, abs=1e-3)


def test_the_oracle_is_best_and_no_correction_worst(finished):
    error = {
        method: values_of(finished, method, "squared_error").mean()
        for method in ("npe", "forward", "oracle")
    }
    assert error["oracle"] < error["forward"] < error["npe"]


@pytest.mark.parametrize("recipe", ["central", "region"])
def test_a_cell_holds_a_share_for_each_level_and_set(finished, recipe):
    values = values_of(finished, "forward", "coverage", recipe).reshape(4, 2)
    assert (np.diff(values, axis=0) >= 0).all()  # wider intervals hold more


def test_regions_without_a_correction_miss_the_truth(finished):
    covered = {
        method: values_of(finished, method, "coverage", "region").mean()
        for method in ("npe", "oracle")
    }
    assert covered["npe"] < covered["oracle"]


def test_log_theta_is_judged_where_theta_is_positive():
    from ma_sbi_bench.tables.structural import _unbounded

    theta = torch.tensor([[1.0, 4.0]])
    torch.testing.assert_close(_unbounded(WORLDS["sir_daily"].make(), theta), theta.log())
    assert _unbounded(Signal(), theta) is theta


def test_levels_are_told_apart_when_there_are_several_seeds(tmp_path):
    store = Store(tmp_path)
    cells = cells_of("lag", Budget(quick=True, seeds=2), methods=("npe",))
    shares = (0.5, 0.5, 0.8, 0.8, 0.9, 0.9, 0.95, 0.95)
    for cell in cells:
        measured = [
            Measurement("squared_error", (1.0, 1.0)),
            Measurement("coverage", shares, "central"),
            Measurement("coverage", shares[::-1], "region"),
        ]
        store.write(cell, measured, 1.0)
    (line,) = lines(store.rows(cells))
    assert [line.labels[f"{level:.0%} intervals / regions"] for level in LEVELS] == [
        "50.0 / 95.0",
        "80.0 / 90.0",
        "90.0 / 80.0",
        "95.0 / 50.0",
    ]


def test_lines_show_the_pooled_share_and_all_levels(tmp_path):
    store = Store(tmp_path)
    errors = {"npe": (1.0, 3.0), "oracle": (0.0, 1.0), "forward": (0.1, 1.2)}
    cells = cells_of("lag", methods=tuple(errors))
    for cell in cells:
        measured = [
            Measurement("squared_error", errors[cell.method]),
            Measurement("coverage", (0.5, 0.5, 0.8, 0.8, 0.9, 0.9, 0.95, 0.96), "central"),
            Measurement("coverage", (0.5,) * 8, "region"),
            Measurement("log_score", (1.0, 2.0)),
        ]
        store.write(cell, measured, 1.0)
    found = {line.labels["method"]: line for line in lines(store.rows(cells))}
    # From 4 in all to 1: 4 - 1.3 of 4 - 1.
    assert found["forward"].closed.value == pytest.approx(100 * 2.7 / 3)
    assert found["npe"].closed is None
    assert (found["npe"].labels["triples"], found["forward"].labels["triples"]) == ("", 100)
    assert found["forward"].labels["log score"] == "1.50"
    assert found["forward"].labels["95% intervals / regions"] == "95.5 / 50.0"
    assert found["forward"].labels["50% intervals / regions"] == "50.0 / 50.0"
    assert found["forward"].raw.value == pytest.approx(0.65)
