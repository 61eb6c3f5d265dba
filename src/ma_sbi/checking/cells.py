"""What the cells of a file mean: numbers of x, and entries of a context.

Columns of x are numbers in any spelling. A column of a context is numbers only if one way
of writing numbers gives every cell back as it stands: ``007`` and ``7``, ``1.10`` and
``1.1``, and long ids, which numbers would merge, are labels.
"""

from __future__ import annotations

import math
import re
from collections.abc import Callable, Iterator, Sequence
from datetime import date
from decimal import Decimal
from typing import Any, Literal, NamedTuple

import numpy as np
import pandas as pd

from ma_sbi.context import is_missing
from ma_sbi.display.text import shorten
from ma_sbi.doubles import KINDS, as_doubles

__all__ = [
    "How",
    "Read",
    "about_comma",
    "as_column",
    "as_x",
    "cell_in_words",
    "check_labels",
    "read_numbers",
    "read_x",
]

How = Literal["number", "label"]
NUMBER = re.compile(r"[+-]?([0-9]+(\.[0-9]*)?|\.[0-9]+)([eE][+-]?[0-9]+)?")
DECIMAL_COMMA = re.compile(
    r"[+-]?([0-9]*|[0-9]{1,3}([. ][0-9]{3})+),[0-9]+([eE][+-]?[0-9]+)?"
)
THOUSANDS = re.compile(r"[+-]?[0-9]{1,3},[0-9]{3}")
TEXT = "OUT"
# Integers up to which every one is a number of double precision.
MOST_EXACT = 2**53


class Read(NamedTuple):
    """A column of a context.

    Attributes:
        entries: Numbers, labels or dates; missing ones are None or NaN.
        note: Why what looks like numbers is labels; empty otherwise.
    """

    entries: pd.Series
    note: str = ""


def as_x(values: Any, name: str) -> np.ndarray:
    """Convert a column, or an array, to a finite matrix of float64.

    Raises:
        ValueError: If something is no finite number, with its row.
    """
    array, numbers = read_x(values, name)
    bad = ~np.isfinite(numbers)
    if bad.any():
        row, column = (int(one) for one in np.argwhere(bad)[0])
        raise ValueError(
            f"{shorten(name)} must hold finite numbers, got "
            f"{cell_in_words(array[row, column])} in row {row} ({bad.any(axis=1).sum()} of "
            f"{len(array)} rows; the first row is 0){_and(about_comma(array[row, column]))}"
        )
    return numbers


def read_x(values: Any, name: str) -> tuple[np.ndarray, np.ndarray]:
    """Return cells as a matrix, and their numbers; NaN or infinite where one is none.

    Raises:
        ValueError: If it is no matrix, or of something else than numbers and texts.
    """
    shown = shorten(name)
    array = np.asarray(values)
    if array.dtype == object and array.ndim == 1 and len(array) and np.ndim(array[0]) == 1:
        array = _stack(array, shown)
    if array.ndim not in (1, 2) or array.size == 0:
        raise ValueError(
            f"{shown} must have one row per observation, got shape {array.shape}"
        )
    array = array.reshape(len(array), -1)
    try:
        numbers = as_doubles(array, shown)
    except ValueError:
        if array.dtype.kind not in TEXT:
            raise
        numbers = np.array([_as_number(one) for one in array.flat]).reshape(array.shape)
        if np.isfinite(numbers).all():
            raise
    return array, numbers


def as_column(values: np.ndarray, name: str, how: How | None) -> Read:
    """Read a column of a context.

    Args:
        values: Its cells, shape ``(n,)``.
        name: Its name in messages.
        how: Whether the user says that it is numbers, or labels.

    Raises:
        ValueError: If a cell is no text, number or date, or no number where it must be.
    """
    check_labels(values, name)
    is_date = values.dtype.kind == "M"
    if is_date and how is None:
        return Read(pd.Series(values))
    # As objects of Python, of which integers are of any size.
    cells = values if is_date else [_without_blanks(one) for one in values.tolist()]
    entries = pd.Series(cells, dtype=object)
    there = ~is_missing(entries)
    entries = entries.where(there, None)
    if how == "number":
        return Read(_as_numbers(entries, there, name))
    if how == "label":
        return Read(entries.where(~there, entries.map(str, na_action="ignore")))
    if values.dtype.kind in "fiub":
        return Read(pd.Series(values))
    known = list(dict.fromkeys(entries[there]))
    if known and all(type(one) is int and abs(one) <= MOST_EXACT for one in known):
        return Read(entries.astype(np.float64))
    if known and all(type(one) in (int, Decimal) for one in known):
        known = list(map(str, known))
        entries = entries.where(~there, entries.map(str, na_action="ignore"))
    if not all(isinstance(one, str) for one in known):
        return Read(entries)
    if known and _are_written_alike(known):
        return Read(entries.map({one: float(one) for one in known}).astype(np.float64))
    return Read(entries, _why_labels(known, name))


def _without_blanks(cell: Any) -> Any:
    """Strip a text of the blanks around it, which nobody sees in a table."""
    return cell.strip() if isinstance(cell, str) else cell


def check_labels(values: np.ndarray, name: str) -> None:
    """Check that every cell is a text, a number, a date, or missing.

    Raises:
        ValueError: If one is a list, a record or a complex number.
    """
    kind = values.dtype.kind
    if kind in KINDS and kind != "M":
        raise ValueError(
            f"{shorten(name)} must hold texts or numbers, got {KINDS[values.dtype.kind]}"
        )
    known = (str, bool, int, float, np.generic, Decimal, date, type(None), type(pd.NA))
    for row, one in enumerate(values if kind == "O" else ()):
        if not isinstance(one, known) and one is not pd.NaT:
            raise ValueError(
                f"{shorten(name)} must hold texts or numbers, got a "
                f"{type(one).__name__} in row {row}"
            )


def _are_written_alike(texts: Sequence[str]) -> bool:
    """Tell whether one way of writing numbers gives all these different texts back."""
    if not all(map(NUMBER.fullmatch, texts)):
        return False
    numbers = [float(one) for one in texts]
    # 0 and -0 are written differently and are the same.
    if not all(map(math.isfinite, numbers)) or len(set(numbers)) < len(numbers):
        return False
    return any(
        all(write(one) == text for one, text in zip(numbers, texts, strict=True))
        for write in _ways_like(texts[0])
    )


def _ways_like(text: str) -> Iterator[Callable[[float], str]]:
    """Yield ways of writing numbers: those of languages, and with a text's decimals."""
    yield lambda number: repr(number).removesuffix(".0")
    yield repr
    yield lambda number: format(number, "g")
    yield _as_in_r
    digits = re.fullmatch(r"-?[0-9]+(?:\.([0-9]+))?(?:([eE])[-+]?[0-9]+)?", text)
    if digits is not None:
        form = f".{len(digits[1] or '')}{digits[2] or 'f'}"
        # Without decimals only the shortest: long ids are no numbers.
        if digits[1] or digits[2]:
            yield lambda number: format(number, form)


def _as_in_r(number: float) -> str:
    """Write a number with an exponent where that is shorter: 50000, 1e+05."""
    exact = Decimal(repr(number)).normalize()
    digits = "".join(map(str, exact.as_tuple().digits))
    power = f"{exact.adjusted():+03d}"
    point = "." if len(digits) > 1 else ""
    with_exponent = f"{'-' * (number < 0)}{digits[0]}{point}{digits[1:]}e{power}"
    return min(format(exact, "f"), with_exponent, key=len)


def _why_labels(texts: Sequence[str], name: str) -> str:
    """Say why a column is labels although most of its cells look like numbers."""
    looks = [NUMBER.fullmatch(one.strip()) is not None for one in texts]
    commas = [one for one in texts if about_comma(one)]
    if not texts or 2 * (sum(looks) + len(commas)) < len(looks):
        return ""
    begin = f"{shorten(name)} is read as labels, not as numbers: "
    if commas:
        return f"{begin}{cell_in_words(commas[0])} is no number ({about_comma(commas[0])})."
    option = f"; --number {shorten(name)} reads numbers"
    if not all(looks):
        other = shorten(repr(texts[looks.index(False)]))
        return f"{begin}{other} is no number (leave a cell empty if it is missing){option}."
    odd = next((one for one in texts if not _are_written_alike([one])), None)
    if odd is not None:
        return f"{begin}{shorten(repr(odd))} is not how a number is written{option}."
    known: dict[float, str] = {}
    for one in texts:
        other = known.setdefault(float(one), one)
        if other is not one:
            return f"{begin}{other!r} and {one!r} would be the same{option}."
    return f"{begin}its cells are written in different ways{option}."


def _as_numbers(entries: pd.Series, there: np.ndarray, name: str) -> pd.Series:
    """Convert what the user calls numbers, in any spelling."""
    numbers = read_numbers(entries)
    bad = np.flatnonzero(there & ~np.isfinite(numbers))
    if len(bad):
        raise ValueError(
            f"--number names {shorten(name)}, and {cell_in_words(entries[bad[0]])} in row "
            f"{bad[0]} is no finite number ({len(bad)} of {len(entries)} rows; the first "
            f"row is 0){_and(about_comma(entries[bad[0]]))}; leave a cell empty if it is "
            "missing"
        )
    return pd.Series(numbers)


def read_numbers(entries: Any) -> np.ndarray:
    """Return the numbers of cells in any spelling, ``(n,)``; NaN where one is none."""
    return np.array([_as_number(one) for one in entries], dtype=np.float64)


def _as_number(cell: Any) -> float:
    if isinstance(cell, str) and not NUMBER.fullmatch(cell.strip()):
        return math.nan
    try:
        return float(cell)
    except (TypeError, ValueError, OverflowError):
        return math.nan


def about_comma(cell: Any) -> str:
    """Say how to write decimals, if a cell has a comma before them; or nothing.

    Example:
        >>> about_comma("19,9")
        'decimals need a point, not a comma'
        >>> about_comma("100,000")
        'write it without a comma: decimals need a point, thousands nothing'
        >>> about_comma("warm")
        ''
    """
    if not isinstance(cell, str) or not DECIMAL_COMMA.fullmatch(cell.strip()):
        return ""
    if THOUSANDS.fullmatch(cell.strip()):
        return "write it without a comma: decimals need a point, thousands nothing"
    return "decimals need a point, not a comma"


def _and(hint: str) -> str:
    return f"; {hint}" if hint else ""


def cell_in_words(cell: Any) -> str:
    """Write a cell in a sentence."""
    if is_missing([cell])[0]:
        return "NaN" if isinstance(cell, (float, np.floating)) else "an empty cell"
    if isinstance(cell, (float, np.floating)):
        return "an infinite number"
    return shorten(repr(cell[:200] if isinstance(cell, str) else cell), 40)


def _stack(lists: np.ndarray, name: str) -> np.ndarray:
    lengths = {np.size(one) for one in lists}
    if len(lengths) > 1:
        raise ValueError(
            f"the lists in {name} have different lengths: {sorted(lengths)[:5]}"
        )
    return np.stack([np.asarray(one) for one in lists])
