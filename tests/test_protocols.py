"""Every public class keeps its protocol, and the rooms import one way."""

import ast
import inspect
from pathlib import Path

import pytest

import ma_sbi
from ma_sbi import protocols
from ma_sbi.correctors import BaseCorrector, ComposedCorrector, ShiftCorrector
from ma_sbi.posteriors.amortized import Amortized

PACKAGE = Path(ma_sbi.__file__).parent
METHOD = ["context", "encoders", "posterior", "correctors"]
WORLDS = {"tasks", "baselines", "experiments", "metrics", "report", "demo", "cli"}


@pytest.mark.parametrize("name", ma_sbi.__all__)
def test_every_public_name_is_documented(name):
    assert inspect.getdoc(getattr(ma_sbi, name))


@pytest.mark.parametrize("corrector", [BaseCorrector, ComposedCorrector, ShiftCorrector])
@pytest.mark.parametrize("method", ["correct", "corrections"])
def test_correctors_have_the_signature_of_the_protocol(corrector, method):
    expected = inspect.signature(getattr(protocols.Corrector, method)).parameters
    assert list(inspect.signature(getattr(corrector, method)).parameters) == list(expected)


def test_posteriors_have_the_signature_of_the_protocol():
    expected = inspect.signature(protocols.AmortizedPosterior.sample).parameters
    assert list(inspect.signature(Amortized.sample).parameters) == list(expected)


@pytest.mark.parametrize("room", METHOD)
def test_the_method_imports_no_world(room):
    path = PACKAGE / room
    files = path.rglob("*.py") if path.is_dir() else [path.with_suffix(".py")]
    for file in files:
        for node in ast.walk(ast.parse(file.read_text(encoding="utf-8"))):
            module = getattr(node, "module", None) or ""
            if isinstance(node, ast.ImportFrom) and module.startswith("ma_sbi."):
                assert module.split(".")[1] not in WORLDS, f"{file} imports {module}"
