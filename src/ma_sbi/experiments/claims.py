"""How a claim in words is judged by numbers.

A claim **holds** if our 95 % intervals leave no other reading, **fails** if they exclude
it, and is **open** if they allow both. One on several tasks holds **in part** where they
differ.
"""

from __future__ import annotations

import math
from collections.abc import Sequence
from dataclasses import dataclass
from typing import Literal, NoReturn

from ma_sbi.experiments.comparing import Compared, Line

__all__ = [
    "Claim",
    "Found",
    "Lines",
    "Outcome",
    "against",
    "at_least",
    "at_most",
    "by_verdict",
    "difference",
    "missing",
    "percent",
    "within",
]

Outcome = Literal["holds", "in part", "fails", "open", "not run"]
Found = tuple[Outcome, str]
"""An outcome, and the number behind it."""


@dataclass(frozen=True)
class Claim:
    """A claim of the paper.

    Attributes:
        said: What it says.
        experiment: Name of the experiment that tests it.
        outcome: What became of it.
        found: Our numbers.
    """

    said: str
    experiment: str
    outcome: Outcome
    found: str


class Lines:
    """The lines of an experiment, to be looked up by their labels."""

    def __init__(self, lines: Sequence[Line]) -> None:
        self.all = lines

    def some(self, table: str = "", **labels: str | float) -> list[Line]:
        """Find lines by a part of the table's title and by labels.

        Raises:
            LookupError: If there is none: its cells are not finished.
        """
        found = [
            line
            for line in self.all
            if table in line.table
            and all(line.labels.get(name) == label for name, label in labels.items())
        ]
        return found or missing()

    def one(self, table: str = "", **labels: str | float) -> Line:
        """Find the first such line."""
        return self.some(table, **labels)[0]

    def share(self, table: str = "", **labels: str | float) -> Compared:
        """Find the share of the gap that a line closes."""
        return self.one(table, **labels).closed or missing()

    def number(self, table: str = "", **labels: str | float) -> Compared:
        """Find the metric of a line."""
        return self.one(table, **labels).raw or missing()


def missing() -> NoReturn:
    """Say that a number is not there, because its cells are not finished."""
    raise LookupError


def at_least(number: Compared, limit: float) -> Outcome:
    """Say whether a number is above a limit."""
    if number.low > limit:
        return "holds"
    return "fails" if number.high < limit else "open"


def at_most(number: Compared, limit: float) -> Outcome:
    """Say whether a number is below a limit."""
    if number.high < limit:
        return "holds"
    return "fails" if number.low > limit else "open"


def within(number: Compared, limit: float) -> Outcome:
    """Say whether a number is nearer to zero than a limit."""
    if -limit < number.low and number.high < limit:
        return "holds"
    return "fails" if number.low > limit or number.high < -limit else "open"


def difference(first: Compared, second: Compared) -> Compared:
    """Subtract as if both were independent, which is wide where they share their cases."""
    value = first.value - second.value
    half = math.hypot(*((one.high - one.low) / 2 for one in (first, second)))
    return Compared(value, value - half, value + half)


def by_verdict(line: Line) -> Outcome:
    """Take the verdict on a figure for the claim."""
    outcomes: dict[str, Outcome] = {
        "reproduced": "holds",
        "better": "holds",
        "not reproduced": "fails",
    }
    return outcomes.get(line.verdict, "open")


def percent(number: Compared) -> str:
    """Show a share with its interval."""
    if math.isnan(number.value):
        return number.reason
    return f"{number.value:.0f} % [{number.low:.0f}, {number.high:.0f}]"


def against(first: Compared, second: Compared) -> Found:
    """Say whether the first share is larger."""
    words = f"{percent(first)} against {percent(second)}"
    return at_least(difference(first, second), 0.0), words
