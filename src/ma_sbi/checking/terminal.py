"""A check as a table in the terminal."""

from __future__ import annotations

from rich.box import SIMPLE
from rich.console import Group, RenderableType
from rich.panel import Panel
from rich.table import Table
from rich.text import Text

from ma_sbi.checking.result import Check
from ma_sbi.checking.wording import QUESTIONS, answer
from ma_sbi.display.text import printable

__all__ = ["render"]

COLOURS = {
    "use": "green",
    "use the marginal part only": "cyan",
    "use with care": "yellow",
    "do not use": "red",
}


def render(check: Check) -> RenderableType:
    """Lay a check out. Everything is ``Text``, in which markup is only characters."""
    colour = COLOURS[check.verdict]
    reasons = "\n".join(f"- {reason}" for reason in check.reasons)
    verdict = Panel(
        Text(printable(reasons)),
        title=Text(f" {check.verdict.upper()} ", style=f"bold {colour}"),
        border_style=colour,
        title_align="left",
    )
    table = Table(box=SIMPLE, show_header=False, pad_edge=False)
    table.add_column("Question", ratio=2, style="bold")
    table.add_column("Answer", ratio=5)
    skipped = Table(box=SIMPLE, show_header=False, pad_edge=False, title="Not run")
    skipped.title_justify = "left"
    skipped.add_column("Question", ratio=2)
    skipped.add_column("Why", ratio=5)
    for name, figure in check.figures.items():
        where = skipped if isinstance(figure, str) else table
        where.add_row(Text(QUESTIONS[name]), Text(printable(answer(name, figure))))
    parts: list[RenderableType] = [
        verdict,
        Text(
            f"{check.num_rows} rows, {check.num_contexts} different contexts, "
            f"{check.dim_x} columns of x"
        ),
        table,
    ]
    if skipped.row_count:
        parts.append(skipped)
    parts.append(Text(printable(str(check.recommendation))))
    parts += [Text(printable(f"note: {note}"), style="dim") for note in check.notes]
    return Group(*parts)
