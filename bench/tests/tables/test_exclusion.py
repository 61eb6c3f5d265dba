"""Tests for ma_sbi_bench.tables.exclusion."""

import math

import pandas as pd
import pytest

from bench.tests.engine.finishing import finish
from ma_sbi_bench.engine.budget import Budget
from ma_sbi_bench.real.backbones import backbone_of
from ma_sbi_bench.real.covid.load import COVID_FILE
from ma_sbi_bench.real.source import missing_file
from ma_sbi_bench.tables.exclusion import (
    COVID,
    REPEATED,
    STAND_INS,
    TABLE,
    ExclusionTable,
)
from ma_sbi_bench.tables.exclusion import lines as lines_of

EXPERIMENT = ExclusionTable()


@pytest.fixture(scope="module")
def lines(tmp_path_factory):
    cells = [
        cell
        for cell in EXPERIMENT.cells(Budget(quick=True))
        if cell.task in ("SLCP", "SIR") and (cell.method == "true" or cell.task == "SLCP")
    ]
    rows = finish(EXPERIMENT, tmp_path_factory.mktemp("exclusion"), cells)
    return {(one.table, *one.labels.values()): one for one in lines_of(rows)}


def test_a_clean_context_tells_all_of_the_departure_and_nothing_of_the_simulations(lines):
    x_sim, delta = (lines[TABLE, "SLCP", "true", name].raw for name in ("x_sim", "delta"))
    # Noise alone: under independence R^2 has a deviation of about (K - 1) / n.
    assert abs(x_sim.value) < 0.01
    assert delta.value == pytest.approx(1.0, abs=1e-3)
    assert lines[TABLE, "SLCP", "true", "delta"].verdict == "reproduced"
    assert "1000 rows" in lines[TABLE, "SLCP", "true", "x_sim"].note


def test_a_delay_that_depends_on_theta_is_told_in_part(lines):
    found = lines[TABLE, "SIR", "true", "delta"]
    # 0.57 among 40,000 rows (bench/benchmarks/results/magnitudes.csv), the paper has 0.70.
    assert found.raw.low < found.raw.value < found.raw.high < 0.66
    assert found.raw.value > 0.5
    assert found.raw.paper == 0.70
    assert found.verdict == "not reproduced"


def test_only_the_magnitudes_of_the_paper_stand_beside_its_shares(lines):
    tasks = {cell.task: cell.settings.get("world") for cell in EXPERIMENT.cells(Budget())}
    assert (tasks["SIR"], tasks["DDM"]) == ("sir_delay_million", "ddm_small_shifts")
    assert tasks["SIR, one in a thousand counted"] == "sir_delay"
    assert tasks["DDM, larger shifts"] == "ddm"


def shares(task, stand_in, **values):
    """Make lines of shares, each with an error of 1e-6."""
    made = {f"r2_{name}": value for name, value in values.items()}
    made |= {f"error_{name}": 1e-6 for name in values}
    made |= {"passed": 1.0, "rows": 100.0, "p_x_sim": 0.5}
    rows = pd.DataFrame(
        [
            {"task": task, "method": stand_in, "metric": name, "value": value, "seed": 0}
            for name, value in made.items()
        ]
    )
    found = lines_of(rows)
    return {line.labels["R² of"]: line for line in found if line.labels["data"] == task}


@pytest.mark.parametrize(
    ("r2", "verdict"), [(0.002, "reproduced"), (0.02, "not reproduced")]
)
def test_rounding_of_a_share_of_nothing_is_no_failure(r2, verdict):
    found = shares("SLCP", "true", sim=r2, obs=0.007, delta=1.0, columns=1.0)
    assert found["x_sim"].raw.paper == -0.002
    assert found["x_sim"].verdict == verdict
    assert found["x_obs"].verdict == "reproduced"
    # Shares that say something are not all alike.
    found = shares("SLCP", "true", sim=0.0, obs=0.010, delta=0.99, columns=1.0)
    assert {found[one].verdict for one in ("x_obs", "delta")} == {"not reproduced"}


def test_the_paper_stands_beside_one_reading_of_x_sim():
    papers = {
        stand_in: shares(COVID, stand_in, sim=0.0, obs=0.1, delta=0.1, columns=0.1)
        for stand_in in STAND_INS
    }
    assert papers["predicted"]["delta"].raw.paper == 0.752
    assert {line.raw.paper for line in papers["prior"].values()} == {None}


def test_clean_contexts_are_counted_with_an_interval(lines):
    share = lines[REPEATED, "SLCP"].raw
    assert 0 <= share.low <= share.value <= share.high <= 1
    assert share.high > share.low


def test_missing_data_are_blank_with_a_reason(lines):
    absent = lines[TABLE, COVID, "", "delta"]
    assert math.isnan(absent.raw.value)
    assert absent.raw.paper == 0.752
    assert COVID_FILE in absent.note
    assert absent.verdict == ""


def test_tasks_do_not_wait_for_data(monkeypatch):
    monkeypatch.delenv("MA_SBI_DATA", raising=False)
    ready = [cell for cell in EXPERIMENT.cells(Budget()) if not EXPERIMENT.missing(cell)]
    assert {cell.method for cell in ready} == {"true", "repeated"}


def test_only_predicted_simulations_need_a_posterior(monkeypatch, tmp_path):
    (tmp_path / COVID_FILE).parent.mkdir()
    (tmp_path / COVID_FILE).touch()
    monkeypatch.setenv("MA_SBI_DATA", str(tmp_path))
    cells = [cell for cell in EXPERIMENT.cells(Budget()) if cell.method in STAND_INS]
    cells = [cell for cell in cells if not EXPERIMENT.missing(cell)]
    assert [(cell.task, cell.method) for cell in cells] == [
        (COVID, one) for one in STAND_INS
    ]
    needed = [EXPERIMENT.backbones(cell) for cell in cells]
    assert needed == [(), (backbone_of(cells[1]),)]
    assert needed[1][0].num_simulations == 100_000


@pytest.mark.skipif(bool(missing_file(COVID_FILE)), reason=f"{COVID_FILE} is not available")
def test_prior_simulations_pass_on_real_windows(tmp_path):
    cells = [
        cell
        for cell in EXPERIMENT.cells(Budget(quick=True))
        if (cell.task, cell.method) == (COVID, "prior")
    ]
    lines = lines_of(finish(EXPERIMENT, tmp_path, cells))
    found = {line.labels["R² of"]: line for line in lines if line.labels["data"] == COVID}
    assert found["x_sim"].raw.value < 0.05 < found["x_obs"].raw.value
    assert "284 rows" in found["x_sim"].note
