"""Columns of csv, tsv and parquet files, arrays of npz files.

Reading a file cannot run code, and costs no more than the file declares: arrays of Python
objects are refused, not unpickled, and what declares to be huge is refused unread. Cells of
a table are texts: what they mean is not decided here.
"""

from __future__ import annotations

import contextlib
import csv
import math
import re
import zipfile
from collections import Counter
from collections.abc import Callable, Iterator, Mapping, Sequence
from pathlib import Path
from typing import IO, Any, TextIO

import numpy as np

from ma_sbi.display.text import shorten

__all__ = [
    "READERS",
    "check_lengths",
    "check_names",
    "from_arrow",
    "header_of",
    "look_at",
    "open_text",
    "rows_of",
    "separated",
]

# A check takes 20,000 rows at most: no table of more is needed, or can be held twice.
MOST_BYTES = 2**30
HEADERS = {
    (1, 0): np.lib.format.read_array_header_1_0,
    (2, 0): np.lib.format.read_array_header_2_0,
}


def look_at(path: Path, *, limited: bool = True) -> Callable[[Path], Mapping[str, Any]]:
    """Find the reader of a file, before anything of it is read.

    Args:
        path: The file.
        limited: Whether it must fit into memory.

    Raises:
        ValueError: If it is not there, no plain file, of an unknown format, empty or huge.
    """
    if not path.exists():
        what = "is a link to nothing" if path.is_symlink() else ""
        raise ValueError(f"{path} {what}" if what else f"there is no file {path}")
    if path.is_dir():
        raise ValueError(f"{path} is a folder, expected a file")
    if not path.is_file():
        raise ValueError(f"{path} is a pipe or a device, expected a file")
    reader = READERS.get(path.suffix.lower())
    if reader is None:
        raise ValueError(
            f"{path.name} ends in {path.suffix or 'nothing'!r}; known are "
            f"{', '.join(READERS)}"
        )
    if path.stat().st_size == 0:
        raise ValueError(f"{path.name} is empty")
    if limited:
        _check_size(path.stat().st_size, path.name)
    return reader


def separated(path: Path) -> tuple[str, str]:
    """Return what separates the cells of a csv or tsv file, as a character and in words."""
    return ("\t", "tabs") if path.suffix.lower() == ".tsv" else (",", "commas")


def _check_size(num_bytes: int, name: str) -> None:
    if num_bytes > MOST_BYTES:
        raise ValueError(
            f"{name} holds {num_bytes / 2**30:.1f} GiB, more than a check can use "
            f"({MOST_BYTES // 2**30} GiB): save fewer rows, or only the columns of x and "
            "of the context"
        )


def open_text(path: Path) -> TextIO:
    """Open a csv or tsv file; lines may end in any way."""
    return path.open(newline="", encoding="utf-8-sig")


def rows_of(file: TextIO, path: Path) -> Iterator[list[str]]:
    """Yield the cells of each row of a csv or tsv file; a blank line is none.

    Raises:
        ValueError: If it is no table, or not in UTF-8.
    """
    separator, words = separated(path)
    reader, end = csv.reader(file, delimiter=separator, strict=True), 0
    try:
        for row in reader:
            end = reader.line_num
            if len(row) > 1 or "".join(row).strip():
                yield row
    except UnicodeDecodeError as error:
        raise ValueError(f"{path.name} is not UTF-8 text; save it as UTF-8") from error
    except csv.Error as error:
        raise ValueError(
            f"{path.name} is not a table with {words}: the row that begins in line "
            f'{end + 1} has a quote that does not end its cell (write "" for one within '
            f"quotes), or a cell of more than {csv.field_size_limit():,} characters"
        ) from error


def header_of(rows: Iterator[list[str]], path: Path) -> list[str]:
    """Take the names of columns from the first row."""
    names = [name.strip() for name in next(rows, [])]
    if not any(names):
        raise ValueError(f"{path.name} holds no columns")
    check_names(names, path)
    return names


def check_lengths(
    rows: Sequence[Sequence[str]], names: Sequence[str], path: Path, first: int = 0
) -> None:
    """Check that rows, of which the first has this number, have as many cells as names."""
    for place, row in enumerate(rows, first):
        # A cell that is missing at the end may be a row that was cut.
        if len(row) != len(names):
            raise ValueError(
                f"{path.name} is not a table with {separated(path)[1]}: row {place} has "
                f"{len(row)} cells, the header {len(names)} (the first row is 0)"
            )


def _read_table(path: Path) -> dict[str, np.ndarray]:
    with open_text(path) as file:
        reader = rows_of(file, path)
        names, rows = header_of(reader, path), list(reader)
    check_lengths(rows, names, path)
    _check_rows(len(rows), names)
    return {
        name: np.array(column, dtype=object)
        for name, column in zip(names, zip(*rows, strict=True), strict=True)
    }


def check_names(names: list[str], path: Path) -> None:
    """Check that columns of a file were told apart, and have names of their own."""
    if len(names) == 1 and re.search(r"[;,\t]", names[0]):
        raise ValueError(
            f"{path.name} is not separated by {separated(path)[1]}: a csv has commas, a "
            "tsv has tabs"
        )
    twice = next((one for one, count in Counter(names).items() if count > 1), None)
    if twice is not None:
        raise ValueError(f"the column {shorten(twice)!r} occurs twice in {path.name}")


def _check_rows(num_rows: int, names: list[str]) -> None:
    if num_rows == 0:
        listed = ", ".join(shorten(name) for name in names[:20])
        raise ValueError(f"the table has columns ({listed}) but no rows")


def _read_parquet(path: Path) -> dict[str, Any]:
    _check_size(_declared_by_parquet(path), path.name)
    try:
        from pyarrow.parquet import read_table  # type: ignore[import-untyped]

        table = read_table(path)
    except ImportError as error:
        raise ValueError(
            "reading parquet needs pyarrow: pip install 'ma-sbi[parquet]', or save the "
            "table as csv"
        ) from error
    except Exception as error:  # noqa: BLE001 (each engine has errors of its own)
        said = shorten(error, 200)
        raise ValueError(f"{path.name} is not a parquet file: {said}") from error
    columns = {
        name.strip(): from_arrow(column)
        for name, column in zip(table.column_names, table.columns, strict=True)
        if not re.fullmatch(r"__index_level_\d+__", name)  # an index without a name
    }
    check_names([name.strip() for name in table.column_names], path)
    _check_rows(len(table), list(columns))
    return columns


def from_arrow(column: Any) -> np.ndarray:
    """Return a column of pyarrow; integers beside gaps are objects, and not floats."""
    return np.asarray(column.to_pandas(integer_object_nulls=True))


def _declared_by_parquet(path: Path) -> int:
    """Count the bytes of a table of numbers of that size; 0 if it cannot be told."""
    # What is wrong with the file is said when it is read.
    with contextlib.suppress(Exception):
        from pyarrow.parquet import read_metadata

        found = read_metadata(path)
        return 8 * found.num_rows * found.num_columns
    return 0


class _Archive(Mapping[str, np.ndarray]):
    """The arrays of an npz file, each read when it is asked for."""

    def __init__(self, path: Path) -> None:
        self._path = path
        try:
            with zipfile.ZipFile(path) as archive:
                members = archive.infolist()
        except (zipfile.BadZipFile, OSError, ValueError, NotImplementedError) as error:
            raise ValueError(f"{path.name} is not an npz file, or is damaged") from error
        names = [member.filename.removesuffix(".npy") for member in members]
        check_names(names, path)
        self._members = dict(zip(names, members, strict=True))

    def __iter__(self) -> Iterator[str]:
        return iter(self._members)

    def __len__(self) -> int:
        return len(self._members)

    def __contains__(self, name: object) -> bool:
        return name in self._members  # without reading it

    def __getitem__(self, name: str) -> np.ndarray:
        member = self._members[name]
        _check_size(member.file_size, shorten(name))
        try:
            with zipfile.ZipFile(self._path) as archive:
                with archive.open(member) as file:
                    _check_header(file, member.file_size)
                with archive.open(member) as file:
                    array = np.lib.format.read_array(file, allow_pickle=False)
            return np.char.decode(array, "utf-8") if array.dtype.kind == "S" else array
        except Exception as error:  # (what is damaged may fail in any way)
            raise ValueError(
                f"the array {shorten(name)} cannot be read: {shorten(error, 250)}"
            ) from error


def _check_header(file: IO[bytes], size: int) -> None:
    """Refuse what is no array of numbers or texts, or of another size than it declares."""
    if file.read(len(np.lib.format.MAGIC_PREFIX)) != np.lib.format.MAGIC_PREFIX:
        raise ValueError("it is no array of numpy")
    version = tuple(file.read(2))
    if version not in HEADERS:
        raise ValueError("it is a record, or of an unknown version")
    shape, _, dtype = HEADERS[version](file)
    if dtype.hasobject:
        raise ValueError(
            "it holds Python objects, which only pickle could read, and pickle can run "
            "code; save texts as numpy.array(texts, dtype=str), numbers as floats"
        )
    declared = math.prod(shape) * dtype.itemsize
    if declared != size - file.tell():
        raise ValueError(f"it declares {declared} bytes and holds {size - file.tell()}")


READERS: dict[str, Callable[[Path], Mapping[str, Any]]] = {
    ".npz": _Archive,
    ".csv": _read_table,
    ".tsv": _read_table,
    ".parquet": _read_parquet,
}
