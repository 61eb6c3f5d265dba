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
from ma_sbi_bench.report.contents import RULE, Block, Drawn, Report, Section, warnings_in
from ma_sbi_bench.report.tables import Entry, Table

__all__ = ["write_page"]

# Longer tables have a filter.
MOST_ROWS_WITHOUT_FILTER = 5


def write_page(report: Report, path: Path) -> list[str]:
    """Write the page.

    Returns:
        Warnings of the page: what could not be made, and why.
    """
    warnings: list[str] = []
    links = {one.experiment.title: one.experiment.name for one in report.shown}
    overview = "\n".join(_block(block, links) for block in report.overview)
    parts = [
        f"<h1>{text(report.title)}</h1>",
        *map(_block, report.headline),
        f"<div class='whole'>{overview}</div>",
        f"<h3>How a verdict is made</h3>{_facts(RULE)}",
        _table(report.own_rows, links) if report.own_rows.rows else "",
        *(_section(section, report.heading(section), warnings) for section in report.shown),
        "<h2>Where the numbers come from</h2>",
        _facts(report.provenance.facts),
        f"<p class='faint'>Written by ma-sbi {text(ma_sbi.__version__)}.</p>",
    ]
    body = "\n".join(part for part in parts if part)
    style, script = (
        files("ma_sbi_bench.report").joinpath(name).read_text(encoding="utf-8")
        for name in ("page.css", "page.js")
    )
    page = document(f"ma-sbi: {report.title}", body, style=style, script=script)
    path.write_text(page, encoding="utf-8")
    return warnings


def _section(section: Section, heading: str, warnings: list[str]) -> str:
    with page_style(math=True):
        blocks = list(section.blocks())
        parts = [
            f"<div class='{kind.__name__.lower()}'>{''.join(map(_block, some))}</div>"
            for kind, some in groupby(blocks, type)
        ]
    warnings += warnings_in(blocks)
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
        f"<th scope='col' aria-sort='none'{_alignment(column.numeric)}>"
        f"<button type='button'>{text(column.head)}</button></th>"
        for column in table.columns
    )
    rows = "\n".join(
        "<tr>"
        + "".join(
            _entry(entry, column.numeric, links)
            for entry, column in zip(row, table.columns, strict=True)
        )
        + "</tr>"
        for row in table.rows
    )
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
        f"<table><thead><tr>{heads}</tr></thead>\n<tbody>{rows}</tbody></table></div></div>"
    )


def _entry(entry: Entry, numeric: bool, links: Mapping[str, str]) -> str:  # noqa: FBT001
    order = "" if entry.order is None else f" data-order='{text(str(entry.order))}'"
    shown = text(entry.text)
    if entry.verdict:
        shown = f"<span class='{entry.verdict.replace(' ', '-')}'>{shown}</span>"
    if entry.text in links:
        shown = f"<a href='#{text(links[entry.text])}'>{shown}</a>"
    long = " class='long'" if not numeric and len(entry.text) > 40 else ""
    return f"<td{long or _alignment(numeric)}{order}>{shown}</td>"


def _alignment(numeric: bool) -> str:  # noqa: FBT001
    return " class='number'" if numeric else ""


def _facts(facts: Mapping[str, str]) -> str:
    rows = (f"<dt>{text(name)}</dt><dd>{text(one)}</dd>" for name, one in facts.items())
    return f"<dl>{''.join(rows)}</dl>"
