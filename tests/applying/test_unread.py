"""What cannot be read is named: column, cell, row, and what to write."""

from datetime import timedelta

import numpy as np
import pandas as pd
import pytest
from typer.testing import CliRunner

from ma_sbi import NumberEncoder, ShiftCorrector
from ma_sbi.applying import sources
from ma_sbi.applying.contexts import read_as, read_like
from ma_sbi.applying.unread import MOST_NAMED, Unread, all_unread, find_unread, in_sentences
from ma_sbi.cli import app
from ma_sbi.context import is_missing
from tests.applying.stopping import stopped_at_block

N = 60


@pytest.fixture(scope="module")
def model(tmp_path_factory):
    rng = np.random.default_rng(0)
    context, x_sim = 0.5 * np.arange(N), rng.normal(size=(N, 2))
    path = tmp_path_factory.mktemp("model") / "model"
    ShiftCorrector(NumberEncoder()).fit(context, x_sim + 1, x_sim).save(path)
    return path


def _correct(model, folder, context, x_obs_0=1.0):
    table = pd.DataFrame({"context": context, "x_obs_0": x_obs_0, "x_obs_1": 1.0})
    table.to_csv(folder / "new.csv", index=False)
    options = ["--model", str(model), "--out", str(folder / "out.csv")]
    return CliRunner().invoke(app, ["correct", str(folder / "new.csv"), *options])


@pytest.mark.parametrize("cell", ["19,9", "-0,5", "1.019,25", ",5"])
def test_a_table_with_decimal_commas_is_not_corrected_and_fails(cell, model, tmp_path):
    result = _correct(model, tmp_path, [cell] * 30)
    assert result.exit_code == 1
    assert "0 of 30 rows corrected" in result.stdout
    assert (
        f"Column context holds no number in 30 rows, first {cell!r} in row 0 (the first "
        "row is 0): decimals need a point, not a comma."
    ) in result.stdout
    written = pd.read_csv(tmp_path / "out.csv")
    assert written["context_is"].str.startswith("not corrected").all()


@pytest.mark.parametrize(
    ("cell", "hint"),
    [
        ("warm", "write a number, or nothing where it is missing"),
        ("25.0 C", "write the number alone, without a unit"),
        ("1,234,567", "write a number, or nothing where it is missing"),
    ],
)
def test_some_cells_that_are_no_numbers_are_told_over_all_blocks(
    cell, hint, model, tmp_path, monkeypatch
):
    monkeypatch.setattr(sources, "BLOCK_ROWS", 7)
    context = [cell if i in (9, 11, 25) else str(i) for i in range(30)]
    result = _correct(model, tmp_path, context)
    assert result.exit_code == 0, result.output
    assert "27 of 30 rows corrected" in result.stdout
    assert (
        f"Column context holds no number in 3 rows, first {cell!r} in row 9 (the first "
        f"row is 0): {hint}."
    ) in result.stdout


def test_what_a_stopped_run_could_not_read_is_told(model, tmp_path, monkeypatch):
    monkeypatch.setattr(sources, "BLOCK_ROWS", 7)
    context = ["19,9" if i in (3, 20) else str(i) for i in range(30)]
    with stopped_at_block(2):
        assert _correct(model, tmp_path, context).exit_code == 130
    options = ["--model", str(model), "--out", str(tmp_path / "out.csv")]
    result = CliRunner().invoke(app, ["correct", str(tmp_path / "new.csv"), *options])
    assert result.exit_code == 0, result.output
    assert "14 rows were done by a run" in result.stdout
    said = "Column context holds no number in 2 rows, first '19,9' in row 3 (the first"
    assert said in result.stdout


def test_cells_of_x_are_told_likewise(model, tmp_path):
    x_obs_0 = ["1.5", "", "1e39", "2,5"]
    for row, words in {
        1: "first an empty cell in row 1 (the first row is 0).",
        2: "first '1e39' in row 2 (the first row is 0): it is too large, use another unit.",
        3: "first '2,5' in row 3 (the first row is 0): decimals need a point, not a comma.",
    }.items():
        some = [one if i == row else "1.5" for i, one in enumerate(x_obs_0)]
        result = _correct(model, tmp_path, [1.0] * 4, some)
        assert result.exit_code == 0, result.output
        assert f"Column x_obs_0 holds no number in 1 row, {words}" in result.stdout


def test_a_context_that_is_missing_is_read(model, tmp_path):
    result = _correct(model, tmp_path, ["1", "", "2"])
    assert result.exit_code == 0, result.output
    assert "holds no" not in result.stdout


@pytest.mark.parametrize(
    ("known", "cell", "said"),
    [
        (
            pd.Timestamp("2024-01-01"),
            "03/04/2024",
            "no date in 1 row, first '03/04/2024' in row 8 (the first row is 0): write "
            "dates as 2024-04-03.",
        ),
        (
            timedelta(1),
            "long",
            "no span of time in 1 row, first 'long' in row 8 (the first row is 0): write "
            "spans of time as '5 days'.",
        ),
    ],
)
def test_dates_and_spans_are_told_how_to_write(known, cell, said):
    known = pd.Series([known], dtype=object)
    cells, how = pd.Series([None, cell], dtype=object), read_as(known)
    is_read = is_missing(cells) | ~is_missing(read_like(cells, known, how))
    (one,) = find_unread(cells, is_read, "day", 7, how)
    assert str(one) == f"Column day holds {said}"


def test_not_all_columns_are_named():
    columns = [Unread(f"x_{i}", 1, 0, "'a'", "number", "") for i in range(MOST_NAMED + 3)]
    said = in_sentences(all_unread([columns, columns]))
    assert len(said) == MOST_NAMED + 1
    assert "in 2 rows" in said[0]
    assert said[-1] == "There are such cells in 3 other columns, too."
    assert len(in_sentences(columns[:MOST_NAMED])) == MOST_NAMED
