"""Every number that the paper prints, in ``paper.csv``."""

from __future__ import annotations

import csv
from functools import cache
from importlib.resources import files
from typing import NamedTuple

__all__ = ["Printed", "paper_row", "printed", "printed_beside", "read_printed"]

KEY_COLUMNS = ("table", "metric", "task", "backbone", "method", "axis")


# The paper's text allows two readings of these rows; its figures stand beside one of them.
READ_AS = {"rope_emd": "rope_emd_aligned", "rope_sinkhorn": "rope_sinkhorn_aligned"}


class Printed(NamedTuple):
    """A number as the paper prints it.

    Attributes:
        value: The number.
        digits: Decimals that it is printed with.
    """

    value: float
    digits: int

    def agrees(self, other: Printed) -> bool:
        """Whether one is the other, rounded to fewer digits."""
        rounding = 0.5 * 10.0 ** -min(self.digits, other.digits)
        return abs(self.value - other.value) <= rounding * (1 + 1e-9)


def printed(
    table: str,
    metric: str,
    *,
    task: str = "",
    backbone: str = "",
    method: str = "",
    axis: str | float = "",
) -> Printed | None:
    """Look a number up; None if the paper does not print it.

    Args:
        table: Name of the experiment that reproduces the table.
        metric: What is printed, for example ``"c2st"`` or ``"gap_closed"``.
        task: The world; empty if the table has one only.
        backbone: The kind of posterior, likewise.
        method: The row, likewise.
        axis: The point of a sweep, for example ``"n_cal=100"``, likewise.
    """
    at = axis if isinstance(axis, str) else f"{axis:g}"
    return _paper().get((table, metric, task, backbone, method, at))


def paper_row(method: str) -> str:
    """Name the row of the paper whose figures stand beside a row of ours.

    Args:
        method: Label of our row.

    Returns:
        Its name in ``paper.csv``, mostly the same; empty if it is another reading of a row
        whose figures stand elsewhere.

    Example:
        >>> paper_row("rope_emd_aligned"), paper_row("rope_emd"), paper_row("npe")
        ('rope_emd', '', 'npe')
    """
    if method in READ_AS:
        return ""
    return next((row for row, ours in READ_AS.items() if ours == method), method)


def printed_beside(table: str, metric: str, *, method: str, **where: str) -> Printed | None:
    """Look up the number that stands beside a row of ours.

    Args:
        table: Name of the experiment.
        metric: What is printed.
        method: Label of our row.
        **where: The other labels of :func:`printed`.
    """
    row = paper_row(method)
    return printed(table, metric, method=row, **where) if row else None


def read_printed(text: str) -> dict[tuple[str, ...], Printed]:
    """Read numbers from the text of a CSV file, by the columns ``KEY_COLUMNS``.

    Raises:
        ValueError: If two rows have the same labels.
    """
    found: dict[tuple[str, ...], Printed] = {}
    for row in csv.DictReader(text.splitlines()):
        key = tuple(row[label] for label in KEY_COLUMNS)
        if key in found:
            raise ValueError(f"paper.csv prints {key} twice")
        found[key] = Printed(float(row["value"]), int(row["digits"]))
    return found


@cache
def _paper() -> dict[tuple[str, ...], Printed]:
    file = files("ma_sbi_bench.paper").joinpath("paper.csv")
    return read_printed(file.read_text(encoding="utf-8"))
