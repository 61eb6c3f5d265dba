"""A report as one page that needs nothing else: tables that sort, figures, provenance."""

from __future__ import annotations

import re
from pathlib import Path

import ma_sbi
from ma_sbi.display.drawing import page_style, svg
from ma_sbi.display.html import document, text
from ma_sbi_bench.report.contents import (
    CLAIMS_RULE,
    RULE,
    Drawn,
    Report,
    Section,
    progress_of,
)
from ma_sbi_bench.report.provenance import counts_in_words, sample_counts
from ma_sbi_bench.report.tables import Entry, Table

__all__ = ["write_page"]

# A filter is for tables that cannot be taken in at a glance.
ROWS_AT_A_GLANCE = 5

STYLE = """
:root { --reproduced: #1d7a46; --better: #1668a0; --not: #b3261e; --warn: #8a5a00; }
@media (prefers-color-scheme: dark) {
  :root { --reproduced: #5fcf8f; --better: #6cb8f0; --not: #ff8a80; --warn: #f0b95a; } }
body { max-width: 84rem; }
h1 { font-size: 1.5rem; color: var(--ink); }
h2 { font-size: 1.3rem; margin-top: 3rem; padding-top: .75rem;
  border-top: 1px solid var(--line); }
h3 { font-size: 1rem; margin: 1.5rem 0 .5rem; }
p, li { max-width: 50rem; }
a { color: inherit; }
code { font-size: .9em; }
.conclusion { font-size: 1.15rem; font-weight: 600; }
.warning { color: var(--warn); font-weight: 600; }
.bar { display: flex; flex-wrap: wrap; gap: .25rem 1rem; align-items: baseline;
  justify-content: space-between; }
.bar label { color: var(--faint); font-size: .85rem; }
input { font: inherit; font-size: .9rem; padding: .2rem .5rem; width: 13rem;
  max-width: 100%; color: inherit; background: var(--paper); border: 1px solid var(--line);
  border-radius: .3rem; }
.box { overflow: auto; max-height: 34rem; border: 1px solid var(--line);
  border-radius: .4rem; }
table { border-collapse: separate; border-spacing: 0; width: 100%; font-size: .88rem;
  overflow-wrap: normal; }
th, td { padding: .3rem .7rem; text-align: left; white-space: nowrap;
  border-bottom: 1px solid var(--line); }
tbody tr:last-child td { border-bottom: 0; }
tbody tr:hover td { background: var(--card); }
.number { text-align: right; font-variant-numeric: tabular-nums; }
td.long { white-space: normal; min-width: 14rem; }
th { position: sticky; top: 0; z-index: 1; padding: 0; background: var(--card);
  vertical-align: bottom; white-space: normal; }
th button { font: inherit; font-weight: 600; color: inherit; background: none; border: 0;
  width: 100%; padding: .45rem .7rem; text-align: inherit; cursor: pointer; }
th button::after { content: " \\2195"; color: var(--faint); font-weight: 400; }
th[aria-sort=ascending] button::after { content: " \\2191"; color: inherit; }
th[aria-sort=descending] button::after { content: " \\2193"; color: inherit; }
:focus-visible { outline: 2px solid var(--better); outline-offset: -2px; }
.reproduced { color: var(--reproduced); font-weight: 600; }
.better { color: var(--better); font-weight: 600; }
.not-reproduced { color: var(--not); font-weight: 600; }
.too-noisy { color: var(--warn); }
.whole .box { max-height: none; }
.pictures { margin-top: 1.25rem; }
figure { overflow-x: auto; }
/* Figures have colours of their own, which are made for white paper. */
figure svg { min-width: 28rem; background: #ffffff; color: #1d2329; border-radius: .3rem; }
figure svg text { fill: currentColor; }
dl { display: grid; grid-template-columns: 10rem 1fr; margin: 0; }
dt, dd { margin: 0; padding: .4rem .75rem .4rem 0; border-top: 1px solid var(--line); }
dt { font-weight: 600; }
[hidden] { display: none; }
@media (max-width: 36rem) {
  body { padding: 1rem .75rem 3rem; }
  .whole td:first-child { white-space: normal; min-width: 9rem; }
  dl { grid-template-columns: 1fr; } dd { border-top: 0; padding-top: 0; } }
"""

SCRIPT = """
"use strict";
for (const box of document.querySelectorAll(".sortable")) {
  const body = box.querySelector("tbody");
  const heads = [...box.querySelectorAll("th")];
  const key = (row, column) => row.cells[column].dataset.order;
  const compare = (a, b) => {
    const difference = Number(a) - Number(b);
    return Number.isNaN(difference) ? a.localeCompare(b) : difference;
  };
  heads.forEach((head, column) => {
    head.querySelector("button").addEventListener("click", () => {
      const down = head.getAttribute("aria-sort") === "ascending";
      heads.forEach((other) => other.setAttribute("aria-sort", "none"));
      head.setAttribute("aria-sort", down ? "descending" : "ascending");
      const known = (row) => key(row, column) !== undefined;
      const rows = [...body.rows];
      const filled = rows.filter(known);
      filled.sort((a, b) => (down ? -1 : 1) * compare(key(a, column), key(b, column)));
      // What is blank comes last in either order.
      body.append(...filled, ...rows.filter((row) => !known(row)));
    });
  });
  const field = box.querySelector("input");
  if (field) {
    const shown = box.querySelector(".shown");
    const all = body.rows.length;
    field.addEventListener("input", () => {
      const words = field.value.toLowerCase().split(/\\s+/);
      let count = 0;
      for (const row of body.rows) {
        const cells = [...row.cells].map((cell) => cell.textContent);
        const text = cells.join(" ").toLowerCase();
        row.hidden = !words.every((word) => text.includes(word));
        count += row.hidden ? 0 : 1;
      }
      shown.textContent = count < all ? `${count} of ${all} rows` : "";
    });
  }
}
"""


def write_page(report: Report, path: Path) -> list[str]:
    """Write the page.

    Returns:
        What could not be drawn, and why.
    """
    problems: list[str] = []
    sections = [one for one in report.sections if one.worth_showing]
    links = {section.experiment.title: section.experiment.name for section in sections}
    parts = [
        f"<h1>{text(report.title)}</h1>",
        f"<p class='conclusion'>{text(report.conclusion)}</p>",
        f"<p class='warning'>{text(report.warning)}</p>" if report.warning else "",
        _claims(report, links),
        f"<div class='whole'>{_table(report.summary, links=links)}</div>",
        f"<h3>How the verdict is made</h3>{_facts(RULE)}",
        _table(report.own_rows, links=links) if report.own_rows.rows else "",
        *(_section(section, report, problems) for section in sections),
        "<h2>Where the numbers come from</h2>",
        _facts(report.provenance.facts),
        f"<p class='faint'>Written by ma-sbi {text(ma_sbi.__version__)}.</p>",
    ]
    body = "\n".join(part for part in parts if part)
    page = document(f"ma-sbi: {report.title}", body, style=STYLE, script=SCRIPT)
    path.write_text(page, encoding="utf-8")
    return problems


def _claims(report: Report, links: dict[str, str]) -> str:
    if not report.claims.rows:
        return ""
    table = _table(report.claims, links=links)
    return f"<div class='whole'>{table}</div><p class='faint'>{text(CLAIMS_RULE)}</p>"


def _section(section: Section, report: Report, problems: list[str]) -> str:
    experiment = section.experiment
    quick = " (quick run)" if report.budget.quick else ""
    done = progress_of(section)
    counts = counts_in_words(sample_counts(section.rows))
    said = [text(experiment.place), f"<code>{text(experiment.name)}</code>"]
    said += [done] if section.cells else []
    parts = [
        f"<section id='{text(experiment.name)}'>",
        f"<h2>{text(experiment.title + quick)}</h2>",
        f"<p class='faint'>{', '.join(one for one in said if one)}</p>",
        f"<p>{_marked_up(experiment.note)}</p>" if experiment.note else "",
        f"<p class='warning'>The table could not be made: {text(section.problem)}</p>"
        if section.problem
        else "",
        *(_table(table) for table in section.tables),
        _pictures(section, problems),
        f"<p class='faint'>Settings: {text(counts)}.</p>" if counts else "",
        "</section>",
    ]
    return "\n".join(part for part in parts if part)


def _table(table: Table, links: dict[str, str] | None = None) -> str:
    title = text(table.title)
    heads = "".join(
        f"<th scope='col' aria-sort='none'{_alignment(column.numeric)}>"
        f"<button type='button'>{text(column.head)}</button></th>"
        for column in table.columns
    )
    rows = "\n".join(
        "<tr>"
        + "".join(
            _entry(entry, column.numeric, links or {})
            for entry, column in zip(row, table.columns, strict=True)
        )
        + "</tr>"
        for row in table.rows
    )
    search = ""
    if len(table.rows) > ROWS_AT_A_GLANCE:
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


def _entry(entry: Entry, numeric: bool, links: dict[str, str]) -> str:  # noqa: FBT001
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


def _pictures(section: Section, problems: list[str]) -> str:
    with page_style(math=True):
        drawing = section.draw()
        pictures = [_picture(drawn) for drawn in drawing.figures]
    if drawing.problem:
        problems.append(drawing.problem)
        return f"<p class='warning'>{text(drawing.problem)}</p>"
    return f"<div class='pictures'>{''.join(pictures)}</div>" if pictures else ""


def _picture(drawn: Drawn) -> str:
    caption = drawn.caption or drawn.name.replace("_", " ")
    drawing = svg(drawn.figure, caption)
    return f"<figure>{drawing}<figcaption>{text(caption)}</figcaption></figure>"


def _facts(facts: dict[str, str]) -> str:
    rows = (f"<dt>{text(name)}</dt><dd>{text(one)}</dd>" for name, one in facts.items())
    return f"<dl>{''.join(rows)}</dl>"


def _marked_up(note: str) -> str:
    """Show what stands between backticks as code."""
    return re.sub(r"`([^`]+)`", r"<code>\1</code>", text(note))
