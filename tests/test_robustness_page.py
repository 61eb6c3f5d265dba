"""The tables of the page on robustness are those of the rows that the script wrote."""

import pytest

from benchmarks.robustness import LOADS, PAGE, PARTS, read_rows, table

PARTS_RUN = sorted({row.part for row in read_rows()})


@pytest.mark.parametrize("part", PARTS_RUN)
def test_a_table_of_the_page_is_that_of_the_rows(part):
    assert table(part) in PAGE.read_text(encoding="utf-8")


def test_every_part_was_run():
    assert set(PARTS_RUN) == set(PARTS)


def test_every_load_was_measured():
    assert [row.what for row in read_rows() if row.part == "load"] == list(LOADS)


def test_what_is_said_to_hold_held():
    assert [row.what for row in read_rows() if row.held < row.tried] == []
