"""A report in the terminal."""

from __future__ import annotations

from collections.abc import Iterable

from rich import box
from rich.console import Console, Group, RenderableType
from rich.table import Table as RichTable
from rich.text import Text

from ma_sbi.display.text import printable
from ma_sbi_bench.report.contents import Block, Paragraph, Report
from ma_sbi_bench.report.tables import Table

__all__ = ["render_report", "render_table", "wide_console"]

COLOURS = {
    "reproduced": "green",
    "better": "cyan",
    "not reproduced": "red",
    "too noisy": "yellow",
    "": "",
}
STYLES = {"plain": "", "strong": "bold", "warning": "yellow", "faint": "dim"}


def wide_console(*, stderr: bool = False) -> Console:
    """Make a console; outside a terminal it is wide, so that no table is squeezed."""
    console = Console(stderr=stderr)
    return console if console.is_terminal else Console(stderr=stderr, width=240)


def render_report(report: Report) -> RenderableType:
    """Lay out everything but figures; the summary comes last, where a terminal stops."""
    parts: list[RenderableType] = []
    for section in report.shown:
        parts.append(Text(printable(report.heading(section)), style="bold underline"))
        parts += [*_render(section.blocks(figures=False)), Text("")]
    parts.append(Text(report.title, style="bold"))
    parts += _render([*report.overview, *report.headline])
    parts.append(Text("Every page that ma-sbi report writes says how a verdict is made."))
    facts = report.provenance.facts.items()
    parts += [Text(printable(f"{name}: {fact}")) for name, fact in facts]
    return Group(*parts)


def _render(blocks: Iterable[Block]) -> Iterable[RenderableType]:
    """Lay out blocks. Markup in a text is only characters."""
    for block in blocks:
        if isinstance(block, Paragraph):
            yield Text(printable(block.text), style=STYLES[block.kind])
        elif isinstance(block, Table):
            yield render_table(block)


def render_table(table: Table) -> RichTable:
    """Lay out a table."""
    title = Text(printable(table.title))
    laid_out = RichTable(title=title, title_justify="left", box=box.SIMPLE_HEAD)
    for column in table.columns:
        head = Text(printable(column.head))
        laid_out.add_column(head, justify="right" if column.numeric else "left")
    for row in table.rows:
        laid_out.add_row(
            *(Text(printable(one.text), style=COLOURS[one.verdict]) for one in row)
        )
    return laid_out
