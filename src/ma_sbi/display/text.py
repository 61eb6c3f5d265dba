"""Text that came from outside, made safe to print."""

from __future__ import annotations

from collections.abc import Sequence
from os.path import commonprefix
from typing import Any

__all__ = ["printable", "shorten", "shorten_apart"]


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


def shorten_apart(values: Sequence[Any], most: int = 60) -> list[str]:
    """Write several names, long ones cut in the middle; different ones stay different.

    Example:
        >>> shorten_apart(["the sensor reads high", "the sensor reads low"], most=16)
        ['the sens…ds high', 'the sens…ads low']
        >>> shorten_apart(["no wind, 3 buoys of 7", "no wind, 4 buoys of 7"], most=12)
        ['…wind, 3 bu…', '…wind, 4 bu…']
    """
    names = [" ".join(str(value).split()) for value in values]
    short = [_cut_middle(name, most) for name in names]
    for one in {one for one in short if short.count(one) > 1}:
        same = [place for place, other in enumerate(short) if other == one]
        begin = len(commonprefix([names[place] for place in same])) - most // 2
        if begin > 0 and len({names[place] for place in same}) > 1:
            for place in same:
                short[place] = shorten("…" + names[place][begin:].lstrip(), most)
    return short


def _cut_middle(name: str, most: int) -> str:
    if len(name) <= most:
        return shorten(name, most)
    left = most // 2
    return printable(f"{name[:left].rstrip()}…{name[left + 1 - most :].lstrip()}")
