"""Lines of an experiment as tables of texts, the same for terminal, Markdown and page."""

from __future__ import annotations

import math
from collections.abc import Callable, Sequence
from dataclasses import dataclass

from ma_sbi_bench.paper.comparing import Compared, Line, Verdict

__all__ = ["VERDICTS", "Column", "Entry", "Table", "make_tables", "shown", "words"]

VERDICTS: tuple[Verdict, ...] = ("reproduced", "better", "not reproduced", "too noisy")
BLANK = "–"


@dataclass(frozen=True)
class Column:
    """The head of a column, and whether it holds numbers."""

    head: str
    numeric: bool = False


@dataclass(frozen=True)
class Entry:
    """One place of a table.

    Attributes:
        text: What is shown.
        order: What the column is sorted by; None where there is nothing, which comes last.
        verdict: Decides the colour; empty for none.
    """

    text: str = ""
    order: float | str | None = None
    verdict: Verdict = ""


@dataclass(frozen=True)
class Table:
    """A table of texts.

    Attributes:
        title: What it is about.
        columns: One for each entry of a row.
        rows: Its rows.
    """

    title: str
    columns: tuple[Column, ...]
    rows: tuple[tuple[Entry, ...], ...]


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
    columns, filled = [], []
    for column, fill in _columns(lines):
        entries = [fill(line) for line in lines]
        if any(entry.text for entry in entries):
            columns.append(column)
            filled.append(entries)
    return Table(title, tuple(columns), tuple(zip(*filled, strict=True)))


def _columns(lines: Sequence[Line]) -> list[tuple[Column, Callable[[Line], Entry]]]:
    metrics = list(dict.fromkeys(line.metric for line in lines if line.raw is not None))
    several = len(metrics) > 1
    metric = "metric" if several or not any(metrics) else metrics[0]
    labels = dict.fromkeys(name for line in lines for name in line.labels)
    return [
        *((Column(name, _holds_numbers(name, lines)), _label(name)) for name in labels),
        (Column("metric"), lambda line: words(line.metric if several else "")),
        # Before the numbers, since a narrow page shows no more.
        (Column("verdict"), verdict_entry),
        *_compared(metric, lambda line: line.raw),
        *_compared("gap closed", lambda line: line.closed),
        (Column("difference", numeric=True), _difference),
        *_compared("log score", lambda line: line.log_score, ours="log score [95 %]"),
        (Column("note"), lambda line: words(line.note)),
    ]


def _compared(
    name: str, number: Callable[[Line], Compared | None], ours: str = ""
) -> list[tuple[Column, Callable[[Line], Entry]]]:
    """Make the columns of a number: the paper's, what that implies, and ours."""
    return [
        (Column(f"{name}: paper", numeric=True), lambda line: _paper(line, number(line))),
        (
            Column(f"{name}: implied", numeric=True),
            lambda line: _implied(line, number(line)),
        ),
        (
            Column(ours or f"{name}: ours [95 %]", numeric=True),
            lambda line: _ours(line, number(line)),
        ),
    ]


def _holds_numbers(name: str, lines: Sequence[Line]) -> bool:
    values = [line.labels[name] for line in lines if name in line.labels]
    return all(isinstance(value, (int, float)) for value in values)


def _label(name: str) -> Callable[[Line], Entry]:
    def fill(line: Line) -> Entry:
        value = line.labels.get(name, "")
        if value == "" or (isinstance(value, float) and math.isnan(value)):
            return Entry()
        return Entry(f"{value:g}" if isinstance(value, float) else str(value), value)

    return fill


def _paper(line: Line, one: Compared | None) -> Entry:
    if one is None or one.paper is None:
        return Entry()
    text = _as_printed(line, one, one.paper)
    return Entry(_with_unit(line, one, text), one.paper)


def _implied(line: Line, one: Compared | None) -> Entry:
    if one is None or one.implied is None:
        return Entry()
    return Entry(_with_unit(line, one, _number(line, one, one.implied)), one.implied)


def _ours(line: Line, one: Compared | None) -> Entry:
    if one is None:
        return Entry()
    if math.isnan(one.value):
        return Entry(f"{BLANK} ({one.reason})" if one.reason else BLANK)
    text = _with_unit(line, one, _number(line, one, one.value))
    if not math.isnan(one.low) and one.low != one.high:
        low, high = (_number(line, one, end) for end in (one.low, one.high))
        text += f" [{low}, {high}]"
    return Entry(text, one.value)


def _difference(line: Line) -> Entry:
    """Show the difference that the verdict is based on."""
    for one in (line.judged, line.closed, line.raw):
        if one is None or math.isnan(one.difference):
            continue
        text = _number(line, one, one.difference, keep_small=False)
        signed = text if text.startswith("-") else f"+{text}"
        return Entry(f"{signed} points" if one is line.closed else signed, one.difference)
    return Entry()


def shown(line: Line, one: Compared | None) -> tuple[Entry, Entry]:
    """Show a number of a line: the paper's, and ours with its interval."""
    return _paper(line, one), _ours(line, one)


def verdict_entry(line: Line) -> Entry:
    """Show the verdict on a line."""
    if not line.verdict:
        return Entry()
    return Entry(line.verdict, VERDICTS.index(line.verdict), line.verdict)


def _with_unit(line: Line, one: Compared, text: str) -> str:
    return f"{text} %" if one is line.closed else text


def _as_printed(line: Line, one: Compared, value: float) -> str:
    """Show a number as the paper does."""
    if one is line.closed:
        return f"{round(value, 1):g}"
    if line.metric != "MSE" and math.isclose(round(value, one.digits), value):
        return f"{value:.{one.digits}f}"
    return f"{value:g}"


def _number(line: Line, one: Compared, value: float, *, keep_small: bool = True) -> str:
    """Show a number with as many digits as mean something beside its interval."""
    if not math.isfinite(value):
        return BLANK if math.isnan(value) else str(value)
    if one is line.raw and line.metric == "MSE":
        return _significant(value, 4)
    known = [abs(end) for end in (value, one.value, one.low, one.high)]
    scale = max(end for end in known if math.isfinite(end))
    if scale >= 1e6:
        return _significant(value, 4)
    small = round(scale, one.digits) == 0 < scale
    if small and keep_small and one is line.raw and line.metric != "C2ST":
        return _significant(value, 2)
    # No more than four significant digits, unless they stand before the point.
    whole = math.floor(math.log10(scale)) if scale else 0
    text = f"{value:.{min(one.digits, max(0, 3 - whole))}f}"
    return text.removeprefix("-") if float(text) == 0 else text


def _significant(value: float, digits: int) -> str:
    if 10**digits <= abs(value) < 1e6:
        return f"{value:.0f}"
    return f"{value:.{digits}g}"
