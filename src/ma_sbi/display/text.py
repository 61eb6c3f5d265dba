"""Text that came from outside, made safe to print."""

from __future__ import annotations

from typing import Any

__all__ = ["printable", "shorten"]


def printable(text: str) -> str:
    """Replace control characters, which a terminal would obey."""
    return "".join(one if one.isprintable() or one == "\n" else "\ufffd" for one in text)


def shorten(value: Any, most: int = 60) -> str:
    """Write a name or a cell on one line, without control characters, and not too long.

    Example:
        >>> shorten("the sensor reads high", most=18)
        'the sensor reads…'
    """
    text = str(value)
    # A cell may be huge: only what may be shown is looked at.
    words = printable(" ".join(text[: 4 * most].split()))
    is_cut = len(words) > most or len(text) > 4 * most
    return f"{words[: most - 1].rstrip()}…" if is_cut else words
