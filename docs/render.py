"""Run the code of the pages, and write what it prints and draws.

``python docs/render.py`` runs each script of ``examples`` and writes its page in
``docs/gallery``, and runs the pages in ``PAGES`` for the figures that they show. Names
of scripts or pages choose some of them. Figures are committed, so that building the
documentation runs nothing.
"""

from __future__ import annotations

import contextlib
import io
import os
import re
import sys
from pathlib import Path
from typing import NamedTuple

ROOT = Path(__file__).parent.parent
EXAMPLES = ROOT / "examples"
GALLERY = ROOT / "docs" / "gallery"
PAGES = {"plots": ROOT / "docs" / "how_to" / "plots.md"}
FIGURE = re.compile(r'savefig\(\s*"([^"]+)"')
BLOCK = re.compile(r"^```python\n(.*?)^```", re.MULTILINE | re.DOTALL)


class Cell(NamedTuple):
    """A part of a script in percent format.

    Attributes:
        kind: ``"markdown"`` or ``"python"``.
        source: The text, without the marks of comments, or the code.
    """

    kind: str
    source: str

    @property
    def figures(self) -> list[str]:
        """Files that the code writes figures to."""
        return FIGURE.findall(self.source) if self.kind == "python" else []


def cells_of(script: Path) -> list[Cell]:
    """Split a script at its marks, ``# %%`` and ``# %% [markdown]``."""
    parts = re.split(r"^# %%(.*)\n", script.read_text(encoding="utf-8"), flags=re.M)[1:]
    cells = []
    for mark, source in zip(parts[::2], parts[1::2], strict=True):
        if "[markdown]" in mark:
            text = re.sub(r"^# ?", "", source.strip(), flags=re.M)
            cells.append(Cell("markdown", text))
        else:
            cells.append(Cell("python", source.strip()))
    return cells


def to_page(cells: list[Cell], outputs: list[str], script: str) -> str:
    """Write cells as Markdown, code with its output and figures."""
    parts = [f"<!-- Written by docs/render.py from examples/{script}; edit that. -->"]
    for cell, output in zip(cells, outputs, strict=True):
        if cell.kind == "markdown":
            parts.append(cell.source)
            continue
        parts.append(f"```python\n{cell.source}\n```")
        if output.strip():
            parts.append(f"```text\n{output.strip()}\n```")
        parts += [f"![{_words(name)}](figures/{name})" for name in cell.figures]
    parts.append(f"*The script is `examples/{script}`.*")
    return "\n\n".join(parts) + "\n"


def run_cells(cells: list[Cell], folder: Path) -> list[str]:
    """Run the code in a folder and return what each cell printed."""
    outputs, names = [], {"__name__": "__main__"}
    for place, cell in enumerate(cells):
        printed = io.StringIO()
        if cell.kind == "python":
            with contextlib.redirect_stdout(printed), _in(folder):
                exec(compile(cell.source, f"<cell {place}>", "exec"), names)
        # What a terminal would show: a line that was written over is gone.
        outputs.append(re.sub(r"^.*\r", "", printed.getvalue(), flags=re.M))
    return outputs


def render(script: Path) -> None:
    """Run an example and write its page."""
    cells = cells_of(script)
    outputs = run_cells(cells, GALLERY / "figures")
    page = to_page(cells, outputs, script.name)
    (GALLERY / f"{script.stem}.md").write_text(page, encoding="utf-8")


def draw(page: Path) -> None:
    """Run the code of a page that is written by hand, for its figures."""
    blocks = BLOCK.findall(page.read_text(encoding="utf-8"))
    run_cells([Cell("python", block) for block in blocks], page.parent / "figures")


@contextlib.contextmanager
def _in(folder: Path):  # noqa: ANN202
    """Work in a folder, with figures as fine as pages need them."""
    import matplotlib as mpl

    folder.mkdir(parents=True, exist_ok=True)
    before = Path.cwd()
    os.chdir(folder)
    try:
        with mpl.rc_context({"savefig.dpi": 130}):
            yield
    finally:
        os.chdir(before)


def _words(name: str) -> str:
    return Path(name).stem.replace("_", " ")


def main(chosen: list[str]) -> None:
    """Render what is named, or everything."""
    scripts = {path.stem: path for path in sorted(EXAMPLES.glob("*.py"))}
    unknown = set(chosen) - set(scripts) - set(PAGES)
    if unknown:
        sys.exit(f"no example or page: {', '.join(sorted(unknown))}")
    for name in chosen or [*PAGES, *scripts]:
        print(name, flush=True)
        draw(PAGES[name]) if name in PAGES else render(scripts[name])


if __name__ == "__main__":
    main(sys.argv[1:])
