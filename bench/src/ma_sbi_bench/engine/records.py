"""A record: the numbers of one finished cell, and what shows that they are still the same.

It is the content of a cell's file, and one or more rows of a CSV file. Wherever it is read,
it must hold the cell of its key, and have the checksum that it was written with.
"""

from __future__ import annotations

import json
import math
from collections.abc import Iterable, Mapping
from dataclasses import asdict, fields
from pathlib import Path
from typing import Any

from ma_sbi_bench.engine.cell import Cell, Measurement, fingerprint

__all__ = [
    "Record",
    "as_text",
    "checked",
    "checksum",
    "make_record",
    "numbers",
    "read_record",
]

Record = dict[str, Any]
"""``cell``, ``measured`` (one entry per metric), ``seconds``, ``versions``, ``commit``,
``checksum``; all of types that JSON has."""

PARTS = {"cell", "measured", "seconds", "versions", "commit"}
METRIC = {known.name for known in fields(Measurement)}


def make_record(
    cell: Cell,
    measured: Iterable[Measurement],
    seconds: float,
    versions: Mapping[str, str],
    commit: str,
) -> Record:
    """Put together the record of a finished cell.

    Raises:
        ValueError: If there are no numbers: no row could show that the cell is finished.
    """
    metrics = [asdict(one) | {"values": as_text(one.values)} for one in measured]
    if not metrics or not all(one["values"] for one in metrics):
        raise ValueError(f"{cell} gave no numbers")
    record = {
        "cell": asdict(cell),
        "measured": metrics,
        "seconds": float(round(seconds, 2)),
        "versions": dict(versions),
        "commit": commit,
    }
    return checked(record | {"checksum": checksum(record)}, cell.key)


def read_record(file: Path, key: str) -> Record | None:
    """Read the file of a cell; None if there is none.

    Raises:
        ValueError: If it is damaged; the sentence says how.
    """
    try:
        if not file.exists():
            return None
        if not file.is_file():  # to open a pipe would wait for ever
            raise ValueError("it is not a plain file")
        return checked(json.loads(file.read_bytes()), key)
    except OSError as error:
        raise ValueError(f"it cannot be read ({error.strerror})") from error
    except (json.JSONDecodeError, UnicodeDecodeError, RecursionError) as error:
        raise ValueError(f"it is cut off, or no JSON ({error})") from error


def checked(record: Any, key: str) -> Record:
    """Return a record that is whole, and is that of its key.

    Records that were written before there were checksums have none.

    Raises:
        ValueError: If it is damaged; the sentence says how.
    """
    if not isinstance(record, dict) or record.keys() - {"checksum"} != PARTS:
        raise ValueError(f"it must hold {', '.join(sorted(PARTS))}")
    if not isinstance(record["cell"], dict) or fingerprint(record["cell"]) != key:
        raise ValueError("it is not the record of the cell that its name says")
    if "checksum" in record and record["checksum"] != checksum(record):
        raise ValueError("its content is not what was written: the checksum is another")
    measured, about = record["measured"], record["versions"]
    if not isinstance(measured, list) or not measured or not isinstance(about, dict):
        raise ValueError("it has no numbers, or no versions")
    for one in measured:
        if not isinstance(one, dict) or one.keys() != METRIC:
            raise ValueError(f"a metric must hold {', '.join(sorted(METRIC))}")
        numbers(one["values"])
        if type(one["num_draws"]) not in (int, type(None)):
            raise ValueError(f"num_draws must be a whole number, got {one['num_draws']!r}")
    seconds = record["seconds"]
    if not isinstance(seconds, float) or not 0 <= seconds < math.inf:
        raise ValueError(f"seconds must be a time, got {seconds!r}")
    # They are shown: a terminal would obey control characters.
    shown = [one[name] for one in measured for name in ("metric", "recipe")]
    for text in (*shown, *about, *about.values(), record["commit"]):
        if not isinstance(text, str) or not text.isprintable():
            raise ValueError(f"it must hold printable texts, got {text!r}")
    return record


def checksum(record: Mapping[str, Any]) -> str:
    """Hash everything in a record but its checksum."""
    return fingerprint({name: record[name] for name in PARTS})


def numbers(values: Any) -> list[float]:
    """Return the numbers that a text of values holds.

    Raises:
        ValueError: If it holds none, or something else.
    """
    try:
        found = [float(one) for one in values.split()]
    except (AttributeError, ValueError) as error:
        raise ValueError(f"values must be numbers: {error}") from error
    if not found:
        raise ValueError("values must be numbers, got none")
    return found


def as_text(values: Iterable[float]) -> str:
    """Write numbers as a record has them."""
    return " ".join(f"{value:.6g}" for value in values)
