"""Long work shows itself: what is done now, and how much of it, on standard error.

Everything that takes long has one keyword, ``show_progress``: True shows, False is silent,
None, the default, shows to a person: on a terminal or in a notebook, after a second. Work
that is part of other work leaves it to that one to show.
"""

from __future__ import annotations

import sys
from collections.abc import Callable, Iterator, Sequence
from contextlib import contextmanager
from contextvars import ContextVar
from typing import Any, TypeVar

from rich.console import Console
from rich.progress import Progress, SpinnerColumn, TaskID, TextColumn, TimeElapsedColumn
from tqdm import tqdm

__all__ = ["parts", "quiet", "say", "showing", "stages", "steps"]

T = TypeVar("T")
# Seconds after which work counts as long.
DELAY = 1.0
# Seconds between two changes of a line that shows how far work is.
PAUSE = 0.1

# The line of the work that this one is part of; None if there is none.
_line: ContextVar[Any] = ContextVar("line", default=None)
_quiet: ContextVar[bool] = ContextVar("quiet", default=False)


@contextmanager
def showing(words: str, *, show_progress: bool | None = None) -> Iterator[None]:
    """Show on one line what is done now, until the end; :func:`say` changes the words.

    Args:
        words: What is done first.
        show_progress: As everywhere.
    """
    with tqdm(
        desc=words,
        bar_format="{desc} [{elapsed}]",
        disable=not _is_shown(show_progress),
        delay=DELAY,
        mininterval=PAUSE,
        leave=False,
    ) as line:
        token = _line.set(line)
        try:
            yield
        finally:
            _line.reset(token)


def say(words: str) -> None:
    """Change what the work that shows itself says."""
    line = _line.get()
    if line is not None:
        line.set_description_str(words)


def parts(items: Sequence[T], words: str) -> Iterator[T]:
    """Go through parts of the work that shows itself, whose line says how far it is.

    Args:
        items: As many as there are parts.
        words: What one of them is called.
    """
    line = _line.get()
    if line is None or len(items) == 1:
        yield from items
        return
    before = getattr(line, "desc", "")
    for number, item in enumerate(items, 1):
        said = f"{before}: {words} {number:,} of {len(items):,}"
        line.set_description_str(said, refresh=False)
        line.update(0)
        yield item
    line.set_description_str(before, refresh=False)


def steps(
    items: Sequence[T], words: str, *, show_progress: bool | None = None
) -> Iterator[T]:
    """Go through items, and show a bar.

    Args:
        items: As many as there are steps.
        words: What is done.
        show_progress: As everywhere.

    Example:
        >>> list(steps(range(3), "Counting", show_progress=False))
        [0, 1, 2]
    """
    shown = _is_shown(show_progress)
    yield from tqdm(items, words, disable=not shown, delay=DELAY, leave=False)


@contextmanager
def quiet(silent: bool) -> Iterator[None]:  # noqa: FBT001
    """Show no progress inside, if so, unless the work is asked to."""
    token = _quiet.set(silent or _quiet.get())
    try:
        yield
    finally:
        _quiet.reset(token)


def _is_shown(show_progress: bool | None) -> bool:  # noqa: FBT001
    if show_progress is not None:
        return show_progress
    if _quiet.get():
        return False
    watched = sys.stderr is not None and sys.stderr.isatty()
    return _line.get() is None and (watched or "ipykernel" in sys.modules)


@contextmanager
def stages(console: Console) -> Iterator[Callable[[str], None]]:
    """Give a function to be called with the name of each stage before it starts.

    They stay on the screen, each with its time, as a command shows them.

    Args:
        console: Where they are shown.
    """
    columns = (SpinnerColumn(), TextColumn("{task.description}"), TimeElapsedColumn())
    with (
        showing("", show_progress=False),
        Progress(*columns, console=console) as progress,
    ):
        running: list[TaskID] = []

        def finish() -> None:
            for task in running[-1:]:
                progress.update(task, total=1, completed=1)

        def stage(name: str) -> None:
            finish()
            running.append(progress.add_task(name, total=None))

        yield stage
        finish()
