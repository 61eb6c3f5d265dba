"""Runs cells in processes of this machine, or on a cluster.

A finished cell is a file, written by the process that computed it, before its result is
reported. Whatever is killed, the next run goes on with the cells that have no file yet.
Posteriors come first, since many cells share one; a cell starts as soon as its own are
there. What takes longest starts first, so that no core is idle at the end.
"""

from __future__ import annotations

import threading
import time
import traceback
import warnings
from collections import Counter
from collections.abc import Callable, Generator, Sequence
from concurrent.futures import FIRST_COMPLETED, CancelledError, Future, wait
from concurrent.futures.process import BrokenProcessPool
from dataclasses import dataclass, replace
from pathlib import Path

import torch
from threadpoolctl import threadpool_limits  # type: ignore[import-untyped]  # no stubs

from ma_sbi.display.progress import showing
from ma_sbi_bench.engine.cell import Backbone, Cell
from ma_sbi_bench.engine.experiment import Experiment
from ma_sbi_bench.engine.models import Models
from ma_sbi_bench.engine.store import Store
from ma_sbi_bench.engine.workers import Cluster, Processes, ThisProcess

__all__ = ["Done", "FolderIsGone", "Work", "cells_in", "models_in", "plan", "run"]

Workers = ThisProcess | Processes | Cluster
# A cell whose process dies this often is given up.
MOST_DEATHS = 2
# Cells seed the global generators of their process: two at a time would share them.
_ONE_AT_A_TIME = threading.Lock()


@dataclass(frozen=True)
class Work:
    """A posterior to be trained, or a cell to be run.

    Attributes:
        experiment: Whose cell it is; the first of those that need the posterior.
        item: The posterior or the cell.
        out: Folder of what is finished.
        needs: Keys of the posteriors that come first.
        device: Where posteriors are trained, and diffusion models drawn from.
    """

    experiment: Experiment
    item: Cell | Backbone
    out: Path
    needs: tuple[str, ...] = ()
    device: str = "cpu"

    @property
    def priority(self) -> tuple[bool, float]:
        """What is larger starts earlier: posteriors, then what takes longest."""
        if isinstance(self.item, Backbone):
            return True, float(self.item.num_simulations)
        return False, self.experiment.cost(self.item)

    @property
    def finished(self) -> bool:
        """Whether there is a file of it."""
        if isinstance(self.item, Backbone):
            return models_in(self.out).has(self.item)
        return self.item in Store(cells_in(self.out))

    def compute(self) -> None:
        """Train the posterior, or run the cell, and write its file."""
        _require(self.out)
        models = models_in(self.out, self.device)
        if isinstance(self.item, Backbone):
            models.posterior(self.item)
            return
        # What others do on the processor does not count; a device has no such clock.
        clock = time.process_time if self.device == "cpu" else time.perf_counter
        start = clock()
        measured = self.experiment.run(self.item, models)
        seconds = clock() - start
        _require(self.out)  # it must not be made again: the other cells were in it
        Store(cells_in(self.out)).write(self.item, measured, seconds, self.device)


@dataclass(frozen=True)
class Done:
    """Work that is done, or has failed.

    Attributes:
        work: What it was.
        seconds: How long it took.
        error: Why it failed, in one line; empty if it did not.
        details: The traceback, if there is one.
    """

    work: Work
    seconds: float
    error: str = ""
    details: str = ""


class FolderIsGone(Exception):
    """The folder of finished cells has vanished during the run."""


def _require(out: Path) -> None:
    if not out.is_dir():
        raise FolderIsGone(f"the folder {out} is gone, with all that was finished in it")


def cells_in(out: Path) -> Path:
    """Return the folder of finished cells."""
    return out / "cells"


def models_in(out: Path, device: str = "cpu") -> Models:
    """Return the trained posteriors."""
    return Models(out / "backbones", device)


def plan(
    experiment: Experiment,
    cells: Sequence[Cell],
    store: Store,
    out: Path,
    device: str = "cpu",
) -> list[Work]:
    """List the work of an experiment that is left and can be done, posteriors first."""
    out = Path(out).absolute()  # workers may run in another folder
    models = models_in(out)
    posteriors: dict[str, Backbone] = {}
    todo = []
    for cell in cells:
        if cell in store or experiment.missing(cell):
            continue
        needed = {one.key: one for one in experiment.backbones(cell)}
        posteriors |= needed
        todo.append(Work(experiment, cell, out, tuple(needed), device))
    untrained = (one for one in posteriors.values() if not models.has(one))
    return [*(Work(experiment, one, out, device=device) for one in untrained), *todo]


def run(
    work: Sequence[Work],
    *,
    num_workers: int = 0,
    scheduler: str | None = None,
    on_done: Callable[[Done], None] = lambda done: None,
) -> list[Done]:
    """Do all work; what fails stops nothing but the work that needs it.

    Args:
        work: What :func:`plan` listed; work with the same key is done once.
        num_workers: Processes on this machine; 0 to work in this one.
        scheduler: Address of a Dask scheduler whose workers are used instead; they must
            see the same folder. Workers of one thread each are best: a process does one
            thing at a time.
        on_done: Called once for each work that is done or has failed.

    Returns:
        What failed, or has no file in the end.

    Raises:
        ValueError: If the scheduler does not answer.
        FolderIsGone: If the folder of finished cells vanishes.
    """
    once = {one.item.key: one for one in work}.values()
    ordered = sorted(once, key=lambda one: one.priority, reverse=True)
    workers: Workers = Processes(num_workers) if num_workers else ThisProcess()
    if scheduler:
        workers = Cluster(scheduler)
    for out in {one.out for one in ordered}:
        out.mkdir(parents=True, exist_ok=True)
    failures: list[Done] = []
    succeeded: list[Done] = []
    try:
        for done in _all(ordered, workers):
            _require(done.work.out)
            (failures if done.error else succeeded).append(done)
            on_done(done)
    finally:
        workers.stop()
    gone = (one for one in succeeded if not one.work.finished)
    return [
        *failures,
        *(replace(one, error="its file is gone, or damaged") for one in gone),
    ]


def do(work: Work) -> Done:
    """Do one thing, on one thread; never raises."""
    with _ONE_AT_A_TIME:
        start = time.perf_counter()
        error, details = "", ""
        threads = torch.get_num_threads()
        torch.set_num_threads(1)
        try:
            if not work.finished:
                silent = showing("", show_progress=False)
                with threadpool_limits(1), warnings.catch_warnings(), silent:
                    warnings.simplefilter("ignore")
                    work.compute()
        except (Exception, SystemExit) as raised:  # noqa: BLE001 (reported; others go on)
            error, details = in_one_line(raised), traceback.format_exc()
        finally:
            torch.set_num_threads(threads)
        return Done(work, time.perf_counter() - start, error, details)


def in_one_line(error: BaseException) -> str:
    """Describe an error by its type and message."""
    return " ".join(f"{type(error).__name__}: {error}".split()).removesuffix(":")


def _all(work: Sequence[Work], workers: Workers) -> Generator[Done]:
    """Give work that is ready to idle workers, until all is done."""
    waiting = {one.item.key: one for one in work}
    untrained = {key for key, one in waiting.items() if isinstance(one.item, Backbone)}
    failed: dict[str, str] = {}
    deaths: Counter[str] = Counter()
    busy: dict[Future[Done], Work] = {}
    while waiting or busy:
        room = workers.capacity - len(busy)
        for key, one in list(waiting.items()):
            if room <= 0:
                break
            if untrained.intersection(one.needs):
                continue
            del waiting[key]
            reason = next((failed[need] for need in one.needs if need in failed), "")
            if reason:
                yield Done(one, 0.0, reason)
            else:
                busy[workers.start(do, one)] = one
                room -= 1
        # With a limit, since more workers may have joined.
        for future in wait(busy, 10.0, FIRST_COMPLETED).done:
            one = busy.pop(future)
            done = _outcome(future, one, deaths)
            if done is None:
                waiting[one.item.key] = one
                continue
            untrained.discard(one.item.key)
            if done.error:
                failed[one.item.key] = f"{one.item} failed: {done.error}"
            yield done


def _outcome(future: Future[Done], work: Work, deaths: Counter[str]) -> Done | None:
    """Say what came of work; None if its process died and it may be tried again."""
    try:
        return replace(future.result(), work=work)
    except CancelledError:
        return Done(work, 0.0, "the scheduler has cancelled it")
    except Exception as error:  # noqa: BLE001 (of the worker, not of the work)
        if work.finished:  # the process died after its work
            return Done(work, 0.0)
        if not isinstance(error, BrokenProcessPool):
            return Done(work, 0.0, in_one_line(error), str(error))
        deaths[work.item.key] += 1  # killed, or out of memory
        if deaths[work.item.key] < MOST_DEATHS:
            return None
        reason = f"its process died {MOST_DEATHS} times; out of memory?"
        return Done(work, 0.0, reason, str(error))
