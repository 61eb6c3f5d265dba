"""Tests for ma_sbi_bench.engine.store."""

import json
import math
import multiprocessing
import os
from pathlib import Path

import numpy as np
import pandas as pd
import pytest

from ma_sbi.writing import written_whole
from ma_sbi_bench.engine import store as store_module
from ma_sbi_bench.engine.cell import Cell, Measurement
from ma_sbi_bench.engine.store import COLUMNS, Store

FULL = Cell(
    "trial",
    1,
    "ma_sbi",
    task="slcp",
    backbone="ddpm",
    seed=3,
    num_calibration=500,
    observation=2,
    regime=0,
    settings={"draws": 500, "text": 'a "quoted", line', "none": None, "list": [1, 0.1]},
)
BARE = Cell("theorem_1", 1, "bound")
MEASURED = [
    Measurement("c2st", (0.5123456789, 0.75, 1 / 3), recipe="fast", num_draws=500),
    Measurement("log_score", (-math.inf, -2.0, 1e-12)),
]


@pytest.fixture
def store(tmp_path):
    return Store(tmp_path / "cells")


def test_a_cell_is_finished_once_it_is_written(store):
    assert FULL not in store
    store.write(FULL, MEASURED, 1.0)
    assert FULL in store
    assert BARE not in store


def test_a_row_says_what_was_measured_and_where_it_comes_from(store, monkeypatch):
    monkeypatch.setattr(store_module, "commit", lambda: "0123456789")
    store.write(FULL, MEASURED, 12.345)
    rows = store.rows([FULL])
    assert list(rows.columns) == COLUMNS
    first = rows.iloc[0]
    assert first["metric"] == "c2st"
    assert first["recipe"] == "fast"
    assert first["num_draws"] == 500
    assert first["num_cases"] == 3
    assert first["values"].tolist() == [0.512346, 0.75, 0.333333]
    assert first["value"] == pytest.approx(np.mean(MEASURED[0].values), abs=1e-6)
    assert first["seconds"] == pytest.approx(12.35, abs=0.011)
    assert first["versions"].keys() >= {"python", "torch", "sbi", "ma-sbi"}
    assert first["commit"] == "0123456789"
    assert first["key"] == FULL.key
    assert first["settings"] == dict(FULL.settings)


def test_an_infinite_score_stays_one(store):
    store.write(FULL, MEASURED, 1.0)
    row = store.rows([FULL]).iloc[1]
    assert row["values"].tolist() == [-math.inf, -2.0, 1e-12]
    assert row["value"] == -math.inf


def test_rows_of_unfinished_cells_are_left_out_and_no_cell_counts_twice(store):
    store.write(BARE, MEASURED, 1.0)
    assert len(store.rows([FULL, BARE, BARE])) == 2
    assert store.rows([FULL]).empty
    assert list(store.rows([]).columns) == COLUMNS


@pytest.mark.parametrize(
    "measured", [[], [Measurement("c2st", ())]], ids=["no metric", "no values"]
)
def test_a_cell_without_numbers_is_not_finished(store, measured):
    with pytest.raises(ValueError, match="theorem_1: bound, seed 0 gave no numbers"):
        store.write(BARE, measured, 1.0)
    assert BARE not in store


class TestWrittenWhole:
    def test_a_failure_while_writing_leaves_nothing(self, store, monkeypatch):
        def half(file, text, **_):
            with file.open("w") as handle:
                handle.write(text[: len(text) // 2])
            raise OSError("no space left on device")

        monkeypatch.setattr(Path, "write_text", half)
        with pytest.raises(OSError, match="no space"):
            store.write(FULL, MEASURED, 1.0)
        assert FULL not in store
        assert list(store.folder.iterdir()) == []

    def test_a_process_that_dies_while_writing_leaves_nothing_that_counts(self, tmp_path):
        file = tmp_path / f"{FULL.key}.json"
        process = multiprocessing.get_context("fork").Process(
            target=_die_writing, args=(file,)
        )
        process.start()
        process.join(600)
        assert process.exitcode == 1
        assert [one.suffix for one in tmp_path.iterdir()] == [".unfinished"]
        store = Store(tmp_path)
        assert FULL not in store
        assert store.rows([FULL]).empty
        store.write(FULL, MEASURED, 1.0)
        assert len(store.rows([FULL])) == 2


def _die_writing(file):
    with written_whole(file) as unfinished:
        unfinished.write_text('{"cell": ')
        os._exit(1)


class TestCommitted:
    @pytest.fixture
    def exported(self, store, tmp_path):
        store.write(FULL, MEASURED, 1.5)
        store.write(BARE, MEASURED[:1], 0.0)
        results = tmp_path / "results"
        assert store.export([FULL, BARE], results / "main_results.csv") == 3
        return results

    def test_a_store_that_has_only_the_csv_gives_the_same_rows(
        self, store, exported, tmp_path
    ):
        fresh = Store(tmp_path / "nothing", exported)
        assert FULL in fresh
        assert BARE in fresh
        pd.testing.assert_frame_equal(
            fresh.rows([BARE, FULL]), store.rows([BARE, FULL]), check_exact=True
        )

    def test_what_is_none_stays_none(self, exported, tmp_path):
        rows = Store(tmp_path / "nothing", exported).rows([BARE])
        assert rows[["num_calibration", "observation", "regime"]].isna().all(axis=None)
        assert rows["settings"].item() == {}
        assert rows["task"].item() == ""

    def test_exporting_what_was_exported_changes_nothing(self, exported, tmp_path):
        fresh = Store(tmp_path / "nothing", exported)
        fresh.export([FULL, BARE], tmp_path / "again.csv")
        first = (exported / "main_results.csv").read_bytes()
        assert (tmp_path / "again.csv").read_bytes() == first

    def test_a_cell_in_several_files_counts_once(self, store, exported, tmp_path):
        store.export([FULL], exported / "another.csv")
        fresh = Store(tmp_path / "nothing", exported)
        assert len(fresh.rows([FULL, BARE])) == 3

    def test_another_version_is_another_cell(self, exported, tmp_path):
        raised = Cell("theorem_1", 2, "bound")
        assert raised not in Store(tmp_path / "nothing", exported)

    def test_files_about_something_else_are_left_alone(self, exported, tmp_path):
        (exported / "other.csv").write_text("name,value\nx,1\n")
        (exported / "notes.md").write_text("key")
        assert FULL in Store(tmp_path / "nothing", exported)

    def test_a_file_that_lacks_columns_is_refused(self, exported, tmp_path):
        (exported / "odd.csv").write_text("key,metric\nabc,c2st\n")
        with pytest.raises(ValueError, match=r"odd\.csv is not a file of results"):
            FULL in Store(tmp_path / "nothing", exported)  # noqa: B015 (the question)

    def test_a_file_of_its_own_goes_before_a_committed_row(self, exported, tmp_path):
        newer = Store(tmp_path / "newer", exported)
        newer.write(BARE, [Measurement("c2st", (0.9,))], 0.0)
        assert newer.rows([BARE])["value"].item() == 0.9

    def test_no_folder_of_results_is_no_error(self, tmp_path):
        assert FULL not in Store(tmp_path, tmp_path / "none")

    def test_a_file_is_read_once_for_any_number_of_cells(
        self, exported, tmp_path, monkeypatch
    ):
        read = []
        once = store_module.read_rows
        monkeypatch.setattr(
            store_module, "read_rows", lambda file: read.append(file) or once(file)
        )
        fresh = Store(tmp_path / "nothing", exported)
        assert [cell in fresh for cell in (FULL, BARE, FULL)] == [True] * 3
        assert len(fresh.rows([FULL, BARE])) == 3
        assert read == [exported / "main_results.csv"]

    @pytest.mark.parametrize("column", ["seed", "num_draws", "seconds"])
    def test_a_number_that_is_none_is_refused(self, exported, tmp_path, column):
        file = exported / "main_results.csv"
        rows = pd.read_csv(file, dtype=str, keep_default_na=False)
        rows.loc[0, column] = "three"
        rows.to_csv(file, index=False)
        with pytest.raises(ValueError, match="three"):
            Store(tmp_path / "nothing", exported).rows([FULL])

    @pytest.mark.parametrize("field", ["", ",more"], ids=["too few", "too many"])
    def test_a_row_that_is_cut_off_is_refused(self, exported, tmp_path, field):
        file = exported / "main_results.csv"
        row = "abc" if not field else file.read_text().splitlines()[-1] + field
        file.write_text(file.read_text() + row + "\n")
        with pytest.raises(ValueError, match=r"main_results\.csv, line 5: not as many"):
            _ = Store(tmp_path / "nothing", exported).committed


def test_the_file_of_a_cell_is_plain_json(store):
    store.write(FULL, MEASURED, 1.0)
    record = json.loads((store.folder / f"{FULL.key}.json").read_text())
    assert Cell(**record["cell"]).key == FULL.key


def test_the_commit_can_be_given_where_there_is_no_repository(monkeypatch):
    monkeypatch.setenv("MA_SBI_COMMIT", "from the cluster")
    store_module.commit.cache_clear()
    assert store_module.commit() == "from the cluster"
    store_module.commit.cache_clear()
