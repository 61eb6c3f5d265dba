"""A report as a page of the documentation: Markdown, and its figures beside it."""

from __future__ import annotations

import re
from pathlib import Path

import matplotlib as mpl

from ma_sbi.display.text import printable
from ma_sbi_bench.report.contents import CLAIMS_RULE, RULE, Report, Section, progress_of
from ma_sbi_bench.report.provenance import counts_in_words, sample_counts
from ma_sbi_bench.report.tables import Table

__all__ = ["write_markdown"]

FIGURES = Path("figures") / "results"


def write_markdown(report: Report, path: Path) -> list[str]:
    """Write the page, and its figures as PNG into ``figures/results`` beside it.

    Returns:
        What could not be drawn, and why.
    """
    problems: list[str] = []
    parts = [
        f"# {report.title}",
        "Every table and figure of the paper that can be computed, with ours beside the "
        "paper's. This page is generated: `ma-sbi reproduce all`, then `ma-sbi report "
        "--markdown docs/results.md` ([how to](how_to/reproduce.md)).",
        f"**{report.conclusion}**",
    ]
    if report.warning:
        parts.append(f"**{report.warning}**")
    if report.claims.rows:
        title, table = f"**{report.claims.title}**", _table(report.claims)
        parts += [title, table, _plain(CLAIMS_RULE)]
    rule = [f"- **{_plain(name)}**: {_plain(said)}" for name, said in RULE.items()]
    parts += ["**Figure by figure**", _table(report.summary), "\n".join(rule)]
    if report.own_rows.rows:
        parts += [f"**{report.own_rows.title}**", _table(report.own_rows)]
    for section in report.sections:
        if section.worth_showing:
            parts += _section(section, path, problems)
    parts.append("## Where the numbers come from")
    facts = report.provenance.facts
    parts.append(
        "\n".join(f"- {_plain(name)}: {_plain(one)}" for name, one in facts.items())
    )
    path.parent.mkdir(parents=True, exist_ok=True)
    path.write_text("\n\n".join(parts) + "\n", encoding="utf-8")
    return problems


def _section(section: Section, path: Path, problems: list[str]) -> list[str]:
    experiment = section.experiment
    parts = [f"## {_plain(experiment.title)}"]
    done = progress_of(section)
    said = [_plain(experiment.place), f"`{experiment.name}`", done if section.cells else ""]
    parts.append(", ".join(one for one in said if one) + ".")
    if experiment.note:
        parts.append(experiment.note)
    if section.problem:
        parts.append(f"The table could not be made: {_plain(section.problem)}")
    for table in section.tables:
        parts += [f"**{_plain(table.title)}**", _table(table)]
    parts += _figures(section, path, problems)
    counts = counts_in_words(sample_counts(section.rows))
    if counts:
        parts.append(f"Settings: {_plain(counts)}.")
    return parts


def _figures(section: Section, path: Path, problems: list[str]) -> list[str]:
    parts = []
    with mpl.rc_context({"axes.spines.top": False, "axes.spines.right": False}):
        drawing = section.draw()
        if drawing.problem:
            problems.append(drawing.problem)
            parts.append(_plain(drawing.problem))
        for drawn in drawing.figures:
            name = re.sub(r"\W+", "_", drawn.name).strip("_")
            file = FIGURES / f"{section.experiment.name}_{name}.png"
            (path.parent / file).parent.mkdir(parents=True, exist_ok=True)
            drawn.figure.savefig(
                path.parent / file,
                dpi=120,
                bbox_inches="tight",
                metadata={"Software": None},
            )
            caption = _plain(drawn.caption or drawn.name)
            parts += [f"![{caption}]({file.as_posix()})", f"*{caption}*"]
    return parts


def _table(table: Table) -> str:
    rules = ["---:" if column.numeric else "---" for column in table.columns]
    rows = [[_plain(column.head) for column in table.columns], rules]
    rows += [[_plain(entry.text) for entry in row] for row in table.rows]
    return "\n".join(f"| {' | '.join(row)} |" for row in rows)


def _plain(text: str) -> str:
    """Keep a text from being read as Markdown."""
    one_line = " ".join(printable(text).split())
    return re.sub(r"([\\`*<|$~]|(?<=\])[(:\[]|\b_|_\b)", r"\\\1", one_line)
