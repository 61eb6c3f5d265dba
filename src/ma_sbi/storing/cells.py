"""Columns of texts, labels, numbers, dates and spans of time as tensors, and back.

A label of a context may be anything that a cell of a table holds. It comes back with its
type: ``1``, ``1.0``, ``True`` and ``"1"`` are different.
"""

from __future__ import annotations

import re
from collections.abc import Callable, Sequence
from datetime import date, datetime, timedelta
from decimal import Decimal, InvalidOperation
from typing import Any, NamedTuple

import numpy as np
import pandas as pd
import torch
from torch import Tensor

__all__ = ["Cells", "from_numbers", "is_known_type", "pack_cells", "unpack_cells"]

# As tensors: types of numbers that a file holds.
NUMBERS = ("float64", "float32", "int64", "int32", "uint8", "bool")
OTHER_TYPES = re.compile(
    r"object|str|string|category|boolean|float16|Float(32|64)|u?int(8|16|32|64)|U?Int(8|16|32|64)"
)
DATES = re.compile(r"datetime64\[(s|ms|us|ns)(?:, ([\w/+:-]{1,60}))?\]")
SPANS = re.compile(r"timedelta64\[(s|ms|us|ns)\]")


class Cells(NamedTuple):
    """Cells of a column.

    Attributes:
        kinds: Which of the kinds each is, shape ``(n,)``.
        lengths: How many bytes each is written in, shape ``(n,)``.
        text: All of them, one after the other, in UTF-8.
    """

    kinds: Tensor
    lengths: Tensor
    text: Tensor


class Kind(NamedTuple):
    """A kind of cell: how to tell it, write it, and read it."""

    is_kind: Callable[[Any], bool]
    write: Callable[[Any], str]
    read: Callable[[str], Any]


def _constant(value: Any) -> Kind:
    return Kind(lambda one: one is value, lambda one: "", lambda text: value)


def _of(cls: Any, write: Callable[[Any], str], read: Callable[[str], Any]) -> Kind:
    return Kind(lambda one: isinstance(one, cls), write, read)


# The first that fits: True is an integer to Python, and a moment is a date.
KINDS = (
    _constant(None),
    _constant(pd.NaT),
    _constant(pd.NA),
    _of(str, str, str),
    _of(bool, lambda one: "1" if one else "", bool),
    _of(int, hex, lambda text: int(text, 16)),
    _of(float, float.hex, float.fromhex),
    _of(datetime, lambda one: pd.Timestamp(one).isoformat(), pd.Timestamp),
    _of(date, date.isoformat, date.fromisoformat),
    _of(Decimal, str, Decimal),
    _of(timedelta, lambda one: pd.Timedelta(one).isoformat(), pd.Timedelta),
)


def pack_cells(values: Sequence[Any]) -> Cells:
    """Write cells.

    Raises:
        ValueError: If one is no text, number, date or span of time.
    """
    kinds, parts = np.empty(len(values), dtype=np.uint8), []
    for row, value in enumerate(values):
        value = value.item() if isinstance(value, np.generic) else value
        place = next((i for i, kind in enumerate(KINDS) if kind.is_kind(value)), None)
        if place is None:
            raise ValueError(
                f"a context holds a {type(value).__name__}, and only texts, numbers, dates "
                "and spans of time are saved"
            )
        kinds[row] = place
        # What is no Unicode comes from file names, and is kept.
        parts.append(KINDS[place].write(value).encode("utf-8", "surrogatepass"))
    lengths = np.array([len(part) for part in parts], dtype=np.int64)
    text = np.frombuffer(b"".join(parts), dtype=np.uint8).copy()
    return Cells(*map(torch.from_numpy, (kinds, lengths, text)))


def unpack_cells(cells: Cells) -> np.ndarray:
    """Read cells, shape ``(n,)``.

    Raises:
        ValueError: If these are none.
    """
    kinds, lengths, text = cells
    types = (torch.uint8, torch.int64, torch.uint8)
    fits = (
        one.ndim == 1 and one.dtype == dtype
        for one, dtype in zip(cells, types, strict=True)
    )
    if not all(fits):
        raise ValueError("holds cells of another form")
    if len(kinds) != len(lengths) or bool(
        (lengths < 0).any() | (lengths > len(text)).any()
    ):
        raise ValueError("holds cells of other lengths than it says")
    if int(lengths.double().sum()) != len(text) or bool((kinds >= len(KINDS)).any()):
        raise ValueError("holds cells of other lengths, or of unknown kinds")
    written, values = text.numpy().tobytes(), np.empty(len(kinds), dtype=object)
    ends = lengths.cumsum(0).tolist()
    try:
        for row, (kind, start, end) in enumerate(
            zip(kinds.tolist(), [0, *ends], ends, strict=False)
        ):
            part = written[start:end].decode("utf-8", "surrogatepass")
            values[row] = KINDS[kind].read(part)
    except (ValueError, TypeError, OverflowError, InvalidOperation) as error:
        raise ValueError(f"holds a cell that cannot be read: {error}") from error
    return values


def is_known_type(dtype: str) -> bool:
    """Tell whether columns of this type can be kept."""
    forms = (OTHER_TYPES, DATES, SPANS)
    return dtype in NUMBERS or any(form.fullmatch(dtype) for form in forms)


def to_numbers(column: pd.Series) -> Tensor | None:
    """Return a column of numbers, or of dates or spans, as a tensor; else None."""
    if str(column.dtype) in NUMBERS:
        return torch.from_numpy(column.to_numpy(copy=True))
    if SPANS.fullmatch(str(column.dtype)):
        return torch.from_numpy(column.to_numpy().view(np.int64).copy())
    found = DATES.fullmatch(str(column.dtype))
    if found is None:
        return None
    plain = column.dt.tz_convert("UTC").dt.tz_localize(None) if found[2] else column
    return torch.from_numpy(
        plain.to_numpy().astype(f"M8[{found[1]}]").view(np.int64).copy()
    )


def from_numbers(numbers: Tensor, dtype: str) -> pd.Series:
    """Make a column of numbers, or of dates or spans from counts.

    Raises:
        ValueError: If they are of another type.
    """
    if numbers.ndim != 1:
        raise ValueError("holds a column that is none")
    if dtype in NUMBERS:
        column = pd.Series(numbers.numpy())
        if str(column.dtype) != dtype:
            raise ValueError(f"holds a column of {column.dtype} that should be {dtype}")
        return column
    spans, found = SPANS.fullmatch(dtype), DATES.fullmatch(dtype)
    if spans is not None and numbers.dtype == torch.int64:
        return pd.Series(numbers.numpy().view(f"m8[{spans[1]}]"))
    if found is None or numbers.dtype != torch.int64:
        raise ValueError("holds a column of dates or spans that are none")
    moments = pd.Series(numbers.numpy().view(f"M8[{found[1]}]"))
    try:
        return (
            moments.dt.tz_localize("UTC").dt.tz_convert(found[2]) if found[2] else moments
        )
    except (KeyError, ValueError, LookupError, OSError) as error:
        raise ValueError("holds dates of an unknown time zone") from error
