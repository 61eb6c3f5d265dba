"""Figures of the paper that no table of trials has: each is shown beside ours."""

import csv
import math
import re
from importlib.resources import files
from pathlib import Path

import pytest

from ma_sbi_bench.engine.budget import Budget
from ma_sbi_bench.engine.store import Store
from ma_sbi_bench.report.provenance import trace
from ma_sbi_bench.tables.presentation import PRESENTATIONS
from ma_sbi_bench.tables.registry import EXPERIMENTS

RESULTS = Path(__file__).parents[2] / "results"


def printed_in(table):
    text = files("ma_sbi_bench.paper").joinpath("paper.csv").read_text(encoding="utf-8")
    return [row for row in csv.DictReader(text.splitlines()) if row["table"] == table]


def stands(row, shown, notes):
    """Tell whether a figure stands in a line, or in words."""
    value = row["value"]
    if float(value) in shown:
        return True
    if row["metric"].endswith("_below"):
        value = rf"({value}|1e{math.log10(float(value)):.0f})"
    if re.search(rf"(paper|printed as|took about|to) (< )?{value}", notes):
        return True
    # Noise of another figure, or ends that do not depend on the calibration here.
    is_noise = row["metric"].endswith(("_std", "_low", "_high"))
    is_end = row["table"] == "calibration_size" and row["method"] in ("npe", "oracle")
    return is_noise or is_end or row["metric"] in LIMITS


# They are limits of claims, or of a note.
LIMITS = ("margin", "threshold", "difference_within")


@pytest.mark.parametrize("table", sorted({one for one in EXPERIMENTS if printed_in(one)}))
def test_every_printed_figure_stands_in_a_line_or_a_note(table, tmp_path):
    experiment = EXPERIMENTS[table]
    rows = Store(tmp_path, RESULTS).rows(experiment.cells(Budget()))
    lines = PRESENTATIONS[table].lines(rows)
    numbers = [one for line in lines for one in (line.raw, line.closed) if one is not None]
    shown = {one.paper for one in numbers}
    notes = " ".join(line.note for line in lines)
    notes += "".join(trace([], 0).facts.values())
    printed = printed_in(table)
    assert printed
    assert [row for row in printed if not stands(row, shown, notes)] == []
