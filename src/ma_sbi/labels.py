"""Rows and columns of pandas tables, matched by their names or refused.

What is no table (a tensor, an array, a list) has no names: its rows and columns count by
their order.
"""

from __future__ import annotations

import warnings
from collections.abc import Mapping
from typing import Any

import pandas as pd

from ma_sbi.display.text import shorten
from ma_sbi.telling import levels_to_caller

__all__ = ["column_names", "in_columns", "match_columns", "match_rows", "match_table"]


def match_rows(**given: Any) -> tuple[Any, ...]:
    """Put rows of tables into the order of the first of them, by their labels.

    Args:
        given: What has one entry per row, by its name in messages; None is left out, and
            so is what has another number of rows, which is refused elsewhere.

    Returns:
        All of them in the order of the call.

    Raises:
        ValueError: If two are tables whose labels are not the same.

    Example:
        >>> x = pd.DataFrame({"a": [1.0, 2.0]}, index=["mon", "tue"])
        >>> notes = pd.Series(["wet", "dry"], index=["tue", "mon"])
        >>> match_rows(x=x, context=notes)[1].tolist()
        ['dry', 'wet']
    """
    tables = {name: _as_table(one) for name, one in given.items()}
    labelled = {n: one for n, one in tables.items() if _labels(one, "index") is not None}
    if len(labelled) < 2:
        return tuple(given.values())
    first = next(iter(labelled))
    for name, one in labelled.items():
        tables[name] = _match(first, labelled[first], name, one, axis=0)
    return tuple(tables.values())


def match_columns(x_obs: Any, other: Any, name: str) -> Any:
    """Put the columns of one table into the order of x_obs, by their names.

    Raises:
        ValueError: If both are tables whose columns have other names.
    """
    return _match("x_obs", x_obs, name, other, axis=1)


def match_table(x_obs: Any, x_sim: Any) -> Any:
    """Put rows and columns of x_sim into the order of x_obs, by their names.

    Raises:
        ValueError: If both are tables whose names are not the same.
    """
    return match_columns(x_obs, match_rows(x_obs=x_obs, x_sim=x_sim)[1], "x_sim")


def column_names(x: Any) -> tuple[str, ...] | None:
    """Return the names of the columns of a table; None if it is none."""
    return tuple(map(str, x.columns)) if isinstance(x, pd.DataFrame) else None


def in_columns(names: tuple[str, ...] | None, x: Any, dim: int | None) -> Any:
    """Put the columns of x into the order of those that were fitted to, by their names.

    Args:
        names: Those of the fit; None if it had no names.
        x: Observations. A Series is one of them, its labels are columns, unless ``dim`` is
            one.
        dim: Number of columns, if it is known.

    Raises:
        ValueError: If x is a table whose columns have other names.
    """
    is_row = isinstance(x, pd.Series) and dim != 1
    if is_row:
        x = pd.DataFrame([x.to_numpy()], columns=x.index)
    found = column_names(x)
    if names is not None and found is not None and len(found) == len(names) != 0:
        if set(found) != set(names) or (found != names and len(set(names)) < len(names)):
            other = next((one for one in found if one not in names), found[0])
            raise ValueError(
                f"columns of x have other names than those that the corrector was fitted "
                f"to (x has {other[:40]!r}, the fit {', '.join(names)[:80]}): rename them, "
                "or pass .to_numpy() if they are in the same order"
            )
        if found != names:
            warnings.warn(
                "columns of x were put into the order of calibration "
                f"({shorten(', '.join(names), 80)}): corrections have that order, and the "
                "posterior must take it",
                stacklevel=levels_to_caller(),
            )
            x = x.iloc[:, [found.index(one) for one in names]]
    # A single row has no label to be matched by: that of a Series is its name, if any.
    return x.to_numpy() if is_row else x


def _as_table(one: Any) -> Any:
    """Make a table of columns that have labels."""
    if isinstance(one, Mapping) and any(isinstance(v, pd.Series) for v in one.values()):
        lengths = {len(value) for value in one.values() if isinstance(value, pd.Series)}
        if len(lengths) == 1 and not any(isinstance(v, Mapping) for v in one.values()):
            return pd.DataFrame(dict(one))
    return one


def _labels(table: Any, names: str) -> pd.Index | None:
    found = getattr(table, names, None)
    return found if isinstance(found, pd.Index) else None


def _match(first: str, table: Any, name: str, other: Any, axis: int) -> Any:
    """Bring the second table into the order of the first along an axis."""
    ours, theirs = (_labels(one, ("index", "columns")[axis]) for one in (table, other))
    if ours is None or theirs is None or len(ours) != len(theirs) or ours.equals(theirs):
        return other
    kind, cure = (
        ("rows", ".reset_index(drop=True)") if axis == 0 else ("columns", ".to_numpy()")
    )
    known = set(ours)
    if known != set(theirs):
        unknown = next((one for one in theirs if one not in known), theirs[0])
        raise ValueError(
            f"{kind} of {first} and {name} have different names ({name} has "
            f"{str(unknown)[:40]!r}), so they cannot be matched; rename them, or pass "
            f"{cure} if they are in the same order"
        )
    if not ours.is_unique:
        twice = ours[ours.duplicated()][0]
        raise ValueError(
            f"{kind} of {first} and {name} are in another order, and names repeat "
            f"({str(twice)[:40]!r}), so they cannot be matched; give each its own name, or "
            f"pass {cure} if they are in the same order"
        )
    return other.reindex(ours, axis=axis)
