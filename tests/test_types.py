"""Editors know the types: mypy accepts what the pages show, and refuses mistakes."""

import subprocess
import sys
from pathlib import Path

import pytest

from tests.pages import code_of, pages_with_code
from tests.test_docs import PAGES

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
    # Programs need no annotations of their own, and know what they got.
    allowed = ("[no-untyped-def]", "[union-attr]")
    return [one for one in run.stdout.splitlines() if not one.endswith(allowed)]


def test_what_the_pages_show_has_the_right_types(found):
    assert [one for one in found if "error:" in one and "wrong.py" not in one] == []


@pytest.mark.parametrize("line", range(6, 10))
def test_mistakes_are_found_while_typing(found, line):
    assert any(f"wrong.py:{line}: error" in one for one in found)
