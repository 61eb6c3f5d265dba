"""Lines of ``advice``: how often the check is right, by kind, and where it is not."""

from __future__ import annotations

from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import dataclass
from typing import Literal, get_args

import numpy as np
import pandas as pd
from scipy import stats

from ma_sbi_bench.engine.cell import Cell
from ma_sbi_bench.paper.comparing import Compared, Line
from ma_sbi_bench.tables.advice import (
    LEAD,
    LEAD_ERROR,
    LEVELS,
    NOTHING,
    ONE_FOR_ALL,
    POOL_FOR_ALL,
    SAID,
    Level,
    world_of,
)
from ma_sbi_bench.trials.drawn_worlds import KINDS, DrawnWorld

__all__ = ["MARGIN", "VERDICTS", "Judged", "Verdict", "judge", "lines"]

Verdict = Literal["right", "too lenient", "too strict", "harmful"]
VERDICTS: tuple[Verdict, ...] = get_args(Verdict)
MARGIN = 0.05
"""Nats that do not count."""
LEAST_RIGHT = 0.95
SUMMARY = "Advice in all worlds"
BY_KIND = "By kind"
BY_GIVEN = "By what the check is given, and by what the world is like"
WRONG = "Where it is not right, and what the check said"
LONGEST = 160
NAMED = {
    "swapped": "swapped",
    "columns": "different orders",
    "units": "different units",
    "offset": "different units",
    "expected value": "an expected value",
}
"""How a refusal names what went wrong when rows were handed over, or what x_sim is."""
NO_PAIRS = "not seen to be pairs"
BY_SCORE = "right by the score alone"


@dataclass(frozen=True)
class Judged:
    """The advice in one world beside the options.

    Attributes:
        kind: Kind of the world.
        number: Its number within the kind.
        world: The world.
        leads: What the advice scores more than each option, in nats.
        errors: Standard errors of these.
        corrects: What it corrects.
        said: What the check said.
    """

    kind: str
    number: int
    world: DrawnWorld
    leads: Mapping[str, float]
    errors: Mapping[str, float]
    corrects: Level
    said: str

    @property
    def best(self) -> str:
        """The best option."""
        return min(self.leads, key=self.leads.__getitem__)

    @property
    def refuses(self) -> bool:
        """Whether it refuses rows that were mixed up or are no pairs, and says so."""
        kind = self.world.kind
        name = NAMED.get(kind.mishap) or NAMED.get(kind.source)
        if not self.world.are_pairs:
            name = NO_PAIRS
        return name is not None and self.corrects == "nothing" and name in self.said

    @property
    def verdict(self) -> Verdict:
        """Whether it is right, and if not in what way.

        To refuse rows that were mixed up or are no pairs, and to say so, is right: they
        have to be mended before anything is chosen, even if some correction learned from
        them helps by luck.
        """
        return "right" if self.refuses else self.by_score

    @property
    def by_score(self) -> Verdict:
        """The same by the score alone, whatever was refused."""
        return judge(self.leads, corrects=self.corrects)

    @property
    def is_close(self) -> bool:
        """Whether an error of two standard errors could change the verdict."""
        borders = (NOTHING, self.best)
        return any(abs(self.leads[one] + MARGIN) < 2 * self.errors[one] for one in borders)


def judge(leads: Mapping[str, float], *, corrects: Level) -> Verdict:
    """Judge an advice.

    Args:
        leads: What it scores more than each option, in nats.
        corrects: What it corrects.
    """
    if leads[NOTHING] < -MARGIN:
        return "harmful"
    if min(leads.values()) >= -MARGIN:
        return "right"
    if corrects == "nothing":
        return "too strict"
    best = min(leads, key=leads.__getitem__)
    is_common = best in (NOTHING, ONE_FOR_ALL, POOL_FOR_ALL)
    return "too strict" if corrects == "all rows alike" and not is_common else "too lenient"


def lines(rows: pd.DataFrame) -> list[Line]:
    """Make all tables."""
    if rows.empty:
        return []
    judged = [_judged(part) for _, part in rows.groupby("key", sort=False)]
    return [*_summary(judged), *_by_kind(judged), *_by_given(judged), *_wrong(judged)]


def _judged(rows: pd.DataFrame) -> Judged:
    first = rows.iloc[0]
    cell = Cell(
        first["experiment"],
        int(first["version"]),
        first["method"],
        first["task"],
        seed=int(first["seed"]),
        settings=first["settings"],
    )
    said = rows[rows["metric"] == SAID].iloc[0]
    return Judged(
        cell.task,
        int(cell.settings["number"]),
        world_of(cell),
        _by_option(rows, LEAD),
        _by_option(rows, LEAD_ERROR),
        LEVELS[int(said["value"])],
        said["recipe"],
    )


def _by_option(rows: pd.DataFrame, metric: str) -> dict[str, float]:
    some = rows[rows["metric"] == metric]
    return dict(zip(some["recipe"], some["value"], strict=True))


def _summary(judged: Sequence[Judged]) -> Iterator[Line]:
    for verdict in VERDICTS:
        those = [one for one in judged if one.verdict == verdict]
        note = ""
        if verdict == "harmful":
            note = "bar: none; " + ("missed" if those else "reached")
        elif verdict == "right":
            reached = len(those) >= LEAST_RIGHT * len(judged)
            note = f"bar: {LEAST_RIGHT:.0%}; {'reached' if reached else 'missed'}"
        yield _share(verdict, those, judged, note)
        if verdict == "right":
            refused = [one for one in those if one.refuses]
            by_luck = sum(one.by_score != "right" for one in refused)
            note = (
                f"{len(refused)} worlds are refused because rows were mixed up or are no "
                f"pairs; in {by_luck} of them some correction would have gained"
            )
            those = [one for one in judged if one.by_score == "right"]
            yield _share(BY_SCORE, those, judged, note)


def _share(
    words: str, those: Sequence[Judged], judged: Sequence[Judged], note: str
) -> Line:
    """Make the line of some of the worlds."""
    interval = stats.binomtest(len(those), len(judged)).proportion_ci(method="wilson")
    labels: dict[str, str | int | float] = {
        "advice": words,
        "worlds": len(those),
        "of": len(judged),
        "within two errors of another": sum(one.is_close for one in those),
    }
    share = Compared(
        100 * len(those) / len(judged), 100 * interval.low, 100 * interval.high, digits=1
    )
    return Line(SUMMARY, labels, share, metric="per cent of worlds", note=note)


def _counted(
    table: str, labels: dict[str, str | int | float], judged: Sequence[Judged]
) -> Line:
    """Count the verdicts of some worlds, and average what the advice gains."""
    verdicts = [one.verdict for one in judged]
    counts = {str(verdict): verdicts.count(verdict) for verdict in VERDICTS}
    lost = [max(0.0, -one.leads[one.best]) for one in judged]
    labels |= {"worlds": len(judged), **counts, "worst loss": f"{max(lost):.2f}"}
    # In worlds with outliers a gain is hundreds of nats: the median says more.
    gains = np.array([one.leads[NOTHING] for one in judged])
    return Line(table, labels | {"median gain": f"{np.median(gains):.2f}"})


def _by_kind(judged: Sequence[Judged]) -> Iterator[Line]:
    for kind, about in KINDS.items():
        those = [one for one in judged if one.kind == kind]
        if those:
            yield _counted(BY_KIND, {"kind": kind, "what it is": about.words}, those)


NUM_ROWS = {100: "30 to 99", 300: "100 to 299", 1000: "300 to 999", 2001: "1000 to 2000"}


def _num_rows(world: DrawnWorld) -> str:
    return next(words for end, words in NUM_ROWS.items() if world.num_rows < end)


PROPERTIES: dict[str, Callable[[DrawnWorld], str]] = {
    "posterior": lambda world: "given" if world.given.posterior else "not given",
    "true theta": lambda world: "given" if world.given.theta else "not given",
    "rows": _num_rows,
    "context": lambda world: world.contexts.form,
    "simulator": lambda world: world.simulator.family,
    "x_sim": lambda world: world.kind.source,
    "departure": lambda world: world.departure.name,
}


def _by_given(judged: Sequence[Judged]) -> Iterator[Line]:
    order = {words: end for end, words in NUM_ROWS.items()}
    for name, of in PROPERTIES.items():
        values = [of(one.world) for one in judged]
        for value in sorted(set(values), key=lambda one: (order.get(one, 0), one)):
            those = [one for one, its in zip(judged, values, strict=True) if its == value]
            yield _counted(BY_GIVEN, {"property": name, "value": value}, those)


def _wrong(judged: Sequence[Judged]) -> Iterator[Line]:
    order = {verdict: place for place, verdict in enumerate(reversed(VERDICTS))}
    for one in sorted(judged, key=lambda one: order[one.verdict]):
        if one.verdict == "right":
            continue
        world, best = one.world, one.best
        departs = world.departure.name
        if departs != "none":
            departs += f", {world.departure.size:.1f} sd"
        given = "posterior" if world.given.posterior else "no posterior"
        labels: dict[str, str | int | float] = {
            "advice": one.verdict,
            "kind": one.kind,
            "number": one.number,
            "simulator": f"{world.simulator.family}, {world.simulator.dim_x} columns",
            "rows": world.num_rows,
            "context": world.contexts.form,
            "departure": departs,
            "given": given + (", theta" if world.given.theta else ""),
            "best": best,
            "loss against it": f"{-one.leads[best]:.2f} ± {one.errors[best]:.2f}",
            "gain over nothing": f"{one.leads[NOTHING]:.2f} ± {one.errors[NOTHING]:.2f}",
            "said": _short(one.said),
        }
        yield Line(WRONG, labels)


def _short(said: str) -> str:
    said = " ".join(said.split())
    return said if len(said) <= LONGEST else said[: LONGEST - 1] + "…"
