"""Figures of the paper that no table of trials has: each is shown beside ours."""

import csv
import re
from importlib.resources import files
from pathlib import Path

import pytest

from ma_sbi_bench.engine.budget import Budget
from ma_sbi_bench.engine.store import Store
from ma_sbi_bench.tables.presentation import PRESENTATIONS
from ma_sbi_bench.tables.registry import EXPERIMENTS

RESULTS = Path(__file__).parents[2] / "results"
TABLES = ("theorem_1", "sharpness", "exclusion", "compute", "covid", "instructions")


def printed_in(table):
    text = files("ma_sbi_bench.paper").joinpath("paper.csv").read_text(encoding="utf-8")
    return [row for row in csv.DictReader(text.splitlines()) if row["table"] == table]


@pytest.mark.parametrize("table", TABLES)
def test_every_printed_figure_stands_in_a_line_or_a_note(table, tmp_path):
    experiment = EXPERIMENTS[table]
    rows = Store(tmp_path, RESULTS).rows(experiment.cells(Budget()))
    lines = PRESENTATIONS[table].lines(rows)
    shown = {line.raw.paper for line in lines if line.raw is not None}
    notes = " ".join(line.note for line in lines)
    printed = printed_in(table)
    assert printed
    for row in printed:
        assert float(row["value"]) in shown or re.search(
            rf"paper (< )?{row['value']}", notes
        ), row
