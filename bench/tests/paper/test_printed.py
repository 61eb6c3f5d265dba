"""Tests for ma_sbi_bench.paper.printed."""

import csv
from importlib.resources import files

import pytest

from bench.tests.paper.transcription import transcribed
from ma_sbi_bench.paper.printed import Printed, paper_row, printed, read_printed

HEAD = "table,task,backbone,method,axis,metric,value,digits"


def test_a_number_is_found_by_all_its_labels():
    where = {"task": "slcp", "backbone": "ddpm", "method": "ma_sbi_paper"}
    assert printed("main_results", "gap_closed", **where) == Printed(93.0, 0)
    assert printed("main_results", "c2st", **where) == Printed(0.745, 3)
    assert printed("main_results", "gap_closed", **where | {"backbone": "maf"}) is None


def test_zeros_at_the_end_are_digits():
    where = {"task": "slcp", "backbone": "ddpm", "method": "rope_emd"}
    assert printed("index_or_text", "gap_closed", axis="n_cal=500", **where).digits == 1


def test_digits_are_those_of_the_printed_number():
    for row in rows():
        _, _, decimals = row["value"].partition(".")
        assert int(row["digits"]) == len(decimals), row


def test_every_figure_is_that_of_a_second_transcription():
    columns = ("table", "metric", "task", "backbone", "method", "axis")
    ours = {tuple(row[name] for name in columns): row["value"] for row in rows()}
    theirs = transcribed()
    assert ours.keys() == theirs.keys()
    wrong = {key: (ours[key], theirs[key]) for key in ours if ours[key] != theirs[key]}
    assert wrong == {}


# Shares that the paper's own raw values contradict, by more than they are rounded.
CONTRADICTED = {
    ("gaussian_linear", "rope_emd"),
    ("slcp", "nnpe_isotropic"),
    ("slcp", "rope_sinkhorn"),
    ("slcp", "concat"),
    ("slcp", "context_to_theta_paper"),
    ("slcp", "context_to_x_paper"),
    ("ddm_small_shifts", "concat"),
    ("ddm_small_shifts", "rope_emd"),
    ("ddm_small_shifts", "ma_sbi_paper"),
    ("sir_delay_million", "ma_sbi_paper"),
}


def test_shares_follow_from_raw_values_but_for_those_that_are_known_not_to():
    """A digit that is mistyped in both copies shows here, if it matters."""
    found = {
        (row["task"], row["method"], row["metric"]): row
        for row in rows()
        if row["table"] == "main_results"
    }
    contradicted = set()
    for (task, method, metric), row in found.items():
        if (
            metric != "gap_closed"
            or (task, method, "mse") not in found
            and (task, method, "c2st") not in found
        ):
            continue
        kind = "mse" if (task, method, "mse") in found else "c2st"
        npe, own, oracle = (
            ends(found[task, one, kind]) for one in ("npe", method, "oracle")
        )
        shares = [
            100 * (n - m) / (n - o) for n in npe for m in own for o in oracle if n != o
        ]
        low, high = ends(row)
        if high < min(shares) or low > max(shares):
            contradicted.add((task, method))
    assert contradicted == CONTRADICTED


def ends(row):
    """Give what a printed number can have been before it was rounded."""
    half = 0.5 * 10.0 ** -int(row["digits"])
    return float(row["value"]) - half, float(row["value"]) + half


def rows():
    text = files("ma_sbi_bench.paper").joinpath("paper.csv").read_text(encoding="utf-8")
    return list(csv.DictReader(text.splitlines()))


def test_a_row_is_known_by_its_labels():
    text = f"{HEAD}\nt,,b,,p=0.5,m,1.50,2\n"
    assert read_printed(text) == {("t", "m", "", "b", "", "p=0.5"): Printed(1.5, 2)}


def test_a_number_that_stands_there_twice_is_refused():
    with pytest.raises(ValueError, match="twice"):
        read_printed(f"{HEAD}\nt,,,,,m,1,0\nt,,,,,m,2,0\n")


def test_a_row_with_two_readings_has_its_figures_beside_one():
    assert paper_row("rope_sinkhorn_aligned") == "rope_sinkhorn"
    assert paper_row("rope_sinkhorn") == ""
    assert paper_row("ma_sbi_paper") == "ma_sbi_paper"
