"""Tests for ma_sbi_bench.engine.running on a real Dask cluster of separate processes."""

import os
import signal
import threading
import time
from collections import Counter
from pathlib import Path

import pandas as pd
import pytest

from bench.tests.engine.tiny import (
    BROKEN_POSTERIOR,
    POSTERIOR,
    Tiny,
    finish,
    log_of,
)
from ma_sbi import schedulers
from ma_sbi_bench.engine.running import run

distributed = pytest.importorskip("distributed", reason="needs the extra 'cluster'")
dask = pytest.importorskip("dask")
pytestmark = [pytest.mark.timeout(1200), pytest.mark.filterwarnings("ignore")]
TINY = Tiny()


@pytest.fixture(scope="module")
def cluster():
    """Two workers of one thread; a worker that dies is replaced."""
    # A busy machine may take minutes to start them.
    patient = {"distributed.comm.timeouts.connect": "600s"}
    local = {"processes": True, "dashboard_address": None}
    with dask.config.set(patient), pytest.MonkeyPatch.context() as patch:
        patch.setattr(schedulers, "SECONDS_TO_ANSWER", 600.0)
        with distributed.LocalCluster(n_workers=2, threads_per_worker=1, **local) as found:
            yield found


@pytest.fixture(scope="module")
def killed(cluster, tmp_path_factory):
    """Kill a worker while it is busy, in the middle of a run."""
    out = tmp_path_factory.mktemp("killed")
    needy = [
        TINY.cell("sampled", seed=s, settings={"needs": ["posterior"]}) for s in range(3)
    ]
    hopeless = [TINY.cell("numbers", seed=50, settings={"needs": ["broken"]})]
    cells = [*needy, *hopeless, TINY.cell("fails"), *TINY.numbers(12, free=4)]
    seen, dead = [], []

    def kill_one():
        while not (waiting := list(out.glob("*.waits"))):
            time.sleep(0.05)
        dead.append(int(waiting[0].stem))
        os.kill(dead[0], signal.SIGKILL)
        (out / "go").touch()

    killer = threading.Thread(target=kill_one, daemon=True)
    killer.start()
    how = {"scheduler": cluster.scheduler_address, "on_done": seen.append}
    failures, rows = finish(TINY, cells, out, **how)
    killer.join()
    with distributed.Client(cluster.scheduler_address) as client:
        assert dead[0] not in client.run(os.getpid).values()
    return out, cells, failures, rows, seen


@pytest.mark.slow
def test_nothing_is_lost_when_a_worker_is_killed(killed):
    _, cells, failures, rows, _ = killed
    failed = {failure.work.item.key for failure in failures}
    assert set(rows["key"]) == {cell.key for cell in cells} - failed
    assert len(failed) == 3


def test_nothing_is_computed_twice_but_what_the_worker_was_running(killed):
    ran = Counter(log_of(killed[0]))
    assert sorted(ran.values()) == [1] * (len(ran) - 1) + [2]


@pytest.mark.fixed_seeds
def test_rows_are_those_of_a_local_run(killed, tmp_path):
    _, cells, _, rows, _ = killed
    good = [cell for cell in cells if cell.key in set(rows["key"])]
    (tmp_path / "go").touch()
    failures, local = finish(TINY, good, tmp_path)
    assert failures == []
    by_draw = rows["metric"] != "training"  # the time of the file is its own
    pd.testing.assert_frame_equal(
        rows[by_draw], local[local["metric"] != "training"], check_exact=True
    )


def test_a_posterior_is_trained_before_its_cells_and_once(killed):
    _, _, _, rows, seen = killed
    items = [done.work.item for done in seen]
    trained = items.index(POSTERIOR)
    needy = [n for n, item in enumerate(items) if getattr(item, "method", "") == "sampled"]
    assert len(needy) == 3
    assert trained < min(needy)
    assert rows.loc[rows["metric"] == "training", "value"].nunique() == 1


def test_failures_have_their_own_reasons(killed):
    why = "ValueError: there is no world 'nowhere' to train a posterior on"
    assert sorted(failure.error for failure in killed[2]) == [
        "ValueError: not today, nor tomorrow",
        why,
        f"{BROKEN_POSTERIOR} failed: {why}",
    ]


def test_everything_is_reported_once(killed):
    _, cells, _, _, seen = killed
    expected = [POSTERIOR.key, BROKEN_POSTERIOR.key, *(cell.key for cell in cells)]
    assert sorted(done.work.item.key for done in seen) == sorted(expected)


def test_a_second_run_computes_nothing(killed, cluster):
    out, cells, _, rows, _ = killed
    good = [cell for cell in cells if cell.key in set(rows["key"])]
    before = log_of(out)
    failures, again = finish(TINY, good, out, scheduler=cluster.scheduler_address)
    assert failures == []
    assert log_of(out) == before
    pd.testing.assert_frame_equal(again, rows)


def test_a_worker_that_does_not_see_the_folder_says_so(cluster, tmp_path, monkeypatch):
    if not Path("/proc/self/cwd").exists():
        pytest.skip("needs a path that means another folder to every process")
    with distributed.Client(cluster.scheduler_address):
        monkeypatch.chdir(tmp_path)
        out = Path("/proc/self/cwd/out")
        failures, rows = finish(
            TINY, TINY.numbers(1), out, scheduler=cluster.scheduler_address
        )
    assert rows.empty
    assert len(failures) == 1
    assert failures[0].error.endswith(f"does not see the folder {out}")


def test_the_same_cell_in_another_folder_is_another_piece_of_work(cluster, tmp_path):
    for name in ("one", "other"):
        failures, rows = finish(
            TINY, TINY.numbers(2), tmp_path / name, scheduler=cluster.scheduler_address
        )
        assert failures == []
        assert set(rows["seed"]) == {0, 1}
        assert sorted(log_of(tmp_path / name)) == ["numbers 0", "numbers 1"]


def test_a_cell_that_kills_every_worker_is_given_up(cluster, tmp_path):
    with distributed.Client(cluster.scheduler_address) as client:
        client.run_on_scheduler(_allow_no_death)
    cells = [TINY.cell("dies"), *TINY.numbers(3)]
    failures, rows = finish(TINY, cells, tmp_path, scheduler=cluster.scheduler_address)
    assert [failure.work.item.method for failure in failures] == ["dies"]
    assert failures[0].error.startswith("KilledWorker: ")
    assert "\n" not in failures[0].error
    assert set(rows["seed"]) == {0, 1, 2}


def _allow_no_death(dask_scheduler):
    dask_scheduler.allowed_failures = 0


def test_a_scheduler_that_does_not_answer_is_refused(tmp_path, monkeypatch):
    monkeypatch.setattr(schedulers, "SECONDS_TO_ANSWER", 1.0)
    with pytest.raises(ValueError, match="no Dask scheduler answers at tcp://127.0.0.1:9"):
        finish(TINY, TINY.numbers(1), tmp_path, scheduler="tcp://127.0.0.1:9")
    assert log_of(tmp_path) == []


def test_an_address_that_is_none_is_refused():
    with pytest.raises(ValueError, match="no Dask scheduler answers at nonsense://here"):
        schedulers.connect("nonsense://here")


def test_nothing_to_do_is_no_failure(cluster):
    assert run([], scheduler=cluster.scheduler_address) == []
