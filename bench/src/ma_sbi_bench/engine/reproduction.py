"""Experiments with a budget: what is finished of them, what is left, and how long."""

from __future__ import annotations

import time
from collections.abc import Iterable, Sequence
from pathlib import Path

from ma_sbi_bench.engine.budget import Budget
from ma_sbi_bench.engine.cell import Backbone, Cell
from ma_sbi_bench.engine.experiment import Experiment
from ma_sbi_bench.engine.leftovers import set_aside
from ma_sbi_bench.engine.running import Done, Work, cells_in, models_in, plan
from ma_sbi_bench.engine.store import Store

__all__ = ["Estimate", "Reproduction"]


class Reproduction:
    """Experiments to be run with a budget, and where their numbers are kept.

    Args:
        experiments: The experiments.
        budget: What may be spent.
        out: Folder of finished cells and trained posteriors.
        results: Folder of committed rows; None to ignore it.
        device: Where posteriors are trained, and diffusion models drawn from.
    """

    def __init__(
        self,
        experiments: Sequence[Experiment],
        budget: Budget,
        out: Path,
        results: Path | None = None,
        device: str = "cpu",
    ) -> None:
        self.device = device
        self.experiments = experiments
        self.budget = budget
        self.out = out.absolute()  # workers of a cluster have a current folder of their own
        self.results = results
        self.store = Store(cells_in(self.out), results)

    def work(self) -> dict[str, list[Work]]:
        """List what is left to do, by experiment; work that several share is in each."""
        return {
            one.name: plan(one, one.cells(self.budget), self.store, self.out, self.device)
            for one in self.experiments
        }

    def damaged(self) -> dict[Path, str]:
        """Return files of finished cells that are damaged, and how."""
        return self.store.damaged(self._cells())

    def set_aside(self) -> dict[Path, str]:
        """Move damaged files, of posteriors too, out of the way of what comes after.

        Returns:
            Where each of them is now, and how it is damaged.

        Raises:
            OSError: If one cannot be moved.
        """
        moved = set_aside(self.damaged())
        needed = (
            backbone
            for one in self.experiments
            for cell in one.cells(self.budget)
            if cell not in self.store
            for backbone in one.backbones(cell)
        )
        return moved | set_aside(models_in(self.out).damaged(needed))

    def _cells(self) -> list[Cell]:
        return [cell for one in self.experiments for cell in one.cells(self.budget)]

    def estimate(self, num_workers: int | None) -> Estimate:
        """Make an estimate that knows how long finished cells took."""
        estimate = Estimate(num_workers)
        cells = {cell.key: cell for cell in self._cells()}
        rows = self.store.rows(cells.values()).drop_duplicates("key")
        for key, seconds in zip(rows["key"], rows["seconds"], strict=True):
            estimate.add(cells[key], seconds)
        return estimate


class Estimate:
    """How long work will take, estimated from similar work.

    The time of a cell is the mean of those of the same method, task and backbone, else of
    the same method, else of all. Posteriors are estimated from posteriors: of the same kind
    and world, else of the same kind, else of all.

    Args:
        num_workers: How many things are done at once; None to infer it from the pace.
    """

    def __init__(self, num_workers: int | None = 1) -> None:
        self._num_workers = num_workers
        self._start = time.monotonic()
        self._busy = 0.0
        self._known: dict[tuple[str, ...], tuple[int, float]] = {}

    def add(self, item: Cell | Backbone, seconds: float) -> None:
        """Record how long something took."""
        for group in _groups(item):
            count, total = self._known.get(group, (0, 0.0))
            self._known[group] = count + 1, total + seconds

    def update(self, done: Done) -> None:
        """Record something that was done just now."""
        self._busy += done.seconds
        if not done.error:
            self.add(done.work.item, done.seconds)

    def seconds(self, work: Iterable[Work]) -> float | None:
        """Estimate how long work takes from now; None if nothing similar is known."""
        total = 0.0
        for one in work:
            known = next((g for g in _groups(one.item) if g in self._known), None)
            if known is None:
                return None
            count, seconds = self._known[known]
            total += seconds / count
        elapsed = max(time.monotonic() - self._start, 1e-3)
        return total / (self._num_workers or max(1.0, self._busy / elapsed))


def _groups(item: Cell | Backbone) -> list[tuple[str, ...]]:
    """Name the groups that an item belongs to, the most similar first."""
    if isinstance(item, Backbone):
        names = ("posterior", item.kind, item.world)
    else:
        names = ("cell", item.method, f"{item.task}, {item.backbone}")
    return [names, names[:2], names[:1]]
