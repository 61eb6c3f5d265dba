"""Kills ``ma-sbi reproduce`` at random times, and looks at what the next runs make of it.

It runs the smallest experiment of the paper with the installed command's own code, in
processes of their own. A script may call ``kill_and_resume`` and count.
"""

import os
import random
import signal
import subprocess
import sys
import time
from dataclasses import dataclass
from pathlib import Path

import pandas as pd

from ma_sbi_bench.engine.budget import Budget
from ma_sbi_bench.engine.leftovers import LOCK, SEMAPHORES, UNFINISHED
from ma_sbi_bench.engine.running import cells_in
from ma_sbi_bench.engine.store import Store
from ma_sbi_bench.tables.registry import get_experiment

EXPERIMENT = get_experiment("theorem_1")
CELLS = EXPERIMENT.cells(Budget(quick=True))
COMMAND = [
    *(sys.executable, "-c", "from ma_sbi.cli import app; app()", "reproduce"),
    *(EXPERIMENT.name, "--quick", "--fresh", "--workers", "2", "--out"),
]


@dataclass(frozen=True)
class Kill:
    """What was found after a kill.

    Attributes:
        seconds: When it came, after what it waited for.
        finished: How many cells were finished then.
        left: How many unfinished files and semaphores it left.
    """

    seconds: float
    finished: int
    left: int


def run_to_the_end(out):
    """Run the command; return what it says on standard error."""
    done = subprocess.run(
        [*COMMAND, str(out)], capture_output=True, text=True, check=False, timeout=1800
    )
    assert done.returncode == 0, done.stderr
    return done.stderr


def numbers_in(out):
    """Return the rows of finished cells, as far as they repeat."""
    return Store(cells_in(Path(out))).rows(CELLS).drop(columns=["seconds", "commit"])


def left_in(out):
    """List what killed processes have left: unfinished files, damaged ones, semaphores."""
    lines = (Path(out) / LOCK).read_text().splitlines()
    processes = [line.rpartition(" ")[2] for line in lines]
    semaphores = (SEMAPHORES.glob(f"sem.loky-{one}-*") for one in processes)
    files = (Path(out).rglob(name) for name in (*UNFINISHED, "damaged"))
    return [str(one) for some in (*semaphores, *files) for one in some]


def kill_after(out, seconds, *, num_cells):
    """Start the command; kill all its processes some time after there are so many cells.

    Without any cells the time is counted from where it begins to work. It may come to its
    end before.
    """
    process = subprocess.Popen(
        [*COMMAND, str(out)],
        stdout=subprocess.DEVNULL,
        stderr=subprocess.DEVNULL,
        start_new_session=True,
    )
    begun = f" {process.pid}\n"
    try:
        while process.poll() is None:
            lock, files = out / LOCK, cells_in(out).glob("*.json")
            if lock.exists() and begun in lock.read_text() and len([*files]) >= num_cells:
                time.sleep(seconds)
                break
            time.sleep(0.005)
    finally:
        if process.poll() is None:
            os.killpg(process.pid, signal.SIGKILL)
        process.wait()


def kill_and_resume(folder, num_kills, *, seed):
    """Kill a run some times in a row, let it end, and compare with one left alone.

    Args:
        folder: An empty folder.
        num_kills: How often.
        seed: Seed of the times. Every other kill comes while processes start, the others
            right after one more cell is finished, when more are being written.

    Returns:
        What was found after each kill.

    Raises:
        AssertionError: If numbers differ, or something is left behind in the end.
    """
    start = time.monotonic()
    run_to_the_end(folder / "undisturbed")
    starting = 0.3 * (time.monotonic() - start)
    out, times, found = folder / "killed", random.Random(seed), []
    for turn in range(num_kills):
        done = found[-1].finished if found else 0
        seconds = times.uniform(0.0, 0.05 if turn % 2 == 0 else starting)
        kill_after(out, seconds, num_cells=done + 1 if turn % 2 == 0 else 0)
        found.append(Kill(seconds, numbers_in(out)["key"].nunique(), len(left_in(out))))
    said = run_to_the_end(out)
    assert "leaked" not in said, said
    assert left_in(out) == []
    pd.testing.assert_frame_equal(
        numbers_in(out), numbers_in(folder / "undisturbed"), check_exact=True
    )
    return found
