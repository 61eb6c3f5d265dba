"""Tests for ma_sbi_bench.tables.channels."""

import pytest

from bench.tests.engine.finishing import finish
from ma_sbi_bench.paper.words import captions
from ma_sbi_bench.tables.channels import (
    NUM_REGIMES,
    RELIABILITIES,
    Channels,
    figures,
)
from ma_sbi_bench.tables.channels import lines as lines_of


@pytest.fixture(scope="module")
def rows(tmp_path_factory):
    return finish(Channels(), tmp_path_factory.mktemp("channels"))


@pytest.fixture(scope="module")
def lines(rows):
    return {(one.table, *one.labels.values()): one for one in lines_of(rows)}


def test_there_is_a_line_for_each_channel_and_reliability(lines):
    assert len(lines) == 2 * len(NUM_REGIMES) * len(RELIABILITIES)


def test_missing_contexts_close_exactly_the_share_of_information(lines):
    missing = [line for key, line in lines.items() if key[:2] == ("K = 4", "missing")]
    for line in missing:
        assert line.closed.low - 0.5 < line.closed.implied < line.closed.high + 0.5
    for line, reliability in zip(missing, RELIABILITIES, strict=True):
        assert line.raw.value == pytest.approx(reliability, abs=1e-5)


def test_wrong_contexts_do_not(lines):
    line = lines["K = 4", "wrong", "75%"]
    assert line.raw.value == pytest.approx(0.503, abs=1e-3)
    assert line.closed.value == pytest.approx(56.25, abs=2)
    assert line.closed.low - line.closed.implied > 3


def test_there_is_no_verdict_on_what_the_paper_does_not_print(lines):
    assert {line.verdict for line in lines.values()} == {""}


def test_draws_agree_with_the_closed_form(rows):
    for _, part in rows.groupby("key"):
        found = part.set_index("metric")["values"]
        distance = abs(found["closed_seen"] - found["closed"])
        # Four standard errors, and what estimated means lose.
        assert (distance <= 4 * found["closed_error"] + 0.005).all()


def test_the_figure_has_a_panel_for_each_number_of_regimes(rows):
    figure = figures(rows)["channels"]
    titles = [axis.get_title(loc="left") for axis in figure.axes]
    assert titles == ["K = 4", "K = 2", "K = 16"]
    assert set(captions("channels")) == {"channels"}
