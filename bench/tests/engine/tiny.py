"""An experiment whose cells take no time and misbehave on request; workers import it.

Every cell that runs leaves a line in the log of its folder.
"""

import os
import shutil
import signal
import sys
import time
from pathlib import Path

import torch
from threadpoolctl import threadpool_info

from ma_sbi.randomness import seeded
from ma_sbi_bench.engine.cell import Backbone, Measurement
from ma_sbi_bench.engine.experiment import Experiment
from ma_sbi_bench.engine.running import cells_in, plan, run
from ma_sbi_bench.engine.store import Store

POSTERIOR = Backbone(
    "gaussian_linear", "maf", seed=0, num_simulations=200, options={"max_epochs": 2}
)
BROKEN_POSTERIOR = Backbone("nowhere", "maf", seed=0, num_simulations=100)


class Tiny(Experiment):
    name = "tiny"
    title = "Tiny"

    def cells(self, budget):
        return [self.cell("numbers", seed=seed) for seed in budget.seeds_of(8)]

    def numbers(self, count, free=None):
        """List cells; all after the first ``free`` ones wait for the file ``go``."""
        return [
            self.cell("numbers", seed=seed, settings={"free": free})
            for seed in range(count)
        ]

    def backbones(self, cell):
        known = {"posterior": POSTERIOR, "broken": BROKEN_POSTERIOR}
        return [known[name] for name in cell.settings.get("needs", [])]

    def cost(self, cell):
        return cell.settings.get("cost", 0.0)

    def run(self, cell, models):
        out = models.folder.parent
        with (out / "log").open("a") as log:
            log.write(f"{cell.method} {cell.seed}\n")
        free = cell.settings.get("free")
        while free is not None and cell.seed >= free and not (out / "go").exists():
            (out / f"{os.getpid()}.waits").touch()
            time.sleep(0.05)
        return getattr(self, f"_{cell.method}")(cell, models)

    def _numbers(self, cell, models):
        with seeded(cell.seed):
            matrix = torch.randn(40, 40) @ torch.randn(40, 3)
        values = tuple(matrix.logsumexp(dim=0).tolist())
        return [
            Measurement("score", values, recipe="sum", num_draws=40),
            Measurement("log_score", (-float("inf"), values[0])),
        ]

    def _threads(self, cell, models):
        pools = [pool["num_threads"] for pool in threadpool_info()]
        asked = float(os.environ.get("OMP_NUM_THREADS", "0"))
        return [Measurement("threads", (torch.get_num_threads(), asked, *pools))]

    def _sampled(self, cell, models):
        file = models.folder / f"{POSTERIOR.key}.posterior"
        assert file.exists(), "the posterior was not there"
        draws = models.posterior(POSTERIOR).sample(3, torch.zeros(1, 5), seed=cell.seed)
        # Were it trained again, the file would be another one.
        training = Measurement("training", (file.stat().st_mtime_ns % 10**6,))
        return [Measurement("draw", tuple(draws[:, 0, 0].tolist())), training]

    def _fails(self, cell, models):
        raise ValueError("not today,\n  nor tomorrow")

    def _exits(self, cell, models):
        sys.exit("bye")

    def _empty(self, cell, models):
        return []

    def _removes_all(self, cell, models):
        shutil.rmtree(models.folder.parent)
        return self._numbers(cell, models)

    def _dies(self, cell, models):
        os.kill(os.getpid(), signal.SIGKILL)

    def _dies_once(self, cell, models):
        seen = models.folder.parent / "died"
        if not seen.exists():
            seen.touch()
            os.kill(os.getpid(), signal.SIGKILL)
        return self._numbers(cell, models)


class Sibling(Tiny):
    """Another experiment that lists cells of the same name."""

    name = "sibling"

    def cell(self, method, **known):
        return Tiny().cell(method, **known)


def own_pid(_):
    """Return the number of the process that calls this."""
    return os.getpid()


def interrupt(_):
    """Do what Ctrl-C in a terminal does to this process; return whether it lives."""
    os.kill(os.getpid(), signal.SIGINT)
    return "alive"


def log_of(out):
    """Return what ran, one entry for each time."""
    log = Path(out) / "log"
    return log.read_text().splitlines() if log.exists() else []


def finish(experiment, cells, out, **how):
    """Run cells; return what failed and the rows of the others, as far as they repeat."""
    out.mkdir(parents=True, exist_ok=True)
    store = Store(cells_in(out))
    failures = run(plan(experiment, cells, store, out), **how)
    return failures, store.rows(cells).drop(columns=["seconds", "commit"])


if __name__ == "__main__":
    tiny = Tiny()
    finish(tiny, tiny.numbers(12, free=3), Path(sys.argv[1]), num_workers=2)
