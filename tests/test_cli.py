"""Tests for the command line."""

import json
import re

import pytest
from typer.testing import CliRunner

from ma_sbi import __version__
from ma_sbi.cli import app
from ma_sbi.methods import METHODS

runner = CliRunner()


def test_the_version_is_printed():
    result = runner.invoke(app, ["--version"])
    assert result.exit_code == 0
    assert result.output.strip() == f"ma-sbi {__version__}"


def test_without_a_command_the_help_is_shown():
    assert "demo" in runner.invoke(app, []).output


def test_the_demo_prints_its_table_and_writes_its_picture(tmp_path):
    out = tmp_path / "new" / "folder"
    options = ["--out", str(out), "--simulations", "1000", "--max-epochs", "2"]
    options += ["--draws", "200"]
    result = runner.invoke(app, ["demo", *options], env={"COLUMNS": "200"})
    assert result.exit_code == 0, result.output
    rows = [line for line in result.output.splitlines() if re.search(r"0\.\d{3}", line)]
    assert len(rows) == 5  # four regimes and their mean
    assert all(name in result.output for name in ("NPE", "MA-SBI", "Oracle"))
    picture = out / "posteriors.png"
    assert str(picture) in result.output.replace("\n", "")
    assert picture.read_bytes().startswith(b"\x89PNG")


@pytest.mark.parametrize(
    "options",
    [["--simulations", "3"], ["--calibration", "1"], ["--max-epochs", "0"]],
    ids=str,
)
def test_the_demo_refuses_too_little_before_it_starts(options, tmp_path):
    result = runner.invoke(app, ["demo", "--out", str(tmp_path / "x"), *options])
    assert result.exit_code == 2
    assert not (tmp_path / "x").exists()


def test_every_method_is_listed_with_what_it_needs():
    result = runner.invoke(app, ["methods"], env={"COLUMNS": "160"})
    assert result.exit_code == 0, result.output
    for name in METHODS:
        assert re.search(rf"^ +{name} ", result.output, re.MULTILINE)
    listed = json.loads(runner.invoke(app, ["methods", "--json"]).output)
    needs = {row["name"]: row["needs"] for row in listed}
    assert needs["ma_sbi"] == ["posterior", "context", "pairs"]
    assert "theta*" in needs["concat"]


def test_one_method_is_told_in_full():
    output = runner.invoke(app, ["methods", "concat"]).output
    assert "with_simulations" in output
    assert "true parameters" in output


def test_an_unknown_method_is_refused_with_the_known_ones():
    result = runner.invoke(app, ["methods", "nope"], env={"COLUMNS": "400"})
    assert result.exit_code == 2
    assert "ma_sbi" in result.output
