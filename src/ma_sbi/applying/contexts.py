"""Cells of a table as entries of a context, of the types that calibration had.

A corrector may have been fitted to a table, to a list or to an array. A cell is the same
context as an entry of calibration if it is written as that entry is.
"""

from __future__ import annotations

from datetime import date, datetime
from typing import Any, Literal

import numpy as np
import pandas as pd
from pandas.api.types import infer_dtype

from ma_sbi.checking.cells import read_numbers
from ma_sbi.context import OBJECT, is_missing

__all__ = ["ReadAs", "read_as", "read_like"]

ReadAs = Literal["number", "label", "date", "span"]
# By what pandas calls a column; all others are labels.
KINDS: dict[str, ReadAs] = {
    "integer": "number",
    "floating": "number",
    "mixed-integer-float": "number",
    "date": "date",
    "datetime": "date",
    "datetime64": "date",
    "timedelta": "span",
    "timedelta64": "span",
}


def read_as(known: pd.Series) -> ReadAs:
    """Tell what the entries of a column are: numbers, labels, dates or spans of time.

    Example:
        >>> read_as(pd.Series([1, None, 2.5], dtype=object))
        'number'
        >>> read_as(pd.Series([True, False]))
        'label'
    """
    return KINDS.get(infer_dtype(_there(known), skipna=True), "label")


def read_like(cells: pd.Series, known: pd.Series, how: ReadAs) -> pd.Series:
    """Read a column of a table; what cannot be read is missing.

    Args:
        cells: Of the column.
        known: The different entries that calibration had.
        how: What these are.
    """
    cells = cells.astype(OBJECT).where(~is_missing(cells), None)
    if how == "number":
        numbers = read_numbers(cells)
        return pd.Series(np.where(np.isfinite(numbers), numbers, np.nan))
    there = _there(known)
    if how == "date":
        return _as_dates(cells, there.iloc[0])
    if how == "span":
        # A number has no unit.
        spans = cells.where(~np.isfinite(read_numbers(cells)), None)
        return pd.to_timedelta(spans, errors="coerce")
    # A text that calibration had is that text, and else the label that it is written as.
    back = {str(one): one for one in sorted(there, key=lambda one: isinstance(one, str))}

    def read(cell: Any) -> Any:
        text = str(cell)
        return back.get(text, back.get(text.strip(), text.strip()))

    labels = [None if one is None else read(one) for one in cells]
    return pd.Series(labels, dtype=object)


def _as_dates(cells: pd.Series, one: Any) -> pd.Series:
    """Read dates in the form of one that is known; texts are ISO 8601.

    In other forms the month and the day may change places.
    """
    dates = [cell if isinstance(cell, (str, date)) else None for cell in cells]
    moments = pd.to_datetime(
        pd.Series(dates, dtype=object), errors="coerce", format="ISO8601", utc=True
    )
    zone = getattr(one, "tzinfo", None)
    moments = moments.dt.tz_convert(zone)
    return moments if isinstance(one, datetime) else moments.dt.date


def _there(column: pd.Series) -> pd.Series:
    """Leave out what is missing, as objects of Python."""
    return column[~is_missing(column)].astype(OBJECT)
