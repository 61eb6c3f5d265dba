"""Readers of text tables that check them: whole, with the expected columns and numbers."""

from __future__ import annotations

import csv
import gzip
import io
import zlib
from collections.abc import Callable, Iterable
from pathlib import Path

import numpy as np
import pandas as pd

__all__ = [
    "as_dates",
    "as_numbers",
    "name_days",
    "read_text",
    "read_table",
    "require_columns",
]


def read_text(path: str | Path) -> str:
    """Read a whole text file, packed with gzip or not.

    Raises:
        FileNotFoundError: If there is no such file.
        ValueError: If it is damaged, cut off or not text.
    """
    path = Path(path)
    if not path.is_file():
        raise FileNotFoundError(f"there is no file {str(path)!r}")
    content = path.read_bytes()
    if path.suffix == ".gz":
        try:
            content = gzip.decompress(content)
        except (EOFError, OSError, zlib.error) as error:
            raise ValueError(f"{path.name} is damaged or cut off: {error}") from error
    try:
        return content.decode("utf-8-sig")
    except UnicodeDecodeError as error:
        raise ValueError(f"{path.name} must be UTF-8 text: {error}") from error


def read_table(
    path: str | Path,
    columns: Iterable[str],
    *,
    keep: Callable[[str], bool] | None = None,
) -> pd.DataFrame:
    """Read a comma-separated table as text.

    Args:
        path: The file, packed with gzip or not.
        columns: Columns that it must have.
        keep: Tells which columns are kept; only ``columns`` if None.

    Returns:
        The table, every entry a string as in the file.

    Raises:
        FileNotFoundError: If there is no such file.
        ValueError: If it is damaged, cut off or lacks a column.
    """
    path, columns = Path(path), list(columns)
    text = read_text(path)
    if not text.endswith("\n"):
        raise ValueError(
            f"{path.name} ends in the middle of line {text.count(chr(10)) + 1}: it was "
            "cut off"
        )
    lines = csv.reader(io.StringIO(text, newline=""))
    try:
        header = next(lines, [])
        require_columns(pd.DataFrame(columns=header), columns, path.name)
        wanted = [
            i for i, name in enumerate(header) if name in columns or (keep and keep(name))
        ]
        rows = []
        for line in lines:
            if len(line) != len(header):
                raise ValueError(
                    f"line {lines.line_num} of {path.name} must have {len(header)} "
                    f"fields like its header, got {len(line)}"
                )
            rows.append([line[i] for i in wanted])
    except csv.Error as error:
        raise ValueError(f"{path.name} is not a table: {error}") from error
    return pd.DataFrame(rows, columns=[header[i] for i in wanted], dtype=str)


def require_columns(table: pd.DataFrame, columns: Iterable[str], name: str) -> None:
    """Check that a table has the columns.

    Raises:
        ValueError: If it lacks one; the sentence says what was found.
    """
    lacking = [column for column in columns if column not in table]
    if lacking:
        found = [repr(str(column)) for column in table.columns]
        rest = f" and {len(found) - 12} more" if len(found) > 12 else ""
        raise ValueError(
            f"{name} must have the column {lacking[0]!r}, found "
            f"{', '.join(found[:12]) or 'none'}{rest}"
        )


def as_numbers(
    values: pd.Series, name: str, *, empty: bool = False, whole: bool = False
) -> pd.Series:
    """Turn texts into numbers.

    Args:
        values: Texts, or numbers already.
        name: What to call them in an error.
        empty: Whether an empty text is allowed; it becomes NaN.
        whole: Whether they must be whole numbers.

    Raises:
        ValueError: If one is not a number, or empty where it must not be.
    """
    numbers = pd.to_numeric(values, errors="coerce").astype(float)
    bad = ~np.isfinite(numbers)
    if empty:
        bad &= ~values.astype(str).str.strip().isin(["", "nan"])
    if whole:
        bad |= numbers.notna() & (numbers % 1 != 0)
    if bad.any():
        kind = "whole numbers" if whole else "numbers"
        raise ValueError(f"{name} must be {kind}, got {str(values[bad].iloc[0])!r}")
    return numbers


def as_dates(values: pd.Series | pd.Index, form: str, name: str) -> pd.DatetimeIndex:
    """Turn texts into dates of one form.

    Raises:
        ValueError: If one is not a date of that form.
    """
    dates = pd.DatetimeIndex(pd.to_datetime(values, format=form, errors="coerce"))
    if dates.hasnans:
        wrong = np.asarray(values)[dates.isna()][0]
        raise ValueError(f"{name} must be dates like {form}, got {wrong!r}")
    return dates


def name_days(days: pd.DatetimeIndex) -> str:
    """Say which days are meant.

    Example:
        >>> name_days(pd.DatetimeIndex(["2021-03-01", "2021-03-02"]))
        '2 days, 2021-03-01 to 2021-03-02'
        >>> name_days(pd.DatetimeIndex(["2021-03-01"]))
        '2021-03-01'
    """
    days = days.sort_values()
    if len(days) == 1:
        return f"{days[0]:%Y-%m-%d}"
    unbroken = (days[-1] - days[0]).days + 1 == len(days)
    return f"{len(days)} days, {days[0]:%Y-%m-%d} {'to' if unbroken else '...'} " + (
        f"{days[-1]:%Y-%m-%d}"
    )
