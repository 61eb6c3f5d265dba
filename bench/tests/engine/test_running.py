"""Tests for ma_sbi_bench.engine.running on the processes of one machine."""

import os
import shutil
import signal
import subprocess
import sys
import time
from collections import Counter
from pathlib import Path

import pandas as pd
import pytest

from bench.tests.engine.tiny import (
    BROKEN_POSTERIOR,
    POSTERIOR,
    Sibling,
    Tiny,
    finish,
    interrupt,
    log_of,
    own_pid,
)
from ma_sbi_bench.engine import models
from ma_sbi_bench.engine.cell import Backbone
from ma_sbi_bench.engine.running import MOST_DEATHS, FolderIsGone, cells_in, do, plan, run
from ma_sbi_bench.engine.store import Store
from ma_sbi_bench.engine.workers import Processes

# Catches what hangs, not what is slow.
HANG = 1200
pytestmark = pytest.mark.timeout(HANG)
TINY = Tiny()
ROOT = Path(__file__).parents[3]


@pytest.fixture(scope="module")
def unbroken(tmp_path_factory):
    """Rows of an unbroken run in this process, for any number of cells."""
    cells = TINY.numbers(12)
    failures, rows = finish(TINY, cells, tmp_path_factory.mktemp("unbroken"))
    assert failures == []
    return rows


def same_numbers(rows, unbroken):
    """Compare what was measured; whether a cell waits is in its settings and key."""
    own = ["settings", "key"]
    expected = unbroken[unbroken["seed"].isin(rows["seed"])].drop(columns=own)
    pd.testing.assert_frame_equal(
        rows.drop(columns=own), expected.reset_index(drop=True), check_exact=True
    )


@pytest.mark.parametrize(("device", "seconds"), [("cpu", 2.5), ("meta", 40.0)])
def test_seconds_are_the_processors_unless_a_device_works(
    device, seconds, tmp_path, monkeypatch
):
    cells, store = TINY.numbers(1), Store(cells_in(tmp_path))
    (work,) = plan(TINY, cells, store, tmp_path, device)
    clocks = {"process_time": iter((10.0, 12.5)), "perf_counter": iter((0.0, 40.0))}
    for name, times in clocks.items():
        monkeypatch.setattr(f"ma_sbi_bench.engine.running.time.{name}", times.__next__)
    work.compute()
    monkeypatch.undo()
    row, *_ = store.rows([work.item]).to_dict("records")
    assert row["seconds"] == seconds
    assert (row["versions"].get("seconds") == "of the processor") == (device == "cpu")


class TestInThisProcess:
    def test_does_everything_once(self, tmp_path):
        cells = TINY.numbers(3)
        seen = []
        failures, rows = finish(TINY, [*cells, *cells], tmp_path, on_done=seen.append)
        assert failures == []
        assert [done.work.item for done in seen] == cells
        assert log_of(tmp_path) == ["numbers 0", "numbers 1", "numbers 2"]
        assert list(rows["key"].unique()) == [cell.key for cell in cells]

    def test_plans_only_what_is_not_finished(self, tmp_path):
        finish(TINY, TINY.numbers(2), tmp_path)
        work = plan(TINY, TINY.numbers(4), Store(cells_in(tmp_path)), tmp_path)
        assert [one.item.seed for one in work] == [2, 3]

    def test_a_failure_stops_nothing_and_says_why_in_one_line(self, tmp_path):
        bad = [TINY.cell(name) for name in ("fails", "exits", "empty")]
        failures, rows = finish(TINY, [*bad, *TINY.numbers(2)], tmp_path)
        assert [failure.work.item for failure in failures] == bad
        assert [failure.error for failure in failures] == [
            "ValueError: not today, nor tomorrow",
            "SystemExit: bye",
            "ValueError: tiny: empty, seed 0 gave no numbers",
        ]
        assert "in _fails" in failures[0].details
        assert list(rows["seed"].unique()) == [0, 1]

    def test_what_failed_is_tried_again_by_the_next_run(self, tmp_path):
        for _ in range(2):
            failures, _ = finish(TINY, [TINY.cell("fails"), *TINY.numbers(1)], tmp_path)
            assert len(failures) == 1
        assert Counter(log_of(tmp_path)) == {"fails 0": 2, "numbers 0": 1}

    def test_starts_the_longest_first(self, tmp_path):
        cells = [
            TINY.cell("numbers", seed=seed, settings={"cost": cost})
            for seed, cost in enumerate([1, 5, 1, 9])
        ]
        finish(TINY, cells, tmp_path)
        assert log_of(tmp_path) == [f"numbers {seed}" for seed in (3, 1, 0, 2)]

    def test_a_posterior_is_trained_once_for_all_experiments(self, tmp_path):
        tmp_path.mkdir(exist_ok=True)
        store = Store(cells_in(tmp_path))
        lists = {
            one: [one.cell("sampled", seed=s, settings={"needs": ["posterior"]}) for s in r]
            for one, r in [(TINY, range(3)), (Sibling(), range(2, 5))]
        }
        work = [w for one in lists for w in plan(one, lists[one], store, tmp_path)]
        seen = []
        assert run(work, on_done=seen.append) == []
        items = [done.work.item for done in seen]
        assert items[0] == POSTERIOR
        assert sum(isinstance(item, Backbone) for item in items) == 1
        assert sorted(log_of(tmp_path)) == [f"sampled {seed}" for seed in range(5)]
        rows = store.rows([cell for cells in lists.values() for cell in cells])
        assert rows.loc[rows["metric"] == "training", "value"].nunique() == 1
        again = [TINY.cell("sampled", seed=9, settings={"needs": ["posterior"]})]
        assert [one.item for one in plan(TINY, again, store, tmp_path)] == again

    def test_a_posterior_that_fails_fails_its_cells_and_no_others(self, tmp_path):
        needy = [
            TINY.cell("numbers", seed=s, settings={"needs": ["broken"]}) for s in (7, 8)
        ]
        failures, rows = finish(TINY, [*needy, *TINY.numbers(2)], tmp_path)
        why = "ValueError: there is no world 'nowhere' to train a posterior on"
        assert {failure.work.item.key: failure.error for failure in failures} == {
            BROKEN_POSTERIOR.key: why,
            **{cell.key: f"{BROKEN_POSTERIOR} failed: {why}" for cell in needy},
        }
        assert list(rows["seed"].unique()) == [0, 1]

    def test_a_progress_bar_that_raises_is_not_a_failure_of_the_cell(self, tmp_path):
        def interrupt(done):
            raise KeyboardInterrupt

        with pytest.raises(KeyboardInterrupt):
            finish(TINY, TINY.numbers(3), tmp_path, on_done=interrupt)
        assert log_of(tmp_path) == ["numbers 0"]


class TestFolderThatVanishes:
    """What was finished in it is lost: the run must not say that all is done."""

    def test_stops_the_run(self, tmp_path):
        def remove(done):
            shutil.rmtree(tmp_path / "out")

        with pytest.raises(FolderIsGone, match=r"the folder \S+out is gone"):
            finish(TINY, TINY.numbers(4), tmp_path / "out", on_done=remove)
        assert not (tmp_path / "out").exists()

    def test_and_is_made_again_by_others_fails_what_was_in_it(self, tmp_path):
        def replace_folder(done):
            if done.work.item.seed == 1:
                shutil.rmtree(tmp_path / "out")
                (tmp_path / "out").mkdir()

        failures, _ = finish(
            TINY, TINY.numbers(4), tmp_path / "out", on_done=replace_folder
        )
        assert [one.work.item.seed for one in failures] == [0, 1]
        assert {one.error for one in failures} == {"its file is gone, or damaged"}

    def test_after_the_last_cell_is_no_success_either(self, tmp_path):
        with pytest.raises(FolderIsGone):
            finish(TINY, [TINY.cell("removes_all")], tmp_path / "out")

    def test_a_cell_does_not_make_it_again(self, tmp_path):
        work = plan(TINY, TINY.numbers(1), Store(tmp_path / "none"), tmp_path / "out")
        assert do(work[0]).error.startswith("FolderIsGone")
        assert not (tmp_path / "out").exists()


@pytest.fixture(scope="module")
def troubled(tmp_path_factory):
    """Run good cells beside some that kill their process, on two workers."""
    out = tmp_path_factory.mktemp("troubled")
    bad = [TINY.cell("dies"), TINY.cell("dies_once", seed=11), TINY.cell("fails")]
    cells = [*bad, TINY.cell("threads"), *TINY.numbers(10)]
    seen = []
    failures, rows = finish(TINY, cells, out, num_workers=2, on_done=seen.append)
    return out, cells, failures, rows, seen


@pytest.mark.fixed_seeds
class TestInProcesses:
    @pytest.mark.slow
    def test_what_kills_its_process_is_given_up_and_the_rest_goes_on(self, troubled):
        out, cells, failures, _, _ = troubled
        assert {failure.work.item.method: failure.error for failure in failures} == {
            "dies": "its process died 2 times; out of memory?",
            "fails": "ValueError: not today, nor tomorrow",
        }
        ran = Counter(log_of(out))
        assert ran.pop("dies 0") == 2
        assert ran.pop("dies_once 11") == 2
        assert set(ran.values()) == {1}
        assert len(ran) == len(cells) - 2

    def test_numbers_do_not_depend_on_the_processes(self, troubled, unbroken):
        rows = troubled[3]
        same_numbers(rows[rows["method"] == "numbers"].reset_index(drop=True), unbroken)

    def test_a_cell_whose_process_died_once_has_the_same_numbers(self, troubled, unbroken):
        rows = troubled[3]
        again = rows[rows["method"] == "dies_once"].assign(method="numbers")
        same_numbers(again.reset_index(drop=True), unbroken)

    def test_everything_is_reported_once(self, troubled):
        _, cells, _, _, seen = troubled
        assert Counter(done.work.item.key for done in seen) == Counter(
            cell.key for cell in cells
        )

    def test_every_process_has_one_thread(self, troubled):
        rows = troubled[3]
        threads = rows.loc[rows["method"] == "threads", "values"].item()
        assert len(threads) > 2
        assert set(threads) == {1.0}

    @pytest.mark.slow
    def test_three_workers_give_the_same_rows_as_one(self, tmp_path, unbroken):
        cells = TINY.numbers(4)
        for num_workers in (1, 3):
            _, rows = finish(
                TINY, cells, tmp_path / f"{num_workers}", num_workers=num_workers
            )
            same_numbers(rows, unbroken)


@pytest.mark.slow
def test_a_process_that_is_killed_while_idle_is_replaced():
    processes = Processes(1)
    try:
        first = processes.start(own_pid, None).result()
        os.kill(first, signal.SIGKILL)
        for _ in range(MOST_DEATHS + 1):  # a call may come before the death is noticed
            call = processes.start(own_pid, None)
            if call.exception() is None:
                break
        assert call.result() != first
    finally:
        processes.stop()


@pytest.mark.slow
def test_ctrl_c_is_for_the_parent_alone():
    processes = Processes(1)
    try:
        assert processes.start(interrupt, None).result() == "alive"
    finally:
        processes.stop()
    blocked = signal.pthread_sigmask(signal.SIG_BLOCK, [])
    assert signal.SIGINT not in blocked


@pytest.mark.fixed_seeds
class TestKilled:
    """The whole run is killed, as by `kill -9`; the next one goes on."""

    @pytest.mark.slow
    @pytest.mark.parametrize("whom", ["everything", "parent"])
    def test_resumes_and_computes_nothing_twice(self, tmp_path, unbroken, whom):
        cells = TINY.numbers(12, free=3)  # the others wait until it is killed
        store = Store(cells_in(tmp_path))
        process = subprocess.Popen(
            [sys.executable, "-m", "bench.tests.engine.tiny", str(tmp_path)],
            cwd=ROOT,
            start_new_session=True,
        )
        try:
            wait_until(lambda: sum(cell in store for cell in cells) >= 3, process)
        finally:
            if whom == "everything":
                os.killpg(process.pid, signal.SIGKILL)
            else:
                os.kill(process.pid, signal.SIGKILL)
            process.wait(HANG / 2)
        before = [cell for cell in cells if cell in store]
        assert len(before) == 3
        (tmp_path / "go").touch()
        failures, rows = finish(TINY, cells, tmp_path)
        assert failures == []
        same_numbers(rows, unbroken)
        ran = Counter(log_of(tmp_path))
        assert all(ran[f"numbers {cell.seed}"] == 1 for cell in before)
        # What the two workers were running is run again, and nothing else.
        assert sum(ran.values()) <= 12 + 2
        wait_until(lambda: not alive_in(process.pid))


def wait_until(true, process=None):
    while not true():
        assert process is None or process.poll() is None, "the run ended by itself"
        time.sleep(0.05)


def alive_in(group):
    """Tell whether any process of a killed run lives."""
    try:
        os.killpg(group, 0)
    except ProcessLookupError:
        return False
    return True


def test_the_device_reaches_every_training_and_no_key(tmp_path, monkeypatch):
    seen = []

    def fit(prior, theta, x, *, seed, device, max_epochs):
        seen.append(device)
        raise RuntimeError("seen enough")

    monkeypatch.setitem(models.kinds(), "maf", (fit, None))
    cell = TINY.cell("sampled", settings={"needs": ["posterior"]})
    store = Store(cells_in(tmp_path))
    here, there = (plan(TINY, [cell], store, tmp_path, one) for one in ("cpu", "cuda:3"))
    assert [one.device for one in there] == ["cuda:3", "cuda:3"]
    assert [one.item.key for one in here] == [one.item.key for one in there]
    for work in (here, there):
        assert run(work)[0].error == "RuntimeError: seen enough"
    assert seen == ["cpu", "cuda:3"]
