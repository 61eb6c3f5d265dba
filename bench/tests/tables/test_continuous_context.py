"""Tests for ma_sbi_bench.tables.continuous_context."""

import pytest

from bench.tests.engine.finishing import finish
from ma_sbi_bench.engine.budget import Budget
from ma_sbi_bench.tables.continuous_context import SMALLEST_Z, ContinuousContext

EXPERIMENT = ContinuousContext()
ENDS = ("prior", "npe", "oracle", "exact")
# Errors are taken from the first backbone; densities are cheap in the other.
TRIED = {("ddpm", "ma_sbi"), ("ddpm", "ma_sbi_number"), *(("maf", name) for name in ENDS)}
ERRORS = f"Error of the recovered shift, z >= {SMALLEST_Z}"


@pytest.fixture(scope="module")
def rows(tmp_path_factory):
    cells = [
        cell
        for cell in EXPERIMENT.cells(Budget(quick=True))
        if (cell.backbone, cell.method) in TRIED
    ]
    return finish(EXPERIMENT, tmp_path_factory.mktemp("continuous"), cells)


@pytest.fixture(scope="module")
def lines(rows):
    return {(one.table, *one.labels.values()): one for one in EXPERIMENT.lines(rows)}


def test_the_posterior_is_that_of_slcp():
    for cell in EXPERIMENT.cells(Budget()):
        for backbone in EXPERIMENT.backbones(cell):
            assert (backbone.world, backbone.num_simulations) == ("slcp", 100_000)
            assert (backbone.world_options, backbone.options) == ({}, {})


def test_values_run_over_observations_first(rows):
    # The oracle ignores z, so its log score is the same all along an observation.
    oracle = rows[(rows["method"] == "oracle") & (rows["metric"] == "log_score")]
    values = oracle["values"].iloc[0].reshape(2, 4)
    assert values[0] == pytest.approx(values[0, 0], abs=1e-3)
    assert abs(values[0, 0] - values[1, 0]) > 0.01


def test_the_exact_answer_cannot_be_told_from_the_reference(lines):
    table = f"Continuous context, z >= {SMALLEST_Z}"
    found = {name: lines[table, "slcp_continuous", "maf", name] for name in ENDS}
    assert found["exact"].raw.value < 0.65 < found["prior"].raw.value
    assert found["exact"].log_score.value > found["prior"].log_score.value
    assert found["exact"].log_score.value > found["oracle"].log_score.value


def test_a_number_is_read_as_one(lines):
    assert lines[ERRORS, "ma_sbi_number"].raw.value < 0.01
    assert 0.01 < lines[ERRORS, "ma_sbi"].raw.value < 3


def test_only_large_intensities_count(rows):
    raw = next(one.raw for one in EXPERIMENT.lines(rows) if one.labels["method"] == "npe")
    npe = rows[(rows["method"] == "npe") & (rows["metric"] == "c2st")]["values"].iloc[0]
    assert raw.value == pytest.approx(npe.reshape(2, 4)[:, 1:].mean())


def test_the_figure_has_two_panels(rows):
    figure = EXPERIMENT.figures(rows)["continuous_context"]
    c2st, errors = figure.axes
    assert len(c2st.lines) == len(errors.lines) == 2
    assert len(errors.lines[0].get_xdata()) == 3
