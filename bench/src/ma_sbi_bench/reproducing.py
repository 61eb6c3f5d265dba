"""The public check of the paper: which experiments, what is left of them, and how long."""

from __future__ import annotations

import os
import time
from collections.abc import Callable, Iterable, Sequence
from contextlib import suppress
from dataclasses import dataclass, field
from pathlib import Path
from tempfile import TemporaryFile

from ma_sbi_bench.engine.budget import Budget
from ma_sbi_bench.engine.cell import Backbone, Cell
from ma_sbi_bench.engine.experiment import Experiment
from ma_sbi_bench.engine.running import Done, Failure, Work, cells_in, connect, plan, run
from ma_sbi_bench.engine.store import Store
from ma_sbi_bench.tables.registry import EXPERIMENTS, get_experiment

__all__ = ["Estimate", "Reproduction", "choose", "usable_cores"]


def choose(names: Iterable[str]) -> list[Experiment]:
    """Find experiments by name, in the order of the report; ``all`` is all of them.

    Raises:
        ValueError: If a name is not known.
    """
    wanted = set()
    for name in names:
        wanted |= set(EXPERIMENTS) if name == "all" else {get_experiment(name).name}
    return [one for name, one in EXPERIMENTS.items() if name in wanted]


def usable_cores() -> int:
    """Count the processors that this process may use."""
    with suppress(AttributeError):  # not on every system
        return len(os.sched_getaffinity(0))
    return os.cpu_count() or 1


@dataclass(frozen=True)
class Reproduction:
    """Experiments to be run with a budget, and where their numbers are kept.

    Attributes:
        experiments: The experiments.
        budget: What may be spent.
        out: Folder of finished cells and trained posteriors.
        results: Folder of committed rows; None to ignore it.
    """

    experiments: Sequence[Experiment]
    budget: Budget
    out: Path
    results: Path | None = None
    store: Store = field(init=False)

    def __post_init__(self) -> None:
        # Workers of a cluster have a current folder of their own.
        object.__setattr__(self, "out", self.out.absolute())
        object.__setattr__(self, "store", Store(cells_in(self.out), self.results))

    def check(self, scheduler: str | None = None) -> int | None:
        """See that the work can be done at all, before any of it.

        Returns:
            The number of workers of the scheduler, if there is one.

        Raises:
            ValueError: If the folder cannot be written, or the scheduler does not answer.
        """
        try:
            self.out.mkdir(parents=True, exist_ok=True)
            with TemporaryFile(dir=self.out):
                pass
        except OSError as error:
            reason = error.strerror or error
            raise ValueError(
                f"cannot write into the folder {self.out}: {reason}"
            ) from error
        if scheduler is None:
            return None
        with connect(scheduler) as client:
            return len(client.scheduler_info()["workers"])

    def missing(self) -> dict[str, str]:
        """Say of each experiment that cannot be run to its end what it lacks."""
        return {
            one.name: reason
            for one in self.experiments
            if (reason := one.what_is_missing(self._unfinished(one)))
        }

    def work(self) -> dict[str, list[Work]]:
        """List what is left to do, by experiment; work that several share is in each."""
        return {
            one.name: plan(
                one,
                [cell for cell in self._unfinished(one) if not one.missing(cell)],
                self.store,
                self.out,
            )
            for one in self.experiments
        }

    def _unfinished(self, experiment: Experiment) -> list[Cell]:
        return [c for c in experiment.cells(self.budget) if c not in self.store]

    def run(
        self,
        work: Iterable[Sequence[Work]],
        *,
        num_workers: int = 1,
        scheduler: str | None = None,
        heard: Callable[[Done], None] = lambda done: None,
    ) -> list[Failure]:
        """Do what is left; returns what failed."""
        return run(
            [one for some in work for one in some],
            num_workers=num_workers,
            scheduler=scheduler,
            heard=heard,
        )


class Estimate:
    """How long work will take, from how long the like of it took.

    Cells differ a lot. The time of one is taken to be the mean of those of the same method,
    task and backbone, else of the same method, else of the same experiment, else of all;
    posteriors are judged by their kind and world, apart from cells.

    Args:
        num_workers: How many things are done at once; None if that is to be seen from how
            fast the work goes.
    """

    def __init__(self, num_workers: int | None = 1) -> None:
        self._num_workers = num_workers
        self._start = time.monotonic()
        self._busy = 0.0
        self._known: dict[tuple[str, ...], tuple[int, float]] = {}

    def learn(self, experiment: str, item: Cell | Backbone, seconds: float) -> None:
        """Take note of how long something took."""
        for kind in _kinds(experiment, item):
            count, total = self._known.get(kind, (0, 0.0))
            self._known[kind] = count + 1, total + seconds

    def hear(self, done: Done) -> None:
        """Take note of something that was done just now."""
        self._busy += done.seconds
        if done.failure is None:
            self.learn(done.work.experiment.name, done.work.item, done.seconds)

    def seconds(self, work: Iterable[Work]) -> float | None:
        """Estimate how long work takes from now; None if nothing like it is known."""
        total = 0.0
        for one in work:
            kinds = _kinds(one.experiment.name, one.item)
            known = next((self._known[kind] for kind in kinds if kind in self._known), None)
            if known is None:
                return None
            total += known[1] / known[0]
        return total / self._at_once()

    def _at_once(self) -> float:
        if self._num_workers is not None:
            return self._num_workers
        return max(1.0, self._busy / max(time.monotonic() - self._start, 1e-3))


def _kinds(experiment: str, item: Cell | Backbone) -> list[tuple[str, ...]]:
    """Name what an item is like, the closest first."""
    if isinstance(item, Backbone):
        return [
            ("posterior", item.world, item.kind),
            ("posterior", item.kind),
            ("posterior",),
        ]
    return [
        ("cell", item.task, item.backbone, item.method),
        ("cell", item.method),
        ("cell of", experiment),
        ("cell",),
    ]
