"""Finished cells: small files that are written whole or not at all, and committed rows.

A store reads two places: its folder, one JSON file per cell, and the CSV files of finished
full-budget rows (``bench/results``). What either holds is never computed again. A cell may
be in any of the CSV files, since experiments share some.
"""

from __future__ import annotations

import csv
import json
import os
import platform
import subprocess
from collections.abc import Iterable
from dataclasses import asdict, fields
from functools import cache, cached_property, partial
from importlib.metadata import version
from pathlib import Path
from typing import Any

import numpy as np
import pandas as pd

from ma_sbi.writing import written_whole
from ma_sbi_bench.engine.cell import Cell, Measurement

__all__ = ["COLUMNS", "Store"]

PACKAGES = ("ma-sbi", "torch", "sbi", "zuko", "scikit-learn", "numpy", "scipy")
COLUMNS = [
    *(known.name for known in fields(Cell)),
    *("metric", "recipe", "num_draws", "num_cases", "value", "values"),
    *("seconds", "versions", "commit", "key"),
]
TYPES: dict[str, Any] = (
    dict.fromkeys(("version", "seed", "num_calibration", "observation", "regime"), "Int64")
    | {"num_draws": "Int64", "num_cases": "Int64", "value": "float64", "seconds": "float64"}
    | dict.fromkeys(("experiment", "method", "task", "backbone"), "str")
    | dict.fromkeys(("metric", "recipe", "commit", "key"), "str")
)


class Store:
    """Numbers of finished cells.

    Args:
        folder: Folder of the cells; made when the first one is written.
        results: Folder of committed rows, one CSV per experiment; other CSV files in it are
            ignored.
    """

    def __init__(self, folder: str | Path, results: str | Path | None = None) -> None:
        self.folder = Path(folder)
        self.results = None if results is None else Path(results)

    def __contains__(self, cell: Cell) -> bool:
        key = cell.key
        return self._file(key).exists() or key in self.committed

    def write(self, cell: Cell, measured: Iterable[Measurement], seconds: float) -> None:
        """Write the numbers of a finished cell, with versions and commit.

        Raises:
            ValueError: If there are none: no row could show that the cell is finished.
        """
        metrics = [asdict(one) | {"values": _as_text(one.values)} for one in measured]
        if not metrics or not all(one["values"] for one in metrics):
            raise ValueError(f"{cell} gave no numbers")
        record = {
            "cell": asdict(cell),
            "measured": metrics,
            "seconds": round(seconds, 2),
            "versions": versions(),
            "commit": commit(),
        }
        with written_whole(self._file(cell.key)) as unfinished:
            unfinished.write_text(json.dumps(record, indent=1), encoding="utf-8")

    def rows(self, cells: Iterable[Cell]) -> pd.DataFrame:
        """Return one row per cell and metric, for those cells that are finished.

        Returns:
            Columns ``COLUMNS``; ``values`` holds arrays, ``settings`` dictionaries.
        """
        found: list[dict[str, Any]] = []
        for key in dict.fromkeys(cell.key for cell in cells):
            file = self._file(key)
            if not file.exists():
                found += self.committed.get(key, [])
                continue
            record = json.loads(file.read_text(encoding="utf-8"))
            about = {name: record[name] for name in ("seconds", "versions", "commit")}
            found += [
                record["cell"] | one | about | {"key": key} for one in record["measured"]
            ]
        return _typed(pd.DataFrame(found, columns=COLUMNS))

    @cached_property
    def committed(self) -> dict[str, list[dict[str, Any]]]:
        """The committed rows of every cell, as they are in their file.

        Raises:
            ValueError: If a file has keys of cells and not all columns.
        """
        known: dict[str, list[dict[str, Any]]] = {}
        for file in sorted(self.results.glob("*.csv")) if self.results else ():
            known = _read_committed(file) | known
        return known

    def export(self, cells: Iterable[Cell], file: str | Path) -> int:
        """Write the rows of finished cells as a CSV file that a store can read.

        Returns:
            The number of rows.
        """
        rows = self.rows(cells)
        in_order = partial(json.dumps, sort_keys=True)
        plain = rows.assign(
            settings=rows["settings"].map(in_order),
            versions=rows["versions"].map(in_order),
            values=rows["values"].map(_as_text),
            value=rows["value"].map("{:.6g}".format),
        )
        with written_whole(Path(file)) as unfinished:
            plain.to_csv(unfinished, index=False, lineterminator="\n")
        return len(rows)

    def _file(self, key: str) -> Path:
        return self.folder / f"{key}.json"


def _read_committed(file: Path) -> dict[str, list[dict[str, Any]]]:
    """Read the rows of each cell; none if the file holds something else."""
    known: dict[str, list[dict[str, Any]]] = {}
    with file.open(newline="", encoding="utf-8") as text:
        reader = csv.DictReader(text)
        head = set(reader.fieldnames or ())
        if "key" not in head:
            return {}
        if missing := sorted(set(COLUMNS) - head):
            lacks = f"it has no columns {', '.join(missing)}"
            raise ValueError(f"{file} is not a file of results: {lacks}")
        for row in reader:
            if None in row or None in row.values():
                line = f"{file}, line {reader.line_num}"
                raise ValueError(f"{line}: not as many fields as columns")
            known.setdefault(row["key"], []).append(row)
    return known


def _typed(rows: pd.DataFrame) -> pd.DataFrame:
    """Give every column its type, whether it comes from JSON or from CSV."""
    for name in ("settings", "versions"):
        known = [json.loads(v) if isinstance(v, str) else v for v in rows[name]]
        rows[name] = pd.Series(known, dtype=object)
    values = [np.array([float(one) for one in text.split()]) for text in rows["values"]]
    rows["values"] = pd.Series(values, dtype=object)
    # From the values themselves: the column of a CSV file is rounded.
    rows["num_cases"] = [len(one) for one in values]
    rows["value"] = [float(one.mean()) for one in values]
    for name, kind in TYPES.items():
        column = rows[name] if kind == "str" else pd.to_numeric(rows[name])
        rows[name] = column.astype(kind)
    return rows


def _as_text(values: Iterable[float]) -> str:
    return " ".join(f"{value:.6g}" for value in values)


@cache
def versions() -> dict[str, str]:
    """Return the versions of the packages that decide a number."""
    return {"python": platform.python_version()} | {
        name: version(name) for name in PACKAGES
    }


@cache
def commit() -> str:
    """Return the commit of the source, with a plus if it was changed since.

    Where there is no repository, as on a cluster, ``MA_SBI_COMMIT`` may give it.
    """
    if "MA_SBI_COMMIT" in os.environ:
        return os.environ["MA_SBI_COMMIT"]
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
