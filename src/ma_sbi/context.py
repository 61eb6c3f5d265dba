"""Context in the forms that users have: texts, labels, numbers, columns, missing entries.

A context has one entry per observation. Only this module decides which containers are
accepted and what counts as missing.
"""

from __future__ import annotations

from datetime import date
from typing import TYPE_CHECKING, Any, TypeAlias

import numpy as np
import pandas as pd
from pandas.api.types import is_datetime64_any_dtype

from ma_sbi.display.grouping import MISSING

if TYPE_CHECKING:
    from ma_sbi.protocols import Context

__all__ = [
    "Entries",
    "as_codes",
    "as_entries",
    "distinct",
    "in_days",
    "in_one_column",
    "is_missing",
    "match",
]

Entries: TypeAlias = "pd.Series | pd.DataFrame"


def as_entries(context: Context, num_rows: int | None = None) -> Entries:
    """Convert a context to a Series, or to a DataFrame if it has columns.

    Args:
        context: List, array, tensor, Series or DataFrame with one entry per observation;
            a bare string, number or None, or a dict of columns, stands for ``num_rows``
            equal entries.
        num_rows: Number of entries it must have.

    Raises:
        ValueError: If it is empty or its length is not ``num_rows``.

    Example:
        >>> list(as_entries("fast", num_rows=2))
        ['fast', 'fast']
    """
    entries = _tabulate(context, num_rows)
    if entries.size == 0:
        raise ValueError("context is empty: expected one entry per observation")
    if num_rows is not None and len(entries) != num_rows:
        raise ValueError(
            f"context must have one entry per observation: expected {num_rows}, "
            f"got {len(entries)}"
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
            f"context entries must be texts, labels or numbers: {error}"
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
        raise ValueError(f"{name} must not be missing, got {pd.isna(values).sum()} gaps")
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
    """Count dates of any form in days since 1970; leave everything else as it is."""
    if column.dtype == object and isinstance(column.dropna().head(1).squeeze(), date):
        column = pd.to_datetime(column)
    if is_datetime64_any_dtype(column):
        return (column - pd.Timestamp(0, tz=column.dt.tz)).dt.total_seconds() / 86_400
    return column


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
    table = pd.DataFrame(uniques).astype(object)
    values = table.mask(is_missing(table), MISSING).to_numpy(dtype=object)
    words = np.empty(len(values), dtype=object)
    for place, (row, gaps) in enumerate(zip(values, values == MISSING, strict=True)):
        several = len(row) > 1 and not gaps.all()
        words[place] = ", ".join(map(str, row)) if several else row[0]
    return words[codes]


def _tabulate(context: Context, num_rows: int | None) -> Entries:
    if isinstance(context, (pd.Series, pd.DataFrame)):
        return context.reset_index(drop=True)
    if hasattr(context, "detach"):  # a tensor; torch need not be imported to know
        context = context.detach().cpu().numpy()
    if isinstance(context, np.ndarray) and context.ndim > 0:
        if context.ndim > 2:
            raise ValueError(
                f"context must have one or two dimensions, got shape {context.shape}"
            )
        return pd.DataFrame(context) if context.ndim == 2 else pd.Series(context)
    if isinstance(context, dict):
        return pd.DataFrame([context] * (num_rows or 1))
    if context is None or np.ndim(context) == 0:
        return pd.Series([context] * (num_rows or 1), dtype=object)
    rows = list(context)
    if rows and isinstance(rows[0], (list, tuple, np.ndarray)):
        return pd.DataFrame(rows)
    return pd.Series(rows, dtype=object)
