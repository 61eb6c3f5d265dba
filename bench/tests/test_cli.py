"""Tests for the commands that the bench adds to the command line."""

import json
import os
import re
import shutil
import signal
import subprocess
import sys
from pathlib import Path

import pytest
from typer.testing import CliRunner

from bench.tests.report.fake import PRESENTATIONS as FAKE_PRESENTATIONS
from bench.tests.report.fake import Breaking, Fake, Lacking, Second
from ma_sbi import schedulers
from ma_sbi.cli import app
from ma_sbi_bench.engine import records, running, store
from ma_sbi_bench.methods import METHODS
from ma_sbi_bench.report import commands
from ma_sbi_bench.report.progress import ProgressDisplay
from ma_sbi_bench.tables.presentation import PRESENTATIONS
from ma_sbi_bench.tables.registry import EXPERIMENTS

runner = CliRunner()


def test_every_method_is_listed_with_what_it_needs():
    result = runner.invoke(app, ["methods"], env={"COLUMNS": "160"})
    assert result.exit_code == 0, result.output
    for name in METHODS:
        assert re.search(rf"^ +{name} ", result.output, re.MULTILINE)
    listed = json.loads(runner.invoke(app, ["methods", "--json"]).output)
    needs = {row["name"]: row["needs"] for row in listed}
    assert needs["ma_sbi"] == ["posterior", "context", "pairs"]
    assert "theta*" in needs["concat"]


def test_one_method_is_described_in_full():
    output = runner.invoke(app, ["methods", "concat"]).output
    assert "with_simulations" in output
    assert "true parameters" in output


def test_an_unknown_method_is_refused_with_the_known_ones():
    result = runner.invoke(app, ["methods", "nope"], env={"COLUMNS": "400"})
    assert result.exit_code == 2
    assert "ma_sbi" in result.output


@pytest.fixture
def experiments(monkeypatch, tmp_path):
    """Put experiments that take no time in the place of the paper's."""
    # In this process: another one takes seconds to start. The engine has tests of its own.
    monkeypatch.setattr(
        commands, "run", lambda work, on_done, **how: running.run(work, on_done=on_done)
    )
    fakes = {one.name: one() for one in (Fake, Second, Breaking, Lacking)}
    for known, ours in ((EXPERIMENTS, fakes), (PRESENTATIONS, FAKE_PRESENTATIONS)):
        for name in list(known):
            monkeypatch.delitem(known, name)
        for name, one in ours.items():
            monkeypatch.setitem(known, name, one)
    monkeypatch.chdir(tmp_path)
    return fakes


def _reproduce(*options):
    return runner.invoke(app, ["reproduce", "--workers", "1", *options])


def test_reproduce_without_a_name_lists_the_experiments_and_starts_nothing(experiments):
    result = runner.invoke(app, ["reproduce"])
    assert result.exit_code == 0, result.output
    for name in experiments:
        assert re.search(rf"^ +{name} ", result.output, re.MULTILINE)
    assert "ma-sbi reproduce all" in result.output
    assert not Path("ma-sbi-reproduction").exists()


def test_reproduce_prints_ours_beside_the_papers_and_keeps_what_is_finished(experiments):
    result = _reproduce("fake")
    assert result.exit_code == 0, result.output
    assert re.search(r"ours +400 +better +0\.750 +0\.722 \[0\.717, 0\.727\]", result.stdout)
    assert "gap 0.1 within noise" in result.stdout
    assert "2 reproduced, 1 better, 1 not reproduced" in result.stdout
    assert "21 of 21 done" in result.stderr
    assert len(list(Path("ma-sbi-reproduction/cells").glob("*.json"))) == 21
    again = _reproduce("fake", "second")  # which shares all its cells
    assert "done" not in again.stderr
    assert "0.722 [0.717, 0.727]" in again.stdout


@pytest.mark.slow
def test_reproduce_works_in_processes_of_its_own(experiments, monkeypatch):
    monkeypatch.setattr(commands, "run", running.run)
    result = _reproduce("fake", "--seeds", "2")
    assert result.exit_code == 0, result.output
    assert "14 of 14 done" in result.stderr


def test_reproduce_speaks_json_alone_on_standard_output(experiments):
    result = _reproduce("fake", "--quick", "--json")
    found = json.loads(result.stdout)
    assert found["budget"] == "quick"
    assert found["failures"] == []
    assert found["experiments"][0]["finished"] == 14
    assert found["experiments"][0]["lines"][0]["closed"]["value"] is None
    assert "14 of 14 done" in result.stderr


def test_a_quick_run_says_so_and_is_kept_apart(experiments):
    assert "quick run" in _reproduce("fake", "--quick").stdout
    listed = json.loads(runner.invoke(app, ["reproduce", "--list", "--json"]).stdout)
    assert listed[0] == {
        "name": "fake",
        "title": "Fake & sound",
        "cells": 21,
        "finished": 0,
        "missing": "",
    }
    quick = runner.invoke(app, ["reproduce", "--list", "--quick", "--json"])
    assert json.loads(quick.stdout)[0]["finished"] == 14


def test_what_fails_stops_nothing_else_and_is_listed(experiments):
    result = _reproduce("breaking", "fake", "--seeds", "2")
    assert result.exit_code == 1
    assert "0.721 [" in result.stdout  # of the other experiment
    assert "2 failed:" in result.stderr
    assert "- breaking: breaks, seed 1: RuntimeError: the <method> broke" in result.stderr
    assert "The tables of breaking could not be made: KeyError" in result.stderr
    again = _reproduce("breaking", "--seeds", "2", "--json")
    failures = json.loads(again.stdout)["failures"]
    assert failures[0]["reason"] == "RuntimeError: the <method> broke"


def test_an_experiment_that_lacks_something_is_skipped_with_the_reason(experiments):
    result = _reproduce("lacking", "fake", "--seeds", "2")
    assert result.exit_code == 0, result.output
    assert "Cells of lacking are skipped: Its data are not here." in result.stderr


def test_a_scheduler_that_goes_away_is_said_in_a_sentence(experiments, monkeypatch):
    def gone(*_, **__):
        raise ValueError("the scheduler at tcp://there:1 is gone")

    monkeypatch.setattr(commands, "check", lambda *_: None)
    monkeypatch.setattr(commands, "run", gone)
    result = runner.invoke(app, ["reproduce", "fake", "--scheduler", "tcp://there:1"])
    assert result.exit_code == 1
    assert "ma-sbi reproduce: the scheduler at tcp://there:1 is gone" in result.stderr
    assert "The same command goes on from there" in result.stderr


def test_ctrl_c_keeps_what_is_finished_and_says_how_to_go_on(experiments, monkeypatch):
    update, seen = ProgressDisplay.update, []

    def interrupted(display, done):
        seen.append(done.work.item)
        update(display, done)
        if len(seen) == 3:
            raise KeyboardInterrupt

    monkeypatch.setattr(ProgressDisplay, "update", interrupted)
    result = _reproduce("fake")
    assert result.exit_code == 130
    assert "The same command goes on from there" in result.stderr
    assert "ma-sbi report --out" in result.stderr
    kept = len(list(Path("ma-sbi-reproduction/cells").glob("*.json")))
    assert 3 <= kept < 21
    again = _reproduce("fake")
    assert again.exit_code == 0
    assert len(seen) == 3 + 21 - kept


def _cut_a_cell():
    """Cut the file of a finished cell; return it."""
    file = min(Path("ma-sbi-reproduction/cells").glob("*.json"))
    file.write_bytes(file.read_bytes()[:100])
    return file


def test_a_damaged_cell_is_named_and_not_counted(experiments):
    _reproduce("fake")
    file = _cut_a_cell()
    listed = runner.invoke(app, ["reproduce", "fake", "--list", "--json"])
    assert json.loads(listed.stdout)[0]["finished"] == 20
    report = runner.invoke(app, ["report", "fake"])
    assert report.exit_code == 0
    assert "20 of 21 cells are finished" in report.stdout
    for result in (listed, report):
        assert result.stderr.count(f"{file} is damaged and does not count: it is cut") == 1


def test_a_damaged_cell_is_set_aside_said_once_and_done_again(experiments):
    first = _reproduce("fake")
    file = _cut_a_cell()
    result = _reproduce("fake")
    assert result.exit_code == 0, result.output
    kept = file.parent / "damaged" / file.name
    assert kept.stat().st_size == 100
    assert f"Damaged, set aside as {kept.absolute()} and done again" in result.stderr
    assert "1 of 1 done" in result.stderr
    assert result.stdout == first.stdout
    assert "amaged" not in _reproduce("fake").stderr


@pytest.mark.parametrize("command", ["reproduce", "report"])
def test_a_damaged_committed_row_is_refused_with_file_and_line(experiments, command):
    _reproduce("fake")
    runner.invoke(app, ["report", "fake", "--csv", "bench/results"])
    file = Path("bench/results/fake.csv")
    file.write_text(file.read_text("utf-8").replace(",0.9 0.9,", ",0.9 0.8,", 1), "utf-8")
    result = runner.invoke(app, [command, "fake", "--out", "fresh"])
    assert result.exit_code == 2
    assert result.stderr.startswith(f"ma-sbi {command}: bench/results/fake.csv, line 2: ")
    assert len(result.stderr.splitlines()) == 1


def test_a_folder_that_vanishes_is_a_failure_in_a_sentence(experiments, monkeypatch):
    update = ProgressDisplay.update

    def vanish(display, done):
        update(display, done)
        shutil.rmtree("ma-sbi-reproduction", ignore_errors=True)

    monkeypatch.setattr(ProgressDisplay, "update", vanish)
    result = _reproduce("fake")
    assert result.exit_code == 1
    last = result.stderr.splitlines()[-1]
    assert re.match(r"ma-sbi reproduce: the folder \S+ma-sbi-reproduction is gone", last)
    assert "21 of 21" not in result.stderr


def test_what_a_killed_run_left_is_removed_by_the_next(experiments):
    _reproduce("fake", "--seeds", "2")
    left = Path("ma-sbi-reproduction/cells/ab.0123.unfinished")
    left.write_text("half")
    _reproduce("fake", "--seeds", "2")
    assert not left.exists()


def test_no_escape_sequence_of_a_record_reaches_the_terminal_or_a_page(
    experiments, monkeypatch
):
    monkeypatch.setattr(store, "versions", lambda: {"python": "3"})
    monkeypatch.setattr(store, "commit", lambda: "abc")
    _reproduce("fake")
    # As if it had been written by somebody else, and not been looked at.
    monkeypatch.setattr(records, "checked", lambda record, key: record)
    for file in Path("ma-sbi-reproduction/cells").glob("*.json"):
        file.write_text(file.read_text("utf-8").replace("abc", "\\u001b]0;owned\\u0007"))
    shown = _reproduce("fake")
    runner.invoke(app, ["report", "fake", "--html", "a.html", "--markdown", "a.md"])
    pages = Path("a.html").read_text("utf-8") + Path("a.md").read_text("utf-8")
    for text in (shown.stdout, shown.stderr, pages):
        assert "\x1b" not in text
        assert "\x07" not in text
    assert "]0;owned" in shown.stdout


def test_a_run_that_is_asked_to_end_says_how_to_go_on(experiments, monkeypatch):
    update = ProgressDisplay.update

    def ended(display, done):
        update(display, done)
        os.kill(os.getpid(), signal.SIGTERM)

    before = signal.getsignal(signal.SIGTERM)
    monkeypatch.setattr(ProgressDisplay, "update", ended)
    result = _reproduce("fake")
    assert result.exit_code == 130
    assert "The same command goes on from there" in result.stderr
    assert signal.getsignal(signal.SIGTERM) is before


def test_committed_rows_are_not_done_again_unless_asked(experiments):
    _reproduce("fake")
    result = runner.invoke(app, ["report", "fake", "--csv", "bench/results"])
    assert result.exit_code == 0, result.output
    assert Path("bench/results/fake.csv").exists()
    assert not Path("ma-sbi-report.html").exists()
    assert "done" not in _reproduce("second", "--out", "elsewhere").stderr
    fresh = _reproduce("fake", "--out", "elsewhere", "--fresh")
    assert "21 of 21 done" in fresh.stderr
    assert "ma-sbi report --fresh --out" in fresh.stdout


def test_a_report_of_fresh_cells_does_not_show_committed_rows(experiments):
    _reproduce("fake", "--out", "first")
    runner.invoke(app, ["report", "fake", "--out", "first", "--csv", "bench/results"])
    _reproduce("lacking", "--out", "second")
    said = {
        fresh: runner.invoke(app, ["report", "fake", "--out", "second", *fresh])
        for fresh in ((), ("--fresh",))
    }
    assert "21 of 21 cells are finished" in said[()].stdout
    assert "nothing is finished" in said[("--fresh",)].stderr


def test_report_writes_what_is_asked_for(experiments):
    _reproduce("fake", "--seeds", "2")
    result = runner.invoke(app, ["report"])
    assert "14 of 48 cells are finished" in result.stdout  # of all experiments
    assert Path("ma-sbi-report.html").read_text("utf-8").startswith("<!doctype html>")
    options = ["--markdown", "docs/results.md", "--html", "page.html"]
    assert runner.invoke(app, ["report", "fake", *options]).exit_code == 0
    assert Path("docs/results/figures/fake_how_far.png").exists()
    assert Path("page.html").exists()


BAD_REPRODUCTIONS = {
    "unknown experiment": (["reproduce", "faek"], "did you mean 'fake'?"),
    "unknown experiment of a report": (["report", "nope"], "there is no experiment 'nope'"),
    "a file for a folder": (["reproduce", "fake", "--out", "file"], "cannot write into"),
    "a folder below a file": (
        ["reproduce", "fake", "--out", "file/x"],
        "cannot write into",
    ),
    "no results": (["reproduce", "fake", "--results", "none"], "there is no folder none"),
    "fresh and results": (["reproduce", "all", "--results", ".", "--fresh"], "--fresh"),
    "not results": (["reproduce", "fake", "--results", "bad"], "not a file of results"),
    "workers and scheduler": (
        ["reproduce", "fake", "--workers", "2", "--scheduler", "tcp://x:1"],
        "not with --scheduler",
    ),
    "no such device": (["reproduce", "fake", "--device", "gpu"], "that torch knows"),
    "a device without numbers": (
        ["reproduce", "fake", "--device", "meta"],
        "--device meta cannot be used here",
    ),
    "quick rows to be committed": (["report", "--quick", "--csv", "x"], "full budget"),
    "fewer seeds to be committed": (["report", "--seeds", "1", "--csv", "x"], "--seeds"),
    "nothing finished": (["report", "--html", "page.html"], "nothing is finished"),
}


@pytest.mark.parametrize("name", BAD_REPRODUCTIONS)
def test_reproduce_and_report_refuse_in_a_sentence(name, experiments):
    Path("file").write_text("")
    Path("bad").mkdir()
    Path("bad/rows.csv").write_text("key,value\n1,2\n")
    arguments, said = BAD_REPRODUCTIONS[name]
    result = runner.invoke(app, arguments)
    assert result.exit_code == 2
    assert said in result.stderr
    assert len(result.stderr.strip().splitlines()) == 1
    assert result.stdout == ""
    assert not list(Path().rglob("*.json"))


def test_a_page_that_cannot_be_written_is_refused_in_a_sentence(experiments):
    assert runner.invoke(app, ["reproduce", "fake"]).exit_code == 0
    result = runner.invoke(app, ["report", "fake", "--html", "none/page.html"])
    assert result.exit_code == 2
    assert result.stderr == "ma-sbi report: there is no folder none for the page\n"


@pytest.mark.parametrize("option", ["--html", "--markdown"])
def test_a_report_never_replaces_what_it_is_made_of(option, experiments):
    assert runner.invoke(app, ["reproduce", "fake"]).exit_code == 0
    cell = next(Path("ma-sbi-reproduction/cells").glob("*.json"))
    before = cell.read_bytes()
    Path("page.md").symlink_to(cell)
    result = runner.invoke(app, ["report", "fake", option, "page.md"])
    assert result.exit_code == 2
    assert "which is read: name another file" in result.stderr
    assert cell.read_bytes() == before


def test_a_report_of_two_forms_needs_two_files(experiments):
    assert runner.invoke(app, ["reproduce", "fake"]).exit_code == 0
    options = ["--html", "page", "--markdown", "./page"]
    result = runner.invoke(app, ["report", "fake", *options])
    assert result.exit_code == 2
    assert "name the same file page" in result.stderr


def test_finished_rows_are_never_replaced_by_fewer(experiments):
    _reproduce("fake", "--out", "all")
    runner.invoke(app, ["report", "fake", "--out", "all", "--csv", "rows"])
    before = Path("rows/fake.csv").read_bytes()
    _reproduce("fake", "--out", "some")
    next(Path("some/cells").glob("*.json")).unlink()
    result = runner.invoke(app, ["report", "fake", "--out", "some", "--csv", "rows"])
    assert result.exit_code == 2
    assert "rows/fake.csv holds 1 finished cells that are not" in result.stderr
    assert Path("rows/fake.csv").read_bytes() == before


def test_a_csv_of_something_else_is_never_replaced_by_rows(experiments):
    _reproduce("fake")
    Path("rows").mkdir()
    Path("rows/fake.csv").write_text("day,x\n1,2\n")
    result = runner.invoke(app, ["report", "fake", "--csv", "rows"])
    assert result.exit_code == 2
    assert "rows/fake.csv is not a file of results" in result.stderr
    assert Path("rows/fake.csv").read_text() == "day,x\n1,2\n"


def test_the_device_is_that_of_all_work(experiments, monkeypatch):
    seen = []

    def run(work, **options):
        seen.extend(one.device for one in work)
        return running.run(work)

    monkeypatch.setattr(commands, "run", run)
    assert _reproduce("fake").exit_code == 0
    monkeypatch.setattr(commands, "_check_device", lambda name, here: None)
    for cell in Path("ma-sbi-reproduction/cells").glob("*.json"):
        cell.unlink()
    monkeypatch.setattr(store, "device_name", lambda device: {"device": device.upper()})
    assert _reproduce("fake", "--device", "there").exit_code == 0
    assert set(seen[:21]) == {"cpu"}
    assert set(seen[21:]) == {"there"}
    written = next(Path("ma-sbi-reproduction/cells").glob("*.json")).read_text()
    assert json.loads(written)["versions"]["device"] == "THERE"


@pytest.mark.parametrize("options", [["--workers", "0"], ["--seeds", "0"]], ids=str)
def test_reproduce_refuses_too_little(options, experiments):
    assert runner.invoke(app, ["reproduce", "fake", *options]).exit_code == 2


def test_a_scheduler_that_does_not_answer_is_refused_before_any_work(
    experiments, monkeypatch
):
    pytest.importorskip("distributed")
    monkeypatch.setattr(schedulers, "SECONDS_TO_ANSWER", 1.0)
    result = runner.invoke(app, ["reproduce", "fake", "--scheduler", "tcp://127.0.0.1:1"])
    assert result.exit_code == 2
    assert "no Dask scheduler answers at tcp://127.0.0.1:1" in result.stderr
    assert not list(Path().rglob("*.json"))


def test_without_dask_a_scheduler_is_refused_with_what_to_install(experiments, monkeypatch):
    monkeypatch.setitem(sys.modules, "distributed", None)
    result = runner.invoke(app, ["reproduce", "fake", "--scheduler", "tcp://127.0.0.1:1"])
    assert result.exit_code == 2
    assert "pip install 'ma-sbi-bench[cluster]'" in result.stderr


def test_the_help_does_not_wait_for_torch():
    code = (
        "import sys; from typer.testing import CliRunner; from ma_sbi.cli import app\n"
        "assert CliRunner().invoke(app, ['reproduce', '--help']).exit_code == 0\n"
        "assert not {'torch', 'matplotlib', 'sbi'} & set(sys.modules)"
    )
    subprocess.run([sys.executable, "-c", code], check=True, timeout=600)
