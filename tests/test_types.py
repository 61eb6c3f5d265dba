"""Editors know the types: mypy accepts what the pages show, and refuses mistakes."""

import inspect
import subprocess
import sys
from pathlib import Path

import pytest

from tests.pages import code_of, pages_with_code
from tests.test_docs import PAGES
from tests.test_reference import ENTRIES
from tests.test_reference import found as named

ROOT = Path(__file__).parent.parent
EXAMPLES = sorted((ROOT / "examples").glob("**/*.py"))
WRONG = """
import torch
from ma_sbi import check, fit_corrector

x = torch.zeros(40, 2)
fit_corrector(x, ["high", "fine"] * 20, x)  # x_obs are texts
check("rows.csv", ["high", "fine"] * 20, x_sim=x)  # x_obs is a file
fit_corrector(["high", "fine"] * 20, x, x, encoder="hash")  # a name
fit_corrector({"high", "fine"}, x, x)  # a set
"""
# matplotlib says that axes may lie in a SubFigure, which cannot be saved, or before 3.10 in
# none. Those of plots lie in a Figure.
OF_AXES = 'of "Figure | SubFigure'
# Rows of the user: a signature that says Any of them says nothing to an editor.
ROWS = {
    *("x", "x_obs", "x_sim", "simulations", "context", "draws", "theta"),
    *("samples", "delta", "corrected", "groups"),
}
CALLABLE = [name for kind, name in ENTRIES if kind in ("function", "class")]


def own_functions(thing):
    """Return a function, or the constructor and public methods of a class, if ours."""
    functions = [thing]
    if inspect.isclass(thing):
        public = [name for name in dir(thing) if not name.startswith("_")]
        functions = [getattr(thing, name) for name in ["__init__", "__call__", *public]]
    ours = [one for one in functions if inspect.isroutine(one)]
    return [one for one in ours if str(getattr(one, "__module__", "")).startswith("ma_sbi")]


def rows_of(thing):
    """Return the annotations, as they are written, of what takes the user's rows."""
    return {
        f"{function.__qualname__}({name})": parameter.annotation
        for function in own_functions(thing)
        for name, parameter in inspect.signature(function).parameters.items()
        if name in ROWS
    }


def vague(thing):
    rows = rows_of(thing).items()
    return [name for name, annotation in rows if "Any" in annotation.split(" | ")]


@pytest.fixture(scope="module")
def found(tmp_path_factory):
    """What mypy says of all programs, in one run."""
    folder = tmp_path_factory.mktemp("typed")
    for page in pages_with_code(PAGES):
        (folder / f"page_{page.stem}.py").write_text(code_of(page), encoding="utf-8")
    for example in EXAMPLES:
        (folder / f"example_{example.stem}.py").write_bytes(example.read_bytes())
    (folder / "wrong.py").write_text(WRONG)
    mypy = [sys.executable, "-m", "mypy", "--config-file", str(ROOT / "pyproject.toml")]
    run = subprocess.run(
        [*mypy, str(folder)],
        cwd=ROOT,
        capture_output=True,
        text=True,
    )
    assert run.returncode in (0, 1), run.stdout + run.stderr
    # Programs need no annotations of their own.
    errors = [one for one in run.stdout.splitlines() if "[no-untyped-def]" not in one]
    return [one for one in errors if OF_AXES not in one]


def test_what_the_pages_show_has_the_right_types(found):
    assert [one for one in found if "error:" in one and "wrong.py" not in one] == []


@pytest.mark.parametrize("line", range(6, 10))
def test_mistakes_are_found_while_typing(found, line):
    assert any(f"wrong.py:{line}: error" in one for one in found)


@pytest.mark.parametrize("name", CALLABLE)
def test_what_takes_rows_of_the_user_says_what_they_may_be(name):
    assert vague(named(name)) == []


def test_rows_that_may_be_anything_are_found():
    class Vague:
        def __init__(self, x: "ArrayLike", context: "Any | None"): ...  # noqa: F821

        def fit(self, x_obs: "Any", seed: "Any"): ...  # noqa: F821

    Vague.__init__.__module__ = Vague.fit.__module__ = "ma_sbi.somewhere"
    found = [name.rpartition(".")[2] for name in vague(Vague)]
    assert found == ["__init__(context)", "fit(x_obs)"]
    assert len(rows_of(named("ma_sbi.check"))) == 6
