"""Tables in the terminal."""

from __future__ import annotations

from rich import box
from rich.console import Console, Group, RenderableType
from rich.table import Table as RichTable
from rich.text import Text

from ma_sbi.display.text import printable
from ma_sbi_bench.report.contents import Report, Section
from ma_sbi_bench.report.tables import Table

__all__ = ["render_report", "render_section", "render_table", "wide_console"]

STYLES = {
    "reproduced": "green",
    "better": "cyan",
    "not reproduced": "red",
    "too noisy": "yellow",
    "": "",
}


def wide_console(*, stderr: bool = False) -> Console:
    """Make a console that does not squeeze tables where nobody measures its width."""
    console = Console(stderr=stderr)
    return console if console.is_terminal else Console(stderr=stderr, width=240)


def render_report(report: Report) -> RenderableType:
    """Lay out all that is finished, the summary last: it is read first in a terminal."""
    parts: list[RenderableType] = [
        render_section(section, report)
        for section in report.sections
        if section.worth_showing
    ]
    parts += [
        Text(report.title, style="bold"),
        *([render_table(report.claims)] if report.claims.rows else []),
        render_table(report.summary),
        Text(report.conclusion, style="bold"),
        Text("How verdicts are made: docs/results.md, or any page of ma-sbi report."),
    ]
    if report.warning:
        parts.append(Text(report.warning, style="yellow"))
    parts += [Text(f"{name}: {fact}") for name, fact in report.provenance.facts.items()]
    return Group(*parts)


def render_section(section: Section, report: Report) -> RenderableType:
    """Lay out the tables of an experiment. Markup in a text is only characters."""
    experiment = section.experiment
    quick = " (quick run)" if report.budget.quick else ""
    place = f" ({experiment.place})" if experiment.place else ""
    parts: list[RenderableType] = [
        Text(f"{experiment.title}{quick}{place}", style="bold underline")
    ]
    if section.problem:
        parts.append(Text(f"The table could not be made: {printable(section.problem)}"))
    parts += [render_table(table) for table in section.tables]
    if experiment.note:
        parts.append(Text(experiment.note, style="dim"))
    return Group(*parts, Text(""))


def render_table(table: Table) -> RichTable:
    """Lay out a table."""
    laid_out = RichTable(
        title=Text(printable(table.title)), title_justify="left", box=box.SIMPLE_HEAD
    )
    for column in table.columns:
        laid_out.add_column(
            Text(printable(column.head)), justify="right" if column.numeric else "left"
        )
    for row in table.rows:
        laid_out.add_row(
            *(Text(printable(one.text), style=STYLES[one.verdict]) for one in row)
        )
    return laid_out
