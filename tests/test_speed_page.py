"""The tables of the page on speed are those of the rows that were measured."""

import math
import re

import pytest

from benchmarks.speed.page import CSV, CUDA_CSV, FIGURES, ON_GPU, PAGE, TABLES, tables
from benchmarks.speed.timing import Effort, Row, read_rows, row_of, write_rows

WRITTEN = tables(read_rows(CSV)) | tables(read_rows(CUDA_CSV), ON_GPU)


@pytest.mark.parametrize("name", TABLES | ON_GPU)
def test_a_table_of_the_page_is_that_of_the_rows(name):
    between = f"<!-- table {name} -->\n\n{WRITTEN[name]}\n<!-- end -->"
    assert between in PAGE.read_text(encoding="utf-8")


def test_every_figure_of_the_page_is_there():
    shown = re.findall(r"\(figures/(speed_\w+\.png)\)", PAGE.read_text(encoding="utf-8"))
    assert sorted(shown) == sorted(path.name for path in FIGURES.glob("speed_*.png"))
    assert shown


def test_rows_are_read_as_they_were_written(tmp_path):
    rows = [
        Row("a part", "this, with a comma", 10, "that", 0.5, 0.25, 1.5, 2.5, 3, 0.75, 0.5),
        Row("a part", "alone", 0, "", 1.0),
    ]
    write_rows(tmp_path / "rows.csv", rows)
    first, second = read_rows(tmp_path / "rows.csv")
    assert first == rows[0]
    assert second.name == rows[1].name
    assert math.isnan(second.against_seconds)


def test_a_ratio_is_of_medians_and_its_spread_of_turns():
    row = row_of("a part", "ours", 0, "theirs", [[2.0, 1.0], [3.0, 1.0], [40.0, 10.0]])
    assert (row.ratio, row.turns) == (3.0, 3)
    assert (row.low, row.high) == (2.5, 3.5)


def test_functions_are_called_in_turns_in_either_order():
    called = []
    turns = Effort(quick=True).turns_of(
        lambda: called.append("ours"), lambda: called.append("theirs"), least=2
    )
    assert called[:4] == ["ours", "theirs", "theirs", "ours"]
    assert all(len(turn) == 2 for turn in turns)
