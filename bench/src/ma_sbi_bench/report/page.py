"""A report as one page that needs nothing else: tables that sort, figures, provenance."""

from __future__ import annotations

import re
from collections.abc import Mapping
from importlib.resources import files
from itertools import groupby
from pathlib import Path

import ma_sbi
from ma_sbi.display.drawing import page_style, svg
from ma_sbi.display.html import document, text
from ma_sbi.writing import write_text
from ma_sbi_bench.report.contents import RULE, Block, Drawn, Report, Section
from ma_sbi_bench.report.tables import Column, Entry, Table

__all__ = ["write_page"]

# Longer tables have a filter.
MOST_ROWS_WITHOUT_FILTER = 5


def write_page(report: Report, path: Path) -> None:
    """Write the page; ``report.problems`` then says what could not be made."""
    links = {one.experiment.title: one.experiment.name for one in report.shown}
    parts = [
        f"<h1>{text(report.title)}</h1>",
        *map(_block, report.headline),
        "<div class='whole'>",
        *(_block(block, links) for block in report.overview),
        f"</div><h3>How a verdict is made</h3>{_facts(RULE)}",
        _table(report.own_rows, links) if report.own_rows.rows else "",
        *(_section(section, report.heading(section)) for section in report.shown),
        f"<h2>Where the numbers come from</h2>{_facts(report.provenance.facts)}",
        f"<p class='faint'>Written by ma-sbi {text(ma_sbi.__version__)}.</p>",
    ]
    style, script = (
        files("ma_sbi_bench.report").joinpath(name).read_text(encoding="utf-8")
        for name in ("page.css", "page.js")
    )
    title = f"ma-sbi: {report.title}"
    page = document(title, "\n".join(parts), style=style, script=script)
    write_text(path, page)


def _section(section: Section, heading: str) -> str:
    with page_style(math=True):
        parts = [
            f"<div class='{kind.__name__.lower()}'>{''.join(map(_block, some))}</div>"
            for kind, some in groupby(section.blocks(), type)
        ]
    name = text(section.experiment.name)
    return "\n".join(
        [f"<section id='{name}'>", f"<h2>{text(heading)}</h2>", *parts, "</section>"]
    )


def _block(block: Block, links: Mapping[str, str] | None = None) -> str:
    if isinstance(block, Table):
        return _table(block, links or {})
    if isinstance(block, Drawn):
        drawing = svg(block.figure, block.caption)
        return f"<figure>{drawing}<figcaption>{text(block.caption)}</figcaption></figure>"
    marked = re.sub(r"`([^`]+)`", r"<code>\1</code>", text(block.text))
    return f"<p class='{block.kind}'>{marked}</p>"


def _table(table: Table, links: Mapping[str, str]) -> str:
    title = text(table.title)
    heads = "".join(
        f"<th scope='col' aria-sort='none'{_kind(column)}>"
        f"<button type='button'>{text(column.head)}</button></th>"
        for column in table.columns
    )
    rows = (
        [_entry(*both, links) for both in zip(row, table.columns, strict=True)]
        for row in table.rows
    )
    body = "\n".join(f"<tr>{''.join(row)}</tr>" for row in rows)
    search = ""
    if len(table.rows) > MOST_ROWS_WITHOUT_FILTER:
        search = (
            "<span><span class='shown faint' role='status'></span> "
            "<label>Filter <input type='search' autocomplete='off' "
            f"aria-label='Filter rows: {title}'></label></span>"
        )
    return (
        f"<div class='sortable'><div class='bar'><h3>{title}</h3>{search}</div>\n"
        f"<div class='box' tabindex='0' role='region' aria-label='{title}'>"
        f"<table><thead><tr>{heads}</tr></thead>\n<tbody>{body}</tbody></table></div></div>"
    )


def _entry(entry: Entry, column: Column, links: Mapping[str, str]) -> str:
    order = "" if entry.order is None else f" data-order='{text(str(entry.order))}'"
    shown = text(entry.text)
    if entry.verdict:
        shown = f"<span class='{entry.verdict.replace(' ', '-')}'>{shown}</span>"
    if entry.text in links:
        shown = f"<a href='#{text(links[entry.text])}'>{shown}</a>"
    return f"<td{_kind(column, entry.text)}{order}>{shown}</td>"


def _kind(column: Column, content: str = "") -> str:
    """Name the class of a place in a table, which decides its layout."""
    if column.numeric:
        return " class='number'"
    return " class='long'" if len(content) > 40 else ""


def _facts(facts: Mapping[str, str]) -> str:
    rows = (f"<dt>{text(name)}</dt><dd>{text(one)}</dd>" for name, one in facts.items())
    return f"<dl>{''.join(rows)}</dl>"
