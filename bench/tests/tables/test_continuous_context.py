"""Continuous context: one more world of trials, its lines and its figure."""

import numpy as np
import pytest

from bench.tests.engine.finishing import finish
from ma_sbi_bench.engine.budget import Budget
from ma_sbi_bench.tables.presentation import PRESENTATIONS
from ma_sbi_bench.tables.registry import EXPERIMENTS
from ma_sbi_bench.trials.cells import SMALLEST_Z
from ma_sbi_bench.trials.world import World

TABLE, SHOWN = EXPERIMENTS["continuous_context"], PRESENTATIONS["continuous_context"]
ENDS = ("prior", "npe", "oracle", "exact")
# Errors are taken from the first backbone; densities are cheap in the other.
TRIED = {("ddpm", "ma_sbi"), ("ddpm", "ma_sbi_number"), *(("maf", name) for name in ENDS)}
ERRORS = f"Error of the recovered shift, z >= {SMALLEST_Z}"


@pytest.fixture(scope="module")
def rows(tmp_path_factory):
    cells = [
        cell
        for cell in TABLE.cells(Budget(quick=True))
        if (cell.backbone, cell.method) in TRIED
    ]
    return finish(TABLE, tmp_path_factory.mktemp("continuous"), cells)


@pytest.fixture(scope="module")
def lines(rows):
    return {(one.table, *one.labels.values()): one for one in SHOWN.lines(rows)}


def world(method, calibration_set=0):
    cells = TABLE.cells(Budget(quick=True))
    cell = next(one for one in cells if one.method == method)
    return World.of(cell, calibration_set)


def test_every_observation_is_seen_at_every_intensity():
    test = world("npe").test
    assert test.regime.tolist() == pytest.approx([0, 1 / 3, 2 / 3, 1] * 2)
    assert test.x_sim[0].equal(test.x_sim[3])
    assert not test.x_sim[3].equal(test.x_sim[4])


def test_texts_of_the_test_are_left_out_of_calibration():
    known, unseen = (world(method) for method in ("ma_sbi", "ma_sbi_unseen"))
    asked = set(unseen.test.context)
    assert asked & set(known.calibration.context)
    assert not asked & set(unseen.calibration.context)
    others = sum(text not in asked for text in known.calibration.context)
    assert len(unseen.calibration.theta) == others


def test_numbers_take_the_place_of_texts():
    numbers = world("ma_sbi_number")
    assert numbers.calibration.context == numbers.calibration.regime.tolist()
    assert numbers.test.context == numbers.test.regime.tolist()


def test_calibration_sets_differ_and_test_rows_do_not():
    first, second = world("ma_sbi"), world("ma_sbi", 1)
    assert not first.calibration.x_obs.equal(second.calibration.x_obs)
    assert first.test.x_obs.equal(second.test.x_obs)


def test_the_posterior_is_that_of_slcp():
    for cell in TABLE.cells(Budget()):
        for backbone in TABLE.backbones(cell):
            assert (backbone.world, backbone.num_simulations) == ("slcp", 100_000)
            assert backbone.world_options == {}
            # The density that the default reads is learned from some of them.
            some = {"most_simulations": 20_000} if backbone.kind == "density" else {}
            assert backbone.options == some


@pytest.mark.slow
def test_values_run_over_observations_first(rows):
    # The oracle ignores z, so its log score is the same all along an observation.
    oracle = rows[(rows["method"] == "oracle") & (rows["metric"] == "log_score")]
    values = oracle["values"].iloc[0].reshape(2, 4)
    assert values[0] == pytest.approx(values[0, 0], abs=1e-3)
    assert abs(values[0, 0] - values[1, 0]) > 0.01


def test_the_exact_answer_is_that_of_what_was_simulated(rows, lines):
    table = f"Continuous context, z >= {SMALLEST_Z}"
    found = {name: lines[table, "slcp_continuous", "maf", name] for name in ENDS}
    # Two observations at three intensities, 100 draws: one C2ST varies by about 0.05.
    assert abs(found["exact"].raw.value - 0.5) < 4 * 0.05 / 6**0.5 + 0.02
    assert found["exact"].raw.value < found["prior"].raw.value
    exact = rows[(rows["method"] == "exact") & (rows["metric"] == "log_score")]
    made = world("exact")
    known = made.task.reference_log_prob(made.test.theta, made.test.x_sim)
    assert exact["values"].iloc[0] == pytest.approx(known.numpy(), abs=1e-3)


def test_a_number_is_read_as_one(rows, lines):
    assert lines[ERRORS, "ma_sbi_number"].raw.value < 0.01
    sets = rows[rows["metric"] == "shift_error_of_set"].set_index("method")["values"]
    asked = set(world("ma_sbi").test.context[1:4])  # without z = 0
    # One set in twelve lacks a text of the test, and may be far off.
    errors = [
        error
        for number, error in enumerate(sets["ma_sbi"])
        if asked <= set(world("ma_sbi", number).calibration.context)
    ]
    # A text has two digits of z, and about five rows whose z it rounds: one per cent.
    assert 0.01 < np.mean(errors) < 3


def test_every_calibration_set_has_an_error(rows):
    errors = rows[(rows["metric"] == "shift_error_of_set")].set_index("method")["values"]
    assert len(set(errors["ma_sbi"])) == 3
    at_each_z = rows[rows["metric"] == "shift_error"].set_index("method")["values"]
    assert errors["ma_sbi"][0] == pytest.approx(at_each_z["ma_sbi"].mean(), rel=1e-4)


def test_only_large_intensities_count(rows):
    raw = next(one.raw for one in SHOWN.lines(rows) if one.labels["method"] == "npe")
    npe = rows[(rows["method"] == "npe") & (rows["metric"] == "c2st")]["values"].iloc[0]
    assert raw.value == pytest.approx(npe.reshape(2, 4)[:, 1:].mean())


def test_the_figure_has_a_panel_of_distances_and_one_of_errors(rows):
    c2st, errors = SHOWN.figures(rows)["continuous_context"].axes
    assert [len(one.get_xdata()) for one in c2st.lines] == [4, 4]
    *curves, paper = errors.lines
    assert [len(one.get_xdata()) for one in curves] == [3, 3]
    assert set(paper.get_ydata()) == {12.3}
    assert (c2st.get_yscale(), errors.get_yscale()) == ("linear", "log")
