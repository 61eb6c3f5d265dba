"""What the user passes as numbers, in double precision, or a sentence why it is none.

Nothing is converted that would mean something else: the imaginary part of a complex number,
the unit of a date and what a mask hides have no place in a double.
"""

from __future__ import annotations

from decimal import Decimal, InvalidOperation
from fractions import Fraction
from numbers import Real
from typing import Any

import numpy as np

from ma_sbi.display.text import shorten

__all__ = ["as_doubles"]

KINDS = {
    "c": "complex numbers",
    "m": "spans of time",
    "M": "dates",
    "V": "records",
}
TEXTS = (str, bytes)
# The most frequent first: the others are slow to tell.
SCALARS = (*TEXTS, float, int, np.bool_, Decimal, Fraction, Real)


def as_doubles(values: Any, name: str) -> np.ndarray:
    """Convert numbers, or texts of numbers, to float64.

    What is missing (None, NaN) becomes NaN. Booleans are 0 and 1.

    Args:
        values: Array, table or nested list, of any shape.
        name: Its name in error messages.

    Raises:
        ValueError: If something is no number, or numbers that differ become the same.
    """
    if isinstance(values, np.ma.MaskedArray) and np.ma.is_masked(values):
        raise ValueError(f"{name} has masked entries: fill them, or leave their rows out")
    array = np.empty(0)
    try:
        array = np.asarray(values)
        if array.dtype.kind in KINDS:
            raise ValueError(f"got {KINDS[array.dtype.kind]}")
        if array.dtype.kind == "O":
            array = _numbers_of(array)
        with np.errstate(over="ignore"):
            doubles = array.astype(np.float64)
    except (TypeError, ValueError, OverflowError) as error:
        word = next((one for one in np.ravel(array) if _is_word(one)), None)
        if word is not None:
            raise ValueError(
                f"{name} must hold numbers, got {shorten(repr(str(word)))}: texts belong "
                "to the context"
            ) from error
        raise ValueError(f"{name} must hold numbers: {shorten(error, 120)}") from error
    _check_told_apart(array, doubles, name)
    return doubles


def _is_word(value: Any) -> bool:
    """Tell whether it is a text that is no number."""
    if not isinstance(value, str):
        return False
    try:
        float(value)
    except ValueError:
        return True
    return False


def _numbers_of(array: np.ndarray) -> np.ndarray:
    """Check that objects are numbers; None where one is missing."""
    numbers = array.copy()
    for place, one in enumerate(array.flat):
        if one is None or type(one).__name__ == "NAType":
            numbers.flat[place] = None
        elif not isinstance(one, SCALARS) or isinstance(one, np.timedelta64):
            raise ValueError(f"got {shorten(repr(one))} of type {type(one).__name__}")
    return numbers


def _check_told_apart(array: np.ndarray, doubles: np.ndarray, name: str) -> None:
    """Refuse a column whose numbers differ, but by less than doubles can tell."""
    is_exact = array.dtype.kind in "fb" and array.dtype.itemsize <= 8
    if is_exact or doubles.ndim == 0 or doubles.size == 0:
        return
    columns, before = (one.reshape(len(one), -1) for one in (doubles, array))
    same = (columns == columns[:1]).all(axis=0) & (before != before[:1]).any(axis=0)
    for place in same.nonzero()[0]:
        first, *others = dict.fromkeys(_exact(one) for one in before[:, place])
        if others:
            raise ValueError(
                f"{name} has numbers that double precision cannot tell apart, such as "
                f"{shorten(first)} and {shorten(others[0])}: subtract a constant from that "
                "column first"
            )


def _exact(value: Any) -> Any:
    """Return a number without rounding, so that 1 and 1.0 are the same."""
    if isinstance(value, bytes):
        value = value.decode("ascii", "replace")
    try:
        return Decimal(value.strip()) if isinstance(value, str) else value
    except InvalidOperation:
        return float(value)
