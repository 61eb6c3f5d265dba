"""Rows by their context: the most frequent ones by name, all others as one entry."""

from __future__ import annotations

from collections.abc import Sequence
from typing import NamedTuple

import numpy as np
import pandas as pd

from ma_sbi.display.text import shorten_apart

__all__ = ["MISSING", "Group", "labels", "most_frequent"]

MISSING = "(missing)"
"""Stands for a context that is missing."""


class Group(NamedTuple):
    """Rows that are shown as one entry.

    Attributes:
        name: Their context; how many there are, if there are several.
        rows: Positions of the rows.
    """

    name: str
    rows: np.ndarray


def labels(groups: Sequence[Group], most: int = 44) -> list[str]:
    """Write the names, shortened, with the numbers of rows."""
    names = shorten_apart([group.name for group in groups], most)
    return [
        f"{name} (n = {len(group.rows):,})"
        for name, group in zip(names, groups, strict=True)
    ]


def most_frequent(contexts: np.ndarray, most: int) -> list[Group]:
    """Group rows by context, the most frequent first, and all rarer ones together.

    Rows without a context have an entry of their own, however few they are.

    Args:
        contexts: One entry per row, shape ``(n,)``; :data:`MISSING` where there is none.
        most: Most entries by name, besides the missing one and that of all others.

    Example:
        >>> labels(most_frequent(np.array([*"aaabbcd"], dtype=object), most=2))
        ['a (n = 3)', 'b (n = 2)', '2 other contexts (n = 2)']
    """
    codes, known = pd.factorize(np.asarray(contexts, dtype=object), use_na_sentinel=False)
    order = np.argsort(-np.bincount(codes), kind="stable")
    is_missing = np.array([known[code] == MISSING for code in order], dtype=bool)
    named = order[~is_missing]
    # One context alone is named, not counted.
    shown = named if len(named) == most + 1 else named[:most]
    groups = [Group(str(known[code]), np.flatnonzero(codes == code)) for code in shown]
    rest = named[len(shown) :]
    if len(rest):
        rows = np.flatnonzero(np.isin(codes, rest))
        groups.append(Group(f"{len(rest):,} other contexts", rows))
    for code in order[is_missing]:
        groups.append(Group(MISSING, np.flatnonzero(codes == code)))
    return groups
