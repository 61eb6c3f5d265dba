"""Tests for ma_sbi_bench.real.instructions.table."""

import dataclasses
import math
from types import SimpleNamespace

import pandas as pd
import pytest
from scipy import stats

from bench.tests.engine.finishing import finish
from ma_sbi_bench.engine.budget import Budget
from ma_sbi_bench.real.instructions.load import RESPONSE_TIMES_FILE
from ma_sbi_bench.real.instructions.table import (
    DATA,
    INSTRUCTIONS,
    RELATIVE,
    _effects,
    figures,
)
from ma_sbi_bench.real.instructions.table import lines as lines_of
from ma_sbi_bench.real.source import missing_file

SMALL = "ratcliff_rouder1998_exp1"
pytestmark = pytest.mark.skipif(
    bool(missing_file(RESPONSE_TIMES_FILE)),
    reason="needs MA_SBI_DATA, the folder that holds rt/",
)


@pytest.fixture(scope="module")
def rows(tmp_path_factory):
    cells = [
        dataclasses.replace(cell, settings=cell.settings | {"draws": 30})
        for cell in INSTRUCTIONS.cells(Budget(quick=True))
        if cell.task == SMALL
    ]
    return finish(INSTRUCTIONS, tmp_path_factory.mktemp("instructions"), cells)


@pytest.fixture(scope="module")
def lines(rows):
    return {(one.table, *one.labels.values()): one for one in lines_of(rows)}


def test_there_is_a_loss_for_each_subject_under_each_instruction(rows, lines):
    losses = rows[rows["metric"] == "loss"]
    assert set(losses["method"]) == set(INSTRUCTIONS.methods)
    assert all(losses["num_cases"] == 6)
    assert "6 cases of 3 subjects" in lines["Losses", DATA[SMALL], "NPE"].note


def test_true_labels_are_compared_with_every_deal(rows, lines):
    loss = rows.set_index(["method", "metric"])["values"]
    deals = loss["matched, shuffled", "loss_of_deal"] - loss["matched", "loss"].mean()
    found = lines["True over shuffled labels", DATA[SMALL], "matched"].raw
    assert found.value == pytest.approx(deals.mean(), rel=1e-4)
    assert deals.min() <= found.low <= found.high <= deals.max()


def test_matching_takes_the_effect_out_of_the_boundary(lines):
    effect = {
        key[-1]: one.raw.value for key, one in lines.items() if key[0].startswith("Effect")
    }
    assert effect["NPE"] < -0.3
    assert abs(effect["matched"]) < 0.5 * abs(effect["NPE"])
    # A shift that all share cannot.
    assert effect["marginal-only"] == pytest.approx(effect["NPE"], abs=0.2)


def test_few_subjects_have_wide_intervals():
    table = pd.DataFrame({"subject": list("aabbcc"), "regime": ["speed", "accuracy"] * 3})
    study = SimpleNamespace(
        cases=SimpleNamespace(table=table),
        effect=lambda *_: pd.DataFrame({"effect": [1.0, 2.0, 3.0], "error": 0.1}),
    )
    found = {one.metric: one.values[0] for one in _effects(study, None, SMALL)}
    # Three subjects: a t distribution with two degrees of freedom.
    reach = 0.1 * stats.t.ppf(0.975, 2)
    assert found["effect_on_a_low"] == pytest.approx(2.0 - reach)
    assert found["effect_on_a_high"] == pytest.approx(2.0 + reach)


def test_no_figure_is_claimed_of_missing_data(lines):
    line = lines[RELATIVE, DATA["evans_hawkins"], "NPE", "matched"]
    assert math.isnan(line.raw.value)
    assert line.raw.paper == -2.8
    assert line.verdict == ""
    assert "OSF" in line.note


def test_the_figure_shows_the_parts(rows):
    figure = figures(rows)["instructions_decomposition"]
    assert len(figure.axes[0].patches) == 6
