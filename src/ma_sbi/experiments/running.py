"""Runs cells on the processes of this machine, or on a cluster, and loses nothing.

A finished cell is a file, written by the process that computed it, before anybody else is
told. Whatever is killed, the next run goes on with what has no file yet. Posteriors come
first, since many cells share one; a cell that needs none does not wait for them.
"""

from __future__ import annotations

import time
import traceback
import warnings
from collections import Counter
from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import TYPE_CHECKING

import joblib
import torch
from joblib.externals.loky.process_executor import TerminatedWorkerError
from threadpoolctl import threadpool_limits  # type: ignore[import-untyped]  # no stubs

from ma_sbi.experiments.cell import Backbone, Cell
from ma_sbi.experiments.experiment import Experiment
from ma_sbi.experiments.laboratory import Laboratory
from ma_sbi.experiments.store import Store

if TYPE_CHECKING:
    from distributed import Client

__all__ = ["Done", "Failure", "Work", "connect", "plan", "run"]

# A cell whose process dies this often is given up.
MOST_DEATHS = 2


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
    def finished(self) -> bool:
        """Whether there is a file of it."""
        if isinstance(self.item, Backbone):
            return Laboratory(backbones_in(self.out)).has(self.item)
        return self.item in Store(cells_in(self.out))

    @property
    def mark(self) -> Path:
        """File that is there while it is being worked at."""
        return self.out / "running" / self.item.key


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
    num_workers: int = 1,
    scheduler: str | None = None,
    heard: Callable[[Done], None] = lambda done: None,
) -> list[Failure]:
    """Do all work; what fails stops nothing else but what needs it.

    Args:
        work: What :func:`plan` listed; of several with the same name one is done.
        num_workers: Processes on this machine.
        scheduler: Address of a Dask scheduler whose workers are used instead; they must
            see the same folder.
        heard: Called when something is done or has failed.

    Returns:
        What failed, and why.
    """
    work = list({one.item.key: one for one in work}.values())
    for one in work:  # left behind by a run that was killed
        one.mark.unlink(missing_ok=True)
    done = _on_cluster(work, scheduler) if scheduler else _locally(work, num_workers)
    failures = []
    for one in done:
        if one.failure is not None:
            failures.append(one.failure)
        heard(one)
    return failures


def do(work: Work) -> Done:
    """Do one thing, on one thread; never raises."""
    start = time.perf_counter()
    failure = None
    if not work.finished:
        work.mark.parent.mkdir(parents=True, exist_ok=True)
        work.mark.touch()
        threads = torch.get_num_threads()
        torch.set_num_threads(1)
        try:
            with threadpool_limits(1), warnings.catch_warnings():
                warnings.simplefilter("ignore")
                _compute(work)
        except Exception as error:  # noqa: BLE001 (reported, and nothing else stops)
            said = " ".join(f"{type(error).__name__}: {error}".split())
            failure = Failure(work.item, said, traceback.format_exc())
        finally:
            torch.set_num_threads(threads)
            work.mark.unlink(missing_ok=True)
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


def _after(failed: dict[str, Failure], work: Work) -> Failure | None:
    """Give the reason why work cannot be done, if what it needs has failed."""
    for key in work.needs:
        if key in failed:
            return Failure(work.item, f"{failed[key].item} failed: {failed[key].reason}")
    return None


def _locally(work: Sequence[Work], num_workers: int) -> Iterator[Done]:
    """Use the processes of this machine: what others need first, then the rest."""
    failed: dict[str, Failure] = {}
    trained_here = {one.item.key for one in work if isinstance(one.item, Backbone)}
    waits = [bool(trained_here.intersection(one.needs)) for one in work]
    for now in (False, True):
        ready = []
        for one, waiting in zip(work, waits, strict=True):
            if waiting is now:
                reason = _after(failed, one)
                if reason is None:
                    ready.append(one)
                else:
                    yield Done(one, 0.0, reason)
        for done in _in_processes(ready, num_workers):
            if done.failure is not None:
                failed[done.work.item.key] = done.failure
            yield done


def _in_processes(work: Sequence[Work], num_workers: int) -> Iterator[Done]:
    """Run work in processes; if one dies, the others' work goes on in new ones."""
    left = {one.item.key: one for one in work}
    deaths: Counter[str] = Counter()
    while left:
        try:
            with joblib.parallel_config("loky", inner_max_num_threads=1):
                parallel = joblib.Parallel(
                    num_workers, return_as="generator_unordered", batch_size=1
                )
                for done in parallel([joblib.delayed(do)(one) for one in left.values()]):
                    left.pop(done.work.item.key)
                    yield done
        except TerminatedWorkerError:
            # Killed, or out of memory. Finished cells have files, whoever has heard of it.
            for key, one in list(left.items()):
                if one.finished:
                    yield Done(left.pop(key), 0.0)
                elif one.mark.exists():
                    one.mark.unlink(missing_ok=True)
                    deaths[key] += 1
                    if deaths[key] >= MOST_DEATHS:
                        reason = f"its process died {MOST_DEATHS} times; out of memory?"
                        yield Done(left.pop(key), 0.0, Failure(one.item, reason))


def _on_cluster(work: Sequence[Work], address: str) -> Iterator[Done]:
    """Use the workers of a Dask scheduler, which knows what waits for what."""
    from distributed import as_completed

    with connect(address) as client:
        pending = {}
        for one in work:
            before = [pending[key] for key in one.needs if key in pending]
            # The same name as last time: a scheduler that still knows it does not repeat it.
            future = client.submit(_do_after, one, before, key=f"ma-sbi-{one.item.key}")
            pending[one.item.key] = future
        by_key = {
            future.key: one for future, one in zip(pending.values(), work, strict=True)
        }
        for future in as_completed(pending.values()):
            one = by_key[future.key]
            if future.status != "finished":  # its worker died again and again
                reason = f"lost by the cluster: {future.exception()}"
                yield Done(one, 0.0, Failure(one.item, " ".join(reason.split())))
                continue
            done = future.result()
            if done.failure is None and not one.finished:
                reason = f"no file came; workers must see the same folder {one.out}"
                done = Done(one, done.seconds, Failure(one.item, reason))
            yield done


def _do_after(work: Work, before: Sequence[Done]) -> Done:
    failed = {one.work.item.key: one.failure for one in before if one.failure is not None}
    reason = _after(failed, work)
    return do(work) if reason is None else Done(work, 0.0, reason)


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
        return Client(address, timeout="20s")
    except (OSError, TimeoutError, ValueError) as error:
        raise ValueError(f"no Dask scheduler answers at {address}: {error}") from error
