"""How a claim in words is judged by numbers.

A claim **holds** if our 95 % intervals (single values, where noise is negligible) imply
it, **fails** if they exclude it, and is **open** if they allow both. One on several tasks
holds **in part** if it holds on some of them.
"""

from __future__ import annotations

import math
from collections.abc import Callable, Iterable, Mapping, Sequence
from dataclasses import dataclass
from typing import Literal, NoReturn

from ma_sbi_bench.paper.comparing import Compared, Line

__all__ = [
    "Case",
    "Claim",
    "Found",
    "Lines",
    "Outcome",
    "Unfinished",
    "alike",
    "at_least",
    "at_most",
    "by_verdict",
    "difference",
    "everywhere",
    "larger",
    "missing",
    "percent",
    "share",
    "together",
    "within",
]

Outcome = Literal["holds", "in part", "fails", "open", "not run"]
Found = tuple[Outcome, str]
"""An outcome, and the number behind it."""
Labels = Mapping[str, str | float]


@dataclass(frozen=True)
class Claim:
    """A claim of the paper.

    Attributes:
        said: What it says.
        experiment: Name of the experiment that tests it.
        outcome: The outcome.
        found: Our numbers.
    """

    said: str
    experiment: str
    outcome: Outcome
    found: str


class Unfinished(Exception):
    """A number is not there, because its cells are not finished."""


def missing() -> NoReturn:
    """Say that a number is not there yet."""
    raise Unfinished


class Lines:
    """The lines of an experiment, to be looked up by their labels.

    Args:
        lines: All of them.
    """

    def __init__(self, lines: Sequence[Line]) -> None:
        self._lines = lines

    def some(self, table: str = "", **labels: str | float) -> list[Line]:
        """Find lines by a part of the table's title and by labels.

        Raises:
            Unfinished: If there is none.
        """
        found = [
            line
            for line in self._lines
            if table in line.table
            and all(line.labels.get(name) == label for name, label in labels.items())
        ]
        return found or missing()

    def number(self, table: str = "", **labels: str | float) -> Compared:
        """Find the metric of a line."""
        return self._one(table, labels).raw or missing()

    def share(self, table: str = "", **labels: str | float) -> Compared:
        """Find the share of the gap that a line closes."""
        return self._one(table, labels).closed or missing()

    def _one(self, table: str, labels: dict[str, str | float]) -> Line:
        first, *others = self.some(table, **labels)
        if others:
            raise ValueError(f"{labels} are the labels of {1 + len(others)} lines")
        return first


Case = Callable[[Lines], Found]
"""Judges one case of a claim."""


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


def by_verdict(number: Compared) -> Outcome:
    """Take the verdict on a figure for the claim."""
    outcomes: dict[str, Outcome] = {
        "reproduced": "holds",
        "better": "holds",
        "not reproduced": "fails",
    }
    return outcomes.get(number.verdict, "open")


def difference(first: Compared, second: Compared) -> Compared:
    """Subtract as if both were independent, which is wide where they share their cases."""
    value = first.value - second.value
    half = math.hypot(*((one.high - one.low) / 2 for one in (first, second)))
    return Compared(value, value - half, value + half)


def share(
    criterion: Callable[..., Outcome],
    *limits: float,
    table: str = "",
    **labels: str | float,
) -> Case:
    """Judge a share of the gap.

    Args:
        criterion: Says of the share and the limits whether the claim holds.
        *limits: Limits of the criterion.
        table: A part of the table's title.
        **labels: Labels of the line.
    """

    def judge(lines: Lines) -> Found:
        one = lines.share(table, **labels)
        return criterion(one, *limits), percent(one)

    return judge


def larger(first: Labels, second: Labels, table: str = "", **labels: str | float) -> Case:
    """Judge whether one share is larger than another, which differs in some labels."""

    def judge(lines: Lines) -> Found:
        one, other = (lines.share(table, **labels, **more) for more in (first, second))
        outcome = at_least(difference(one, other), 0.0)
        return outcome, f"{percent(one)} against {percent(other)}"

    return judge


def alike(
    limit: float, first: Labels, second: Labels, table: str = "", **labels: str | float
) -> Case:
    """Judge whether two shares differ by less than a limit, in points."""

    def judge(lines: Lines) -> Found:
        one, other = (lines.share(table, **labels, **more) for more in (first, second))
        outcome = within(difference(one, other), limit)
        return outcome, f"{percent(one)} and {percent(other)}"

    return judge


def everywhere(outcomes: Iterable[Outcome]) -> Outcome:
    """Judge what must hold in every case: it fails if it fails in one."""
    known = set(outcomes)
    if known == {"holds"}:
        return "holds"
    return "fails" if "fails" in known else "open"


def together(outcomes: Iterable[Outcome]) -> Outcome:
    """Judge what is claimed of several tasks: it holds in part if it holds on some."""
    known = set(outcomes)
    if len(known) == 1:
        return known.pop()
    if "holds" in known:
        return "in part"
    return "fails" if "fails" in known else "open"


def percent(number: Compared) -> str:
    """Show a share with its interval, if it has one."""
    if math.isnan(number.value):
        return number.reason or "unknown"
    shown = f"{number.value:.0f} %"
    if math.isnan(number.low) or number.low == number.high:
        return shown
    return f"{shown} [{number.low:.0f}, {number.high:.0f}]"
