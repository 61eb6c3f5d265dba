"""A report as pages of the documentation: claims on one, then one per experiment."""

from __future__ import annotations

import re
from collections.abc import Iterator, Mapping
from pathlib import Path
from typing import Any

import matplotlib as mpl

from ma_sbi.display.text import printable
from ma_sbi.writing import write_text, written_whole
from ma_sbi_bench.report.contents import RULE, Block, Drawn, Report
from ma_sbi_bench.report.tables import Table

__all__ = ["make_pages", "write_markdown"]

OWN = "own_method"
STYLE: Any = {"axes.spines.top": False, "axes.spines.right": False}


def write_markdown(report: Report, path: Path) -> None:
    """Write the page of claims, and a page per experiment into the folder of its name.

    ``report.problems`` then says what could not be made.

    Args:
        report: The report.
        path: File of the page of claims. Of ``results.md`` the other pages are
            ``results/<experiment>.md``, and the figures ``results/figures/*.png``.
    """
    (path.with_suffix("") / "figures").mkdir(parents=True, exist_ok=True)
    for file, text in make_pages(report, path):
        write_text(file, text)


def make_pages(
    report: Report, path: Path, *, figures: bool = True
) -> Iterator[tuple[Path, str]]:
    """Make the text of every page, by its file.

    Args:
        report: The report.
        path: File of the page of claims.
        figures: Whether to draw figures, into their files, and to refer to them.
    """
    folder = path.with_suffix("")
    back = f"[All results](../{path.name})"
    names = [section.experiment.name for section in report.shown]
    for section, name in zip(report.shown, names, strict=True):
        with mpl.rc_context(STYLE):
            parts = [_block(one, folder) for one in section.blocks(figures=figures)]
        yield folder / f"{name}.md", _page(report.heading(section), [*parts, back])
    links = {one.experiment.title: f"{one.experiment.name}.md" for one in report.shown}
    below = {title: f"{folder.name}/{page}" for title, page in links.items()}
    own, own_link = report.own_rows, ""
    if own.rows:
        yield folder / f"{OWN}.md", _page(own.title, [_table(own, links), back])
        own_link = f"[{own.title}: all its figures]({folder.name}/{OWN}.md)"
        names.append(OWN)
    parts = [
        "Every table and figure of the paper that can be computed, with ours beside the "
        "paper's. These pages are generated: `ma-sbi reproduce all`, then `ma-sbi report "
        "--markdown FILE`.",
        *(_block(one, folder) for one in report.headline),
        *(_block(one, folder, below) for one in report.overview),
        own_link,
        f"## How a verdict is made\n\n{_facts(RULE)}",
        f"## Where the numbers come from\n\n{_facts(report.provenance.facts)}",
        "\n".join(
            ["```{toctree}\n:hidden:\n", *(f"{folder.name}/{n}" for n in names), "```"]
        ),
    ]
    yield path, _page(report.title, parts)


def _page(title: str, parts: list[str]) -> str:
    return "\n\n".join([f"# {_plain(title)}", *filter(None, parts)]) + "\n"


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
    with written_whole(folder / file) as unfinished:
        drawn.figure.savefig(
            unfinished,
            format="png",
            dpi=120,
            bbox_inches="tight",
            metadata={"Software": None},
        )
    caption = _plain(drawn.caption)
    return f"![{caption}]({file.as_posix()})\n\n*{caption}*"


def _table(table: Table, links: Mapping[str, str]) -> str:
    rules = ["---:" if column.numeric else "---" for column in table.columns]
    rows = [[_plain(column.head) for column in table.columns], rules]
    for entries in table.rows:
        texts = [(one.text, _plain(one.text)) for one in entries]
        rows.append([f"[{s}]({links[t]})" if t in links else s for t, s in texts])
    return "\n".join(f"| {' | '.join(row)} |" for row in rows)


def _facts(facts: Mapping[str, str]) -> str:
    return "\n".join(f"- **{_plain(name)}**: {_plain(one)}" for name, one in facts.items())


def _plain(text: str) -> str:
    """Keep a text from being read as Markdown."""
    # Spaces at the ends stand between a text and the code beside it.
    one_line = re.sub(r"\s+", " ", printable(text))
    return re.sub(r"([\\`*<|$~]|(?<=\])[(:\[]|\b_|_\b)", r"\\\1", one_line)
