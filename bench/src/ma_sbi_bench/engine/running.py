"""Runs cells on the processes of this machine, or on a cluster, and loses nothing.

A finished cell is a file, written by the process that computed it, before anybody else is
told. Whatever is killed, the next run goes on with what has no file yet. Posteriors come
first, since many cells share one; a cell starts as soon as its own are there. What takes
longest starts first, so that no core idles at the end while another has hours to go.
"""

from __future__ import annotations

import threading
import time
import traceback
import warnings
from collections import Counter
from collections.abc import Callable, Generator, Mapping, Sequence
from concurrent.futures import FIRST_COMPLETED, CancelledError, Future, wait
from concurrent.futures.process import BrokenProcessPool
from dataclasses import dataclass
from pathlib import Path

import torch
from threadpoolctl import threadpool_limits  # type: ignore[import-untyped]  # no stubs

from ma_sbi_bench.engine.cell import Backbone, Cell
from ma_sbi_bench.engine.cluster import Cluster, connect
from ma_sbi_bench.engine.experiment import Experiment
from ma_sbi_bench.engine.models import Laboratory
from ma_sbi_bench.engine.processes import Processes, ThisProcess, Workers
from ma_sbi_bench.engine.store import Store

__all__ = ["Done", "Failure", "Work", "connect", "plan", "run"]

# A cell whose process dies this often is given up.
MOST_DEATHS = 2
# Cells seed the global generators of their process: two at a time would share them.
_ONE_AT_A_TIME = threading.Lock()


@dataclass(frozen=True)
class Work:
    """Something to be done: a posterior to be trained, or a cell to be run.

    Attributes:
        experiment: Whose cell it is; the first of those that need the posterior.
        item: The posterior or the cell.
        out: Folder of what is finished.
        needs: Keys of the posteriors that come first.
    """

    experiment: Experiment
    item: Cell | Backbone
    out: Path
    needs: tuple[str, ...] = ()

    @property
    def urgency(self) -> tuple[bool, float]:
        """What is larger starts earlier: posteriors, then what takes longest."""
        if isinstance(self.item, Backbone):
            return True, float(self.item.num_simulations)
        return False, self.experiment.cost(self.item)

    @property
    def finished(self) -> bool:
        """Whether there is a file of it."""
        if isinstance(self.item, Backbone):
            return Laboratory(backbones_in(self.out)).has(self.item)
        return self.item in Store(cells_in(self.out))


@dataclass(frozen=True)
class Failure:
    """Why something could not be done.

    Attributes:
        item: What it was.
        reason: The error in one line.
        details: Where it happened.
    """

    item: Cell | Backbone
    reason: str
    details: str = ""


@dataclass(frozen=True)
class Done:
    """Something that has been done, or has failed."""

    work: Work
    seconds: float
    failure: Failure | None = None


def cells_in(out: Path) -> Path:
    """Return the folder of finished cells."""
    return out / "cells"


def backbones_in(out: Path) -> Path:
    """Return the folder of trained posteriors."""
    return out / "backbones"


def plan(
    experiment: Experiment, cells: Sequence[Cell], store: Store, out: Path
) -> list[Work]:
    """List the work of an experiment that is not done yet, posteriors first."""
    out = Path(out).absolute()  # workers may run in another folder
    laboratory = Laboratory(backbones_in(out))
    posteriors: dict[str, Work] = {}
    todo = []
    for cell in cells:
        if cell in store:
            continue
        needed = experiment.backbones(cell)
        for one in needed:
            if not laboratory.has(one):
                posteriors[one.key] = Work(experiment, one, out)
        todo.append(Work(experiment, cell, out, tuple(one.key for one in needed)))
    return [*posteriors.values(), *todo]


def run(
    work: Sequence[Work],
    *,
    num_workers: int = 0,
    scheduler: str | None = None,
    heard: Callable[[Done], None] = lambda done: None,
) -> list[Failure]:
    """Do all work; what fails stops nothing else but what needs it.

    Args:
        work: What :func:`plan` listed; of several with the same name one is done.
        num_workers: Processes on this machine; 0 to work in this one.
        scheduler: Address of a Dask scheduler whose workers are used instead; they must
            see the same folder. Workers of one thread each are best: a process does one
            thing at a time.
        heard: Called when something is done or has failed, once for each.

    Returns:
        What failed, and why.

    Raises:
        ValueError: If the scheduler does not answer.
    """
    once = {one.item.key: one for one in work}.values()
    ordered = sorted(once, key=lambda one: one.urgency, reverse=True)
    workers: Workers = Processes(num_workers) if num_workers else ThisProcess()
    if scheduler:
        workers = Cluster(scheduler)
    failures = []
    try:
        for done in _all(ordered, workers):
            if done.failure is not None:
                failures.append(done.failure)
            heard(done)
    finally:
        workers.stop()
    return failures


def do(work: Work) -> Done:
    """Do one thing, on one thread; never raises."""
    with _ONE_AT_A_TIME:
        start = time.perf_counter()
        failure = None
        threads = torch.get_num_threads()
        torch.set_num_threads(1)
        try:
            if not work.finished:
                with threadpool_limits(1), warnings.catch_warnings():
                    warnings.simplefilter("ignore")
                    _compute(work)
        except (Exception, SystemExit) as error:  # noqa: BLE001 (reported; others go on)
            failure = Failure(work.item, _one_line(error), traceback.format_exc())
        finally:
            torch.set_num_threads(threads)
        return Done(work, time.perf_counter() - start, failure)


def _compute(work: Work) -> None:
    laboratory = Laboratory(backbones_in(work.out))
    if isinstance(work.item, Backbone):
        laboratory.posterior(work.item)
        return
    start = time.perf_counter()
    measured = work.experiment.run(work.item, laboratory)
    seconds = time.perf_counter() - start
    Store(cells_in(work.out)).write(work.item, measured, seconds)


def _one_line(error: BaseException) -> str:
    return " ".join(f"{type(error).__name__}: {error}".split()).removesuffix(":")


def _after(failed: Mapping[str, Failure], work: Work) -> Failure | None:
    """Give the reason why work cannot be done, if what it needs has failed."""
    for key in work.needs:
        if key in failed:
            return Failure(work.item, f"{failed[key].item} failed: {failed[key].reason}")
    return None


def _all(work: Sequence[Work], workers: Workers) -> Generator[Done]:
    """Give what is ready to whoever is free, until all is done."""
    waiting = {one.item.key: one for one in work}
    untrained = {key for key, one in waiting.items() if isinstance(one.item, Backbone)}
    failed: dict[str, Failure] = {}
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
            reason = _after(failed, one)
            if reason is None:
                busy[workers.start(do, one)] = one
                room -= 1
            else:
                yield Done(one, 0.0, reason)
        # Not for ever: workers may have joined in the meantime.
        for future in wait(busy, 10.0, FIRST_COMPLETED).done:
            one = busy.pop(future)
            done = _outcome(future, one, deaths)
            if done is None:
                waiting[one.item.key] = one
                continue
            untrained.discard(one.item.key)
            if done.failure is not None:
                failed[one.item.key] = done.failure
            yield done


def _outcome(future: Future[Done], work: Work, deaths: Counter[str]) -> Done | None:
    """Say what came of work; None if its process died and it may be tried again."""
    try:
        error = future.exception()
    except CancelledError:
        return Done(work, 0.0, Failure(work.item, "the scheduler has cancelled it"))
    if error is None:
        done = future.result()
        return Done(work, done.seconds, done.failure)
    if isinstance(error, KeyboardInterrupt):
        raise error
    if work.finished:  # the process died after its work
        return Done(work, 0.0)
    reason = _one_line(error)
    if isinstance(error, BrokenProcessPool):  # killed, or out of memory
        deaths[work.item.key] += 1
        if deaths[work.item.key] < MOST_DEATHS:
            return None
        reason = f"its process died {MOST_DEATHS} times; out of memory?"
    return Done(work, 0.0, Failure(work.item, reason, str(error)))
