"""Lines of an experiment as tables of texts, the same for terminal, Markdown and page."""

from __future__ import annotations

import math
from collections.abc import Callable, Iterator, Sequence
from functools import partial
from typing import NamedTuple

from ma_sbi_bench.paper.comparing import Compared, Line, Verdict

__all__ = ["VERDICTS", "Column", "Entry", "Table", "make_tables", "shown", "words"]

VERDICTS: tuple[Verdict, ...] = ("reproduced", "better", "not reproduced", "too noisy")
BLANK = "–"


class Column(NamedTuple):
    """The head of a column, and whether it holds numbers."""

    head: str
    numeric: bool = False


class Entry(NamedTuple):
    """One place of a table.

    Attributes:
        text: What is shown.
        order: What the column is sorted by; None where there is nothing, which comes last.
        verdict: Decides the colour; empty for none.
    """

    text: str = ""
    order: float | str | None = None
    verdict: Verdict = ""


class Table(NamedTuple):
    """A table of texts: its title, its columns, and an entry per column in each row."""

    title: str
    columns: Sequence[Column]
    rows: Sequence[Sequence[Entry]]


Fill = Callable[[Line], Entry]
"""Makes the entry of a line in a column."""


def words(text: str) -> Entry:
    """Make an entry that is sorted by its text."""
    return Entry(text, text or None)


def make_tables(lines: Sequence[Line]) -> list[Table]:
    """Group lines by table; columns that are empty in a whole table are dropped."""
    by_title: dict[str, list[Line]] = {}
    for line in lines:
        by_title.setdefault(line.table, []).append(line)
    return [_make_table(title, some) for title, some in by_title.items()]


def _make_table(title: str, lines: Sequence[Line]) -> Table:
    columns = [(head, [fill(line) for line in lines]) for head, fill in _columns(lines)]
    filled = [(head, some) for head, some in columns if any(one.text for one in some)]
    rows = zip(*(some for _, some in filled), strict=True)
    return Table(title, [head for head, _ in filled], list(rows))


def _columns(lines: Sequence[Line]) -> Iterator[tuple[Column, Fill]]:
    for name in dict.fromkeys(name for line in lines for name in line.labels):
        values = [line.labels[name] for line in lines if name in line.labels]
        numeric = all(isinstance(value, (int, float)) for value in values)
        yield Column(name, numeric), partial(_label, name)
    metrics = list(dict.fromkeys(line.metric for line in lines if line.raw is not None))
    several = len(metrics) > 1
    if several:
        yield Column("metric"), lambda line: words(line.metric)
    # Before the numbers, since a narrow page shows no more.
    yield Column("verdict"), verdict_entry
    metric = metrics[0] if metrics and not several else ""
    yield from _compared(metric or "metric", lambda line: line.raw)
    yield from _compared("gap closed", lambda line: line.closed)
    yield Column("difference", numeric=True), _difference
    yield Column("would settle it"), _needed
    yield from _compared("log score", lambda line: line.log_score, "log score [95 %]")
    yield Column("note"), lambda line: words(line.note)


def _compared(
    name: str, number: Callable[[Line], Compared | None], ours: str = ""
) -> Iterator[tuple[Column, Fill]]:
    """Make the columns of a number: the paper's, what that implies, and ours."""

    def column(
        head: str, show: Callable[[Line, Compared | None], Entry]
    ) -> tuple[Column, Fill]:
        return Column(head, numeric=True), lambda line: show(line, number(line))

    yield column(f"{name}: paper", _paper)
    yield column(f"{name}: implied", _implied)
    yield column(ours or f"{name}: ours [95 %]", _ours)


def _label(name: str, line: Line) -> Entry:
    value = line.labels.get(name, "")
    if value == "" or (isinstance(value, float) and math.isnan(value)):
        return Entry()
    return Entry(f"{value:g}" if isinstance(value, float) else str(value), value)


def _paper(line: Line, one: Compared | None) -> Entry:
    if one is None or one.paper is None:
        return Entry()
    text = f"{one.paper:g}"  # as the paper prints it
    if one is line.closed:
        text = f"{round(one.paper, 1):g} %"
    elif line.metric != "MSE" and math.isclose(round(one.paper, one.digits), one.paper):
        text = f"{one.paper:.{one.digits}f}"
    return Entry(text, one.paper)


def _implied(line: Line, one: Compared | None) -> Entry:
    if one is None or one.implied is None:
        return Entry()
    return Entry(_with_unit(line, one, one.implied), one.implied)


def _ours(line: Line, one: Compared | None) -> Entry:
    if one is None:
        return Entry()
    if math.isnan(one.value):
        return Entry(f"{BLANK} ({one.reason})" if one.reason else BLANK)
    text = _with_unit(line, one, one.value)
    if not math.isnan(one.low) and one.low != one.high:
        low, high = (_number(line, one, end) for end in (one.low, one.high))
        text += f" [{low}, {high}]"
    return Entry(text, one.value)


def _with_unit(line: Line, one: Compared, value: float) -> str:
    return _number(line, one, value) + (" %" if one is line.closed else "")


def _needed(line: Line) -> Entry:
    """Show how many cases would settle what is too noisy, with two digits."""
    one = line.judged
    if one is None or line.verdict != "too noisy":
        return Entry()
    if one.needed is None:
        return words("more than the paper's own noise allows" if one.paper_half else "")
    step = 10 ** max(0, len(str(one.needed)) - 2)
    about = step * math.ceil(one.needed / step)
    return Entry(f"{about:,} {one.unit}, not {one.num}", one.needed)


def _difference(line: Line) -> Entry:
    """Show the difference that the verdict is based on."""
    for one in (line.judged, line.closed, line.raw):
        if one is not None and not math.isnan(one.difference):
            text = _number(line, one, one.difference, keep_small=False)
            sign = "" if text.startswith("-") else "+"
            unit = " points" if one is line.closed else ""
            return Entry(f"{sign}{text}{unit}", one.difference)
    return Entry()


def shown(line: Line, one: Compared | None) -> tuple[Entry, Entry]:
    """Show a number of a line: the paper's, and ours with its interval."""
    return _paper(line, one), _ours(line, one)


def verdict_entry(line: Line) -> Entry:
    """Show the verdict on a line."""
    if not line.verdict:
        return Entry()
    return Entry(line.verdict, VERDICTS.index(line.verdict), line.verdict)


def _number(line: Line, one: Compared, value: float, *, keep_small: bool = True) -> str:
    """Show a number with as many digits as mean something beside its interval."""
    if not math.isfinite(value):
        return BLANK if math.isnan(value) else str(value)
    known = [abs(end) for end in (value, one.value, one.low, one.high)]
    scale = max(end for end in known if math.isfinite(end))
    if scale >= 1e6 or (one is line.raw and line.metric == "MSE"):
        return f"{value:.0f}" if 1e4 <= abs(value) < 1e6 else f"{value:.4g}"
    small = round(scale, one.digits) == 0 < scale
    if small and keep_small and one is line.raw and line.metric != "C2ST":
        return f"{value:.2g}"
    # No more than four significant digits, unless they stand before the point.
    whole = math.floor(math.log10(scale)) if scale else 0
    text = f"{value:.{min(one.digits, max(0, 3 - whole))}f}"
    return text.removeprefix("-") if float(text) == 0 else text
