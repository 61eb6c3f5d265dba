"""Reading a file of observations: arrays in npz, columns in csv, tsv and parquet.

What is wrong with a file is reported in a sentence. Reading one cannot run code: arrays of
Python objects are refused, not unpickled.
"""

from __future__ import annotations

import difflib
import re
import warnings
import zipfile
import zlib
from collections.abc import Callable, Mapping, Sequence
from fnmatch import fnmatchcase
from functools import partial
from pathlib import Path
from typing import Any, NamedTuple

import numpy as np
import pandas as pd

from ma_sbi.context import is_missing
from ma_sbi.one_at_a_time import local_filters

__all__ = ["Observations", "read_observations"]

NUMBERS = ("x_obs", "x_sim", "theta")
# Columns that a message names.
MOST_LISTED = 20
INDEX = r"(?:[_.]?(\d+)|\[(\d+)\])"


class Observations(NamedTuple):
    """What a file holds, ready for :func:`ma_sbi.check`.

    Attributes:
        x_obs: Observations, shape ``(n, dim_x)``.
        context: A Series, or a DataFrame of several columns.
        x_sim: Simulations at the same inputs, or None.
        theta: True parameters, or None.
        groups: A label per row, or None.
        unused: Names of columns or arrays that nothing was taken from.
        named: What the caller's own names stand for, in words; empty if none were given.
    """

    x_obs: np.ndarray
    context: pd.Series | pd.DataFrame
    x_sim: np.ndarray | None
    theta: np.ndarray | None
    groups: np.ndarray | None
    unused: tuple[str, ...]
    named: str = ""


def read_observations(
    path: str | Path,
    *,
    context: Sequence[str] = (),
    groups: str | None = None,
    x_obs: Sequence[str] = (),
    x_sim: Sequence[str] = (),
    theta: Sequence[str] = (),
) -> Observations:
    """Read a file in the format that its name ends in.

    A name is that of a column, or of an array, several of them between commas, or a
    pattern such as ``*_meas``, whose columns are sorted by name.

    Args:
        path: A file that ends in .npz, .csv, .tsv or .parquet.
        context: Names of the columns that hold the context; ``context`` and all that begin
            with ``context_`` if none are given.
        groups: Name of the column of groups; ``groups`` or ``group`` if None.
        x_obs: Names of the observed columns; ``x_obs``, or numbered columns, if none.
        x_sim: Names of the simulated columns, in the same order; likewise.
        theta: Names of the columns of true parameters; likewise.

    Raises:
        ValueError: If the file cannot be read or does not hold what is needed.
    """
    path = Path(path)
    if not path.exists():
        raise ValueError(f"there is no file {path}")
    if path.is_dir():
        raise ValueError(f"{path} is a folder, expected a file")
    reader = READERS.get(path.suffix.lower())
    if reader is None:
        raise ValueError(
            f"{path.name} ends in {path.suffix or 'nothing'!r}; known are "
            f"{', '.join(READERS)}"
        )
    if path.stat().st_size == 0:
        raise ValueError(f"{path.name} is empty")
    own = {"x_obs": x_obs, "x_sim": x_sim, "theta": theta}
    held = reader(path)
    named = {name: _find(held, names, name) for name, names in own.items() if names}
    return _assemble(held, named, _find(held, context, "context"), groups)


def _read_npz(path: Path) -> dict[str, Any]:
    try:
        if not zipfile.is_zipfile(path):
            raise zipfile.BadZipFile
        archive = np.load(path, allow_pickle=False)
        with archive:
            return {name: _array(archive, name) for name in archive.files}
    except (zipfile.BadZipFile, zlib.error, EOFError, OSError) as error:
        raise ValueError(f"{path.name} is not an npz file, or is damaged") from error


def _array(archive: Any, name: str) -> np.ndarray:
    try:
        array = archive[name]
    except ValueError as error:
        if "pickle" not in str(error):
            raise ValueError(f"the array {name} cannot be read: {error}") from error
        raise ValueError(
            f"{name} is an array of Python objects, which only pickle could read, and "
            "pickle can run code; save texts as numpy.array(texts, dtype=str), numbers as "
            "floats"
        ) from error
    return np.char.decode(array, "utf-8") if array.dtype.kind == "S" else array


def _read_table(path: Path, separator: str, words: str) -> dict[str, Any]:
    try:
        # As texts: that "NA" is missing, or "007" a number, is not for pandas to decide.
        with local_filters():
            # A row that is longer than the header would be cut.
            warnings.simplefilter("error", pd.errors.ParserWarning)
            table = pd.read_csv(
                path,
                sep=separator,
                dtype=str,
                keep_default_na=False,
                encoding="utf-8-sig",
                index_col=False,
            )
    except UnicodeDecodeError as error:
        raise ValueError(
            f"{path.name} is not UTF-8 text (byte {error.start}); save it as UTF-8"
        ) from error
    except pd.errors.EmptyDataError as error:
        raise ValueError(f"{path.name} holds no columns") from error
    except (pd.errors.ParserError, pd.errors.ParserWarning, ValueError) as error:
        shown = " ".join(str(error).split()).removeprefix(
            "Error tokenizing data. C error: "
        )
        raise ValueError(f"{path.name} is not a table with {words}: {shown}") from error
    _check_header(path, list(table.columns), separator, words)
    return _columns(table)


def _check_header(path: Path, names: list[str], separator: str, words: str) -> None:
    """Refuse other separators, and names that occur twice, which pandas would change."""
    if len(names) == 1 and re.search(r"[;,\t]", names[0]):
        raise ValueError(
            f"{path.name} is not separated by {words}: a csv has commas, a tsv has tabs"
        )
    header = pd.read_csv(
        path,
        sep=separator,
        header=None,
        nrows=1,
        dtype=str,
        keep_default_na=False,
        encoding="utf-8-sig",
    )
    given = header.iloc[0].str.strip()
    if given.duplicated().any():
        raise ValueError(
            f"the column {given[given.duplicated()].iloc[0]!r} occurs twice in {path.name}"
        )


def _read_parquet(path: Path) -> dict[str, Any]:
    try:
        return _columns(pd.read_parquet(path))
    except ImportError as error:
        raise ValueError(
            "reading parquet needs pyarrow: pip install 'ma-sbi[parquet]', or save the "
            "table as csv"
        ) from error
    except Exception as error:  # noqa: BLE001 (each engine has errors of its own)
        shown = " ".join(str(error).split())[:200]
        raise ValueError(f"{path.name} is not a parquet file: {shown}") from error


READERS: dict[str, Callable[[Path], dict[str, Any]]] = {
    ".npz": _read_npz,
    ".csv": partial(_read_table, separator=",", words="commas"),
    ".tsv": partial(_read_table, separator="\t", words="tabs"),
    ".parquet": _read_parquet,
}


def _columns(table: pd.DataFrame) -> dict[str, Any]:
    names = [str(name).strip() for name in table.columns]
    if len(table) == 0:
        raise ValueError(f"the table has columns ({', '.join(names)}) but no rows")
    return {name: table.iloc[:, place] for place, name in enumerate(names)}


def _find(held: Mapping[str, Any], names: Sequence[str], name: str) -> list[str]:
    """Find the columns that the user named, in their order.

    Raises:
        ValueError: If there is none of that name, or one is named twice.
    """
    found: list[str] = []
    for given in names:
        # A name may have a comma in it.
        parts = [given] if given in held else [one.strip() for one in given.split(",")]
        for part in parts:
            found += [part] if part in held else _alike(held, part, name)
    twice = {one for one in found if found.count(one) > 1}
    if twice:
        raise ValueError(f"{_option(name)} names the column {min(twice)!r} twice")
    return found


def _alike(held: Mapping[str, Any], pattern: str, name: str) -> list[str]:
    """Find the columns that a pattern stands for, numbers in their order."""
    found = [one for one in held if fnmatchcase(one, pattern)]
    if found:
        return sorted(found, key=_natural)
    near = difflib.get_close_matches(pattern, list(held), n=1)
    meant = f" (is it {near[0]!r}?)" if near else ""
    raise ValueError(
        f"there is no column {pattern!r}{meant}, which {_option(name)} names; the file "
        f"has {_list(held)}"
    )


def _natural(name: str) -> list[tuple[int, str]]:
    """Sort x2 before x10."""
    return [
        (int(part), "") if part.isdigit() else (-1, part)
        for part in re.split(r"(\d+)", name)
    ]


def _option(name: str) -> str:
    return f"--{name.replace('_', '-')}"


def _assemble(
    held: dict[str, Any],
    named: dict[str, list[str]],
    context: list[str],
    groups: str | None,
) -> Observations:
    """Find what is needed among the named columns or arrays."""
    used: set[str] = set()
    for name, own in named.items():
        if used & set(own):
            both = min(used & set(own))
            raise ValueError(f"the column {both!r} is named twice, last by {_option(name)}")
        used |= set(own)
    numbers = {
        name: _side_by_side(held, named[name], name)
        if name in named
        else _numbers(held, name, used)
        for name in NUMBERS
    }
    x_obs = numbers["x_obs"]
    if x_obs is None:
        raise ValueError(
            "x_obs is missing: expected an array x_obs, or columns x_obs_0, x_obs_1, ...; "
            f"name others with --x-obs; the file has {_list(held)}"
        )
    names = context or [
        name for name in held if name == "context" or name.startswith("context_")
    ]
    if not names:
        raise ValueError(
            "context is missing: expected context, or several that begin with context_; "
            f"name others with --context; the file has {_list(held)}"
        )
    if groups is None:
        groups = next((name for name in ("groups", "group") if name in held), None)
    if groups is not None and groups not in held:
        _alike(held, groups, "groups")
        raise ValueError(f"--groups names one column, got the pattern {groups!r}")
    used |= {*names, *([groups] if groups else [])}
    n = len(x_obs)
    columns = [column for name in names for column in _context(held[name], name, n)]
    table = pd.concat(columns, axis=1)
    labels = None
    if groups is not None:
        labels = np.asarray(held[groups])
        if labels.shape != (n,):
            raise ValueError(
                f"{groups} must have one entry per row of x_obs: expected {n}, got shape "
                f"{labels.shape}"
            )
    unused = tuple(name for name in held if name not in used)
    return Observations(
        x_obs,
        table.iloc[:, 0] if table.shape[1] == 1 else table,
        numbers["x_sim"],
        numbers["theta"],
        labels,
        unused,
        "; ".join(f"{name} is {', '.join(own)}" for name, own in named.items()),
    )


def _numbers(held: Mapping[str, Any], name: str, used: set[str]) -> np.ndarray | None:
    """Find a matrix as one array, or as numbered columns."""
    numbered: dict[int, str] = {}
    for column in held:
        found = re.fullmatch(re.escape(name) + INDEX, column)
        if found:
            place = int(found[1] or found[2])
            if place in numbered:
                raise ValueError(
                    f"{numbered[place]} and {column} are the same column of {name}"
                )
            numbered[place] = column
    if name in held:
        if numbered:
            raise ValueError(f"there is {name} and also {_list(list(numbered.values()))}")
        used.add(name)
        return _matrix(held[name], name)
    if not numbered:
        return None
    first = min(numbered)
    expected = range(first, first + len(numbered))
    gaps = sorted(set(expected) - set(numbered))
    if first > 1 or gaps:
        lost = gaps[0] if gaps else 0
        raise ValueError(
            f"column {lost} of {name} is missing among {_list(list(numbered.values()))}"
        )
    used |= set(numbered.values())
    return _side_by_side(held, [numbered[place] for place in expected], name)


def _side_by_side(held: Mapping[str, Any], columns: list[str], name: str) -> np.ndarray:
    """Join columns, or arrays, to a matrix."""
    parts = [_matrix(held[column], column) for column in columns]
    lengths = {len(part) for part in parts}
    if len(lengths) > 1:
        raise ValueError(f"the columns of {name} have different lengths: {sorted(lengths)}")
    return np.hstack(parts)


def _matrix(values: Any, name: str) -> np.ndarray:
    """Turn a column or an array into a finite matrix, saying which row is not."""
    array = np.asarray(values)
    if array.dtype == object and len(array) and np.ndim(array[0]) == 1:
        array = _stack(array, name)
    if array.ndim not in (1, 2) or array.size == 0:
        raise ValueError(
            f"{name} must have one row per observation, got shape {array.shape}"
        )
    flat = array.reshape(-1)
    try:
        numbers = flat.astype(np.float64)
    except (TypeError, ValueError):
        numbers = pd.to_numeric(pd.Series(flat), errors="coerce").to_numpy(np.float64)
    bad = np.flatnonzero(~np.isfinite(numbers))
    if len(bad):
        row = int(bad[0]) // (array.shape[1] if array.ndim == 2 else 1)
        entry = flat[bad[0]]
        shown = "an empty cell" if is_missing([entry])[0] else repr(entry)[:40]
        if isinstance(entry, (float, np.floating)):
            shown = "NaN" if np.isnan(entry) else "an infinite number"
        rows = len({int(one) // (array.size // len(array)) for one in bad})
        raise ValueError(
            f"{name} must hold finite numbers, got {shown} in row {row} ({rows} of "
            f"{len(array)} rows; the first row is 0)"
        )
    return numbers.reshape(len(array), -1)


def _stack(lists: np.ndarray, name: str) -> np.ndarray:
    lengths = {np.size(one) for one in lists}
    if len(lengths) > 1:
        raise ValueError(
            f"the lists in {name} have different lengths: {sorted(lengths)[:5]}"
        )
    return np.stack([np.asarray(one) for one in lists])


def _context(values: Any, name: str, n: int) -> list[pd.Series]:
    """Read a context as columns: numbers where all that is there are numbers."""
    array = np.asarray(values)
    if array.ndim not in (1, 2) or len(array) != n:
        raise ValueError(
            f"{name} must have one entry per row of x_obs: expected {n}, got shape "
            f"{array.shape}"
        )
    if array.ndim == 1:
        return [_entries(array).rename(name)]
    return [
        _entries(array[:, place]).rename(f"{name}_{place}")
        for place in range(array.shape[1])
    ]


def _entries(array: np.ndarray) -> pd.Series:
    if array.dtype.kind in "fiub":
        return pd.Series(array)
    entries = pd.Series(array.astype(object))
    there = ~is_missing(entries)
    numbers = pd.to_numeric(entries[there], errors="coerce")
    if there.any() and np.isfinite(numbers.to_numpy(np.float64)).all():
        return numbers.reindex(entries.index).astype(np.float64)
    return entries.where(there, None)


def _list(names: Any) -> str:
    names = [str(name) for name in names]
    rest = f", ... ({len(names)} in all)" if len(names) > MOST_LISTED else ""
    return ", ".join(names[:MOST_LISTED]) + rest
