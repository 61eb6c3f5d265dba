"""Tests for tables: what is shown of a line, and how."""

import math

import pytest

from ma_sbi_bench.paper.comparing import Compared, Line
from ma_sbi_bench.report.tables import make_tables


def _shown(**known):
    """Return the texts of a table of one line by the heads of their columns."""
    known = {"metric": "C2ST"} | known
    (table,) = make_tables([Line("t", {"method": "m"}, **known)])
    heads = [column.head for column in table.columns]
    return dict(zip(heads, (entry.text for entry in table.rows[0]), strict=True))


def test_a_line_is_shown_beside_the_papers():
    shown = _shown(
        raw=Compared(0.7251, 0.71, 0.74, paper=0.57, better="lower"),
        closed=Compared(
            87.4, 80.2, 94.6, paper=93, implied=91.26, better="higher", digits=0
        ),
        log_score=Compared(-1.5, -2, -1),
    )
    assert shown == {
        "method": "m",
        "C2ST: paper": "0.570",
        "C2ST: ours [95 %]": "0.725 [0.710, 0.740]",
        "gap closed: paper": "93 %",
        "gap closed: implied": "91 %",
        "gap closed: ours [95 %]": "87 % [80, 95]",
        "difference": "-6 points",
        "log score [95 %]": "-1.500 [-2.000, -1.000]",
        "verdict": "reproduced",
    }


@pytest.mark.parametrize(
    ("known", "shown"),
    [
        ({"num": 48}, "200 observations, not 48"),
        ({"num": 10, "unit": "seeds"}, "40 seeds, not 10"),
        ({"num": 1234}, "5,000 observations, not 1234"),
        ({"num": 48, "paper_half": 0.5}, "more than the paper's own noise allows"),
    ],
)
def test_what_would_settle_a_noisy_figure_has_two_digits(known, shown):
    raw = Compared(0.75, 0.5, 1.0, paper=0.75, coarsest=0.125, **known)
    assert _shown(raw=raw)["would settle it"] == shown
    settled = Compared(0.75, 0.5, 1.0, paper=0.75, coarsest=0.6, **known)
    assert "would settle it" not in _shown(raw=settled)


def test_columns_that_are_empty_in_the_whole_table_are_dropped():
    lines = [
        Line("t", {"a": 1}, raw=Compared(0.5), metric="C2ST"),
        Line("t", {"b": 2}, raw=Compared(0.6, paper=0.5), metric="C2ST", note="odd"),
    ]
    (table,) = make_tables(lines)
    heads = ["a", "b", "C2ST: paper", "C2ST: ours [95 %]", "difference", "note"]
    assert [column.head for column in table.columns] == heads
    assert [entry.text for entry in table.rows[0]] == ["1", "", "", "0.500", "", ""]


def test_a_label_that_does_not_apply_is_blank():
    lines = [Line("t", {"n": n}, raw=Compared(0.5)) for n in (2.0, math.nan)]
    (table,) = make_tables(lines)
    assert [row[0].text for row in table.rows] == ["2", ""]


def test_a_share_that_is_blank_says_why_and_sorts_last():
    line = Line("t", {}, closed=Compared(math.nan, paper=9, digits=0, reason="noise"))
    (table,) = make_tables([line])
    assert [entry.text for entry in table.rows[0]] == ["9 %", "– (noise)"]
    assert table.rows[0][1].order is None


@pytest.mark.parametrize(
    ("metric", "digits", "value", "shown"),
    [
        ("C2ST", 3, 0.70049, "0.700"),
        ("MSE", 4, 0.0223456, "0.02235"),
        ("MSE", 4, 40.4149, "40.41"),
        ("MSE", 4, 12345.6, "12346"),
        ("MSE", 4, 1.5e31, "1.5e+31"),
        ("seconds", 3, 1234.567, "1235"),
        ("R2", 2, 0.8149, "0.81"),
        ("bound", 3, 0.0000123, "1.2e-05"),
        ("bound", 3, -0.0, "0.000"),
        ("bound", 3, math.inf, "inf"),
    ],
)
def test_numbers_keep_sensible_digits(metric, digits, value, shown):
    found = _shown(raw=Compared(value, digits=digits), metric=metric)
    assert found[f"{metric}: ours [95 %]"] == shown


@pytest.mark.parametrize(
    ("paper", "digits", "shown"),
    [(99.8, 0, "99.8 %"), (14.6996, 0, "14.7 %"), (93, 0, "93 %"), (-425, 0, "-425 %")],
)
def test_the_papers_figure_is_shown_as_the_paper_prints_it(paper, digits, shown):
    closed = Compared(90, 80, 100, paper=paper, digits=digits)
    assert _shown(closed=closed)["gap closed: paper"] == shown


@pytest.mark.parametrize(
    ("interval", "shown"),
    [
        ((-2.3e-06, -16.24, 16.24), "0.00 [-16.24, 16.24]"),
        ((25.2, -0.0564, 50.46), "25.20 [-0.06, 50.46]"),
        ((1.2e-5, 1e-5, 1.4e-5), "1.2e-05 [1e-05, 1.4e-05]"),
    ],
    ids=str,
)
def test_a_number_and_its_interval_have_the_same_digits(interval, shown):
    found = _shown(raw=Compared(*interval), metric="gain")
    assert found["gain: ours [95 %]"] == shown


def test_a_number_without_noise_stands_alone():
    assert _shown(raw=Compared(0.5, 0.5, 0.5))["C2ST: ours [95 %]"] == "0.500"


def test_the_difference_is_that_which_the_verdict_rests_on():
    raw = Compared(0.9, 0.89, 0.91, paper=0.5, better="lower")
    blank = Compared(math.nan, paper=90, reason="gap within noise")
    shown = _shown(raw=raw, closed=blank)
    assert (shown["difference"], shown["verdict"]) == ("+0.400", "not reproduced")


def test_several_metrics_in_a_table_have_a_column_of_their_own():
    lines = [
        Line("t", {"task": name}, raw=Compared(0.5, paper=0.5), metric=name)
        for name in ("C2ST", "MSE")
    ]
    (table,) = make_tables(lines)
    heads = [column.head for column in table.columns]
    assert heads[:3] == ["task", "metric", "metric: paper"]
    assert [row[1].text for row in table.rows] == ["C2ST", "MSE"]


def test_lines_are_sorted_into_their_tables_in_order():
    lines = [Line(title, {"k": k}) for k, title in enumerate(("b", "a", "b"))]
    tables = make_tables(lines)
    assert [(table.title, len(table.rows)) for table in tables] == [("b", 2), ("a", 1)]
