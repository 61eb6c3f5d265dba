"""A check as a page that needs nothing else: no network, no script, no other file."""

from __future__ import annotations

from collections.abc import Mapping
from pathlib import Path

import ma_sbi
from ma_sbi.checking.plots import Picture, draw
from ma_sbi.checking.result import Check
from ma_sbi.checking.wording import QUESTIONS, answer
from ma_sbi.display.html import document, text

__all__ = ["write_page"]

COLOURS = {
    "use": "#2e8b57",
    "use the marginal part only": "#1f7fb5",
    "use with care": "#b7791f",
    "do not use": "#c0392b",
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


def write_page(check: Check, path: Path) -> None:
    """Write the page."""
    path.write_text(_page(check), encoding="utf-8")


def _page(check: Check) -> str:
    pictures = draw(check)
    asked = {name: one for name, one in check.figures.items() if not isinstance(one, str)}
    skipped = {name: one for name, one in check.figures.items() if isinstance(one, str)}
    parts = [
        "<h1>ma-sbi check</h1>",
        _verdict(check),
        f"<p class='faint'>{check.num_rows} rows, {check.num_contexts} different contexts, "
        f"{check.dim_x} columns of x</p>",
        "<h2>Pictures</h2>" if pictures else "",
        "<div class='pictures'>",
        *(_picture(one) for one in pictures),
        "</div>",
        "<h2>What was asked, and the answers</h2>",
        _answers(asked),
    ]
    if skipped:
        parts += ["<h2>What could not be run</h2>", _answers(skipped, "skipped")]
    parts += ["<h2>What to use</h2>", f"<pre>{text(str(check.recommendation))}</pre>"]
    if check.notes:
        parts += ["<h2>Notes</h2>", _list(check.notes)]
    parts.append(f"<p class='faint'>Written by ma-sbi {text(ma_sbi.__version__)}.</p>")
    body = "\n".join(part for part in parts if part)
    return document(f"ma-sbi check: {check.verdict}", body, style=STYLE)


def _verdict(check: Check) -> str:
    tone = COLOURS[check.verdict]
    said = text(check.verdict[:1].upper() + check.verdict[1:])
    return (
        f"<div class='verdict' style='--tone: {tone}'><strong>{said}</strong>"
        f"{_list(check.reasons)}</div>"
    )


def _picture(picture: Picture) -> str:
    return (
        f"<figure><h3>{text(picture.title)}</h3>\n{picture.svg}\n"
        f"<figcaption>{text(picture.caption)}</figcaption></figure>"
    )


def _answers(figures: Mapping[str, object], style: str = "") -> str:
    rows = (
        f"<dt>{text(QUESTIONS[name])}</dt><dd>{text(answer(name, one))}</dd>"
        for name, one in figures.items()
    )
    return f"<dl class='{style}'>{''.join(rows)}</dl>"


def _list(sentences: tuple[str, ...]) -> str:
    return f"<ul>{''.join(f'<li>{text(one)}</li>' for one in sentences)}</ul>"
