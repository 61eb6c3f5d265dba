"""Finished cells: small files that are written whole or not at all, and committed rows.

A store reads two places: its folder, one JSON file per cell, and the CSV files of finished
full-budget rows (``bench/results``). What either holds is never computed again. A cell may
be in any of the CSV files, since experiments share some. A damaged file costs its own cell;
a damaged CSV file, which git can restore, is refused.
"""

from __future__ import annotations

import os
import platform
import subprocess
from collections.abc import Iterable, Iterator
from functools import cache, cached_property
from importlib.metadata import version
from json import dumps
from pathlib import Path
from typing import Any

import pandas as pd
import torch

from ma_sbi.display.text import printable
from ma_sbi.writing import written_whole
from ma_sbi_bench.engine.cell import Cell, Measurement
from ma_sbi_bench.engine.committed import COLUMNS, read_rows, rows_of, write_rows
from ma_sbi_bench.engine.records import Record, make_record, read_record

__all__ = ["COLUMNS", "PROCESSOR_SECONDS", "Store"]

PROCESSOR_SECONDS = {"seconds": "of the processor"}
"""What the versions of a cell say whose seconds are not those of the clock."""
PACKAGES = ("ma-sbi", "torch", "sbi", "zuko", "scikit-learn", "numpy", "scipy")
TYPES: dict[str, Any] = (
    dict.fromkeys(("version", "seed", "num_calibration", "observation", "regime"), "Int64")
    | {"num_draws": "Int64", "num_cases": "Int64", "value": "float64", "seconds": "float64"}
    | dict.fromkeys(("experiment", "method", "task", "backbone"), "str")
    | dict.fromkeys(("metric", "recipe", "commit", "key"), "str")
)


class Store:
    """Numbers of finished cells.

    A file that is damaged counts as none: its cell is not finished, unless it is committed.

    Args:
        folder: Folder of the cells; made when the first one is written.
        results: Folder of committed rows, one CSV per experiment; other CSV files in it are
            ignored.
    """

    def __init__(self, folder: str | Path, results: str | Path | None = None) -> None:
        self.folder = Path(folder)
        self.results = None if results is None else Path(results)
        # What was read of each file, and which file that was: another one is read again.
        self._read: dict[str, tuple[tuple[int, ...], Record | str]] = {}

    def __contains__(self, cell: Cell) -> bool:
        return self._record(cell.key) is not None

    def write(
        self,
        cell: Cell,
        measured: Iterable[Measurement],
        seconds: float,
        device: str = "cpu",
    ) -> None:
        """Write the numbers of a finished cell, with versions, device and commit.

        Its seconds are those of the processor, and the versions say so, or of the clock
        where a device did the work.

        Raises:
            ValueError: If there are none: no row could show that the cell is finished.
        """
        computed_with = versions() | device_name(device)
        record = make_record(cell, measured, seconds, computed_with, commit())
        with written_whole(self._file(cell.key)) as unfinished:
            unfinished.write_text(dumps(record, indent=1), encoding="utf-8")

    def rows(self, cells: Iterable[Cell]) -> pd.DataFrame:
        """Return one row per cell and metric, for those cells that are finished.

        Returns:
            Columns ``COLUMNS``; ``values`` holds arrays, ``settings`` dictionaries.
        """
        found = [row for key, one in self._records(cells) for row in rows_of(one, key)]
        rows = pd.DataFrame(found, columns=COLUMNS)
        for name, kind in TYPES.items():
            column = rows[name] if kind == "str" else pd.to_numeric(rows[name])
            rows[name] = column.astype(kind)
        return rows

    def damaged(self, cells: Iterable[Cell]) -> dict[Path, str]:
        """Return the files of these cells that are damaged, and how."""
        keys = dict.fromkeys(cell.key for cell in cells)
        found = {self._file(key): self._own(key) for key in keys}
        return {file: one for file, one in found.items() if isinstance(one, str)}

    @cached_property
    def committed(self) -> dict[str, Record]:
        """The committed records, by key.

        Raises:
            ValueError: If a file is damaged; the sentence names it and the line.
        """
        known: dict[str, Record] = {}
        for file in sorted(self.results.glob("*.csv")) if self.results else ():
            known = read_rows(file) | known
        return known

    def export(self, cells: Iterable[Cell], file: str | Path) -> int:
        """Write the rows of finished cells as a CSV file that a store can read.

        Returns:
            The number of rows.
        """
        with written_whole(Path(file)) as unfinished:
            return write_rows(self._records(cells), unfinished)

    def _records(self, cells: Iterable[Cell]) -> Iterator[tuple[str, Record]]:
        """Give the records of finished cells, each once, with their keys."""
        for key in dict.fromkeys(cell.key for cell in cells):
            record = self._record(key)
            if record is not None:
                yield key, record

    def _record(self, key: str) -> Record | None:
        own = self._own(key)
        return own if isinstance(own, dict) else self.committed.get(key)

    def _own(self, key: str) -> Record | str | None:
        """Return what the file of a cell holds, or how it is damaged; None if none."""
        file = self._file(key)
        try:
            status = file.lstat()
        except OSError:
            return None
        which = (status.st_ino, status.st_size, status.st_mtime_ns)
        known = self._read.get(key)
        if known is None or known[0] != which or file.is_symlink():
            try:
                found: Record | str | None = read_record(file, key)
            except ValueError as error:
                found = str(error)
            if found is None:
                return None
            known = self._read[key] = (which, found)
        return known[1]

    def _file(self, key: str) -> Path:
        return self.folder / f"{key}.json"


@cache
def versions() -> dict[str, str]:
    """Return the versions of the packages that decide a number."""
    return {"python": platform.python_version()} | {
        name: version(name) for name in PACKAGES
    }


def device_name(device: str) -> dict[str, str]:
    """Name a device, or say whose seconds are counted, as one more version."""
    if device == "cpu":
        return PROCESSOR_SECONDS
    kind = torch.device(device).type
    name = torch.cuda.get_device_name(device) if kind == "cuda" else kind
    return {"device": printable(name)}


@cache
def commit() -> str:
    """Return the commit of the source, with a plus if it was changed since.

    Where there is no repository, as on a cluster, ``MA_SBI_COMMIT`` may give it.
    """
    if "MA_SBI_COMMIT" in os.environ:
        return printable(os.environ["MA_SBI_COMMIT"].strip())
    try:
        return subprocess.run(
            ["git", "describe", "--always", "--abbrev=10", "--exclude=*", "--dirty=+"],
            cwd=Path(__file__).parent,
            capture_output=True,
            text=True,
            check=True,
            timeout=10,
            # It only reads: a commit at the same time must not find a lock.
            env=os.environ | {"GIT_OPTIONAL_LOCKS": "0"},
        ).stdout.strip()
    except (OSError, subprocess.SubprocessError):
        return ""
