"""Tests for ma_sbi_bench.paper.printed."""

import csv
from importlib.resources import files

import pytest

from ma_sbi_bench.paper.printed import Printed, printed, read_printed

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
    text = files("ma_sbi_bench.paper").joinpath("paper.csv").read_text(encoding="utf-8")
    for row in csv.DictReader(text.splitlines()):
        _, _, decimals = row["value"].partition(".")
        assert int(row["digits"]) == len(decimals), row


def test_a_row_is_known_by_its_labels():
    text = f"{HEAD}\nt,,b,,p=0.5,m,1.50,2\n"
    assert read_printed(text) == {("t", "m", "", "b", "", "p=0.5"): Printed(1.5, 2)}


def test_a_number_that_stands_there_twice_is_refused():
    with pytest.raises(ValueError, match="twice"):
        read_printed(f"{HEAD}\nt,,,,,m,1,0\nt,,,,,m,2,0\n")
