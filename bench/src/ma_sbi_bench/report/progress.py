"""Progress of a long run: bars in a terminal, a line now and then elsewhere."""

from __future__ import annotations

import time
from collections.abc import Mapping, Sequence
from types import TracebackType

from rich.console import Console
from rich.progress import BarColumn, MofNCompleteColumn, Progress, Task, TaskID, TextColumn
from rich.progress import ProgressColumn as RichColumn
from rich.text import Text

from ma_sbi_bench.engine.cell import Backbone
from ma_sbi_bench.engine.running import Done, Work
from ma_sbi_bench.report.provenance import duration
from ma_sbi_bench.reproducing import Estimate

__all__ = ["Watch"]

# Where there is no terminal: a line after this many seconds, or this share of the work.
SECONDS_BETWEEN_LINES = 30.0
SHARE_BETWEEN_LINES = 0.05


class Watch:
    """Shows how far work has come; to be used as a context.

    Args:
        work: What is to be done, by experiment. What several share counts in each, and once
            overall.
        estimate: How long it takes.
        console: Where to show it.
    """

    def __init__(
        self, work: Mapping[str, Sequence[Work]], estimate: Estimate, console: Console
    ) -> None:
        self.num_failures = 0
        self._estimate = estimate
        self._left = {
            name: {one.item.key: one for one in some} for name, some in work.items() if some
        }
        self._all = {key: one for some in self._left.values() for key, one in some.items()}
        self._num = len(self._all)
        self._shown: _Bars | _Lines
        sizes = {name: len(some) for name, some in self._left.items()}
        if console.is_terminal:
            self._shown = _Bars(sizes, self._num, console)
        else:
            self._shown = _Lines(self._num, console)

    def __enter__(self) -> Watch:
        self._shown.start()
        self._show(list(self._left))
        return self

    def __exit__(
        self,
        kind: type[BaseException] | None,
        error: BaseException | None,
        trace: TracebackType | None,
    ) -> None:
        self._shown.stop()

    def hear(self, done: Done) -> None:
        """Take note of something that was done, or failed."""
        self._estimate.hear(done)
        self.num_failures += done.failure is not None
        key = done.work.item.key
        self._all.pop(key, None)
        self._show([name for name, some in self._left.items() if some.pop(key, None)])

    def _show(self, touched: Sequence[str]) -> None:
        seconds = {
            name: self._estimate.seconds(some.values()) for name, some in self._left.items()
        }
        training = sum(isinstance(one.item, Backbone) for one in self._all.values())
        self._shown.show(
            self._num - len(self._all),
            self.num_failures,
            training,
            self._estimate.seconds(self._all.values()),
            {name: (len(self._left[name]), left) for name, left in seconds.items()},
            touched,
        )


class _TimeLeft(RichColumn):
    """Counts down between two estimates."""

    def render(self, task: Task) -> Text:
        if task.finished:
            return Text("done", style="green")
        left, at = task.fields.get("left"), task.fields.get("at", 0.0)
        if left is None:
            return Text("time left unknown", style="dim")
        return Text(f"{duration(max(left - (time.monotonic() - at), 0.0))} left")


class _Bars:
    """One bar for all, and one for each experiment."""

    def __init__(self, sizes: Mapping[str, int], num: int, console: Console) -> None:
        self._sizes = sizes
        self._progress = Progress(
            TextColumn("{task.description}"),
            BarColumn(bar_width=24),
            MofNCompleteColumn(),
            _TimeLeft(),
            TextColumn("{task.fields[remark]}"),
            console=console,
        )
        self._overall = self._add("[bold]all[/bold]", num)
        self._bars = {name: self._add(name, size) for name, size in sizes.items()}

    def _add(self, name: str, size: int) -> TaskID:
        return self._progress.add_task(name, total=size, remark="")

    def start(self) -> None:
        self._progress.start()

    def stop(self) -> None:
        self._progress.stop()

    def show(
        self,
        num_done: int,
        num_failures: int,
        training: int,
        left: float | None,
        experiments: Mapping[str, tuple[int, float | None]],
        touched: Sequence[str],
    ) -> None:
        remarks = [f"{training} posteriors to train"] if training else []
        remarks += [f"[red]{num_failures} failed[/red]"] if num_failures else []
        now = time.monotonic()
        self._progress.update(
            self._overall, completed=num_done, left=left, at=now, remark=", ".join(remarks)
        )
        for name, (num_left, seconds) in experiments.items():
            done = self._sizes[name] - num_left
            self._progress.update(self._bars[name], completed=done, left=seconds, at=now)


class _Lines:
    """A line now and then, for logs."""

    def __init__(self, num: int, console: Console) -> None:
        self._num = num
        self._console = console
        self._last = (-SECONDS_BETWEEN_LINES, 0)

    def start(self) -> None:
        pass

    def stop(self) -> None:
        pass

    def show(
        self,
        num_done: int,
        num_failures: int,
        training: int,
        left: float | None,
        experiments: Mapping[str, tuple[int, float | None]],
        touched: Sequence[str],
    ) -> None:
        now = time.monotonic()
        soon = now - self._last[0] < SECONDS_BETWEEN_LINES
        little = num_done - self._last[1] < SHARE_BETWEEN_LINES * self._num
        if soon and little and num_done < self._num:
            return
        self._last = now, num_done
        said = [f"{num_done} of {self._num} done"]
        said += [f"{duration(left)} left"] if left and num_done < self._num else []
        said += [f"{training} posteriors to train"] if training else []
        said += [f"{num_failures} failed"] if num_failures else []
        said += [f"{name}: {experiments[name][0]} to go" for name in touched[:3]]
        self._console.print(", ".join(said), markup=False, highlight=False)
