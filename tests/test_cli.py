"""Tests for the command line of the library, and how other packages join it."""

import json
import pickle
import re
from collections.abc import Callable
from dataclasses import dataclass
from pathlib import Path

import numpy as np
import pandas as pd
import pytest
import torch
import typer
from typer.testing import CliRunner

from ma_sbi import __version__, from_callable, from_sbi
from ma_sbi.cli import BENCH_COMMANDS, app, join_commands
from tests.hostile_tables import ESCAPE
from tests.some_posteriors import ddpm_posterior, sbi_npe

runner = CliRunner()


def test_the_version_is_printed():
    result = runner.invoke(app, ["--version"])
    assert result.exit_code == 0
    assert result.output.strip() == f"ma-sbi {__version__}"


def test_without_a_command_the_help_is_shown():
    assert "demo" in runner.invoke(app, []).output


@pytest.mark.slow
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


def _observations(path, n=200, **more):
    rng = np.random.default_rng(0)
    x_sim = rng.normal(size=(n, 2))
    regime = rng.integers(2, size=n)
    x_obs = x_sim + np.array([[0.0, 0.0], [1.0, -1.0]])[regime]
    context = np.array(["calm", "storm"])[regime]
    np.savez(path, **{"x_obs": x_obs, "x_sim": x_sim, "context": context} | more)
    return path


def test_code_can_be_copied_from_a_narrow_terminal(tmp_path):
    folder = tmp_path / ("a folder with a long name, " * 4)
    folder.mkdir()
    file = _observations(folder / "rows.npz")
    result = runner.invoke(app, ["check", str(file)], env={"COLUMNS": "60"})
    assert result.exit_code == 0, result.output
    lines = result.output.splitlines()
    first = next(i for i, line in enumerate(lines) if line.startswith("from ma_sbi"))
    last = max(i for i, line in enumerate(lines) if line.startswith("draws = "))
    compile("\n".join(lines[first : last + 1]), "copied", "exec")


def test_check_prints_its_verdict_and_writes_its_page(tmp_path):
    file, page = _observations(tmp_path / "rows.npz"), tmp_path / "page.html"
    options = ["--html", str(page), "--require", "use", "--require", "use with care"]
    result = runner.invoke(app, ["check", str(file), *options])
    assert result.exit_code == 0, result.output
    assert "there is no posterior" in result.output
    assert "answer.corrector" in result.output
    written = page.read_text(encoding="utf-8")
    assert written.startswith("<!doctype html>")
    for command in (f"ma-sbi fit {file} --out MODEL", "ma-sbi correct NEW --model MODEL"):
        assert command in result.output
        assert command in written


def test_a_command_with_a_line_break_stays_a_comment():
    from ma_sbi.cli import _commands

    named = {"context": ["a note"], "x_obs": ["*_meas"], "groups": None}
    lines = _commands(Path("rows\nimport os.csv"), None, named, 3).splitlines()
    assert all(line.startswith("# ") for line in lines)
    assert "--context 'a note' --x-obs '*_meas' --seed 3 --out MODEL" in lines[1]


def test_check_speaks_json_alone_on_standard_output(tmp_path):
    file = _observations(tmp_path / "rows.npz")
    told = json.loads(runner.invoke(app, ["check", str(file), "--json"]).stdout)
    assert told["verdict"] == "use"
    assert told["results"]["coverage"]["skipped"] == "It needs a posterior."
    tried = told["fit_corrector"]["tried"]
    assert max(tried, key=lambda one: one["weight"])["name"] == "shift by context"


@pytest.mark.slow
def test_check_takes_a_saved_posterior(tmp_path):
    ddpm_posterior().save(tmp_path / "model")
    rng = np.random.default_rng(0)
    x_sim = rng.normal(size=(100, 3))
    regime = np.arange(100) % 2
    np.savez(
        tmp_path / "rows.npz", x_obs=x_sim + regime[:, None], x_sim=x_sim, context=regime
    )
    options = ["--posterior", str(tmp_path / "model"), "--json"]
    result = runner.invoke(app, ["check", str(tmp_path / "rows.npz"), *options])
    assert result.exit_code == 0, result.output
    assert json.loads(result.stdout)["results"]["training_range"]["values"]["after"] == 0.0


@pytest.mark.parametrize(("wanted", "code"), [("use", 0), ("use with care", 1)])
def test_check_can_be_told_what_to_require(wanted, code, tmp_path):
    file = _observations(tmp_path / "rows.npz")
    assert runner.invoke(app, ["check", str(file), "--require", wanted]).exit_code == code


class Trap:
    """Must not be unpickled."""

    def __reduce__(self):
        return (pytest.fail, ("unpickled",))


def _rows_of_three(folder):
    rng = np.random.default_rng(0)
    x_sim = rng.normal(size=(100, 3))
    regime = np.arange(100) % 2
    names = ("temp", "flow", "level")
    frame = pd.DataFrame(x_sim + regime[:, None], columns=[f"{n}_meas" for n in names])
    frame = frame.join(pd.DataFrame(x_sim, columns=[f"{n}_model" for n in names]))
    frame.assign(note=np.where(regime, "storm", "calm")).to_csv(
        folder / "rows.tsv", sep="\t", index=False
    )
    columns = ["--context", "note", "--x-obs", "*_meas", "--x-sim", "*_model"]
    return ["check", str(folder / "rows.tsv"), *columns, "--json"]


def test_check_reads_columns_by_the_users_names(tmp_path):
    result = runner.invoke(app, _rows_of_three(tmp_path))
    assert result.exit_code == 0, result.output
    told = json.loads(result.stdout)
    named = "x_obs is flow_meas, level_meas, temp_meas; x_sim is flow_model, level_model"
    assert any(named in note for note in told["notes"])


@pytest.mark.slow
def test_the_lines_that_check_prints_run_on_their_own(tmp_path):
    told = json.loads(runner.invoke(app, _rows_of_three(tmp_path)).stdout)
    # Only the posterior is the user's.
    given = {"posterior": from_callable(lambda num, x: x.expand(num, -1))}
    exec(told["advice"]["code"], given)
    assert given["answer"].verdict == told["verdict"]
    assert given["draws"].shape == (1000, 100, 3)


@pytest.mark.slow
@pytest.mark.parametrize("name", ["saved", "pickled", "torch"])
def test_check_takes_a_posterior_of_sbi(name, tmp_path):
    path = tmp_path / "model"
    if name == "saved":
        options = {"num_transforms": 2, "hidden_features": (32,)}
        from_sbi(sbi_npe()).save(path, "zuko_maf", **options)
    elif name == "pickled":
        path.write_bytes(pickle.dumps(sbi_npe()))
    else:
        torch.save(sbi_npe(), path)
    allowed = [] if name == "saved" else ["--allow-pickle"]
    command = [*_rows_of_three(tmp_path), "--posterior", str(path), *allowed]
    result = runner.invoke(app, command)
    assert result.exit_code == 0, result.output
    told = json.loads(result.stdout)
    assert told["results"]["training_range"].get("skipped") is None
    assert ("is a pickle: reading it can run any code" in result.stderr) == bool(allowed)


BAD_CHECKS = {
    "missing file": (["none.npz"], "there is no file"),
    "unknown type": (["rows.xlsx"], "known are .npz, .csv, .tsv, .parquet"),
    "three rows": (["three.npz"], "at least 20 rows, got 3"),
    "constant context": (["constant.npz"], "the same in every row"),
    "x_sim of other columns": (["columns.npz"], "paired row by row"),
    "constant groups": (["groups.npz"], "the same group in every row"),
    "no model": (["rows.npz", "--posterior", "none"], "none"),
    "not a model": (
        ["rows.npz", "--posterior", "rows.npz"],
        "not a file that ma-sbi saved",
    ),
    "unknown verdict": (["rows.npz", "--require", "maybe"], "no verdict 'maybe'"),
    "unknown column": (["rows.npz", "--context", "note"], "no column 'note'"),
    "unknown x_obs": (
        ["rows.npz", "--x-obs", "xobs"],
        "no column 'xobs' (is it 'x_obs'?), which --x-obs names; the file has x_obs, x_sim",
    ),
    "a pickle": (["rows.npz", "--posterior", "trap.pkl"], "is a pickle, and reading one"),
    "torch's pickle": (["rows.npz", "--posterior", "trap.pt"], "from_sbi(posterior).save"),
}


@pytest.mark.parametrize("name", BAD_CHECKS)
def test_check_refuses_in_a_sentence(name, tmp_path, monkeypatch):
    monkeypatch.chdir(tmp_path)
    _observations("rows.npz")
    _observations("three.npz", n=3)
    _observations("constant.npz", context=np.array(["same"] * 200))
    _observations("columns.npz", x_sim=np.ones((200, 3)))
    _observations("groups.npz", groups=np.ones(200))
    (tmp_path / "rows.xlsx").write_bytes(b"PK")
    (tmp_path / "trap.pkl").write_bytes(pickle.dumps(Trap()))
    torch.save(Trap(), "trap.pt")
    arguments, said = BAD_CHECKS[name]
    result = runner.invoke(app, ["check", *arguments])
    assert result.exit_code == 2
    assert said in result.stderr
    assert len(result.stderr.strip().splitlines()) == 1
    assert result.stdout == ""


def _written(path, context, names, n=60):
    """Write a csv of rows with these context cells, which repeat, under these names."""
    rng = np.random.default_rng(0)
    x_sim = rng.normal(size=n)
    cells = [context[i % len(context)] for i in range(n)]
    rows = [
        f"{x_sim[i] + len(cells[i]) % 2:.6f},{x_sim[i]:.6f},{cells[i]},{i % 3}"
        for i in range(n)
    ]
    path.write_text("\n".join([f"x_obs,x_sim,{','.join(names)}", *rows]), "utf-8")
    return path


@pytest.mark.slow
def test_what_a_table_holds_is_neither_obeyed_by_the_terminal_nor_printed_at_length(
    tmp_path,
):
    names = [f"context_{ESCAPE}", f"context_{'n' * 100_000}"]
    file = _written(tmp_path / "rows.csv", [f"{ESCAPE}a", f"{ESCAPE}bb"], names)
    result = runner.invoke(app, ["check", str(file)])
    assert result.exit_code == 0, result.output
    said = result.stdout + result.stderr
    assert said.replace("\n", "").isprintable()
    assert len(said) < 10_000


@pytest.mark.slow
def test_padded_codes_are_as_many_regimes_as_the_file_has(tmp_path):
    file = _written(tmp_path / "rows.csv", ["007", "7", "70"], ["context", "hour"])
    told = json.loads(runner.invoke(app, ["check", str(file), "--json"]).stdout)
    assert told["num_contexts"] == 3
    (note,) = [one for one in told["notes"] if "labels" in one]
    assert note == (
        "context is read as labels, not as numbers: '007' is not how a number is written; "
        "--number context reads numbers."
    )
    options = ["--number", "context", "--json"]
    told = json.loads(runner.invoke(app, ["check", str(file), *options]).stdout)
    assert told["num_contexts"] == 2
    assert "number=['context']" in told["advice"]["code"]


@pytest.mark.parametrize("read", ["rows.npz", "model"])
def test_the_page_never_replaces_what_is_read(read, tmp_path, monkeypatch):
    monkeypatch.chdir(tmp_path)
    _observations("rows.npz")
    ddpm_posterior().save("model")
    before = (tmp_path / read).read_bytes()
    (tmp_path / "page").symlink_to(read)
    options = ["rows.npz", "--posterior", "model", "--html", "page"]
    result = runner.invoke(app, ["check", *options])
    assert result.exit_code == 2
    said = f"the page would replace {read}, which is read: name another file"
    assert result.stderr == f"ma-sbi check: {said}\n"
    assert (tmp_path / read).read_bytes() == before


@dataclass
class Entry:
    """Stands for an entry point."""

    name: str
    load: Callable
    value: str = "plug_in:command"


def joined(*entries):
    made = typer.Typer()
    made.command("own")(lambda: typer.echo("our own"))
    join_commands(made, entries)
    return made


def plug_in(number: int = 1):
    """Print a number."""
    typer.echo(f"number {number}")


def broken():
    raise ImportError("no module named dask")


def test_a_command_of_another_package_joins_with_its_options():
    result = runner.invoke(
        joined(Entry("methods", lambda: plug_in)), ["methods", "--number=3"]
    )
    assert (result.exit_code, result.stdout) == (0, "number 3\n")


@pytest.mark.parametrize("name", BENCH_COMMANDS)
@pytest.mark.parametrize("options", [[], ["all", "--quick"]], ids=str)
def test_without_the_bench_its_commands_say_how_to_get_it(name, options):
    result = runner.invoke(joined(), [name, *options])
    assert result.exit_code == 2
    assert result.stderr.startswith(f"ma-sbi {name} needs the bench: pip install ma-sbi-b")
    assert "pip install ./bench" in result.stderr
    assert result.stdout == ""


def test_without_the_bench_the_help_lists_its_commands_and_how_to_get_it():
    output = " ".join(
        runner.invoke(joined(), ["--help"], env={"COLUMNS": "200"}).output.split()
    )
    assert "Check the paper: run its tables and figures again. (needs the bench" in output


def test_a_broken_plug_in_says_why_and_the_other_commands_work():
    made = joined(Entry("methods", broken), Entry("report", lambda: plug_in))
    result = runner.invoke(made, ["methods", "--json"])
    assert result.exit_code == 2
    assert result.stderr == (
        "ma-sbi methods cannot be loaded from plug_in:command: no module named dask\n"
    )
    assert runner.invoke(made, ["report"]).stdout == "number 1\n"
    assert runner.invoke(made, ["own"]).stdout == "our own\n"


def test_a_broken_plug_in_of_a_third_package_is_refused_by_its_own_name():
    result = runner.invoke(joined(Entry("extra", broken)), ["extra"])
    assert result.exit_code == 2
    assert "ma-sbi extra cannot be loaded" in result.stderr
