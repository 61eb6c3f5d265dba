"""Tests for ma_sbi_bench.engine.leftovers."""

import os
import platform
import subprocess
import sys

import pytest

from ma_sbi_bench.engine import leftovers
from ma_sbi_bench.engine.leftovers import LOCK, held, set_aside

NAMES = ("cells/ab.0123.unfinished", "backbones/cd.9.tmp")


@pytest.fixture
def left(tmp_path):
    """A folder with what killed writes have left, and a finished file."""
    for name in (*NAMES, "cells/ab.json"):
        (tmp_path / name).parent.mkdir(exist_ok=True)
        (tmp_path / name).write_text("x")
    return tmp_path


def dead_process():
    process = subprocess.Popen([sys.executable, "-c", ""])
    process.wait()
    return process.pid


def test_what_killed_writes_left_is_removed_and_nothing_else(left):
    with held(left):
        assert not any((left / name).exists() for name in NAMES)
        assert (left / "cells/ab.json").exists()


def test_what_a_run_that_is_alive_writes_is_left_alone(left):
    code = (
        "import sys; from pathlib import Path\n"
        "from ma_sbi_bench.engine.leftovers import held\n"
        "with held(Path(sys.argv[1])): print('held', flush=True); sys.stdin.read()"
    )
    pipes = {"stdin": subprocess.PIPE, "stdout": subprocess.PIPE}
    with subprocess.Popen([sys.executable, "-c", code, str(left)], **pipes) as other:
        assert other.stdout.readline() == b"held\n"
        (left / NAMES[0]).write_text("half")
        with held(left):
            assert (left / NAMES[0]).exists()
        other.stdin.close()
    with held(left):
        assert not (left / NAMES[0]).exists()


def test_semaphores_of_a_dead_run_are_removed_and_those_of_others_are_not(
    tmp_path, monkeypatch
):
    monkeypatch.setattr(leftovers, "SEMAPHORES", tmp_path)
    dead, here = dead_process(), platform.node()
    (tmp_path / LOCK).write_text(f"{here} {dead}\n{here} {os.getpid()}\nelsewhere 17\nx\n")
    for process in (dead, os.getpid(), 17, dead * 10):
        (tmp_path / f"sem.loky-{process}-abc").touch()
    with held(tmp_path):
        pass
    names = {one.name for one in tmp_path.glob("sem.*")}
    assert names == {f"sem.loky-{one}-abc" for one in (os.getpid(), 17, dead * 10)}


def test_a_run_writes_its_process_down(tmp_path):
    with held(tmp_path / "out"):
        written = (tmp_path / "out" / LOCK).read_text()
    assert written == f"{platform.node()} {os.getpid()}\n"


def test_a_file_that_is_set_aside_twice_is_kept_twice(tmp_path):
    for content in ("one", "two"):
        (tmp_path / "ab.json").write_text(content)
        ((file, how),) = set_aside({tmp_path / "ab.json": "cut off"}).items()
        assert (file.read_text(), how) == (content, "cut off")
    assert len(list((tmp_path / "damaged").iterdir())) == 2
