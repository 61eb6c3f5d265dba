"""Tables written in blocks, each a file of its own, and joined at the end."""

from __future__ import annotations

import csv
import io
import re
import shutil
from abc import ABC, abstractmethod
from collections.abc import Iterable, Sequence
from pathlib import Path
from typing import Any

import numpy as np

from ma_sbi.applying.sources import Block
from ma_sbi.checking.formats import from_arrow
from ma_sbi.display.text import shorten
from ma_sbi.writing import written_whole

__all__ = ["FORMATS", "Format", "format_of", "join"]

# Lines whose cells are objects of Python at the same time.
LINES_AT_ONCE = 10_000


class Format(ABC):
    """How blocks are written, and how they become one file."""

    @abstractmethod
    def pack(self, block: Block) -> bytes:
        """Write the rows of a block."""

    @abstractmethod
    def join(self, blocks: Sequence[Path], file: Path) -> None:
        """Make one file of all blocks, in their order."""


class _Text(Format):
    def __init__(self, separator: str) -> None:
        self.separator = separator

    def pack(self, block: Block) -> bytes:
        text = io.StringIO(newline="")
        writer = csv.writer(text, delimiter=self.separator, lineterminator="\n")
        writer.writerow(block)
        columns = list(block.values())
        for start in range(0, len(columns[0]), LINES_AT_ONCE):
            lines = slice(start, start + LINES_AT_ONCE)
            cells = (_as_cells(column[lines]) for column in columns)
            writer.writerows(zip(*cells, strict=True))
        return text.getvalue().encode()

    def join(self, blocks: Sequence[Path], file: Path) -> None:
        first: list[str] = []
        with file.open("wb") as whole:
            for block in blocks:
                with block.open("rb") as part:
                    names = _read_header(part, self.separator)
                    if not first:
                        first = names
                        part.seek(0)
                    _check_same(names, first, block)
                    shutil.copyfileobj(part, whole, 2**20)


class _Parquet(Format):
    def __init__(self) -> None:
        try:
            import pyarrow  # type: ignore[import-untyped]  # noqa: F401
        except ImportError as error:
            raise ValueError(
                "writing parquet needs pyarrow: pip install 'ma-sbi[parquet]', or write csv"
            ) from error

    def pack(self, block: Block) -> bytes:
        import pyarrow as pa
        from pyarrow.parquet import write_table  # type: ignore[import-untyped]

        sink = io.BytesIO()
        write_table(pa.table({k: _as_arrow(one) for k, one in block.items()}), sink)
        return sink.getvalue()

    def join(self, blocks: Sequence[Path], file: Path) -> None:
        from pyarrow.parquet import ParquetWriter, read_schema, read_table

        schema = read_schema(blocks[0])
        with ParquetWriter(file, schema) as writer:
            for block in blocks:
                part = read_table(block)
                _check_same(part.column_names, schema.names, block)
                writer.write_table(part.cast(schema))


class _Arrays(Format):
    def pack(self, block: Block) -> bytes:
        sink = io.BytesIO()
        arrays: Any = {name: _as_array(one) for name, one in _matrices(block).items()}
        np.savez(sink, **arrays)
        return sink.getvalue()

    def join(self, blocks: Sequence[Path], file: Path) -> None:
        parts = []
        for block in blocks:
            with np.load(block, allow_pickle=False) as held:
                parts.append({name: held[name] for name in held})
            _check_same(list(parts[-1]), list(parts[0]), block)
        whole: Any = {
            name: np.concatenate([part[name] for part in parts]) for name in parts[0]
        }
        with file.open("wb") as sink:
            np.savez(sink, **whole)


FORMATS = {
    ".csv": lambda: _Text(","),
    ".tsv": lambda: _Text("\t"),
    ".parquet": _Parquet,
    ".npz": _Arrays,
}


def format_of(path: Path) -> Format:
    """Find the format that the name of a file ends in.

    Raises:
        ValueError: If it is not known, or needs a package that is not installed.
    """
    make = FORMATS.get(path.suffix.lower())
    if make is None:
        raise ValueError(
            f"{path.name} ends in {path.suffix or 'nothing'!r}; known are "
            f"{', '.join(FORMATS)}"
        )
    return make()


def join(format_: Format, blocks: Sequence[Path], file: Path) -> None:
    """Write one file of all blocks, whole or not at all."""
    with written_whole(file) as unfinished:
        format_.join(blocks, unfinished)


def _read_header(file: Any, separator: str) -> list[str]:
    """Read the first row, which may have line breaks in quotes."""
    lines = (line.decode() for line in iter(file.readline, b""))
    return next(csv.reader(lines, delimiter=separator))


def _check_same(names: list[str], first: list[str], block: Path) -> None:
    if names != first:
        raise ValueError(
            f"{block} has columns {shorten(', '.join(names), 200)}, and the first block "
            f"{shorten(', '.join(first), 200)}: pass --start-over"
        )


def _matrices(block: Block) -> Block:
    """Join numbered columns of numbers to matrices."""
    joined: Block = {}
    for name, one in block.items():
        found = re.fullmatch(r"(.+)_(\d+)", name)
        stem = found[1] if found else name
        numbered = [f"{stem}_{place}" for place in range(len(block))]
        group = [n for n in numbered if _is_numbers(block.get(n))]
        if name in group and group == numbered[: len(group)] and stem not in block:
            joined[stem] = np.stack([block[n] for n in group], axis=1)
        else:
            joined[name] = one
    return joined


def _is_numbers(column: Any) -> bool:
    return isinstance(column, np.ndarray) and column.dtype.kind in "fiub"


def _as_cells(column: Any) -> Iterable[Any]:
    if hasattr(column, "to_pylist"):
        return column.to_pylist()
    cells: list[Any] = column.tolist()
    if column.dtype.kind == "f":  # what is no number is an empty cell
        return ["" if one != one else one for one in cells]
    return cells


def _as_arrow(column: Any) -> Any:
    import pyarrow as pa

    if hasattr(column, "to_pylist"):
        return column
    if isinstance(column, np.ma.MaskedArray):
        return pa.array(column.data, mask=np.ma.getmaskarray(column))
    if column.dtype.kind in "OUS":
        return pa.array([None if one is None else str(one) for one in column], pa.string())
    return pa.array(column)


def _as_array(column: Any) -> np.ndarray:
    if hasattr(column, "to_pylist"):
        column = from_arrow(column)
    if isinstance(column, np.ma.MaskedArray):
        return column.filled(-1)
    if column.dtype == object:
        # Arrays of objects could only be read again by pickle.
        return np.array(["" if one is None else str(one) for one in column], dtype=str)
    return np.asarray(column)
