"""``ma-sbi fit`` and ``correct``: tables of every format, in blocks, stopped or not."""

import json
import warnings

import numpy as np
import pandas as pd
import pytest
import torch
from typer.testing import CliRunner

from ma_sbi import load_corrector
from ma_sbi.applying import running, sources
from ma_sbi.cli import app
from tests.some_posteriors import flow_posterior

N = 90
NAMES = ("temp_meas", "flow_meas", "level_meas")
FORMATS = ("csv", "tsv", "parquet", "npz")


def _run(*options):
    return CliRunner().invoke(app, [str(one) for one in options])


def _table(n=N, seed=0):
    """Three columns of x, labels of which some are missing, and what is none of these."""
    rng = np.random.default_rng(seed)
    codes = np.arange(n) % 3
    x_sim = 0.5 * rng.normal(size=(n, 3))
    x_obs = x_sim + np.array([[0.0] * 3, [0.5, -0.5, 0.2], [0.0, 0.0, 0.4]])[codes]
    x_obs += 0.05 * rng.normal(size=(n, 3))
    observed = pd.DataFrame(x_obs, columns=list(NAMES))
    simulated = pd.DataFrame(x_sim, columns=["temp_model", "flow_model", "level_model"])
    note = np.array(["calm, as usual", "storm", ""])[codes]
    ids = pd.DataFrame({"id": [f"007_{one}" for one in range(n)], "note": note})
    return pd.concat([ids, observed, simulated], axis=1)


def _write(table, path):
    if path.suffix == ".parquet":
        table.to_parquet(path, index=False)
    elif path.suffix == ".npz":
        np.savez(path, **{k: _plain(one) for k, one in table.items()})
    else:
        table.to_csv(path, sep="\t" if path.suffix == ".tsv" else ",", index=False)
    return path


def _plain(column):
    numbers = column.dtype.kind == "f"
    return column.to_numpy() if numbers else column.to_numpy().astype(str)


def _read(path):
    if path.suffix == ".parquet":
        return pd.read_parquet(path)
    if path.suffix == ".npz":
        with np.load(path) as held:
            return pd.DataFrame({name: held[name] for name in held})
    separator = "\t" if path.suffix == ".tsv" else ","
    return pd.read_csv(path, sep=separator, keep_default_na=False)


COLUMNS = ("--context", "note", "--x-obs", ",".join(NAMES))
X_SIM = ("--x-sim", "temp_model,flow_model,level_model")


@pytest.fixture(scope="module")
def model(tmp_path_factory):
    folder = tmp_path_factory.mktemp("model")
    file = _write(_table(), folder / "rows.csv")
    found = _run("fit", file, "--out", folder / "model", *COLUMNS, *X_SIM)
    assert found.exit_code == 0, found.output
    assert "shift by context" in found.output
    return folder / "model"


@pytest.fixture
def small_blocks(monkeypatch):
    monkeypatch.setattr(sources, "BLOCK_ROWS", 7)


def _new_rows():
    table = _table(40, seed=1).drop(columns=["temp_model", "flow_model", "level_model"])
    table.loc[5, "note"] = "never seen before, at all"
    return table


def _expected(model, table):
    corrector = load_corrector(model)
    notes = table["note"].replace("", None)
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")
        return corrector.corrections(table[list(NAMES)].to_numpy(), notes)


@pytest.mark.parametrize("out", FORMATS)
@pytest.mark.parametrize("given", FORMATS)
def test_every_format_gives_what_the_corrector_gives(
    given, out, model, tmp_path, small_blocks
):
    table = _new_rows()
    file = _write(table, tmp_path / f"new.{given}")
    # The names of columns are those of calibration: no option is needed.
    result = _run("correct", file, "--model", model, "--out", tmp_path / f"out.{out}")
    assert result.exit_code == 0, result.output
    found, expected = _read(tmp_path / f"out.{out}"), _expected(model, table)
    assert list(found["id"]) == list(table["id"])
    assert np.allclose(found[list(NAMES)], table[list(NAMES)], rtol=0, atol=1e-12)
    weight = expected.log_weight.double().exp()[..., None]
    mean = (weight * expected.x.double()).sum(dim=0)
    spread = (weight * (expected.x.double() - mean).square()).sum(dim=0).sqrt()
    names = [f"{{}}_{one}" for one in NAMES]
    corrected = found[[one.format("corrected") for one in names]].to_numpy(float)
    spreads = found[[one.format("spread") for one in names]].to_numpy(float)
    assert np.allclose(corrected, mean, atol=1e-6)
    assert np.allclose(spreads, spread, atol=1e-6)
    largest = found["largest_weight"].to_numpy(float)
    assert np.allclose(largest, weight.amax(dim=0)[:, 0], atol=1e-6)
    assert list(found["context_is"][:6]) == [
        "known", "known", "missing", "known", "known", "unlike all seen",
    ]  # fmt: skip
    assert "unlike all seen: 1" in result.output
    assert not (tmp_path / f"out.{out}.blocks").exists()


def test_a_matrix_in_an_npz_stays_one(tmp_path):
    table = _table()
    arrays = {"x_obs": table[list(NAMES)].to_numpy(), "context": _plain(table["note"])}
    x_sim = table[["temp_model", "flow_model", "level_model"]].to_numpy()
    np.savez(tmp_path / "fit.npz", **arrays, x_sim=x_sim)
    np.savez(tmp_path / "new.npz", **arrays, id=np.arange(N))
    model, out = tmp_path / "model", tmp_path / "out.npz"
    assert _run("fit", tmp_path / "fit.npz", "--out", model).exit_code == 0
    result = _run("correct", tmp_path / "new.npz", "--model", model, "--out", out)
    assert result.exit_code == 0, result.output
    with np.load(out) as held:
        assert np.array_equal(held["x_obs"], arrays["x_obs"])
        assert held["corrected_x_obs"].shape == (N, 3)
        assert np.array_equal(held["id"], np.arange(N))


@pytest.mark.parametrize("out", ["csv", "parquet", "npz"])
def test_every_candidate_has_a_line(out, model, tmp_path, small_blocks):
    table = _new_rows()
    file, path = _write(table, tmp_path / "new.csv"), tmp_path / f"out.{out}"
    result = _run("correct", file, "--model", model, "--out", path, "--candidates")
    assert result.exit_code == 0, result.output
    found, expected = _read(path), _expected(model, table)
    assert list(found["id"]) == list(table["id"].iloc[found["row"].astype(int)])
    together = found["weight"].astype(float).groupby(found["row"]).sum()
    assert np.allclose(together, 1.0, atol=1e-5)
    number = (expected.log_weight.exp() > 0).sum(dim=0).tolist()
    assert found.groupby("row").size().tolist() == number
    one = found[found["row"].astype(int) == 9]
    there = expected.log_weight[:, 9].exp() > 0
    named = one[[f"corrected_{name}" for name in NAMES]].to_numpy(float)
    assert np.allclose(named, expected.x[there, 9], atol=1e-5)


def test_every_draw_has_a_line_and_a_seed(model, tmp_path, small_blocks):
    flow_posterior().save(tmp_path / "posterior")
    file = _write(_new_rows(), tmp_path / "new.csv")
    options = ["correct", file, "--model", model, "--posterior", tmp_path / "posterior"]
    for name, seed in {"a": 1, "b": 1, "c": 2}.items():
        out = tmp_path / f"{name}.csv"
        found = _run(*options, "--draws", 30, "--seed", seed, "--out", out)
        assert found.exit_code == 0, found.output
    a, b, c = ((tmp_path / f"{name}.csv").read_bytes() for name in "abc")
    assert a == b != c
    drawn = _read(tmp_path / "a.csv")
    assert len(drawn) == 40 * 30
    assert drawn["row"].tolist() == np.repeat(np.arange(40), 30).tolist()
    assert drawn["draw"].tolist() == np.tile(np.arange(30), 40).tolist()
    # theta is x but for noise of 0.2: the mean of 30 draws of 40 rows has an error of 0.006
    # per column, to which 0.1 of a small flow's bias is added.
    truth = _expected(model, _new_rows())
    mean = (truth.log_weight.exp()[..., None] * truth.x).sum(dim=0).mean(dim=0)
    theta = drawn[["theta_0", "theta_1", "theta_2"]].mean()
    assert np.allclose(theta, mean, atol=0.15)


def test_rows_that_are_no_numbers_are_marked_and_left_out(model, tmp_path, small_blocks):
    table = _new_rows().astype(object)
    table.loc[3, "temp_meas"], table.loc[8, "flow_meas"] = "broken", ""
    file, out = _write(table, tmp_path / "new.csv"), tmp_path / "out.csv"
    result = _run("correct", file, "--model", model, "--out", out)
    assert result.exit_code == 0, result.output
    found = _read(out)
    bad = found["context_is"].str.startswith("not corrected")
    assert np.flatnonzero(bad).tolist() == [3, 8]
    assert (found.loc[bad, "corrected_level_meas"] == "").all()
    assert (found.loc[~bad, "corrected_level_meas"] != "").all()
    assert found.loc[3, "temp_meas"] == "broken"
    assert "not corrected: x or context is not a number: 2" in result.output


def test_numbers_are_read_as_in_calibration_whatever_a_block_looks_like(tmp_path):
    """A block whose labels all look like numbers must not be read as numbers."""
    table = _table().drop(columns="note")
    table["note"] = np.array(["1", "2", "two"])[np.arange(N) % 3]
    model, out = tmp_path / "model", tmp_path / "out.csv"
    file = _write(table, tmp_path / "rows.csv")
    assert _run("fit", file, "--out", model, *COLUMNS, *X_SIM).exit_code == 0
    digits = _write(table[table["note"] != "two"], tmp_path / "digits.csv")
    assert _run("correct", digits, "--model", model, "--out", out).exit_code == 0
    assert set(_read(out)["context_is"]) == {"known"}


def test_a_context_of_several_columns_and_dates(tmp_path):
    table = _table()
    table["day"] = pd.date_range("2024-01-01", periods=N)
    model, out = tmp_path / "model", tmp_path / "out.parquet"
    file = _write(table, tmp_path / "rows.parquet")
    names = ("--context", "note,day", "--x-obs", ",".join(NAMES))
    assert _run("fit", file, "--out", model, *names, *X_SIM).exit_code == 0
    late = table.assign(
        day=table["day"].where(table.index != 4, pd.Timestamp("2031-05-05"))
    )
    file = _write(late.rename(columns={"note": "remark"}), tmp_path / "new.parquet")
    options = ["--context", "remark,day"]
    result = _run("correct", file, "--model", model, "--out", out, *options)
    assert result.exit_code == 0, result.output
    said = _read(out)["context_is"].tolist()
    assert said[4] == "outside the range"
    assert said[:2] == ["known", "known"]


class TestStopped:
    @pytest.fixture
    def command(self, model, tmp_path, small_blocks):
        file = _write(_new_rows(), tmp_path / "new.csv")
        return ["correct", file, "--model", model, "--candidates", "--out"]

    def _stop_after(self, monkeypatch, num, error):
        done, plain = [], running.correct_block

        def correct(*given):
            if len(done) == num:
                raise error
            done.append(given[1])
            return plain(*given)

        monkeypatch.setattr(running, "correct_block", correct)
        return done

    @pytest.mark.parametrize("after", [0, 1, 4])
    def test_it_goes_on_where_it_was(self, after, command, tmp_path, monkeypatch):
        whole, out = tmp_path / "whole.csv", tmp_path / "out.csv"
        assert _run(*command, whole).exit_code == 0
        with monkeypatch.context() as patch:
            self._stop_after(patch, after, KeyboardInterrupt())
            stopped = _run(*command, out)
        assert stopped.exit_code == 130
        assert "the same command goes on" in stopped.stderr
        assert not out.exists()
        with monkeypatch.context() as patch:
            again = self._stop_after(patch, 99, None)
            result = _run(*command, out)
        assert result.exit_code == 0, result.output
        assert again == list(range(after, 6))
        assert out.read_bytes() == whole.read_bytes()
        assert not (tmp_path / "out.csv.blocks").exists()
        assert ("by a run that was stopped" in result.output) == (after > 0)

    def test_an_older_output_survives_a_stop(self, command, tmp_path, monkeypatch):
        out = tmp_path / "out.csv"
        out.write_text("older")
        self._stop_after(monkeypatch, 2, KeyboardInterrupt())
        _run(*command, out)
        assert out.read_text() == "older"

    def test_a_run_of_something_else_is_not_gone_on_with(
        self, command, tmp_path, monkeypatch
    ):
        out = tmp_path / "out.csv"
        with monkeypatch.context() as patch:
            self._stop_after(patch, 2, KeyboardInterrupt())
            _run(*command, out)
        other = [one for one in command if one != "--candidates"]
        refused = _run(*other, out)
        assert refused.exit_code == 2
        assert "a run that was stopped, of another job" in refused.stderr
        assert _run(*other, out, "--start-over").exit_code == 0
        assert len(_read(out)) == 40

    def test_another_table_is_noticed(self, command, tmp_path, monkeypatch):
        out = tmp_path / "out.csv"
        with monkeypatch.context() as patch:
            self._stop_after(patch, 2, KeyboardInterrupt())
            _run(*command, out)
        _write(_new_rows().iloc[::-1], tmp_path / "new.csv")
        assert "of another table" in _run(*command, out).stderr

    def test_a_block_that_was_being_written_is_done_again(
        self, command, tmp_path, monkeypatch
    ):
        whole, out = tmp_path / "whole.csv", tmp_path / "out.csv"
        assert _run(*command, whole).exit_code == 0
        with monkeypatch.context() as patch:
            self._stop_after(patch, 3, KeyboardInterrupt())
            _run(*command, out)
        # As if the power had failed between a block and its note.
        (tmp_path / "out.csv.blocks" / "000002.json").unlink()
        (tmp_path / "out.csv.blocks" / "000002.csv").write_text("half")
        assert _run(*command, out).exit_code == 0
        assert out.read_bytes() == whole.read_bytes()


REFUSED = {
    "no file": (["nowhere.csv"], "there is no file"),
    "no model": (["new.csv", "--model", "nowhere"], "there is no model"),
    "a table for a model": (["new.csv", "--model", "new.csv"], "not a file that ma-sbi"),
    "no format": (["new.csv", "--out", "out.doc"], "known are .csv"),
    "over itself": (["new.csv", "--out", "new.csv"], "would replace"),
    "no folder": (["new.csv", "--out", "no/where/out.csv"], "there is no folder"),
    "draws of nothing": (["new.csv", "--draws", "3"], "pass --posterior"),
    "no draws": (["new.csv", "--posterior", "model"], "pass --draws"),
    "both": (["new.csv", "--draws", "3", "--candidates"], "either --draws or"),
    "no column": (["new.csv", "--context", "nore"], "is it 'note'"),
    "columns that are there": (["out_again.csv"], "has a column 'corrected_temp_meas'"),
    "no rows": (["empty.csv"], "no rows"),
    "a cut row": (["cut.csv"], "row 1 has 1 cells"),
    "no scheduler": (["new.csv", "--scheduler", "nonsense://here"], "no Dask scheduler"),
    "read otherwise": (["new.csv", "--number", "note"], "calibration read this column as"),
}


@pytest.mark.parametrize("name", REFUSED)
def test_what_cannot_be_done_is_refused_in_a_sentence(name, model, tmp_path, monkeypatch):
    monkeypatch.chdir(tmp_path)
    table = _write(_new_rows(), tmp_path / "new.csv")
    (tmp_path / "model").write_bytes(model.read_bytes())
    header = table.read_text().splitlines()[0]
    (tmp_path / "empty.csv").write_text(f"{header}\n")
    (tmp_path / "cut.csv").write_text(f"{header}\na,calm,1,2,3\nb\n")
    again = _new_rows().assign(corrected_temp_meas=1.0)
    _write(again, tmp_path / "out_again.csv")
    options, words = REFUSED[name]
    for option, value in {"--model": "model", "--out": "out.csv"}.items():
        options = options if option in options else [*options, option, value]
    result = _run("correct", *options)
    assert result.exit_code == 2, result.output
    assert words in result.stderr
    assert "ma-sbi correct: " in result.stderr
    assert not (tmp_path / "out.csv").exists()


def test_fit_refuses_what_it_cannot_learn_from(tmp_path):
    file = _write(_new_rows(), tmp_path / "new.csv")
    result = _run("fit", file, "--out", tmp_path / "model", *COLUMNS)
    assert result.exit_code == 2
    assert "x_sim is missing" in result.stderr
    assert not (tmp_path / "model").exists()


def test_fit_speaks_json(tmp_path):
    file = _write(_table(), tmp_path / "rows.csv")
    result = _run("fit", file, "--out", tmp_path / "m", "--json", *COLUMNS, *X_SIM)
    told = json.loads(result.stdout)
    assert told["num_rows"] == N
    assert repr(load_corrector(tmp_path / "m").why.num_rows) == str(N)


def test_a_corrected_posterior_is_a_model(tmp_path, small_blocks):
    from ma_sbi import CategoryEncoder, CorrectedPosterior, ShiftCorrector

    table = _table()
    x_sim = table[["temp_model", "flow_model", "level_model"]].to_numpy()
    fitted = ShiftCorrector(CategoryEncoder(unseen="zero")).fit(
        table["note"].replace("", None), table[list(NAMES)].to_numpy(), x_sim
    )
    corrected = CorrectedPosterior(flow_posterior(), fitted)
    corrected.save(tmp_path / "model")
    file, out = _write(_new_rows(), tmp_path / "new.csv"), tmp_path / "out.csv"
    options = ["--model", tmp_path / "model", "--draws", 4, "--out", out]
    result = _run("correct", file, *options, *COLUMNS)
    assert result.exit_code == 0, result.output
    assert torch.isfinite(torch.tensor(_read(out)["theta_2"].to_numpy())).all()
