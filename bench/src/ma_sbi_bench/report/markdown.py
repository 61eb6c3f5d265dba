"""A report as pages of the documentation: claims on one, then one per experiment."""

from __future__ import annotations

import re
from collections.abc import Mapping
from pathlib import Path
from typing import Any

import matplotlib as mpl

from ma_sbi.display.text import printable
from ma_sbi_bench.report.contents import RULE, Block, Drawn, Report, warnings_in
from ma_sbi_bench.report.tables import Table

__all__ = ["write_markdown"]

OWN = "own_method"
STYLE: Any = {"axes.spines.top": False, "axes.spines.right": False}


def write_markdown(report: Report, path: Path) -> list[str]:
    """Write the page of claims, and a page per experiment into the folder of its name.

    Args:
        report: The report.
        path: File of the page of claims. Of ``results.md`` the other pages are
            ``results/<experiment>.md``, and the figures ``results/figures/*.png``.

    Returns:
        Warnings of the pages: what could not be made, and why.
    """
    folder = path.with_suffix("")
    (folder / "figures").mkdir(parents=True, exist_ok=True)
    warnings, names = [], []
    back = f"[All results](../{path.name})"
    for section in report.shown:
        name = section.experiment.name
        with mpl.rc_context(STYLE):
            blocks = list(section.blocks())
            parts = [_block(one, folder) for one in blocks]
        _write(folder / f"{name}.md", report.heading(section), [*parts, back])
        names.append(f"{folder.name}/{name}")
        warnings += warnings_in(blocks)
    links = {one.experiment.title: f"{one.experiment.name}.md" for one in report.shown}
    own = report.own_rows
    if own.rows:
        _write(folder / f"{OWN}.md", own.title, [_table(own, links), back])
        names.append(f"{folder.name}/{OWN}")
    below = {title: f"{folder.name}/{page}" for title, page in links.items()}
    parts = [
        "Every table and figure of the paper that can be computed, with ours beside the "
        "paper's. These pages are generated: `ma-sbi reproduce all`, then `ma-sbi report "
        "--markdown FILE`.",
        *(_block(one, folder) for one in report.headline),
        *(_block(one, folder, below) for one in report.overview),
        f"[{own.title}: all its figures]({folder.name}/{OWN}.md)" if own.rows else "",
        "## How a verdict is made",
        _facts(RULE),
        "## Where the numbers come from",
        _facts(report.provenance.facts),
        "\n".join(["```{toctree}\n:hidden:\n", *names, "```"]),
    ]
    _write(path, report.title, parts)
    return warnings


def _write(path: Path, title: str, parts: list[str]) -> None:
    text = "\n\n".join([f"# {_plain(title)}", *filter(None, parts)])
    path.write_text(f"{text}\n", encoding="utf-8")


def _block(block: Block, folder: Path, links: Mapping[str, str] | None = None) -> str:
    if isinstance(block, Table):
        return f"## {_plain(block.title)}\n\n{_table(block, links or {})}"
    if isinstance(block, Drawn):
        return _figure(block, folder)
    text = "".join(
        part if part.startswith("`") else _plain(part)
        for part in re.split(r"(`[^`]+`)", block.text)
    )
    return f"**{text}**" if block.kind in ("strong", "warning") else text


def _figure(drawn: Drawn, folder: Path) -> str:
    name = re.sub(r"\W+", "_", drawn.name).strip("_")
    file = Path("figures") / f"{name}.png"
    drawn.figure.savefig(
        folder / file, dpi=120, bbox_inches="tight", metadata={"Software": None}
    )
    caption = _plain(drawn.caption)
    return f"![{caption}]({file.as_posix()})\n\n*{caption}*"


def _table(table: Table, links: Mapping[str, str]) -> str:
    rules = ["---:" if column.numeric else "---" for column in table.columns]
    rows = [[_plain(column.head) for column in table.columns], rules]
    rows += [[_linked(entry.text, links) for entry in row] for row in table.rows]
    return "\n".join(f"| {' | '.join(row)} |" for row in rows)


def _linked(text: str, links: Mapping[str, str]) -> str:
    return f"[{_plain(text)}]({links[text]})" if text in links else _plain(text)


def _facts(facts: Mapping[str, str]) -> str:
    return "\n".join(f"- **{_plain(name)}**: {_plain(one)}" for name, one in facts.items())


def _plain(text: str) -> str:
    """Keep a text from being read as Markdown."""
    # Spaces at the ends stand between a text and the code beside it.
    one_line = re.sub(r"\s+", " ", printable(text))
    return re.sub(r"([\\`*<|$~]|(?<=\])[(:\[]|\b_|_\b)", r"\\\1", one_line)
