"""Tables read in blocks: csv, tsv and parquet as they come, npz from memory."""

from __future__ import annotations

import hashlib
from abc import ABC, abstractmethod
from collections.abc import Iterator, Sequence
from itertools import islice
from pathlib import Path
from typing import Any

import numpy as np

from ma_sbi.checking.formats import (
    check_lengths,
    check_names,
    header_of,
    look_at,
    open_text,
    rows_of,
)
from ma_sbi.display.text import shorten

__all__ = ["BLOCK_ROWS", "Block", "Source", "open_source"]

BLOCK_ROWS = 20_000
"""Most rows that are read, corrected and written together."""
# Bytes at either end of a file that tell whether it is the same one.
ENDS = 2**20

Block = dict[str, Any]
"""Columns by name: arrays of numpy, of one dimension, or of pyarrow."""


class Source(ABC):
    """A table that is read in blocks, always the same ones.

    Attributes:
        path: The file.
        names: Names of its columns.
        size: Its length, in the units of ``position``.
        position: How far it was read.
        left_out: Names of arrays that are no column of its rows.
    """

    left_out: tuple[str, ...] = ()

    def __init__(self, path: Path, names: Sequence[str], size: int) -> None:
        self.path = path
        self.names = tuple(names)
        self.size = size
        self.position = 0

    @abstractmethod
    def blocks(self, num_rows: int) -> Iterator[Block]:
        """Yield the rows, so many at a time, as columns."""

    def fingerprint(self) -> str:
        """Tell the file from others, without reading all of it."""
        found = self.path.stat()
        digest = hashlib.sha256(f"{found.st_size} {found.st_mtime_ns}".encode())
        with self.path.open("rb") as file:
            digest.update(file.read(ENDS))
            file.seek(max(0, found.st_size - ENDS))
            digest.update(file.read(ENDS))
        return digest.hexdigest()


class _Text(Source):
    """A csv or tsv file; its cells are texts."""

    def __init__(self, path: Path) -> None:
        with open_text(path) as file:
            names = header_of(rows_of(file, path), path)
        super().__init__(path, names, path.stat().st_size)

    def blocks(self, num_rows: int) -> Iterator[Block]:
        first = 0
        with open_text(self.path) as file:
            rows = rows_of(file, self.path)
            next(rows)
            while block := list(islice(rows, num_rows)):
                check_lengths(block, self.names, self.path, first)
                first += len(block)
                self.position = file.buffer.tell()
                cells = np.array(block, dtype=object)
                yield {name: cells[:, i] for i, name in enumerate(self.names)}


class _Parquet(Source):
    """A parquet file; its columns keep their types."""

    def __init__(self, path: Path) -> None:
        try:
            from pyarrow.parquet import ParquetFile  # type: ignore[import-untyped]
        except ImportError as error:
            raise ValueError(
                "reading parquet needs pyarrow: pip install 'ma-sbi[parquet]', or save the "
                "table as csv"
            ) from error
        try:
            self._file = ParquetFile(path)
        except Exception as error:  # (pyarrow has errors of its own)
            said = shorten(error, 200)
            raise ValueError(f"{path.name} is not a parquet file: {said}") from error
        names = [name.strip() for name in self._file.schema_arrow.names]
        check_names(names, path)
        super().__init__(path, names, self._file.metadata.num_rows)

    def blocks(self, num_rows: int) -> Iterator[Block]:
        for batch in self._file.iter_batches(batch_size=num_rows):
            self.position += len(batch)
            yield dict(zip(self.names, batch.columns, strict=True))


class _Arrays(Source):
    """An npz file; what is no column of its rows is left out."""

    def __init__(self, path: Path) -> None:
        held = look_at(path)(path)
        arrays = {name: np.asarray(held[name]) for name in held}
        lengths = [len(one) for one in arrays.values() if one.ndim in (1, 2)]
        # Rows are what most arrays have.
        most = max(set(lengths), key=lengths.count, default=0)
        self._arrays: dict[str, np.ndarray] = {}
        for name, one in arrays.items():
            if one.ndim == 2 and len(one) == most:
                # A matrix is as many columns.
                self._arrays |= {f"{name}_{i}": one[:, i] for i in range(one.shape[1])}
            elif one.ndim == 1 and len(one) == most:
                self._arrays[name] = one
        self.left_out = tuple(
            name
            for name, one in arrays.items()
            if one.ndim not in (1, 2) or len(one) != most
        )
        super().__init__(path, list(self._arrays), most)

    def blocks(self, num_rows: int) -> Iterator[Block]:
        for start in range(0, self.size, num_rows):
            self.position = min(self.size, start + num_rows)
            rows = slice(start, start + num_rows)
            yield {name: one[rows] for name, one in self._arrays.items()}


SOURCES: dict[str, type[Source]] = {
    ".csv": _Text,
    ".tsv": _Text,
    ".parquet": _Parquet,
    ".npz": _Arrays,
}


def open_source(path: str | Path) -> Source:
    """Open a table, in the format that its name ends in.

    Raises:
        ValueError: If it cannot be read, or has no rows.
    """
    path = Path(path)
    look_at(path, limited=path.suffix.lower() == ".npz")
    source = SOURCES[path.suffix.lower()](path)  # type: ignore[call-arg]
    if source.size == 0:
        raise ValueError(f"{path.name} has columns but no rows")
    return source
