"""Cells of a table that cannot be read, and what to write in their place."""

from __future__ import annotations

import re
from collections.abc import Iterable
from typing import Any, NamedTuple

import numpy as np

from ma_sbi.applying.contexts import ReadAs
from ma_sbi.checking.cells import about_comma, cell_in_words, read_numbers
from ma_sbi.context import is_missing
from ma_sbi.display.text import shorten

__all__ = ["Unread", "all_unread", "find_unread", "in_sentences"]

# Columns that are named.
MOST_NAMED = 5
WITH_UNIT = re.compile(r"\s*[+-]?[0-9]+(\.[0-9]*)?(?![eExX_])\s*[^0-9.,\s]")
WANTED: dict[ReadAs, str] = {
    "number": "number",
    "label": "label",
    "date": "date",
    "span": "span of time",
}


class Unread(NamedTuple):
    """Cells of a column that cannot be read.

    Attributes:
        column: Its name.
        num_rows: How many rows have one.
        row: Number of the first in the table.
        first: What that holds, in words.
        wanted: What was expected.
        hint: What to write; or nothing.
    """

    column: str
    num_rows: int
    row: int
    first: str
    wanted: str
    hint: str

    def __str__(self) -> str:
        rows = "1 row" if self.num_rows == 1 else f"{self.num_rows:,} rows"
        hint = f": {self.hint}" if self.hint else ""
        return (
            f"Column {self.column} holds no {self.wanted} in {rows}, first {self.first} in "
            f"row {self.row} (the first row is 0){hint}."
        )


def find_unread(
    cells: Any, is_read: np.ndarray, name: str, first: int, how: ReadAs
) -> list[Unread]:
    """Find the cells of a block that could not be read, of one column.

    Args:
        cells: Shape ``(n,)`` or ``(n, k)``.
        is_read: Which could be, of the same shape.
        name: Of the column.
        first: Number of the first row of the block.
        how: What was expected.

    Returns:
        Nothing, or one entry.
    """
    if is_read.all():
        return []
    place = tuple(np.argwhere(~is_read)[0])
    cell = np.asarray(cells, dtype=object)[place]
    num = int((~is_read.reshape(len(is_read), -1)).any(axis=1).sum())
    row, wanted = first + int(place[0]), WANTED[how]
    return [Unread(shorten(name), num, row, cell_in_words(cell), wanted, _hint(cell, how))]


def all_unread(blocks: Iterable[Iterable[Unread]]) -> list[Unread]:
    """Join what could not be read in the blocks of a table, in their order."""
    columns: dict[str, Unread] = {}
    for one in (one for block in blocks for one in block):
        known = columns.get(one.column, one._replace(num_rows=0))
        columns[one.column] = known._replace(num_rows=known.num_rows + one.num_rows)
    return list(columns.values())


def in_sentences(unread: list[Unread]) -> list[str]:
    """Say of each column what could not be read, of a few at most."""
    said = [str(one) for one in unread[:MOST_NAMED]]
    if len(unread) > MOST_NAMED:
        said.append(
            f"There are such cells in {len(unread) - MOST_NAMED} other columns, too."
        )
    return said


def _hint(cell: Any, how: ReadAs) -> str:
    if how == "date":
        return "write dates as 2024-04-03"
    if how == "span":
        return "write spans of time as '5 days'"
    if is_missing([cell])[0]:
        return ""
    if np.isfinite(read_numbers([cell])).all():
        return "it is too large, use another unit"
    if comma := about_comma(cell):
        return comma
    if isinstance(cell, str) and WITH_UNIT.match(cell):
        return "write the number alone, without a unit"
    return "write a number, or nothing where it is missing"
