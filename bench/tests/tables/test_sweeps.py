"""Sweeps of an option, on numbers that are made up."""

import pytest

from ma_sbi_bench.engine.budget import Budget
from ma_sbi_bench.engine.cell import Measurement
from ma_sbi_bench.engine.store import Store
from ma_sbi_bench.tables.presentation import PRESENTATIONS
from ma_sbi_bench.tables.sweeps import (
    CALIBRATION_SIZE,
    CORRECTOR_NETWORK,
    NNPE_SCALE,
    ROPE_SWEEPS,
)
from ma_sbi_bench.trials.run import FORMS


def rows_of(table, folder, usual=""):
    """Let a value be the seed, a tenth more for weight decay and two for the usual."""
    store, cells = Store(folder), table.cells(Budget(seeds=2))
    for cell in cells:
        options = cell.settings["options"]
        value = cell.seed + 0.1 * ("weight_decay" in options)
        value += 0.2 * (cell.method == usual and not options)
        store.write(cell, [Measurement("c2st", (value,) * 48)], 1.0)
    return store.rows(cells)


def axes_of(table, rows):
    (figure,) = PRESENTATIONS[table.name].figures(rows).values()
    return figure.axes


def points(line):
    return dict(line.get_xydata().tolist())


def test_each_panel_varies_one_option_and_averages_seeds(tmp_path):
    rows = rows_of(CORRECTOR_NETWORK, tmp_path, "ma_sbi_paper")
    width, decay = (points(axis.lines[0]) for axis in axes_of(CORRECTOR_NETWORK, rows))
    assert width == pytest.approx({32: 0.5, 64: 0.5, 128: 0.7, 256: 0.5})
    assert decay == pytest.approx(dict.fromkeys((1e-5, 1e-4, 1e-3, 1e-2), 0.6))


def test_without_the_usual_point_nothing_stands_in_its_place(tmp_path):
    rows = rows_of(CORRECTOR_NETWORK, tmp_path)
    width, _ = axes_of(CORRECTOR_NETWORK, rows[rows["method"] != "ma_sbi_paper"])
    assert set(points(width.lines[0])) == {32, 64, 256}


def test_the_usual_scale_is_a_point_of_the_curve(tmp_path):
    (axis,) = axes_of(NNPE_SCALE, rows_of(NNPE_SCALE, tmp_path, "nnpe_isotropic"))
    curve = points(axis.lines[0])
    assert curve == pytest.approx({0.03: 0.5, 0.1: 0.5, 0.3: 0.7, 1.0: 0.5, 3.0: 0.5})


def test_the_usual_point_is_what_the_method_has():
    _, scale = NNPE_SCALE.curves.usual["scale"]
    assert FORMS["nnpe_isotropic"]().scale == scale
    _, hidden = CORRECTOR_NETWORK.curves.usual["hidden"]
    assert FORMS["ma_sbi_network"]().corrector.recipe.hidden == hidden
    assert FORMS["rope_paper"]().num_simulations == 2000
    assert FORMS["rope"]().gamma == 0.5


def test_simulations_and_observations_share_the_usual_point(tmp_path):
    simulations, observations = axes_of(ROPE_SWEEPS, rows_of(ROPE_SWEEPS, tmp_path))
    assert set(points(simulations.lines[0])) == {200, 500, 1000, 2000, 5000}
    assert set(points(observations.lines[0])) == {12, 50, 200, 500, 2000}


def test_every_task_has_a_panel_with_its_own_levels(tmp_path):
    rows = rows_of(CALIBRATION_SIZE, tmp_path)
    axes = axes_of(CALIBRATION_SIZE, rows)
    titles = [axis.get_title(loc="left") for axis in axes if axis.lines]
    assert titles == ["GL", "SLCP", "Two Moons", "SIR", "DDM"]
    curves = [sum(len(line.get_xdata()) == 3 for line in axis.lines) for axis in axes]
    assert curves[:5] == [3, 6, 5, 5, 4]


def test_where_nothing_varies_there_is_no_figure(tmp_path):
    rows = rows_of(NNPE_SCALE, tmp_path)
    flat = rows[[not row["options"] for row in rows["settings"]]]
    assert PRESENTATIONS["nnpe_scale"].figures(flat) == {}
