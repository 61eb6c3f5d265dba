"""Runs cells on the processes of this machine, or on a cluster, and loses nothing.

A finished cell is a file, written by the process that computed it, before anybody else is
told. Whatever is killed, the next run goes on with what has no file yet. Posteriors come
first, since many cells share one; a cell starts as soon as its own are there. What takes
longest starts first, so that no core idles at the end while another has hours to go.
"""

from __future__ import annotations

import platform
import threading
import time
import traceback
import uuid
import warnings
from collections import Counter
from collections.abc import Callable, Generator, Mapping, Sequence
from concurrent.futures import FIRST_COMPLETED, CancelledError, Future, wait
from concurrent.futures.process import BrokenProcessPool
from contextlib import closing
from dataclasses import dataclass
from pathlib import Path
from typing import TYPE_CHECKING, Any

import torch
from threadpoolctl import threadpool_limits  # type: ignore[import-untyped]  # no stubs

from ma_sbi.experiments.cell import Backbone, Cell, fingerprint
from ma_sbi.experiments.experiment import Experiment
from ma_sbi.experiments.laboratory import Laboratory
from ma_sbi.experiments.processes import OtherProcess, Process, ThisProcess
from ma_sbi.experiments.store import Store, written_whole

if TYPE_CHECKING:
    from distributed import Client

__all__ = ["Done", "Failure", "Work", "connect", "plan", "run"]

# A cell whose process dies this often is given up.
MOST_DEATHS = 2
# File that tells the folder of a run from another one of that name.
MARK = "folder.id"
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
    if scheduler:
        everything = _on_cluster(ordered, scheduler)
    else:
        everything = _locally(ordered, num_workers)
    failures = []
    with closing(everything):  # processes end even if `heard` raises
        for done in everything:
            if done.failure is not None:
                failures.append(done.failure)
            heard(done)
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


def _locally(work: Sequence[Work], num_workers: int) -> Generator[Done]:
    """Use processes of this machine: the first thing that is ready goes to a free one."""
    waiting = {one.item.key: one for one in work}
    untrained = {key for key, one in waiting.items() if isinstance(one.item, Backbone)}
    failed: dict[str, Failure] = {}
    deaths: Counter[str] = Counter()
    free: list[Process] = [OtherProcess() for _ in range(num_workers)] or [ThisProcess()]
    busy: dict[Future[Done], tuple[Process, Work]] = {}
    try:
        while waiting or busy:
            for key, one in list(waiting.items()):
                if not free:
                    break
                if untrained.intersection(one.needs):
                    continue
                del waiting[key]
                reason = _after(failed, one)
                if reason is None:
                    process = free.pop()
                    busy[process.start(do, one)] = process, one
                else:
                    yield Done(one, 0.0, reason)
            for future in wait(busy, return_when=FIRST_COMPLETED).done:
                process, one = busy.pop(future)
                free.append(process)
                done = _outcome(future, one, deaths)
                if done is None:
                    waiting[one.item.key] = one
                    continue
                untrained.discard(one.item.key)
                if done.failure is not None:
                    failed[one.item.key] = done.failure
                yield done
    finally:
        for process in (*free, *(process for process, _ in busy.values())):
            process.stop()


def _outcome(future: Future[Done], work: Work, deaths: Counter[str]) -> Done | None:
    """Say what came of work; None if its process died and it may be tried again."""
    error = future.exception()
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


def _on_cluster(work: Sequence[Work], address: str) -> Generator[Done]:
    """Use the workers of a Dask scheduler, which knows what waits for what."""
    from distributed import as_completed

    with connect(address) as client:
        marks = {out: _mark(out) for out in {one.out for one in work}}
        futures: dict[str, Any] = {}
        named = {}
        for place, one in enumerate(work):
            before = [futures[key] for key in one.needs if key in futures]
            # The same name as last time: a scheduler that still has it does not repeat it.
            name = f"ma-sbi-{fingerprint({'item': one.item.key, 'out': str(one.out)})}"
            futures[one.item.key] = client.submit(
                _do_there, one, marks[one.out], before, key=name, priority=-place
            )
            named[name] = one
        items = {one.item.key: one.item for one in work}
        for future in as_completed(futures.values()):
            one = named[future.key]
            try:
                done = future.result()
            except (Exception, CancelledError) as error:  # noqa: BLE001 (reported)
                # Its worker died again and again, or that of a posterior it needs.
                reason = f"lost by the cluster: {_one_line(error)}"
                lost = {
                    key: Failure(items[key], reason)
                    for key in one.needs
                    if key in futures and futures[key].status != "finished"
                }
                done = Done(one, 0.0, _after(lost, one) or Failure(one.item, reason))
            yield Done(one, done.seconds, done.failure)


def _do_there(work: Work, mark: str, before: Sequence[Done]) -> Done:
    """Do something on a worker, if it sees the folder and what comes before was done."""
    failed = {one.work.item.key: one.failure for one in before if one.failure is not None}
    failure = _after(failed, work)
    if failure is None and _read_mark(work.out) != mark:
        reason = f"a worker on {platform.node()} does not see the folder {work.out}"
        failure = Failure(work.item, reason)
    return do(work) if failure is None else Done(work, 0.0, failure)


def _mark(out: Path) -> str:
    """Mark a folder, so that a worker can tell it from another one of that name."""
    if not _read_mark(out):
        with written_whole(out / MARK) as unfinished:
            unfinished.write_text(uuid.uuid4().hex, encoding="utf-8")
    return _read_mark(out)


def _read_mark(out: Path) -> str:
    file = out / MARK
    return file.read_text(encoding="utf-8") if file.exists() else ""


def connect(address: str) -> Client:
    """Reach a Dask scheduler.

    Raises:
        ValueError: If Dask is not installed, or no scheduler answers.
    """
    try:
        from distributed import Client
    except ImportError as error:
        raise ValueError("a scheduler needs Dask: pip install 'ma-sbi[cluster]'") from error
    try:
        return Client(address, timeout="8s")
    except (OSError, TimeoutError, ValueError) as error:
        raise ValueError(f"no Dask scheduler answers at {address}: {error}") from error
