"""The reference names what is public, and nothing that is not there."""

import importlib
import inspect
import re
from functools import reduce
from pathlib import Path

import pytest

PAGES = sorted((Path(__file__).parent.parent / "docs" / "reference").glob("*.md"))
DIRECTIVE = re.compile(r"^\.\. auto(function|class|data):: (\S+)$", re.MULTILINE)
ENTRIES = [
    entry for page in PAGES for entry in DIRECTIVE.findall(page.read_text(encoding="utf-8"))
]
DOCUMENTED = [name for _, name in ENTRIES]
PUBLIC = [
    "ma_sbi",
    "ma_sbi.checking",
    "ma_sbi.choosing",
    "ma_sbi.correctors",
    "ma_sbi.diagnostics",
    "ma_sbi.exceptions",
    "ma_sbi.metrics",
    "ma_sbi.plots",
    "ma_sbi.posteriors",
]


def found(name):
    """Import the module of a dotted name and return what it names."""
    parts = name.split(".")
    for length in range(len(parts) - 1, 0, -1):
        try:
            module = importlib.import_module(".".join(parts[:length]))
        except ModuleNotFoundError:
            continue
        return reduce(getattr, parts[length:], module)
    raise LookupError(name)


@pytest.mark.parametrize("package", PUBLIC)
def test_every_public_name_is_in_the_reference(package):
    names = {name.rpartition(".")[2] for name in DOCUMENTED}
    assert set(importlib.import_module(package).__all__) - names == set()


@pytest.mark.parametrize(("kind", "name"), ENTRIES)
def test_what_the_reference_names_is_there_and_documented(kind, name):
    thing = found(name)
    assert {"function": inspect.isroutine, "class": inspect.isclass}.get(kind, bool)(thing)
    # The docstring of data is not kept: it stands on the page.
    assert kind == "data" or inspect.getdoc(thing)


def test_every_warning_of_the_package_is_among_the_public_ones():
    import ma_sbi
    from ma_sbi import exceptions

    root = Path(ma_sbi.__file__).parent
    made = {
        name
        for path in root.rglob("*.py")
        for name in re.findall(r"^class (\w+)\((?:User)?Warning\)", path.read_text(), re.M)
    }
    assert made <= set(exceptions.__all__)


def test_nothing_is_in_the_reference_twice():
    assert sorted(set(DOCUMENTED)) == sorted(DOCUMENTED)


def test_every_command_is_in_the_reference():
    from ma_sbi.cli import app

    (page,) = (one for one in PAGES if one.stem == "saving")
    text = page.read_text(encoding="utf-8")
    for command in app.registered_commands:
        name = command.name or command.callback.__name__
        assert re.search(rf"`(ma-sbi )?{name}\b", text), name
