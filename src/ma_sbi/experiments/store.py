"""Finished cells: small files that are written whole or not at all, and committed rows.

A store reads two places: its folder, one JSON file per cell, and the CSV files of finished
full-budget rows (``results/``). What either holds is never computed again. Which CSV file
holds a cell does not matter: experiments share some.
"""

from __future__ import annotations

import json
import os
import platform
import subprocess
from collections.abc import Iterable
from dataclasses import asdict, fields
from functools import cache
from importlib.metadata import version
from pathlib import Path
from typing import Any

import numpy as np
import pandas as pd

from ma_sbi.experiments.cell import Cell, Measurement

__all__ = ["Store"]

PACKAGES = ("ma-sbi", "torch", "sbi", "zuko", "scikit-learn", "numpy", "scipy")
CELL_COLUMNS = [known.name for known in fields(Cell)]
COLUMNS = [
    *CELL_COLUMNS,
    "metric",
    "recipe",
    "num_draws",
    "num_cases",
    "value",
    "values",
    "seconds",
    "versions",
    "commit",
    "key",
]


class Store:
    """Numbers that are known already.

    Args:
        folder: Folder of the cells; made when the first one is written.
        results: Folder of committed rows, one CSV per experiment; other CSV files in it are
            left alone. None to ignore it.
    """

    def __init__(self, folder: str | Path, results: str | Path | None = None) -> None:
        self.folder = Path(folder)
        self.results = None if results is None else Path(results)
        self._committed: dict[str, list[dict[str, Any]]] | None = None

    def __contains__(self, cell: Cell) -> bool:
        return self._file(cell.key).exists() or cell.key in self.committed()

    def write(self, cell: Cell, measured: Iterable[Measurement], seconds: float) -> None:
        """Keep the numbers of a finished cell, with where they come from."""
        record = {
            "cell": asdict(cell),
            "measured": [
                asdict(one) | {"values": _as_text(one.values)} for one in measured
            ],
            "seconds": round(seconds, 2),
            "versions": versions(),
            "commit": commit(),
        }
        file = self._file(cell.key)
        file.parent.mkdir(parents=True, exist_ok=True)
        # A name of its own for every process: two may finish the same cell.
        unfinished = file.with_suffix(f".{os.getpid()}.unfinished")
        unfinished.write_text(json.dumps(record, indent=1), encoding="utf-8")
        unfinished.replace(file)

    def rows(self, cells: Iterable[Cell]) -> pd.DataFrame:
        """Return one row per cell and metric, for those cells that are finished.

        Returns:
            Columns ``COLUMNS``; ``values`` holds arrays, ``settings`` dictionaries.
        """
        found = []
        for cell in cells:
            file = self._file(cell.key)
            if file.exists():
                found += _flatten(json.loads(file.read_text(encoding="utf-8")))
            else:
                found += self.committed().get(cell.key, [])
        return _typed(pd.DataFrame(found, columns=COLUMNS))

    def committed(self) -> dict[str, list[dict[str, Any]]]:
        """Return the committed rows of every cell, as they are in their file.

        Raises:
            ValueError: If a file has keys of cells and not all columns.
        """
        if self._committed is None:
            self._committed = {}
            files = [] if self.results is None else sorted(self.results.glob("*.csv"))
            for file in files:
                self._committed = _read_committed(file) | self._committed
        return self._committed

    def export(self, cells: Iterable[Cell], file: Path) -> int:
        """Write the rows of finished cells as a CSV file that a store can read.

        Returns:
            The number of rows.
        """
        rows = self.rows(cells)
        plain = rows.assign(
            settings=[json.dumps(one, sort_keys=True) for one in rows["settings"]],
            versions=[json.dumps(one, sort_keys=True) for one in rows["versions"]],
            values=[_as_text(one) for one in rows["values"]],
            value=[f"{one:.6g}" for one in rows["value"]],
        )
        file.parent.mkdir(parents=True, exist_ok=True)
        unfinished = file.with_suffix(".unfinished")
        plain.to_csv(unfinished, index=False, lineterminator="\n")
        unfinished.replace(file)
        return len(rows)

    def _file(self, key: str) -> Path:
        return self.folder / f"{key}.json"


def _read_committed(file: Path) -> dict[str, list[dict[str, Any]]]:
    """Read the rows of each cell; none if the file holds something else."""
    head = pd.read_csv(file, nrows=0)
    if "key" not in head:
        return {}
    missing = set(COLUMNS) - set(head)
    if missing:
        raise ValueError(
            f"{file} is not a file of results: it has no columns "
            f"{', '.join(sorted(missing))}"
        )
    rows = pd.read_csv(file, dtype=str, keep_default_na=False)
    return {str(key): part.to_dict("records") for key, part in rows.groupby("key")}


def _flatten(record: dict[str, Any]) -> list[dict[str, Any]]:
    """Turn the contents of a file into rows."""
    cell = record["cell"]
    key = Cell(**cell).key
    rows = []
    for one in record["measured"]:
        values = _as_numbers(one["values"])
        rows.append(
            cell
            | one
            | {
                "num_cases": len(values),
                "value": float(np.mean(values)),
                "seconds": record["seconds"],
                "versions": record["versions"],
                "commit": record["commit"],
                "key": key,
            }
        )
    return rows


def _typed(rows: pd.DataFrame) -> pd.DataFrame:
    """Give every column its type, whether it comes from JSON or from CSV."""
    for name in ("settings", "versions"):
        rows[name] = [json.loads(v) if isinstance(v, str) else v for v in rows[name]]
    rows["values"] = pd.Series([_as_numbers(v) for v in rows["values"]], dtype=object)
    whole = ("version", "seed", "num_calibration", "observation", "regime", "num_draws")
    for name in (*whole, "num_cases"):
        rows[name] = pd.to_numeric(rows[name], errors="coerce").astype("Int64")
    for name in ("value", "seconds"):
        rows[name] = pd.to_numeric(rows[name], errors="coerce").astype(float)
    return rows


def _as_text(values: Iterable[float]) -> str:
    return " ".join(f"{value:.6g}" for value in values)


def _as_numbers(text: str) -> np.ndarray:
    return np.array([float(value) for value in text.split()])


def versions() -> dict[str, str]:
    """Name the versions of what decides a number."""
    found = {name: version(name) for name in PACKAGES}
    return {"python": platform.python_version()} | found


@cache
def commit() -> str:
    """Name the commit of the source, with a plus if it was changed since.

    Where there is no repository, as on a cluster, ``MA_SBI_COMMIT`` may name it.
    """
    if "MA_SBI_COMMIT" in os.environ:
        return os.environ["MA_SBI_COMMIT"]
    source = Path(__file__).parents[1]
    try:
        return subprocess.run(
            ["git", "describe", "--always", "--abbrev=10", "--exclude=*", "--dirty=+"],
            cwd=source,
            capture_output=True,
            text=True,
            check=True,
            timeout=10,
        ).stdout.strip()
    except (OSError, subprocess.SubprocessError):
        return ""
