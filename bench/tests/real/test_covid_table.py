"""Tests for ma_sbi_bench.real.covid.table."""

import dataclasses

import numpy as np
import pytest

from bench.tests.engine.finishing import finish
from ma_sbi_bench.engine.budget import Budget
from ma_sbi_bench.paper.words import captions
from ma_sbi_bench.real.covid.load import COVID_FILE, PAPER_COUNTRIES, load_covid
from ma_sbi_bench.real.covid.study import log_jacobian
from ma_sbi_bench.real.covid.table import (
    COVID,
    LEFT_OUT,
    OF_LOGS,
    SETTINGS,
    figures,
    lines,
)
from ma_sbi_bench.real.covid.windows import covid_windows
from ma_sbi_bench.real.source import missing_file

needs_data = pytest.mark.skipif(
    bool(missing_file(COVID_FILE)), reason="needs MA_SBI_DATA, the folder that holds covid/"
)


@pytest.fixture(scope="module")
def rows(tmp_path_factory):
    cells = [
        dataclasses.replace(cell, settings=cell.settings | {"draws": 30})
        for cell in COVID.cells(Budget(quick=True))
        if cell.task == "paper-loo"
    ]
    return finish(COVID, tmp_path_factory.mktemp("covid"), cells)


def test_every_method_is_tried_in_every_setting():
    cells = COVID.cells(Budget())
    assert len({cell.key for cell in cells}) == len(cells)
    for setting in SETTINGS:
        tried = [cell.method for cell in cells if cell.task == setting]
        if "-width_" in setting:
            continue
        left_out = LEFT_OUT.get(setting, ())
        assert set(COVID.methods) - set(left_out) <= set(tried)


def test_settings_of_known_dispersion_share_another_posterior():
    cells = COVID.cells(Budget())
    keys = {cell.task: one.key for cell in cells for one in COVID.backbones(cell)}
    known = keys["paper-loo-known_dispersion"], keys["paper-past-known_dispersion"]
    assert known[0] == known[1] != keys["paper-loo"]
    assert keys["paper-loo"] == keys["ten-past"] == keys["paper-loo-simulated"]


def test_without_data_one_sentence_says_so(monkeypatch):
    monkeypatch.delenv("MA_SBI_DATA", raising=False)
    said = COVID.what_is_missing(COVID.cells(Budget()))
    assert "MA_SBI_DATA" in said
    assert "\n" not in said


@pytest.mark.slow
@needs_data
def test_losses_stand_in_the_order_of_the_windows(rows):
    npe = rows[rows["method"] == "NPE"].set_index("metric")["values"]
    assert npe["time"].tolist() == list(range(18)) * 4
    assert npe["country"].tolist() == np.repeat(range(4), 18).tolist()
    assert all(rows.loc[rows["metric"] == "loss", "num_cases"] == 72)


@needs_data
def test_a_gain_is_the_difference_of_two_losses(rows):
    found = {(one.table, *one.labels.values()): one for one in lines(rows)}
    setting = SETTINGS["paper-loo"]
    loss = {name: found["Losses", setting, name].raw.value for name in COVID.methods}
    gain = found["Gains", setting, "NPE", "stochastic"].raw
    expected = 100 * (loss["NPE"] - loss["stochastic"]) / loss["NPE"]
    assert gain.value == pytest.approx(expected, rel=1e-4)
    assert gain.paper is None
    parts = "What each part takes off the loss", setting
    added = found[(*parts, "stochastic", "what context adds")].raw.value
    assert added == pytest.approx(loss["pooled"] - loss["stochastic"], rel=1e-4)
    shuffled = found["Gains", setting, "shuffled", "stochastic"].raw
    assert shuffled.low < shuffled.value < shuffled.high
    assert shuffled.paper is None
    over_pooled = found["Gains", setting, "pooled", "stochastic"].raw
    expected = 100 * (loss["pooled"] - loss["stochastic"]) / loss["pooled"]
    assert over_pooled.value == pytest.approx(expected, rel=1e-3)


@needs_data
def test_in_the_density_of_logs_all_losses_are_smaller_by_the_sum_of_logs(rows):
    found = {(one.table, *one.labels.values()): one.raw for one in lines(rows)}
    setting = SETTINGS["paper-loo"]
    windows = covid_windows(load_covid(PAPER_COUNTRIES), PAPER_COUNTRIES)
    early = (windows.table["time"] < 18).to_numpy()
    mean = np.log1p(windows.counts[early]).sum(axis=1).mean()
    for name in COVID.methods:
        counts = found["Losses", setting, name].value
        logs = found[f"{OF_LOGS}: losses", setting, name].value
        assert counts - logs == pytest.approx(mean, abs=1e-3)
    npe, stochastic = (
        found[f"{OF_LOGS}: losses", setting, name] for name in ("NPE", "stochastic")
    )
    assert (npe.paper, stochastic.paper) == (6.93, 3.16)
    gain = found[f"{OF_LOGS}: gains", setting, "NPE", "stochastic"]
    assert gain.value == pytest.approx(100 * (1 - stochastic.value / npe.value), abs=0.05)
    assert gain.paper == 54.4


def test_the_constant_is_the_slope_of_the_change_of_variables():
    count, step = 7.0, 1e-6
    slope = (np.log1p(count + step) - np.log1p(count - step)) / (2 * step)
    assert log_jacobian(np.array([[count]]))[0] == pytest.approx(-np.log(slope), rel=1e-6)


def test_what_is_of_the_data_alone_needs_no_posterior():
    cells = [one for one in COVID.cells(Budget()) if one.method == "log_jacobian"]
    counted = [one for one in SETTINGS if "-width_" not in one]
    assert [one.task for one in cells] == counted
    assert not any(COVID.backbones(one) for one in cells)


def test_a_width_is_tried_with_regimes_and_without():
    cells = [one for one in COVID.cells(Budget()) if "-width_" in one.task]
    assert {one.settings["width"] for one in cells} == {0.25, 0.5, 1.0}
    assert {one.method for one in cells} >= {"NPE", "stochastic", "pooled"}


@needs_data
def test_the_figure_of_parts_needs_every_part(rows):
    assert set(figures(rows)) == {"covid_decomposition"}
    assert figures(rows[rows["method"] != "pooled"]) == {}
    assert set(figures(rows)) <= set(captions("covid"))
