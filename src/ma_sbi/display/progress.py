"""Stages of a computation, each with its time."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from contextlib import contextmanager

from rich.console import Console
from rich.progress import Progress, SpinnerColumn, TaskID, TextColumn, TimeElapsedColumn

__all__ = ["stages"]


@contextmanager
def stages(console: Console, *, transient: bool = False) -> Iterator[Callable[[str], None]]:
    """Give a function to be called with the name of each stage before it starts.

    Args:
        console: Where they are shown.
        transient: Whether they disappear at the end.
    """
    columns = (SpinnerColumn(), TextColumn("{task.description}"), TimeElapsedColumn())
    with Progress(*columns, console=console, transient=transient) as progress:
        running: list[TaskID] = []

        def finish() -> None:
            for task in running[-1:]:
                progress.update(task, total=1, completed=1)

        def stage(name: str) -> None:
            finish()
            running.append(progress.add_task(name, total=None))

        yield stage
        finish()
