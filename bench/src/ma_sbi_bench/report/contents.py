"""What is known so far: finished cells of experiments, as tables, figures and counts.

Everything here reads the store and nothing else.
"""

from __future__ import annotations

import math
from collections import Counter
from collections.abc import Sequence
from dataclasses import asdict, dataclass, field
from functools import cached_property
from typing import Any, NamedTuple

import pandas as pd
from matplotlib.figure import Figure

from ma_sbi_bench.engine.budget import Budget
from ma_sbi_bench.engine.cell import Cell
from ma_sbi_bench.engine.experiment import Experiment
from ma_sbi_bench.engine.store import Store
from ma_sbi_bench.report.provenance import Provenance, trace
from ma_sbi_bench.report.tables import (
    Column,
    Entry,
    Table,
    make_tables,
    shown,
    verdict_entry,
)
from ma_sbi_bench.tables.claims import Claim
from ma_sbi_bench.tables.comparing import Compared, Line, Verdict
from ma_sbi_bench.tables.paper_claims import judge_claims
from ma_sbi_bench.tables.presentation import PRESENTATIONS

__all__ = [
    "CLAIMS_RULE",
    "RULE",
    "Drawing",
    "Drawn",
    "Report",
    "Section",
    "gather",
    "progress_of",
]

RULE = {
    "reproduced": "Ours differs from the paper's figure by no more than noise and rounding "
    "explain: by sqrt(1 + m) h and half a unit of the paper's last digit, where h is half "
    "the width of our 95 % interval and m our number of test cases over the paper's. m is "
    "4 on SLCP, where we have 48 and the paper three observations in four regimes, counted "
    "as twelve; it is 1 elsewhere. Where the paper prints an interval, that is its noise.",
    "too noisy": "The same, but so would nearly anything be: noise explains more than 50 "
    "points of a share and half of the paper's, 0.1 of C2ST, half of an error, or a whole "
    "gap.",
    "better": "It differs by more: the method, whoever's it is, does better than the paper "
    "says.",
    "not reproduced": "It differs by more in any other way.",
    "what is judged": "The share of the gap that is closed where the paper gives one, else "
    "the metric itself. Less harm than the paper's is judged by the metric, since a share "
    "of harm is small where the gap is wide.",
    "no verdict": "There is no interval, or no gap to close.",
    "implied": "The share of the gap that the paper's own raw values give, which is not "
    "always the one that it prints.",
    "counts": "A figure that stands in several tables counts in each of them.",
}
"""How a verdict is made, by the words that the tables use."""
CLAIMS_RULE = (
    "A claim holds if our 95 % intervals (single values, where there is no noise to speak "
    "of) leave no other reading, fails if they exclude it, and is open if they allow both; "
    "one on several tasks holds in part if it holds on some of them."
)
# The paper's recipe, and its variants on real data.
OWN_METHODS = ("ma_sbi_paper", "stochastic", "matched")
VERDICTS = ("reproduced", "better", "not reproduced", "too noisy")
# Outcomes of claims as verbs, and the verdict whose colour each has.
OUTCOMES = {
    "holds": "hold",
    "in part": "hold in part",
    "open": "are open",
    "fails": "fail",
    "not run": "not run",
}
COLOURS: dict[str, Verdict] = {
    "holds": "reproduced",
    "in part": "too noisy",
    "open": "",
    "fails": "not reproduced",
    "not run": "",
}


class Drawn(NamedTuple):
    """A figure with its name and what it shows."""

    name: str
    caption: str
    figure: Figure


class Drawing(NamedTuple):
    """The figures of an experiment, or why there are none."""

    figures: list[Drawn]
    problem: str = ""


@dataclass(frozen=True)
class Section:
    """One experiment, as far as it is finished.

    Attributes:
        experiment: The experiment.
        cells: All its cells.
        rows: Rows of the finished ones.
        num_finished: How many are finished.
        lines: Ours beside the paper's.
        problem: Why there are no lines, should they fail.
        missing: Why the rest cannot be run here; empty if it can.
    """

    experiment: Experiment
    cells: Sequence[Cell]
    rows: pd.DataFrame
    num_finished: int
    lines: tuple[Line, ...] = ()
    problem: str = ""
    missing: str = ""

    @property
    def tables(self) -> list[Table]:
        """Ours beside the paper's."""
        return make_tables(self.lines)

    @property
    def worth_showing(self) -> bool:
        """Whether there is anything to show of it."""
        return bool(self.num_finished or not self.cells)

    @property
    def verdicts(self) -> Counter[str]:
        """Lines of the paper by verdict; those without one under the empty text."""
        return Counter(line.verdict for line in self.lines if _in_paper(line))

    def draw(self) -> Drawing:
        """Draw the figures, in the style that is set."""
        if not self.worth_showing:
            return Drawing([])
        try:
            shown = PRESENTATIONS[self.experiment.name]
            captions = shown.captions
            figures = shown.figures(self.rows)
        except Exception as error:  # noqa: BLE001 (shown, and the others are drawn)
            reason = _in_a_line(error)
            name = self.experiment.name
            return Drawing([], f"The figures of {name} could not be drawn: {reason}")
        return Drawing(
            [Drawn(name, captions.get(name, ""), one) for name, one in figures.items()]
        )


@dataclass(frozen=True)
class Report:
    """Experiments side by side, with where their numbers come from."""

    sections: tuple[Section, ...]
    budget: Budget
    provenance: Provenance = field(init=False)

    def __post_init__(self) -> None:
        object.__setattr__(self, "provenance", trace(self.sections))

    @property
    def title(self) -> str:
        """What this is, with its budget if it is not the full one."""
        label = " (quick run: reduced budget)" if self.budget.quick else ""
        return f"The MA-SBI paper, checked{label}"

    @property
    def budget_name(self) -> str:
        """The budget in a word."""
        return "quick" if self.budget.quick else "full"

    @property
    def warning(self) -> str:
        """What a reader must know of a reduced budget."""
        if not self.budget.quick:
            return ""
        return (
            "This is a quick run: few simulations, observations and draws. It shows that "
            "everything runs; its verdicts say little about the paper."
        )

    @property
    def conclusion(self) -> str:
        """All verdicts in a sentence."""
        counts = sum((section.verdicts for section in self.sections), Counter())
        judged = sum(counts[name] for name in VERDICTS)
        said = ", ".join(f"{counts[name]} {name}" for name in VERDICTS)
        more = f"; {counts['']} more have no verdict" if counts[""] else ""
        outcomes = Counter[str](one.outcome for one in self.judged_claims)
        found = ", ".join(
            f"{outcomes[name]} {verb}" for name, verb in OUTCOMES.items() if outcomes[name]
        )
        claims = f"Of {outcomes.total()} claims of the paper {found}. " if found else ""
        if not judged:
            return f"{claims}No figure of the paper has a verdict yet{more}."
        return f"{claims}Of {judged} figures: {said}{more}."

    @cached_property
    def judged_claims(self) -> list[Claim]:
        """What the paper claims in words, as far as its experiments are here."""
        return judge_claims({one.experiment.name: one.lines for one in self.sections})

    @property
    def claims(self) -> Table:
        """Claims with what became of them."""
        titles = {one.experiment.name: one.experiment.title for one in self.sections}
        rows = tuple(
            (
                Entry(one.said, one.said),
                Entry(one.outcome, list(OUTCOMES).index(one.outcome), COLOURS[one.outcome]),
                Entry(one.found, one.found or None),
                Entry(titles[one.experiment], titles[one.experiment]),
            )
            for one in self.judged_claims
        )
        heads = ("claim", "outcome", "ours [95 %]", "experiment")
        return Table("What the paper claims", tuple(map(Column, heads)), rows)

    @property
    def own_rows(self) -> Table:
        """What the paper says of its own method, ours beside it."""
        found = [
            (section, line)
            for section in self.sections
            for line in section.lines
            if _in_paper(line) and line.labels.get("method") in OWN_METHODS
        ]
        columns = ("experiment", "row", "figure", "verdict", "paper", "ours [95 %]")
        rows = []
        for section, line in found:
            judged = line.judged or _blank(line)
            paper, ours = shown(line, judged)
            figure = "gap closed" if judged is line.closed else line.metric
            place = ", ".join(str(v) for k, v in line.labels.items() if k != "method")
            rows.append(
                (
                    Entry(section.experiment.title, section.experiment.title),
                    Entry(place, place),
                    Entry(figure, figure),
                    verdict_entry(line),
                    paper,
                    ours,
                )
            )
        heads = tuple(Column(head, head in columns[4:]) for head in columns)
        return Table("The paper's own method", heads, tuple(rows))

    @property
    def summary(self) -> Table:
        """Verdicts of each experiment."""
        rows = []
        for section in self.sections:
            counts, total = section.verdicts, len(section.cells)
            share = section.num_finished / total if total else 1.0
            done = f"{section.num_finished} of {total}" if total else "nothing to run"
            rows.append(
                (
                    Entry(section.experiment.title, section.experiment.title),
                    *(_count(counts[name]) for name in (*VERDICTS, "")),
                    Entry(done, share),
                    Entry(section.experiment.place, section.experiment.place or None),
                )
            )
        heads = (*VERDICTS, "no verdict", "cells finished")
        columns = (
            Column("experiment"),
            *(Column(head, numeric=True) for head in heads),
            Column("in the paper"),
        )
        return Table("Verdicts by experiment", columns, tuple(rows))

    def to_dict(self) -> dict[str, Any]:
        """Return everything as JSON can say it; NaN is None."""
        return {
            "budget": self.budget_name,
            "seeds": self.budget.seeds,
            "verdicts": dict(
                sum((section.verdicts for section in self.sections), Counter())
            ),
            "claims": [asdict(one) for one in self.judged_claims],
            "experiments": [
                {
                    "name": section.experiment.name,
                    "title": section.experiment.title,
                    "place": section.experiment.place,
                    "note": section.experiment.note,
                    "cells": len(section.cells),
                    "finished": section.num_finished,
                    "missing": section.missing,
                    "problem": section.problem,
                    "lines": [_plain_line(line) for line in section.lines],
                }
                for section in self.sections
            ],
            "provenance": asdict(self.provenance),
        }


def gather(experiments: Sequence[Experiment], budget: Budget, store: Store) -> Report:
    """Collect what is finished of experiments."""
    return Report(tuple(_section(one, budget, store) for one in experiments), budget)


def _section(experiment: Experiment, budget: Budget, store: Store) -> Section:
    cells = experiment.cells(budget)
    finished = [cell for cell in cells if cell in store]
    rows = store.rows(finished)
    lines: tuple[Line, ...] = ()
    problem = ""
    if finished or not cells:
        try:
            lines = tuple(PRESENTATIONS[experiment.name].lines(rows))
        except Exception as error:  # noqa: BLE001 (shown, and the others are made)
            problem = _in_a_line(error)
    missing = experiment.what_is_missing(cell for cell in cells if cell not in store)
    return Section(experiment, cells, rows, len(finished), lines, problem, missing)


def progress_of(section: Section) -> str:
    """Say how far an experiment is, and what that means for its verdicts."""
    said = f"{section.num_finished} of {len(section.cells)} cells finished"
    unfinished = section.num_finished < len(section.cells)
    return f"{said}, so its verdicts are provisional" if unfinished else said


def _in_a_line(error: Exception) -> str:
    return " ".join(f"{type(error).__name__}: {error}".split())


def _in_paper(line: Line) -> bool:
    known = (line.closed, line.raw)
    return any(one is not None and one.paper is not None for one in known)


def _count(number: int) -> Entry:
    return Entry(str(number) if number else "", number)


def _plain_line(line: Line) -> dict[str, Any]:
    compared = {
        name: _plain_compared(getattr(line, name))
        for name in ("raw", "closed", "log_score")
    }
    return {
        "table": line.table,
        "labels": {name: _plain(value) for name, value in line.labels.items()},
        "metric": line.metric,
        **compared,
        "verdict": line.verdict or None,
        "note": line.note,
    }


def _blank(line: Line) -> Compared | None:
    """Find the number that the paper has, where there is no verdict on it."""
    return next(one for one in (line.closed, line.raw) if one and one.paper is not None)


def _plain_compared(one: Compared | None) -> dict[str, Any] | None:
    if one is None:
        return None
    known = asdict(one) | {
        "difference": one.difference,
        "tolerance": one.tolerance,
        "verdict": one.verdict or None,
    }
    return {name: _plain(value) for name, value in known.items()}


def _plain(value: Any) -> Any:
    if hasattr(value, "item"):  # a number of NumPy
        value = value.item()
    return None if isinstance(value, float) and not math.isfinite(value) else value
