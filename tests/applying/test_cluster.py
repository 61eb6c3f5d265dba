"""The same table from a real Dask cluster, of which a worker is killed midway."""

import os
import signal
import warnings

import numpy as np
import pytest

distributed = pytest.importorskip("distributed")

from ma_sbi import BootstrapCorrector, CategoryEncoder  # noqa: E402
from ma_sbi.applying import sources  # noqa: E402
from ma_sbi.applying.blocks import Job  # noqa: E402
from ma_sbi.applying.cluster import Cluster  # noqa: E402
from ma_sbi.applying.running import run  # noqa: E402
from ma_sbi.correctors.files import TableColumns  # noqa: E402

N = 120
COLUMNS = TableColumns(("x_obs_0", "x_obs_1"), ("context",))


@pytest.fixture
def cluster():
    from distributed import LocalCluster

    # On a busy machine a worker takes a while to import what it needs.
    patient = {
        "distributed.comm.timeouts.connect": "600s",
        "distributed.scheduler.worker-ttl": None,
    }
    with (
        __import__("dask").config.set(patient),
        LocalCluster(
            n_workers=2, threads_per_worker=1, dashboard_address=None, memory_limit=None
        ) as made,
    ):
        yield made


def _job(folder):
    rng = np.random.default_rng(0)
    x_sim = rng.normal(size=(N, 2))
    context = np.array(["calm", "storm"], dtype=object)[np.arange(N) % 2]
    x_obs = x_sim + rng.normal(size=(N, 2))
    rows = [f"{a!r},{b!r},{c}" for (a, b), c in zip(x_obs.tolist(), context, strict=True)]
    (folder / "rows.csv").write_text("\n".join(["x_obs_0,x_obs_1,context", *rows, ""]))
    corrector = BootstrapCorrector(CategoryEncoder(), num_draws=9)
    corrector.fit(context, x_obs, x_sim, seed=0).save(folder / "model")
    return Job((folder / "model").read_bytes(), COLUMNS, ".csv", "candidates")


@pytest.mark.slow
def test_a_worker_that_is_killed_changes_nothing(cluster, tmp_path, monkeypatch):
    monkeypatch.setattr(sources, "BLOCK_ROWS", 10)
    job = _job(tmp_path)
    alone, together = tmp_path / "alone.csv", tmp_path / "together.csv"
    run(sources.open_source(tmp_path / "rows.csv"), job, alone)
    workers = Cluster(cluster.scheduler_address)
    killed = []

    def kill_one(rows, position):
        if not killed:
            pid = next(iter(workers._client.run(os.getpid).values()))
            killed.append(pid)
            os.kill(pid, signal.SIGKILL)

    try:
        with warnings.catch_warnings():
            warnings.simplefilter("ignore")
            source = sources.open_source(tmp_path / "rows.csv")
            outcome = run(source, job, together, workers=workers, progress=kill_one)
    finally:
        workers.stop()
    assert killed
    assert outcome.num_rows == N
    assert together.read_bytes() == alone.read_bytes()
