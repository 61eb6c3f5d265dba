"""Tests for ma_sbi.experiments.sweeps, on numbers that are made up."""

import pytest

from ma_sbi.experiments import Budget, Store
from ma_sbi.experiments.cell import Measurement
from ma_sbi.experiments.sweeps import CorrectorNetwork


@pytest.fixture
def rows(tmp_path):
    """Let the value of a cell be its seed, with a tenth for weight decay."""
    store, cells = Store(tmp_path), CorrectorNetwork().cells(Budget(seeds=2))
    for cell in cells:
        value = cell.seed + 0.1 * ("weight_decay" in cell.settings["options"])
        store.write(cell, [Measurement("c2st", (value,) * 12)], 1.0)
    return store.rows(cells)


def test_each_panel_varies_one_option_and_averages_seeds(rows):
    figure = CorrectorNetwork().figures(rows)["corrector_network"]
    width, decay = ([axis.lines[0].get_xydata().tolist()] for axis in figure.axes)
    assert width == [[[32, 0.5], [64, 0.5], [128, 0.5], [256, 0.5]]]
    assert decay == [[[at, pytest.approx(0.6)] for at in (1e-5, 1e-4, 1e-3, 1e-2)]]
