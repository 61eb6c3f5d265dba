"""What is known so far: finished cells of experiments, as tables, figures and counts.

Everything here reads the store and nothing else. Terminal, Markdown and page show the same
blocks: paragraphs, tables and figures.
"""

from __future__ import annotations

import math
from collections import Counter
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import asdict, dataclass, field
from functools import cached_property
from typing import Any, Literal, NamedTuple

import pandas as pd
from matplotlib.figure import Figure

from ma_sbi_bench.engine.budget import Budget
from ma_sbi_bench.engine.cell import Cell
from ma_sbi_bench.engine.experiment import Experiment
from ma_sbi_bench.engine.running import in_one_line
from ma_sbi_bench.engine.store import Store
from ma_sbi_bench.paper.comparing import Compared, Line, Verdict
from ma_sbi_bench.report.hours import NOTE, Spent, hours_table
from ma_sbi_bench.report.provenance import (
    Provenance,
    counts_in_words,
    sample_counts,
    trace,
)
from ma_sbi_bench.report.tables import (
    VERDICTS,
    Column,
    Entry,
    Table,
    make_tables,
    shown,
    verdict_entry,
    words,
)
from ma_sbi_bench.tables.claims import Claim
from ma_sbi_bench.tables.paper_claims import judge_claims
from ma_sbi_bench.tables.presentation import PRESENTATIONS, Presentation

__all__ = ["RULE", "Block", "Drawn", "Paragraph", "Report", "Section", "gather"]

RULE = {
    "reproduced": "The paper's figure lies within our 95 % interval, widened only by noise "
    "that the paper prints itself (an interval, or a deviation over seeds) and by half a "
    "unit of its last digit; and this could have failed: half of the interval is no more "
    "than half of what the figure is about. That is the gap from NPE to oracle, or the "
    "figure's distance from NPE, if that is more; of a share, 50 points or half of it. "
    "Shares of variance of x_sim count as equal within 0.005, a twentieth of the paper's "
    "limit.",
    "too noisy": "It lies within our interval, which is wider than that: nearly any figure "
    "would. Beside it stands how many observations (or seeds) would settle it, from the "
    "present half-width: n (half / largest half)².",
    "better": "It lies outside: the method, ours or a rival, does better than the paper "
    "says.",
    "not reproduced": "It lies outside, and ours is not better.",
    "what is judged": "The share of the gap that is closed where the paper gives one, else "
    "the metric itself. The metric decides, too, where the share is too noisy, and on less "
    "harm than the paper's, since a share of harm is small where the gap is wide.",
    "no verdict": "There is no interval, or no gap to close.",
    "implied": "The share of the gap that the paper's own raw values give, which is not "
    "always the one that it prints.",
    "counts": "A figure that stands in several tables has one verdict, and counts once, in "
    "the first of them. A metric and its share are one figure. Gaps from NPE to oracle are "
    "compared, but not counted: the paper prints their ends.",
}
"""How a verdict is made, by the words that the tables use."""
CLAIMS_RULE = (
    "A claim holds if it is true of all values in our 95 % intervals (single values, where "
    "noise is negligible), fails if it is true of none, and is open otherwise. One on "
    "several tasks holds in part if it holds on some of them."
)
QUICK_WARNING = (
    "This is a quick run: few simulations, observations and draws. It shows that "
    "everything runs; its verdicts say little about the paper."
)
# The paper's recipe, and its variants on real data.
OWN_METHODS = ("ma_sbi_paper", "stochastic", "matched")
# What is written of a line as JSON.
LINE = ("table", "labels", "metric", "raw", "closed", "log_score", "verdict", "note")
NOTHING_TO_RUN = Entry("nothing to run", 1.0)
# Outcomes of claims: as verbs, and the verdict whose colour each has.
OUTCOMES: dict[str, tuple[str, Verdict]] = {
    "holds": ("hold", "reproduced"),
    "in part": ("hold in part", "too noisy"),
    "open": ("are open", ""),
    "fails": ("fail", "not reproduced"),
    "not run": ("not run", ""),
}


class Paragraph(NamedTuple):
    """A text, in which backticks mark code."""

    text: str
    kind: Literal["plain", "strong", "warning", "faint"] = "plain"


class Drawn(NamedTuple):
    """A figure: its name, which starts with that of its experiment, and what it shows."""

    name: str
    caption: str
    figure: Figure


Block = Paragraph | Table | Drawn


@dataclass(frozen=True)
class Section:
    """One experiment, as far as it is finished.

    Attributes:
        experiment: The experiment.
        presentation: How its rows are shown.
        cells: All its cells.
        store: Where its finished cells are.
        problems: Which tables and figures could not be made, as far as this was tried.
    """

    experiment: Experiment
    presentation: Presentation
    cells: Sequence[Cell]
    store: Store
    problems: list[str] = field(init=False, default_factory=list)

    @cached_property
    def num_finished(self) -> int:
        """Number of finished cells."""
        return sum(cell in self.store for cell in self.cells)

    @cached_property
    def missing(self) -> str:
        """Why the other cells cannot be run here; empty if they can."""
        left = (cell for cell in self.cells if cell not in self.store)
        return self.experiment.what_is_missing(left)

    @cached_property
    def rows(self) -> pd.DataFrame:
        """Rows of the finished cells."""
        return self.store.rows(self.cells)

    @cached_property
    def lines(self) -> Sequence[Line]:
        """Ours beside the paper's; none if they could not be made."""
        try:
            return tuple(self.presentation.lines(self.rows)) if self.has_results else ()
        except Exception as error:  # noqa: BLE001 (shown, and the others are made)
            self._fail(f"The tables of {self.experiment.name} could not be made", error)
            return ()

    @property
    def counts(self) -> dict[str, str | int]:
        """How many cells are finished, and why others cannot be."""
        return {
            "name": self.experiment.name,
            "title": self.experiment.title,
            "cells": len(self.cells),
            "finished": self.num_finished,
            "missing": self.missing,
        }

    @property
    def has_results(self) -> bool:
        """Whether there is anything to show."""
        return bool(self.num_finished or not self.cells)

    @property
    def figures_of_paper(self) -> dict[tuple[str, ...], Verdict]:
        """The verdict on each figure of the paper, by what it is."""
        return {
            line.figure or self._place(line): line.verdict
            for line in self.lines
            if _in_paper(line) and not line.derived
        }

    def _place(self, line: Line) -> tuple[str, ...]:
        return self.experiment.name, line.table, *map(str, line.labels.values())

    def blocks(self, *, figures: bool = True) -> Iterator[Block]:
        """Show all of it; figures are drawn in the style that is set."""
        yield Paragraph(self._about, "faint")
        if self.experiment.note:
            yield Paragraph(self.experiment.note)
        yield from make_tables(self.lines)
        if figures:
            yield from self._draw()
        for problem in dict.fromkeys(self.problems):
            yield Paragraph(problem, "warning")
        counts = counts_in_words(sample_counts(self.rows))
        if counts:
            yield Paragraph(f"Settings: {counts}.", "faint")

    @property
    def _about(self) -> str:
        place, done, num = self.experiment.place, self.num_finished, len(self.cells)
        said = f"In the paper: {place}. " if place else ""
        said += f"Experiment `{self.experiment.name}`"
        said += f", {done} of {num} cells finished" if num else ""
        return said + (", so its verdicts are provisional." if done < num else ".")

    def _draw(self) -> Iterator[Drawn]:
        captions, own = self.presentation.captions, self.experiment.name
        try:
            figures = self.presentation.figures(self.rows)
        except Exception as error:  # noqa: BLE001 (shown, and the others are drawn)
            self._fail(f"The figures of {own} could not be drawn", error)
            return
        for name, figure in figures.items():
            full = name if name.startswith(own) else f"{own}_{name}"
            yield Drawn(full, captions.get(name) or name.replace("_", " "), figure)

    def _fail(self, what: str, error: Exception) -> None:
        self.problems.append(f"{what}: {in_one_line(error)}")


@dataclass(frozen=True)
class Report:
    """Experiments side by side, with where their numbers come from."""

    sections: tuple[Section, ...]
    budget: Budget

    @cached_property
    def finished(self) -> dict[str, bool]:
        """Whether each cell is finished, by its key; experiments may share one."""
        return {c.key: c in one.store for one in self.sections for c in one.cells}

    @cached_property
    def provenance(self) -> Provenance:
        """Where the numbers come from."""
        return trace([section.rows for section in self.sections], len(self.finished))

    @cached_property
    def judged_claims(self) -> list[Claim]:
        """What the paper claims in words, as far as its experiments are here."""
        return judge_claims({one.experiment.name: one.lines for one in self.sections})

    @property
    def title(self) -> str:
        """What this is, with its budget if it is not the full one."""
        label = " (quick run: reduced budget)" if self.budget.quick else ""
        return f"The MA-SBI paper, checked{label}"

    def heading(self, section: Section) -> str:
        """Title of an experiment, with its budget if it is not the full one."""
        return section.experiment.title + (" (quick run)" if self.budget.quick else "")

    @property
    def shown(self) -> list[Section]:
        """Experiments that have anything to show."""
        return [section for section in self.sections if section.has_results]

    @property
    def verdicts_by_section(self) -> list[Counter[str]]:
        """Figures by verdict, each in the first experiment that has it."""
        counted: set[tuple[str, ...]] = set()
        found: list[Counter[str]] = []
        for section in self.sections:
            figures = section.figures_of_paper
            found.append(
                Counter[str](figures[one] for one in figures if one not in counted)
            )
            counted |= figures.keys()
        return found

    @property
    def verdicts(self) -> Counter[str]:
        """Figures of the paper by verdict; those without one under the empty text."""
        return sum(self.verdicts_by_section, Counter())

    @property
    def problems(self) -> list[str]:
        """Which tables and figures could not be made, as far as this was tried."""
        return [problem for section in self.sections for problem in section.problems]

    @property
    def conclusion(self) -> str:
        """All verdicts in a sentence."""
        said = ""
        if self.judged_claims:
            outcomes = Counter[str](one.outcome for one in self.judged_claims)
            verbs = ((outcomes[name], verb) for name, (verb, _) in OUTCOMES.items())
            found = ", ".join(f"{num} {verb}" for num, verb in verbs if num)
            said = f"Of {outcomes.total()} claims of the paper {found}. "
        counts = self.verdicts
        more = f"; {counts['']} more have no verdict" if counts[""] else ""
        judged = counts.total() - counts[""]
        if not judged:
            return f"{said}No figure of the paper has a verdict yet{more}."
        each = ", ".join(f"{counts[name]} {name}" for name in VERDICTS)
        return f"{said}Of {judged} printed figures: {each}{more}."

    @property
    def headline(self) -> list[Paragraph]:
        """The conclusion, and what a reader must know of a reduced budget."""
        said = [Paragraph(self.conclusion, "strong")]
        if self.budget.quick:
            said.append(Paragraph(QUICK_WARNING, "warning"))
        return said

    @property
    def overview(self) -> list[Block]:
        """Claims and verdicts of all experiments."""
        always: list[Block] = [self.summary, self.hours, Paragraph(NOTE, "faint")]
        if not self.judged_claims:
            return always
        return [self.claims, Paragraph(CLAIMS_RULE, "faint"), *always]

    @property
    def claims(self) -> Table:
        """Claims with their outcomes."""
        titles = {one.experiment.name: one.experiment.title for one in self.sections}
        rows = []
        for one in self.judged_claims:
            order, colour = list(OUTCOMES).index(one.outcome), OUTCOMES[one.outcome][1]
            outcome = Entry(one.outcome, order, colour)
            title = words(titles[one.experiment])
            rows.append((words(one.said), outcome, words(one.found), title))
        heads = ("claim", "outcome", "ours [95 %]", "experiment")
        return Table("What the paper claims", [Column(head) for head in heads], rows)

    @property
    def own_rows(self) -> Table:
        """What the paper says of its own method, ours beside it."""
        rows = []
        for section in self.sections:
            for line in section.lines:
                printed = _in_paper(line)
                if not printed or line.labels.get("method") not in OWN_METHODS:
                    continue
                judged = line.judged or printed
                figure = "gap closed" if judged is line.closed else line.metric
                place = ", ".join(str(v) for k, v in line.labels.items() if k != "method")
                about = map(words, (section.experiment.title, place, figure))
                rows.append((*about, verdict_entry(line), *shown(line, judged)))
        heads = [Column(head) for head in ("experiment", "row", "figure", "verdict")]
        heads += [Column(head, numeric=True) for head in ("paper", "ours [95 %]")]
        return Table("The paper's own method", heads, rows)

    @property
    def summary(self) -> Table:
        """Verdicts of each experiment."""
        rows = []
        for section, verdicts in zip(self.sections, self.verdicts_by_section, strict=True):
            counts = (verdicts[name] for name in (*VERDICTS, ""))
            entries = [Entry(str(count or ""), count) for count in counts]
            num, total = section.num_finished, len(section.cells)
            done = Entry(f"{num} of {total}", num / total) if total else NOTHING_TO_RUN
            title, place = map(words, (section.experiment.title, section.experiment.place))
            rows.append((title, *entries, done, place))
        heads = (*VERDICTS, "no verdict", "cells finished")
        numbers = (Column(head, numeric=True) for head in heads)
        columns = (Column("experiment"), *numbers, Column("in the paper"))
        return Table("Verdicts by experiment", columns, rows)

    @property
    def hours(self) -> Table:
        """Time of each experiment's cells; shared ones are of the first that has them."""
        counted: set[str] = set()
        spent = []
        for section in filter(lambda one: one.cells, self.shown):
            own = section.rows[~section.rows["key"].isin(counted)]
            counted |= set(own["key"])
            about = section.experiment
            spent.append(Spent(about.title, about.place, own))
        return hours_table(spent)

    def to_dict(self) -> dict[str, Any]:
        """Return everything in types that JSON has; NaN is None."""
        return {
            "budget": "quick" if self.budget.quick else "full",
            "seeds": self.budget.seeds,
            "verdicts": dict(self.verdicts),
            "claims": [asdict(one) for one in self.judged_claims],
            "experiments": [
                one.counts
                | _some(one.experiment, "place", "note")
                | {"lines": [_plain(_some(line, *LINE)) for line in one.lines]}
                | {"problem": "; ".join(one.problems)}
                for one in self.sections
            ],
            "provenance": asdict(self.provenance),
        }


def gather(
    experiments: Sequence[Experiment],
    budget: Budget,
    store: Store,
    presentations: Mapping[str, Presentation] = PRESENTATIONS,
) -> Report:
    """Collect what is finished of experiments.

    Args:
        experiments: The experiments.
        budget: Decides their cells.
        store: Finished cells.
        presentations: How the rows of each experiment are shown, by its name.
    """
    sections = (
        Section(one, presentations[one.name], one.cells(budget), store)
        for one in experiments
    )
    return Report(tuple(sections), budget)


def _in_paper(line: Line) -> Compared | None:
    """Find the number that the paper has; None if it has none."""
    known = (line.closed, line.raw)
    return next((one for one in known if one and one.paper is not None), None)


def _some(thing: Any, *names: str) -> dict[str, Any]:
    return {name: getattr(thing, name) for name in names}


def _plain(value: Any) -> Any:
    """Turn a value into types that JSON has: NaN, infinity and no verdict are None."""
    if isinstance(value, Compared):
        value = asdict(value) | _some(value, "difference", "tolerance", "verdict")
    if isinstance(value, dict):
        known = {k: v or None if k == "verdict" else v for k, v in value.items()}
        return {name: _plain(one) for name, one in known.items()}
    if hasattr(value, "item"):  # a number of NumPy
        value = value.item()
    return None if isinstance(value, float) and not math.isfinite(value) else value
