"""Saying once what concerns rows that are worked through in blocks."""

from __future__ import annotations

import contextlib
import sys
from collections.abc import Callable, Hashable, Iterator
from contextlib import contextmanager
from contextvars import ContextVar
from pathlib import Path
from types import FrameType
from typing import Any, Literal, get_args

__all__ = ["Topic", "levels_to_caller", "tell", "told_once", "told_together", "untold"]

PACKAGE = Path(__file__).parent
Say = Callable[[list[Any]], None]
Topic = Literal["leaky", "no number", "outside", "unseen"]

# What is to be said, and its parts; None where things are said at once. Each thread has
# its own.
_pending: ContextVar[dict[Hashable, tuple[Say, list[Any]]] | None] = ContextVar(
    "pending", default=None
)
# The same, for topics that a larger call says once.
_gathered: ContextVar[tuple[frozenset[Topic], dict[Hashable, tuple[Say, list[Any]]]]] = (
    ContextVar("gathered", default=(frozenset(), {}))
)
_hidden: ContextVar[frozenset[Topic]] = ContextVar("hidden", default=frozenset())


def tell(topic: Topic, key: Hashable, part: Any, say: Say) -> None:
    """Say something of some rows, at once or together with that of other blocks.

    Args:
        topic: What it is about, by which a caller may hide it.
        key: What has the same topic and key is said together.
        part: What was found of these rows.
        say: Says it, given the parts of all blocks in order.
    """
    if topic in _hidden.get():
        return
    topics, gathered = _gathered.get()
    pending = gathered if topic in topics else _pending.get()
    if pending is None:
        say([part])
    else:
        pending.setdefault((topic, key), (say, []))[1].append(part)


@contextmanager
def told_together() -> Iterator[None]:
    """Keep what is told of blocks, and say it of all of them at the end."""
    if _pending.get() is not None:  # part of a larger call
        yield
        return
    pending: dict[Hashable, tuple[Say, list[Any]]] = {}
    token = _pending.set(pending)
    try:
        yield
    finally:
        _pending.reset(token)
    for say, parts in pending.values():
        say(parts)


@contextmanager
def told_once(*topics: Topic) -> Iterator[None]:
    """Say what is told of these topics once, at the end, whatever calls it is told by."""
    if set(topics) <= _gathered.get()[0]:  # part of a larger call
        yield
        return
    gathered: dict[Hashable, tuple[Say, list[Any]]] = {}
    token = _gathered.set((frozenset(topics), gathered))
    try:
        yield
    finally:
        _gathered.reset(token)
    for say, parts in gathered.values():
        say(parts)


@contextmanager
def untold(*topics: Topic) -> Iterator[None]:
    """Say nothing of these, or of anything if none is named: the caller does."""
    token = _hidden.set(_hidden.get().union(topics or get_args(Topic)))
    try:
        yield
    finally:
        _hidden.reset(token)


def levels_to_caller() -> int:
    """Count the frames up to the first that is not of this package, for a warning."""
    level, frame = 0, sys._getframe()
    while frame.f_back is not None and _is_ours(frame):
        level, frame = level + 1, frame.f_back
    return level


def _is_ours(frame: FrameType) -> bool:
    file = frame.f_code.co_filename
    return file == contextlib.__file__ or PACKAGE in Path(file).parents
