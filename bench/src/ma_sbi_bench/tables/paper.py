"""Every figure that the paper prints, in ``paper.csv``."""

from __future__ import annotations

import csv
from functools import cache
from importlib.resources import files
from typing import NamedTuple

__all__ = ["Printed", "printed"]


class Printed(NamedTuple):
    """A figure as the paper prints it.

    Attributes:
        value: The number.
        digits: Decimals that it is printed with.
    """

    value: float
    digits: int


def printed(
    table: str,
    metric: str,
    *,
    task: str = "",
    backbone: str = "",
    method: str = "",
    axis: str | float = "",
) -> Printed | None:
    """Look a figure up; None if the paper does not print it.

    Args:
        table: Name of the experiment that reproduces the table.
        metric: What is printed, for example ``"c2st"`` or ``"gap_closed"``.
        task: The world; empty if the table has one only.
        backbone: The kind of posterior, likewise.
        method: The row, likewise.
        axis: The point of a sweep, likewise.
    """
    at = f"{axis:g}" if isinstance(axis, (int, float)) else axis
    return _figures().get((table, metric, task, backbone, method, at))


@cache
def _figures() -> dict[tuple[str, ...], Printed]:
    text = files("ma_sbi_bench.tables").joinpath("paper.csv").read_text(encoding="utf-8")
    found: dict[tuple[str, ...], Printed] = {}
    for row in csv.DictReader(text.splitlines()):
        labels = ("table", "metric", "task", "backbone", "method", "axis")
        key = tuple(row[label] for label in labels)
        if key in found:
            raise ValueError(f"paper.csv prints {key} twice")
        found[key] = Printed(float(row["value"]), int(row["digits"]))
    return found
