"""Tests for ma_sbi_bench.tables.sweeps, on numbers that are made up."""

import pytest

from ma_sbi_bench.engine.budget import Budget
from ma_sbi_bench.engine.cell import Measurement
from ma_sbi_bench.engine.store import Store
from ma_sbi_bench.tables.sweeps import CorrectorNetwork, NNPEScale
from ma_sbi_bench.trials.run import FORMS


def rows_of(experiment, folder, usual):
    """Let a value be the seed, a tenth more for weight decay and two for the usual."""
    store, cells = Store(folder), experiment.cells(Budget(seeds=2))
    for cell in cells:
        options = cell.settings["options"]
        value = cell.seed + 0.1 * ("weight_decay" in options)
        value += 0.2 * (cell.method == usual and not options)
        store.write(cell, [Measurement("c2st", (value,) * 48)], 1.0)
    return store.rows(cells)


def test_each_panel_varies_one_option_and_averages_seeds(tmp_path):
    rows = rows_of(CorrectorNetwork(), tmp_path, "ma_sbi_paper")
    figure = CorrectorNetwork().figures(rows)["corrector_network"]
    width, decay = (dict(axis.lines[0].get_xydata().tolist()) for axis in figure.axes)
    assert width == pytest.approx({32: 0.5, 64: 0.5, 128: 0.7, 256: 0.5})
    assert decay == pytest.approx(dict.fromkeys((1e-5, 1e-4, 1e-3, 1e-2), 0.6))


def test_the_usual_scale_is_a_point_of_the_curve(tmp_path):
    rows = rows_of(NNPEScale(), tmp_path, "nnpe_isotropic")
    (axis,) = NNPEScale().figures(rows)["nnpe_scale"].axes
    curve = dict(axis.lines[0].get_xydata().tolist())
    assert curve == pytest.approx({0.03: 0.5, 0.1: 0.5, 0.3: 0.7, 1.0: 0.5, 3.0: 0.5})


def test_the_usual_point_is_what_the_method_has():
    assert FORMS["nnpe_isotropic"]().scale == NNPEScale.usual["scale"]
    network = FORMS["ma_sbi_network"]().corrector.recipe
    assert network.hidden == CorrectorNetwork.usual["hidden"]
