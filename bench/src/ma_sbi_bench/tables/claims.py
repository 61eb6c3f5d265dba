"""How a claim in words is judged by numbers.

A claim **holds** if our 95 % intervals (single values, where noise is negligible) imply
it, **fails** if they exclude it, and is **open** if they allow both. One on several tasks
holds **in part** if it holds on some of them.
"""

from __future__ import annotations

import math
from collections.abc import Callable, Iterable, Mapping, Sequence
from dataclasses import dataclass, field, fields
from typing import Any, Literal, NoReturn

from ma_sbi_bench.paper.comparing import Compared, Line, Verdict, exactly

__all__ = [
    "BY_VERDICT",
    "RULES",
    "Claim",
    "Criterion",
    "Found",
    "Lines",
    "Outcome",
    "Unfinished",
    "at_least",
    "at_most",
    "by_verdict",
    "difference",
    "everywhere",
    "missing",
    "percent",
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
        """Find lines by the table's title, or a part of it, and by labels.

        Args:
            table: The title; a part of it, if no table has it for its title.
            **labels: Labels of the line.

        Raises:
            Unfinished: If there is none.
        """
        whole = any(line.table == table for line in self._lines)
        found = [
            line
            for line in self._lines
            if (line.table == table if whole else table in line.table)
            and all(line.labels.get(name) == label for name, label in labels.items())
        ]
        return found or missing()

    def number(self, table: str = "", **labels: str | float) -> Compared:
        """Find the metric of a line."""
        return self.one(table, labels).raw or missing()

    def share(self, table: str = "", **labels: str | float) -> Compared:
        """Find the share of the gap that a line closes."""
        return self.one(table, labels).closed or missing()

    def one(self, table: str, labels: Labels) -> Line:
        """Find a line.

        Raises:
            Unfinished: If there is none.
            ValueError: If there are several.
        """
        first, *others = self.some(table, **labels)
        if others:
            raise ValueError(f"{labels} are the labels of {1 + len(others)} lines")
        return first


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


def by_verdict(verdict: Verdict) -> Outcome:
    """Take the verdict on a line for the claim."""
    outcomes: dict[Verdict, Outcome] = {
        "reproduced": "holds",
        "better": "holds",
        "not reproduced": "fails",
    }
    return outcomes.get(verdict, "open")


def difference(first: Compared, second: Compared) -> Compared:
    """Subtract as if both were independent, which is wide where they share their cases."""
    value = first.value - second.value
    half = math.hypot(*((one.high - one.low) / 2 for one in (first, second)))
    return Compared(value, value - half, value + half)


BY_VERDICT = "by_verdict"
"""The rule that takes the verdict on a line, whatever its limit."""
RULES: dict[str, Callable[[Compared, float], Outcome]] = {
    "at_least": at_least,
    "at_most": at_most,
    "within": within,
}
"""Rules on a number and a limit."""


@dataclass(frozen=True)
class Criterion:
    """A rule on the number of a line, or on its difference from that of another one.

    Attributes:
        rule: Name of the rule.
        limit: Its limit.
        figure: ``"share"`` of the gap, ``"number"`` (the metric), or ``"value"`` (the
            metric without its interval).
        table: A part of the table's title.
        labels: Labels of the line.
        against: Labels in which the other line differs; None is a label it need not have.
        beside: Labels in which a line differs that is shown, and judged by nothing.
        shown: Template of what is said of the numbers.
    """

    rule: str
    limit: float = 0.0
    figure: Literal["share", "number", "value"] = "share"
    table: str = ""
    labels: Labels = field(default_factory=dict)
    against: Mapping[str, str | float | None] = field(default_factory=dict)
    beside: Labels = field(default_factory=dict)
    shown: str = ""

    @classmethod
    def of(cls, known: Mapping[str, Any]) -> Criterion:
        """Make a criterion; what is not one of its attributes is a label."""
        names = {one.name for one in fields(cls)}
        own = {name: value for name, value in known.items() if name in names}
        labels = {name: value for name, value in known.items() if name not in names}
        return cls(**own, labels=labels)

    def judge(self, lines: Lines) -> Found:
        """Judge by the lines of an experiment."""
        judged = one = self._number(lines, self.labels)
        if self.figure != "share" and math.isnan(one.value):
            return "not run", one.reason
        said = {"share": percent(one), "note": lines.one(self.table, self.labels).note}
        if self.beside:
            said["beside_share"] = percent(
                self._number(lines, {**self.labels, **self.beside})
            )
        shown = self.shown or "{share}"
        if self.against:
            both = {**self.labels, **self.against}
            labels = {name: label for name, label in both.items() if label is not None}
            other = self._number(lines, labels)
            judged = difference(one, other)
            said["other_share"] = percent(other)
            link = "and" if self.rule == "within" else "against"
            shown = self.shown or f"{{share}} {link} {{other_share}}"
        words = shown.format(one=one, judged=judged, **said)
        if self.rule == BY_VERDICT:
            return by_verdict(lines.one(self.table, self.labels).verdict), words
        return RULES[self.rule](judged, self.limit), words

    def _number(self, lines: Lines, labels: Labels) -> Compared:
        if self.figure == "share":
            return lines.share(self.table, **labels)
        number = lines.number(self.table, **labels)
        return exactly(number.value) if self.figure == "value" else number


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
