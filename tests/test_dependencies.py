"""Both packages declare what they import, and import what they declare."""

import re
from pathlib import Path

import pytest

from tests.imports import third_party

tomllib = pytest.importorskip("tomllib", reason="Python 3.10 cannot read TOML")

ROOT = Path(__file__).parents[1]
PROJECTS = {
    "ma-sbi": (ROOT / "pyproject.toml", ROOT / "src" / "ma_sbi"),
    "ma-sbi-bench": (
        ROOT / "bench" / "pyproject.toml",
        ROOT / "bench" / "src" / "ma_sbi_bench",
    ),
}
MODULES = {"scikit-learn": "sklearn"}
# Extras that a user installs; the others are for developers.
EXTRAS = {"text", "parquet", "cluster", "bayesflow", "arviz"}
NEVER_IMPORTED = {
    "six": "sbi.analysis imports it without declaring it",
    "pyarrow": "pandas reads parquet with it",
    "bayesflow": "a user's own workflow brings it",
    "arviz": "it takes what xarray holds",
    "sentence_transformers": "the weights of the extra text are loaded with it",
}


def project(name):
    return tomllib.loads(PROJECTS[name][0].read_text(encoding="utf-8"))["project"]


def modules(requirements):
    names = [re.match(r"[\w-]+", one)[0] for one in requirements]
    return {MODULES.get(name, name.replace("-", "_")) for name in names}


@pytest.mark.parametrize("name", PROJECTS)
def test_what_is_imported_is_declared_and_the_reverse(name):
    declared = modules(project(name)["dependencies"])
    extras = project(name)["optional-dependencies"]
    optional = set().union(*(modules(extras[extra]) for extra in EXTRAS & set(extras)))
    imported = third_party(PROJECTS[name][1])
    assert imported <= declared | optional
    assert (declared | optional) - imported <= {"ma_sbi", *NEVER_IMPORTED}


def test_both_packages_have_one_version_and_the_bench_needs_that_of_the_library():
    written = re.compile(r'^__version__ = "(.+)"$', re.MULTILINE)
    library, bench = (
        written.findall((package / "__init__.py").read_text("utf-8"))
        for _, package in PROJECTS.values()
    )
    assert library == bench
    assert f"ma-sbi=={library[0]}" in project("ma-sbi-bench")["dependencies"]
    # The build reads it from there.
    assert all(project(name)["dynamic"] == ["version"] for name in PROJECTS)
