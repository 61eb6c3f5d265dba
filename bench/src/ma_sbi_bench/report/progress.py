"""Progress of a long run: bars in a terminal, a line now and then elsewhere."""

from __future__ import annotations

import time
from collections.abc import Mapping, Sequence

from rich.console import Console
from rich.progress import BarColumn, MofNCompleteColumn, Progress, Task, TextColumn
from rich.progress import ProgressColumn as RichColumn
from rich.text import Text

from ma_sbi_bench.engine.cell import Backbone
from ma_sbi_bench.engine.reproduction import Estimate
from ma_sbi_bench.engine.running import Done, Work
from ma_sbi_bench.report.provenance import duration

__all__ = ["ProgressDisplay"]

ALL = "[bold]all[/bold]"
# Where there is no terminal: a line after this many seconds, or this share of the work.
SECONDS_BETWEEN_LINES = 30.0
SHARE_BETWEEN_LINES = 0.05


class ProgressDisplay:
    """Shows how much work is done; to be used as a context.

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
        self._console = console
        left = {name: {one.item.key: one for one in some} for name, some in work.items()}
        every = {key: one for some in left.values() for key, one in some.items()}
        self._left = {ALL: every} | {name: some for name, some in left.items() if some}
        self._num = len(every)
        self._last_line = (-SECONDS_BETWEEN_LINES, 0)
        self._bars = Progress(
            TextColumn("{task.description}"),
            BarColumn(bar_width=24),
            MofNCompleteColumn(),
            _TimeLeft(),
            TextColumn("{task.fields[remark]}"),
            console=console,
            disable=not console.is_terminal,
        )
        self._tasks = {
            name: self._bars.add_task(name, total=len(some), remark="")
            for name, some in self._left.items()
        }

    def __enter__(self) -> ProgressDisplay:
        self._bars.start()
        self._show(list(self._left)[1:])
        return self

    def __exit__(self, *_: object) -> None:
        self._bars.stop()

    def update(self, done: Done) -> None:
        """Count something that is done or has failed."""
        self._estimate.update(done)
        self.num_failures += bool(done.error)
        key = done.work.item.key
        touched = [name for name, some in self._left.items() if some.pop(key, None)]
        self._show(touched[1:])

    def _show(self, touched: Sequence[str]) -> None:
        training = sum(isinstance(one.item, Backbone) for one in self._left[ALL].values())
        remarks = [f"{training} posteriors to train"] if training else []
        remarks += [f"[red]{self.num_failures} failed[/red]"] if self.num_failures else []
        if not self._console.is_terminal:
            self._print_line(remarks, touched)
            return
        for name, task in self._tasks.items():
            some = self._left[name].values()
            self._bars.update(
                task,
                completed=(self._bars.tasks[task].total or 0) - len(some),
                left=self._estimate.seconds(some),
                at=time.monotonic(),
                remark=", ".join(remarks) if name == ALL else "",
            )

    def _print_line(self, remarks: Sequence[str], touched: Sequence[str]) -> None:
        now, num_done = time.monotonic(), self._num - len(self._left[ALL])
        soon = now - self._last_line[0] < SECONDS_BETWEEN_LINES
        little = num_done - self._last_line[1] < SHARE_BETWEEN_LINES * self._num
        if soon and little and num_done < self._num:
            return
        self._last_line = now, num_done
        left = self._estimate.seconds(self._left[ALL].values())
        said = [f"{num_done} of {self._num} done"]
        said += [f"{duration(left)} left"] if left else []
        said += remarks
        said += [f"{name}: {len(self._left[name])} to go" for name in touched[:3]]
        self._console.print(", ".join(said), highlight=False)


class _TimeLeft(RichColumn):
    """Counts down between two estimates."""

    def render(self, task: Task) -> Text:
        if task.finished:
            return Text("done", style="green")
        left, at = task.fields.get("left"), task.fields.get("at", 0.0)
        if left is None:
            return Text("time left unknown", style="dim")
        return Text(f"{duration(max(left - (time.monotonic() - at), 0.0))} left")
