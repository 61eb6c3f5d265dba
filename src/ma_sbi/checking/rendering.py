"""A check as a table in the terminal, and as a page with pictures."""

from __future__ import annotations

from collections.abc import Mapping, Sequence

from rich.box import SIMPLE
from rich.console import Group, RenderableType
from rich.panel import Panel
from rich.table import Table
from rich.text import Text

import ma_sbi
from ma_sbi.checking.result import WHAT_FIT_CORRECTOR_DOES, Check
from ma_sbi.diagnostics.diagnostic import Picture
from ma_sbi.diagnostics.registry import DIAGNOSTICS
from ma_sbi.display.html import document, text
from ma_sbi.display.text import printable

__all__ = ["details", "pictures", "to_page", "to_terminal"]

# For the terminal and for the page.
COLOURS = {
    "use": ("green", "#2e8b57"),
    "use the marginal part only": ("cyan", "#1f7fb5"),
    "use with care": ("yellow", "#b7791f"),
    "do not use": ("red", "#c0392b"),
}

STYLE = """
.verdict { border-left: .5rem solid var(--tone); background: var(--card);
  padding: 1rem 1.25rem; border-radius: .4rem; }
.verdict strong { display: block; font-size: 1.7rem; line-height: 1.2; color: var(--tone); }
.verdict ul { margin: .75rem 0 0; padding-left: 1.1rem; }
dl.skipped { color: var(--faint); font-size: .9rem; }
dl { display: grid; grid-template-columns: minmax(9rem, 1fr) 2.4fr; margin: 0; }
dt, dd { margin: 0; padding: .55rem .75rem .55rem 0; border-top: 1px solid var(--line); }
dt { font-weight: 600; }
dl.skipped dt { font-weight: 400; }
pre { white-space: pre-wrap; background: var(--card); padding: 1rem; border-radius: .4rem;
  font-size: .85rem; }
@media (max-width: 36rem) {
  dl { grid-template-columns: 1fr; } dd { border-top: 0; padding-top: 0; } }
"""


def to_terminal(check: Check) -> RenderableType:
    """Lay a check out. Everything is ``Text``, in which markup is only characters."""
    colour, _ = COLOURS[check.verdict]
    reasons = "\n".join(f"- {reason}" for reason in check.reasons)
    verdict = Panel(
        Text(printable(reasons)),
        title=Text(f" {check.verdict.upper()} ", style=f"bold {colour}"),
        border_style=colour,
        title_align="left",
    )
    parts: list[RenderableType] = [verdict, Text(_size(check)), Text("")]
    # Broken lines of code could not be copied.
    parts.append(Text(printable(str(check.advice)), no_wrap=True, overflow="ignore"))
    parts += [Text(printable(f"note: {note}"), style="dim") for note in check.notes]
    return Group(*parts)


def details(check: Check) -> RenderableType:
    """Lay every figure behind a verdict out, for the terminal."""
    parts: list[RenderableType] = [_table(check.answers())]
    if check.skipped():
        parts.append(_table(check.skipped(), title="Not run"))
    if check.why is not None:
        parts.append(Text(WHAT_FIT_CORRECTOR_DOES, style="italic"))
        parts.append(Text(printable(f"{check.why}\n")))
    return Group(*parts)


def _table(answers: Mapping[str, str], title: str | None = None) -> Table:
    table = Table(box=SIMPLE, show_header=False, pad_edge=False, title=title)
    table.title_justify = "left"
    table.add_column("Question", ratio=2, style="bold" if title is None else "")
    table.add_column("Answer", ratio=5)
    for question, answer in answers.items():
        table.add_row(Text(question), Text(printable(answer)))
    return table


def to_page(check: Check) -> str:
    """Make a page that needs no network, no script and no other file."""
    _, tone = COLOURS[check.verdict]
    name = text(_capital(check.verdict))
    parts = [
        "<h1>ma-sbi check</h1>",
        f"<div class='verdict' style='--tone: {tone}'><strong>{name}</strong>"
        f"{_list(check.reasons)}</div>",
        f"<p class='faint'>{_size(check)}</p>",
        "<h2>What to use</h2>",
        f"<p>{text(_capital(check.advice.use))}.</p>",
    ]
    if check.advice.code:
        parts.append(f"<pre>{text(check.advice.code)}</pre>")
    for title, sentences in check.advice.lists().items():
        parts += [f"<h2>{title}</h2>", _list(sentences)]
    if check.notes:
        parts += ["<h2>Notes</h2>", _list(check.notes)]
    parts.append("<details><summary>Every figure behind it</summary>")
    drawn = pictures(check)
    if drawn:
        parts += ["<h2>Pictures</h2>", "<div class='pictures'>", *drawn, "</div>"]
    parts += ["<h2>Questions and answers</h2>", _definitions(check.answers())]
    if check.skipped():
        parts += ["<h2>Not run</h2>", _definitions(check.skipped(), "skipped")]
    if check.why is not None:
        parts += [
            f"<h2>{WHAT_FIT_CORRECTOR_DOES}</h2>",
            f"<pre>{text(str(check.why))}</pre>",
        ]
    parts.append("</details>")
    parts.append(f"<p class='faint'>Written by ma-sbi {text(ma_sbi.__version__)}.</p>")
    return document(f"ma-sbi check: {check.verdict}", "\n".join(parts), style=STYLE)


def pictures(check: Check) -> list[str]:
    """Draw what the diagnostics can draw, as HTML."""
    from ma_sbi.display.drawing import page_style, svg

    drawn = []

    def show(picture: Picture | None) -> None:
        if picture is not None:
            drawn.append(
                f"<figure><h3>{text(picture.title)}</h3>\n"
                f"{svg(picture.figure, picture.title)}\n"
                f"<figcaption>{text(picture.caption)}</figcaption></figure>"
            )

    with page_style():
        show(_draw_options(check))
        for diagnostic in DIAGNOSTICS.values():
            show(None if diagnostic.draw is None else diagnostic.draw(check))
    return drawn


def _draw_options(check: Check) -> Picture | None:
    """Draw what each option gains over no correction."""
    from ma_sbi.display.drawing import AFTER, INK, side_by_side

    found = check.judgement
    if found is None:
        return None
    gains = {"by context": found.by_context.gain}
    if found.common is not None:
        gains["alike in all rows"] = found.common.gain
    if found.perfect is not None:
        gains["at x_sim itself"] = found.perfect
    figure, (ax,) = side_by_side(1.2 + 0.4 * len(gains))
    place = range(len(gains))
    means = [one.mean for one in gains.values()]
    errors = [2 * one.error for one in gains.values()]
    ax.barh(place, means, 0.6, color=AFTER, alpha=0.85)
    ax.errorbar(means, place, xerr=errors, fmt="none", ecolor=INK, capsize=3, lw=1)
    ax.axvline(0, color=INK, lw=0.8)
    ax.set_yticks(place, list(gains))
    ax.invert_yaxis()
    ax.set_xlabel("nats per row more than no correction")
    return Picture(
        "What each correction gains",
        f"Log score of {found.scored_by}, on {found.num_judged} rows that the fit had not "
        "seen, with two standard errors. Below zero is harm.",
        figure,
    )


def _capital(words: str) -> str:
    return words[:1].upper() + words[1:]


def _size(check: Check) -> str:
    return (
        f"{check.num_rows} rows, {check.num_contexts} different contexts, "
        f"{check.dim_x} columns of x"
    )


def _definitions(answers: Mapping[str, str], style: str = "") -> str:
    rows = (f"<dt>{text(one)}</dt><dd>{text(two)}</dd>" for one, two in answers.items())
    return f"<dl class='{style}'>{''.join(rows)}</dl>"


def _list(sentences: Sequence[str]) -> str:
    items = "".join(f"<li>{text(one)}</li>" for one in sentences)
    return f"<ul>{items}</ul>" if items else ""
