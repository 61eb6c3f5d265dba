"""Context in the forms that users have: texts, labels, numbers, columns, missing entries.

A context has one entry per observation. Only this module decides which containers are
accepted and what counts as missing.
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from datetime import date, timedelta
from typing import TYPE_CHECKING, Any, TypeAlias

import numpy as np
import pandas as pd
from pandas.api.types import is_datetime64_any_dtype, is_scalar, is_timedelta64_dtype

from ma_sbi.display.grouping import MISSING
from ma_sbi.display.text import shorten

if TYPE_CHECKING:
    from ma_sbi.protocols import Context

__all__ = [
    "OBJECT",
    "Entries",
    "as_codes",
    "as_entries",
    "distinct",
    "in_days",
    "in_form_of",
    "in_one_column",
    "is_missing",
    "match",
    "spelling",
]

Entries: TypeAlias = pd.Series | pd.DataFrame
# For a class in its place pandas changes the filters of warnings, which threads share.
OBJECT = np.dtype(object)


def as_entries(context: Context, num_rows: int | None = None, hint: str = "") -> Entries:
    """Convert a context to a Series, or to a DataFrame if it has columns.

    Args:
        context: List, array, tensor, Series or DataFrame with one entry per observation,
            or a dict of such columns. A bare string, number or None, or a dict with one
            value per column, stands for ``num_rows`` equal entries. Of one observation, a
            tuple or a row of a DataFrame holds the columns.
        num_rows: Number of entries it must have.
        hint: What to do if it has another number of them.

    Raises:
        ValueError: If it is empty or its length is not ``num_rows``.

    Example:
        >>> list(as_entries("fast", num_rows=2))
        ['fast', 'fast']
        >>> as_entries(("fast", 3), num_rows=1).shape
        (1, 2)
    """
    entries = _tabulate(context, num_rows)
    if entries.size == 0:
        raise ValueError("context is empty: pass one entry per observation")
    if num_rows is not None and len(entries) != num_rows:
        for_all = "one that holds for all is a bare text or number, or a dict of columns"
        for_one = "several columns of one observation are a tuple or a dict"
        raise ValueError(
            f"context must have one entry per observation: expected {num_rows}, got "
            f"{len(entries)}; {hint or (for_one if num_rows == 1 else for_all)}"
        )
    return entries


def distinct(entries: Entries) -> tuple[Entries, np.ndarray]:
    """Find the different entries and which of them each row holds.

    Returns:
        The distinct entries in order of appearance, and a code per row, shape ``(n,)``,
        such that ``distinct[codes]`` is the original. Linear in n.
    """
    try:
        if isinstance(entries, pd.DataFrame):
            columns = list(entries.columns)
            groups = entries.groupby(columns, dropna=False, sort=False)
            first = entries.drop_duplicates().reset_index(drop=True)
            return first, groups.ngroup().to_numpy(copy=True)
        codes, uniques = pd.factorize(entries, use_na_sentinel=False)
    except TypeError as error:
        raise ValueError(
            f"context entries must be texts, labels or numbers ({error}): give several of "
            "one observation as columns of a table"
        ) from error
    return pd.Series(uniques, dtype=entries.dtype), codes


def match(known: Entries, new: Entries) -> np.ndarray:
    """Find each new entry among distinct known ones.

    Returns:
        Its position among them, shape ``(n,)``; for one that is not there, a number
        beyond them, the same for the same entry.

    Example:
        >>> match(pd.Series(["fast", "slow"]), pd.Series(["slow", "odd"])).tolist()
        [1, 2]
    """
    both: Any = [known, new]
    return distinct(pd.concat(both, ignore_index=True))[1][len(known) :]


def in_form_of(known: Entries, entries: Entries) -> Entries:
    """Bring contexts into the form of known ones: columns by their names, in their order.

    Raises:
        ValueError: If they lack a column, or have several in place of one.

    Example:
        >>> known = pd.DataFrame({"note": ["high"], "load": [3]})
        >>> list(in_form_of(known, pd.DataFrame({"load": [4], "note": ["low"]})))
        ['note', 'load']
    """
    if isinstance(known, pd.Series):
        if isinstance(entries, pd.Series) or entries.shape[1] == 1:
            return entries if isinstance(entries, pd.Series) else entries.iloc[:, 0]
        raise ValueError(
            f"context has {entries.shape[1]} columns, and the corrector was fitted to "
            f"single entries, such as {shorten(repr(known.iloc[0]))}: pass one column"
        )
    names = ", ".join(map(shorten, known.columns[:8]))
    if isinstance(entries, pd.Series):
        if known.shape[1] == 1:
            return entries.to_frame(known.columns[0])
        if is_missing(entries).all():
            return pd.DataFrame({name: entries for name in known.columns})
        raise ValueError(
            f"context has single entries, such as {shorten(repr(entries.iloc[0]))}, and "
            f"the corrector was fitted to columns {names}: pass a table of these, or a "
            "dict for what holds for all"
        )
    are_named = any(isinstance(one, str) for one in entries)
    if not (are_named and known.columns.is_unique) and entries.shape[1] == known.shape[1]:
        return entries.set_axis(known.columns, axis=1)
    lacks = [shorten(one) for one in known.columns if one not in entries.columns]
    if lacks:
        raise ValueError(
            f"context lacks {', '.join(lacks)} of the columns that the corrector was "
            f"fitted to: pass {names}"
        )
    return entries[list(known.columns)]


def as_codes(values: Any, name: str, num_rows: int) -> np.ndarray:
    """Number the groups or times of rows in their sorted order, shape ``(num_rows,)``.

    Raises:
        ValueError: If there is not one for each row, or some are missing.

    Example:
        >>> as_codes(["b", "a", "b"], "groups", 3).tolist()
        [1, 0, 1]
    """
    values = np.asarray(values)
    if values.shape != (num_rows,):
        raise ValueError(
            f"{name} must have one entry per observation: expected {num_rows}, got "
            f"{'x'.join(map(str, values.shape)) or 'a single value'}"
        )
    if pd.isna(values).any():
        raise ValueError(
            f"{name} must not be missing, got {pd.isna(values).sum()} gaps: fill them, or "
            "leave these rows out"
        )
    return np.unique(values, return_inverse=True)[1]


def is_missing(values: Any) -> np.ndarray:
    """Tell which entries are missing: None, NaN, or a blank text.

    Example:
        >>> is_missing(["fast", "", None, float("nan"), 0.0]).tolist()
        [False, True, True, True, False]
    """
    # A list of mixed types must not become an array of strings.
    array = np.asarray(values, dtype=object if isinstance(values, list) else None)
    if array.dtype.kind in "fiub":
        return np.isnan(array) if array.dtype.kind == "f" else np.zeros(array.shape, bool)
    array = array.astype(object)
    blank = [isinstance(entry, str) and not entry.strip() for entry in array.flat]
    return pd.isna(array) | np.array(blank, dtype=bool).reshape(array.shape)


def in_days(column: pd.Series) -> pd.Series:
    """Count dates of any form in days since 1970, and spans of time in days.

    Everything else is left as it is.
    """
    first = column.dropna().head(1).squeeze() if column.dtype == object else None
    if isinstance(first, date):
        column = pd.to_datetime(column)
    elif isinstance(first, timedelta):
        column = pd.to_timedelta(column)
    if is_datetime64_any_dtype(column):
        column = column - pd.Timestamp(0, tz=column.dt.tz)
    return column.dt.total_seconds() / 86_400 if is_timedelta64_dtype(column) else column


def spelling(entry: object) -> str:
    """Return what is left of an entry without case, spaces and ways to write a number.

    Example:
        >>> spelling("9"), spelling(9.0), spelling(" Calm")
        ('9.0', '9.0', 'calm')
    """
    text = " ".join(str(entry).casefold().split())
    try:
        return str(float(text))
    except ValueError:
        return text


def in_one_column(entries: Entries) -> np.ndarray:
    """Write each entry as one value, to be shown: the columns of a table as one text.

    Returns:
        Shape ``(n,)``; :data:`~ma_sbi.display.grouping.MISSING` where nothing is known.

    Example:
        >>> table = pd.DataFrame({"day": ["dry", None], "dose": [1.5, np.nan]})
        >>> in_one_column(table).tolist()
        ['dry, 1.5', '(missing)']
    """
    uniques, codes = distinct(entries)
    table = pd.DataFrame(uniques).astype(OBJECT)
    values = table.mask(is_missing(table), MISSING).to_numpy(dtype=object)
    words = np.empty(len(values), dtype=object)
    for place, (row, gaps) in enumerate(zip(values, values == MISSING, strict=True)):
        several = len(row) > 1 and not gaps.all()
        words[place] = ", ".join(map(str, row)) if several else row[0]
    return words[codes]


def _tabulate(context: Context, num_rows: int | None) -> Entries:
    detach = getattr(context, "detach", None)
    if callable(detach):  # a tensor; torch need not be imported to know
        context = detach().cpu().numpy()
    if isinstance(context, np.ndarray) and context.ndim == 0:
        context = context.item()
    if num_rows == 1 and _is_row(context):
        context = dict(context) if isinstance(context, pd.Series) else [context]
    if isinstance(context, (pd.Series, pd.DataFrame)):
        return context.reset_index(drop=True)
    if isinstance(context, np.ndarray):
        if context.ndim > 2:
            raise ValueError(
                f"context must have one or two dimensions, got shape {context.shape}"
            )
        return pd.DataFrame(context) if context.ndim == 2 else pd.Series(context)
    if isinstance(context, Mapping):
        columns = dict(context)
        if all(is_scalar(value) for value in columns.values()):
            return pd.DataFrame([columns] * (num_rows or 1))
        return _table_of(columns)
    if isinstance(context, (set, frozenset)):
        raise ValueError("context must have an order, and a set has none: pass a list")
    if not isinstance(context, Iterable) or isinstance(context, (str, bytes)):
        return pd.Series([context] * (num_rows or 1), dtype=object)
    rows = list(context)
    if rows and isinstance(rows[0], (list, tuple, np.ndarray, Mapping)):
        return _table_of(rows)
    return pd.Series(rows, dtype=object)


def _is_row(context: Any) -> bool:
    """Tell whether it is one entry with several columns."""
    if isinstance(context, pd.Series):
        return len(context) > 1 and all(isinstance(name, str) for name in context.index)
    return isinstance(context, tuple) and len(context) > 1 and all(map(is_scalar, context))


def _table_of(parts: Any) -> pd.DataFrame:
    """Make a table of columns by their names, or of rows."""
    if not isinstance(parts, dict) and not isinstance(parts[0], Mapping):
        lengths = {len(row) for row in parts}
        if len(lengths) > 1:
            raise ValueError(
                "context has rows of different lengths, "
                f"{min(lengths)} and {max(lengths)}: pass the same columns in each, None "
                "where one is missing"
            )
    try:
        return pd.DataFrame(parts)
    except (ValueError, AttributeError, TypeError) as error:
        raise ValueError(
            f"context cannot be read as a table ({error}): pass one list per column, all "
            "of the same length"
        ) from error
