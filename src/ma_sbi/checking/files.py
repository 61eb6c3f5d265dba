"""Reading a file of observations: which of its columns or arrays are x, context, groups.

What is wrong with a file is reported in a sentence.
"""

from __future__ import annotations

import difflib
import re
from collections.abc import Mapping, Sequence
from fnmatch import fnmatchcase
from itertools import chain, count, takewhile
from pathlib import Path
from typing import Any, Literal, NamedTuple

import numpy as np
import pandas as pd

from ma_sbi.checking.cells import How, as_column, as_x, check_labels
from ma_sbi.checking.formats import look_at
from ma_sbi.display.text import shorten

__all__ = [
    "Observations",
    "find_columns",
    "in_words",
    "read_observations",
    "read_simulations",
]

NUMBERS = {"x_obs": "an observation", "x_sim": "a simulation", "theta": "a true parameter"}
NO_X_OBS = (
    "x_obs is missing: expected an array x_obs, or columns x_obs_0, x_obs_1, ...; "
    "name others with --x-obs; the file has {}"
)
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
        notes: Which columns of a context look like numbers and are labels, in sentences.
        columns: Names of the columns of x_obs, of the context, and of x_sim.
    """

    x_obs: np.ndarray
    context: pd.Series | pd.DataFrame
    x_sim: np.ndarray | None
    theta: np.ndarray | None
    groups: np.ndarray | None
    unused: tuple[str, ...]
    named: str = ""
    notes: tuple[str, ...] = ()
    columns: tuple[tuple[str, ...], ...] = ((), (), ())

    def told(self) -> list[str]:
        """Say which columns were taken, how they were read, and which were not used."""
        told = [f"By your names, {self.named}."] if self.named else []
        told += self.notes
        if self.unused:
            names = ", ".join(shorten(one) or "(no name)" for one in self.unused[:8])
            rest = ", ..." if len(self.unused) > 8 else ""
            told.append(f"Not used in the file: {names}{rest}.")
        return told


def read_observations(
    path: str | Path,
    *,
    context: Sequence[str] = (),
    groups: str | None = None,
    x_obs: Sequence[str] = (),
    x_sim: Sequence[str] = (),
    theta: Sequence[str] = (),
    number: Sequence[str] = (),
    label: Sequence[str] = (),
) -> Observations:
    """Read a file in the format that its name ends in.

    Contexts are what the file says: a column of texts is numbers only if one way of writing
    numbers gives every cell back as it stands.

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
        number: Names of columns of the context that are numbers, in any spelling.
        label: Names of columns of the context that are labels, even if they are numbers.

    Raises:
        ValueError: If the file cannot be read or does not hold what is needed.
    """
    path = Path(path)
    held = look_at(path)(path)
    own = {"x_obs": x_obs, "x_sim": x_sim, "theta": theta}
    named = {name: _find(held, names, name) for name, names in own.items() if names}
    said: dict[str, How] = dict.fromkeys(_find(held, number, "number"), "number")
    labels: dict[str, How] = dict.fromkeys(_find(held, label, "label"), "label")
    if both := said.keys() & labels.keys():
        raise ValueError(f"the column {shorten(min(both))!r} is named as number and label")
    return _assemble(held, named, _find(held, context, "context"), groups, said | labels)


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
            own = [part] if part in held else _matrix(held, part)
            found += own or _alike(held, part, name)
    twice = {one for one in found if found.count(one) > 1}
    if twice:
        raise ValueError(f"{_option(name)} names the column {shorten(min(twice))!r} twice")
    return found


def _matrix(held: Mapping[str, Any], name: str) -> list[str]:
    """Find the columns name_0, name_1, ... that a matrix of this name has become."""
    numbered = (f"{name}_{place}" for place in count())
    return list(takewhile(held.__contains__, numbered))


def _alike(held: Mapping[str, Any], pattern: str, name: str) -> list[str]:
    """Find the columns that a pattern stands for, numbers in their order."""
    found = [one for one in held if fnmatchcase(one, pattern)]
    if found:
        return sorted(found, key=_natural)
    near = difflib.get_close_matches(pattern, list(held), n=1)
    meant = f" (is it {shorten(near[0])!r}?)" if near else ""
    raise ValueError(
        f"there is no column {shorten(pattern)!r}{meant}, which {_option(name)} names; "
        f"the file has {in_words(held)}"
    )


def _natural(name: str) -> list[tuple[int, str]]:
    """Sort x2 before x10."""
    return [
        (int(part), "") if part.isdecimal() else (-1, part)
        for part in re.split(r"(\d+)", name)
    ]


def _option(name: str) -> str:
    return f"--{name.replace('_', '-')}"


def _assemble(
    held: Mapping[str, Any],
    named: dict[str, list[str]],
    context: list[str],
    groups: str | None,
    how: dict[str, How],
) -> Observations:
    """Find what is needed among the named columns or arrays."""
    used: set[str] = set()
    for name, own in named.items():
        if used & set(own):
            both = shorten(min(used & set(own)))
            raise ValueError(f"the column {both!r} is named twice, last by {_option(name)}")
        used |= set(own)
    columns = {name: named.get(name) or _numbered(held, name) for name in NUMBERS}
    if not columns["x_obs"]:
        raise ValueError(NO_X_OBS.format(in_words(held)))
    used |= {one for own in columns.values() for one in own}
    numbers = {
        name: _side_by_side(held, own, name) if own else None
        for name, own in columns.items()
    }
    x_obs = numbers["x_obs"]
    assert x_obs is not None  # noqa: S101 (it has columns)
    names = context or _named_context(held)
    for name, what in NUMBERS.items():
        if shared := set(names) & set(columns[name]):
            raise ValueError(
                f"the column {shorten(min(shared))!r} is taken as {name} and as context: "
                f"{what} is no context; name the context without it (--context)"
            )
    if groups is None:
        groups = next((name for name in ("groups", "group") if name in held), None)
    if groups is not None and groups not in held:
        _alike(held, groups, "groups")
        raise ValueError(f"--groups names one column, got the pattern {groups!r}")
    used |= {*names, *([groups] if groups else [])}
    for name, said in how.items():
        if name not in names:
            raise ValueError(
                f"--{said} names {shorten(name)!r}, which is no column of the context; "
                f"these are {in_words(names)}"
            )
    n = len(x_obs)
    read = [one for name in names for one in _context(held[name], name, n, how.get(name))]
    table = pd.concat([column for column, _ in read], axis=1)
    labels = None
    if groups is not None:
        labels = np.asarray(held[groups])
        if labels.shape != (n,):
            raise ValueError(
                f"{shorten(groups)} must have one entry per row of x_obs: expected {n}, "
                f"got shape {labels.shape}"
            )
        check_labels(labels, groups)
    words = named | ({"context": context} if context else {})
    unused = tuple(name for name in held if name not in used)
    return Observations(
        x_obs,
        table.iloc[:, 0] if table.shape[1] == 1 else table,
        numbers["x_sim"],
        numbers["theta"],
        labels,
        unused,
        "; ".join(f"{name} is {in_words(own)}" for name, own in words.items()),
        tuple(filter(None, (note for _, note in read))),
        (tuple(columns["x_obs"]), tuple(names), tuple(columns["x_sim"])),
    )


def read_simulations(path: str | Path, *columns: Sequence[str]) -> np.ndarray:
    """Read simulations from the prior, shape ``(num_simulations, dim_x)``.

    Args:
        path: A file that ends in .npz, .csv, .tsv or .parquet.
        columns: Names that the columns of x may have; the first that are all there count.
            Else they are ``x``, ``x_sim`` or ``x_obs``, an array or numbered columns.

    Raises:
        ValueError: If the file cannot be read, or holds none of these.
    """
    path = Path(path)
    held = look_at(path)(path)
    usual = (_numbered(held, name) for name in ("x", "x_sim", "x_obs"))
    own = (list(names) for names in columns if all(one in held for one in names))
    found = next(filter(None, chain(own, usual)), None)
    if found is None:
        known = next(filter(None, columns), ())
        raise ValueError(
            f"{path.name} has no simulations: expected the columns of x "
            f"({in_words(known)}), or an array x, or columns x_0, x_1, ...; the file has "
            f"{in_words(held)}"
        )
    return _side_by_side(held, found, "simulations")


def find_columns(
    names: Sequence[str], given: Sequence[str], what: Literal["x_obs", "context"]
) -> tuple[str, ...]:
    """Find the columns of observations, or of the context, among names alone.

    Args:
        names: Of all columns.
        given: Those that the user gave; by default as :func:`read_observations`.
        what: Which are wanted.

    Raises:
        ValueError: If they are not there.
    """
    held = dict.fromkeys(names)
    found = _find(held, given, what)
    if what == "context":
        return tuple(found or _named_context(held))
    found = found or _numbered(held, what)
    if not found:
        raise ValueError(NO_X_OBS.format(in_words(names)))
    return tuple(found)


def _named_context(held: Mapping[str, Any]) -> list[str]:
    """Find the columns of the context by their usual names."""
    names = [name for name in held if name == "context" or name.startswith("context_")]
    if not names:
        raise ValueError(
            "context is missing: expected context, or several that begin with context_; "
            f"name others with --context; the file has {in_words(held)}"
        )
    return names


def _numbered(held: Mapping[str, Any], name: str) -> list[str]:
    """Find a matrix as one array, or as numbered columns; nothing if it is not there."""
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
            raise ValueError(
                f"there is {name} and also {in_words(list(numbered.values()))}"
            )
        return [name]
    if not numbered:
        return []
    first = min(numbered)
    expected = range(first, first + len(numbered))
    gaps = sorted(set(expected) - set(numbered))
    if first > 1 or gaps:
        lost = gaps[0] if gaps else 0
        raise ValueError(
            f"column {lost} of {name} is missing among {in_words(list(numbered.values()))}"
        )
    return [numbered[place] for place in expected]


def _side_by_side(held: Mapping[str, Any], columns: list[str], name: str) -> np.ndarray:
    """Join columns, or arrays, to a matrix."""
    parts = [as_x(held[column], column) for column in columns]
    lengths = {len(part) for part in parts}
    if len(lengths) > 1:
        raise ValueError(f"the columns of {name} have different lengths: {sorted(lengths)}")
    return np.hstack(parts)


def _context(
    values: Any, name: str, n: int, how: How | None
) -> list[tuple[pd.Series, str]]:
    """Read a context, or an array of several, as columns with a note on each."""
    array = np.asarray(values)
    if array.ndim not in (1, 2) or len(array) != n:
        raise ValueError(
            f"{shorten(name)} must have one entry per row of x_obs: expected {n}, got "
            f"shape {array.shape}"
        )
    if array.ndim == 1:
        entries, note = as_column(array, name, how)
        return [(entries.rename(name), note)]
    columns = [as_column(array[:, one], name, how) for one in range(array.shape[1])]
    return [
        (entries.rename(f"{name}_{place}"), note)
        for place, (entries, note) in enumerate(columns)
    ]


def in_words(names: Any) -> str:
    """List the names of columns, not too many of them."""
    names = [shorten(name) or "(no name)" for name in names]
    rest = f", ... ({len(names)} in all)" if len(names) > MOST_LISTED else ""
    return ", ".join(names[:MOST_LISTED]) + rest
