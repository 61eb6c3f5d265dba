"""The examples run, import only what a user has, and their pages are theirs."""

import ast
import importlib.util
from pathlib import Path

import pytest

ROOT = Path(__file__).parent.parent
SCRIPTS = sorted((ROOT / "examples").glob("*.py"))
MAY_IMPORT = {"ma_sbi", "sbi", "torch", "numpy", "warnings"}


def load_renderer():
    spec = importlib.util.spec_from_file_location("render", ROOT / "docs" / "render.py")
    module = importlib.util.module_from_spec(spec)
    spec.loader.exec_module(module)
    return module


render = load_renderer()


def page_of(script):
    return (render.GALLERY / f"{script.stem}.md").read_text(encoding="utf-8")


def test_there_are_three_examples():
    names = {"epidemic", "operator_notes", "response_times"}
    assert {script.stem for script in SCRIPTS} == names


@pytest.mark.parametrize("script", SCRIPTS, ids=lambda script: script.stem)
def test_an_example_imports_only_what_a_user_has(script):
    found = set()
    for node in ast.walk(ast.parse(script.read_text(encoding="utf-8"))):
        if isinstance(node, ast.Import):
            found |= {alias.name.split(".")[0] for alias in node.names}
        elif isinstance(node, ast.ImportFrom):
            found.add(node.module.split(".")[0])
    assert found <= MAY_IMPORT


@pytest.mark.parametrize("script", SCRIPTS, ids=lambda script: script.stem)
def test_a_page_is_made_of_its_script(script):
    cells = render.cells_of(script)
    page = page_of(script)
    assert cells[0].source.startswith("# ")
    place = 0
    for cell in cells:
        place = page.index(cell.source, place)  # in their order, and nothing changed
    figures = [name for cell in cells for name in cell.figures]
    assert len(set(figures)) == len(figures) > 0
    for name in figures:
        assert f"(figures/{name})" in page
        assert (render.GALLERY / "figures" / name).stat().st_size > 5_000


def test_a_page_shows_what_its_code_prints_and_draws(tmp_path):
    script = tmp_path / "small.py"
    script.write_text(
        "# %% [markdown]\n# # Title\n#\n# Words.\n\n# %%\nprint(1 + 1)\n\n# %%\n"
        'open("a.png", "w").close()\n# figure.savefig("a.png")\n'
    )
    cells = render.cells_of(script)
    assert [cell.kind for cell in cells] == ["markdown", "python", "python"]
    page = render.to_page(cells, render.run_cells(cells, tmp_path / "figures"), "small.py")
    assert "# Title\n\nWords.\n\n```python\nprint(1 + 1)\n```\n\n```text\n2\n```" in page
    assert page.index("![a](figures/a.png)") > page.index("```text")
    assert (tmp_path / "figures" / "a.png").exists()


def test_the_page_of_plots_shows_the_figures_that_its_code_draws():
    page = render.PAGES["plots"]
    text = page.read_text(encoding="utf-8")
    drawn = render.FIGURE.findall(text)
    shown = render.re.findall(r"\(figures/([^)]+)\)", text)
    assert sorted(drawn) == sorted(shown)
    assert all((page.parent / "figures" / name).exists() for name in drawn)


def run(name, tmp_path, monkeypatch):
    monkeypatch.chdir(tmp_path)
    cells = render.cells_of(ROOT / "examples" / f"{name}.py")
    names = {"__name__": "__main__"}
    code = "\n".join(cell.source for cell in cells if cell.kind == "python")
    exec(compile(code, name, "exec"), names)
    return names
