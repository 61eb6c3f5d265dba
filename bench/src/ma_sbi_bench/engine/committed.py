"""Files of committed rows: a row per cell and metric, with the checksum of its record.

Files that were written before there were checksums are read as well. Of each row, ``value``
and ``num_cases`` must be those of ``values``.
"""

from __future__ import annotations

import csv
import json
import math
from collections.abc import Iterable, Sequence
from dataclasses import fields
from functools import partial
from pathlib import Path
from typing import Any, TextIO

import numpy as np

from ma_sbi_bench.engine.cell import Cell
from ma_sbi_bench.engine.records import Record, as_text, checked, checksum, numbers

__all__ = ["COLUMNS", "read_rows", "rows_of", "write_rows"]

CELL = [known.name for known in fields(Cell)]
COLUMNS = [
    *CELL,
    *("metric", "recipe", "num_draws", "num_cases", "value", "values"),
    *("seconds", "versions", "commit", "key"),
]
"""Columns of a row; a file has one more, ``checksum``."""
WHOLE = {"version", "seed", "num_calibration", "observation", "regime", "num_draws"}
# Half a unit of the sixth digit, and what a sum may lose.
ROUNDING = 5.1e-6


def rows_of(record: Record, key: str) -> list[dict[str, Any]]:
    """Return one row per metric, with columns ``COLUMNS``; ``values`` is an array."""
    about = {name: record[name] for name in ("seconds", "versions", "commit")}
    rows = [record["cell"] | one | about | {"key": key} for one in record["measured"]]
    for row in rows:
        row["values"] = np.array(numbers(row["values"]))
        row |= {"num_cases": len(row["values"]), "value": _mean(row["values"])}
    return rows


def write_rows(records: Iterable[tuple[str, Record]], file: Path) -> int:
    """Write records, each with its key, as a CSV file; return the number of rows."""
    in_order = partial(json.dumps, sort_keys=True)
    with file.open("w", newline="", encoding="utf-8") as text:
        writer = csv.DictWriter(text, [*COLUMNS, "checksum"], lineterminator="\n")
        writer.writeheader()
        num = 0
        for key, record in records:
            for row in rows_of(record, key):
                row |= {name: in_order(row[name]) for name in ("settings", "versions")}
                row |= {"value": f"{row['value']:.6g}", "values": as_text(row["values"])}
                writer.writerow(row | {"checksum": checksum(record)})
                num += 1
    return num


def read_rows(file: Path) -> dict[str, Record]:
    """Read the records of a CSV file by key; none if it is about something else.

    Raises:
        ValueError: If it is damaged; the sentence names the file and the line.
    """
    if not file.is_file():  # to open a pipe would wait for ever
        raise ValueError(f"{file} is not a plain file")
    try:
        with file.open(newline="", encoding="utf-8") as text:
            return _records(text, file)
    except OSError as error:
        raise ValueError(f"{file} cannot be read: {error.strerror}") from error
    except (UnicodeDecodeError, csv.Error) as error:
        raise ValueError(f"{file} is damaged: {error}") from error


def _records(text: TextIO, file: Path) -> dict[str, Record]:
    reader = csv.DictReader(text)
    head = set(reader.fieldnames or ())
    if not head:
        raise ValueError(f"{file} is empty: it has no columns")
    # A damaged name of a column does not make it a file about something else.
    if "key" not in head and len(head.intersection(COLUMNS)) < len(COLUMNS) / 2:
        return {}
    if missing := sorted(set(COLUMNS) - head):
        lacks = f"it has no columns {', '.join(missing)}"
        raise ValueError(f"{file} is not a file of results: {lacks}")
    found: dict[str, Record] = {}
    lines: dict[str, int] = {}
    for row in reader:
        line = f"{file}, line {reader.line_num}"
        if None in row or None in row.values():
            raise ValueError(f"{line}: not as many fields as columns")
        try:
            one = _record(row)
        except (ValueError, RecursionError) as error:
            raise ValueError(f"{line}: {error}") from error
        known = found.setdefault(row["key"], one)
        lines.setdefault(row["key"], reader.line_num)
        if known is not one:
            measured = one.pop("measured")
            if one != {name: known[name] for name in one}:
                said = f"it differs from line {lines[row['key']]}, of the same cell"
                raise ValueError(f"{line}: {said}")
            known["measured"] += measured
    for key, record in found.items():
        try:
            checked(record, key)
        except ValueError as error:
            at = f"{file}, line {lines[key]} ({len(record['measured'])} rows of a cell)"
            raise ValueError(f"{at}: {error}") from error
    return found


def _record(row: dict[str, str]) -> Record:
    """Make a record of one metric out of a row."""
    values = numbers(row["values"])
    if row["num_cases"] != str(len(values)):
        said = f"num_cases is {row['num_cases']!r}, values are {len(values)} numbers"
        raise ValueError(said)
    if not _agrees(row["value"], values):
        said = f"value is {row['value']!r}, the mean of values {_mean(values):.6g}"
        raise ValueError(said)
    metric = {name: row[name] for name in ("metric", "recipe", "values")}
    record: Record = {
        "cell": {name: _typed(name, row[name]) for name in CELL},
        "measured": [metric | {"num_draws": _typed("num_draws", row["num_draws"])}],
        "seconds": _typed("seconds", row["seconds"]),
        "versions": _typed("versions", row["versions"]),
        "commit": row["commit"],
    }
    return record | {name: row[name] for name in ("checksum",) if name in row}


def _typed(name: str, text: str) -> Any:
    """Turn the text of a field into what it was before it was written."""
    try:
        if name in WHOLE:
            return int(text) if text else None
        if name == "seconds":
            return float(text)
        return json.loads(text) if name in ("settings", "versions") else text
    except ValueError as error:
        raise ValueError(f"{name} must not be {text!r}") from error


def _agrees(written: str, values: list[float]) -> bool:
    """Tell whether a mean that was rounded to six digits is that of the values."""
    mean = _mean(values)
    if written == f"{mean:.6g}":
        return True
    lost = 1e-12 * max(map(abs, values))
    return math.isclose(float(written), mean, rel_tol=ROUNDING, abs_tol=lost)


def _mean(values: Sequence[float] | np.ndarray) -> float:
    with np.errstate(invalid="ignore"):  # infinities of both signs
        return float(np.mean(values))
