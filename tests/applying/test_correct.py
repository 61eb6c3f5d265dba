"""``ma-sbi fit`` and ``correct``: tables of every format, in blocks, stopped or not."""

import json
import pickle
import warnings

import numpy as np
import pandas as pd
import pytest
import torch
from typer.testing import CliRunner

from ma_sbi import CategoryEncoder, SentenceEncoder, ShiftCorrector, load_corrector
from ma_sbi.applying import blocks, running, sources
from ma_sbi.cli import app
from ma_sbi.correctors.files import TableColumns
from tests.applying.stopping import stopped_at_block
from tests.some_posteriors import flow_posterior, sbi_npe

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
    options = ["--model", model, "--out", out]
    named = ["--x-obs", "x_obs", "--context", "context"]
    for own in ([], named):
        result = _run("correct", tmp_path / "new.npz", *options, *own)
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
    assert "38 of 40 rows corrected" in result.output
    said = "Column temp_meas holds no number in 1 row, first 'broken' in row 3 (the first"
    assert said in result.output


@pytest.mark.parametrize("out", FORMATS)
def test_a_row_without_candidates_has_a_line(out, model, tmp_path, small_blocks):
    table = _new_rows().astype(object)
    table.loc[9, "temp_meas"] = ""
    file, path = _write(table, tmp_path / "new.csv"), tmp_path / f"out.{out}"
    result = _run("correct", file, "--model", model, "--out", path, "--candidates")
    assert "39 of 40 rows corrected" in result.output, result.output
    found = _read(path)
    assert sorted(set(found["row"].astype(int))) == list(range(40))
    one = found[found["row"].astype(int) == 9]
    assert one["id"].tolist() == ["007_9"]
    empty = one[["candidate", "weight", "corrected_flow_meas"]].replace("", np.nan)
    assert (empty.isna() | (empty == -1)).all(axis=None)
    others = found[found["row"].astype(int) == 8]["candidate"]
    assert str(others.iloc[0]) in ("0", "0.0" if out == "parquet" else "0")


@pytest.mark.parametrize("options", [[], ["--candidates"]], ids=str)
def test_other_units_are_marked(options, model, tmp_path, small_blocks):
    table = _new_rows()
    table.loc[30:, "flow_meas"] = 1000 * (1 + table["flow_meas"].abs())
    file, out = _write(table, tmp_path / "new.csv"), tmp_path / "out.csv"
    result = _run("correct", file, "--model", model, "--out", out, *options)
    assert result.exit_code == 0, result.output
    said = " ".join(result.output.split())
    assert "40 rows corrected" in said
    assert "10 rows have an x far outside the range of calibration, or far" in said
    assert "check the units" in said
    found = _read(out)
    far = found["x_is"] == "far outside"
    assert far.tolist() == found["id"].isin(table["id"][30:]).tolist()


def test_a_larger_unit_is_marked_in_the_whole_block(model, tmp_path, monkeypatch):
    monkeypatch.setattr(sources, "BLOCK_ROWS", 20)
    table = _new_rows()
    table.loc[20:, "flow_meas"] /= 1000
    file, out = _write(table, tmp_path / "new.csv"), tmp_path / "out.csv"
    result = _run("correct", file, "--model", model, "--out", out)
    said = " ".join(result.output.split())
    assert "20 rows have an x far outside the range of calibration, or far" in said
    assert _read(out)["x_is"].tolist() == ["near"] * 20 + ["far outside"] * 20


def test_blanks_around_a_text_are_nothing_and_another_spelling_is_told(model, tmp_path):
    table = _new_rows()
    table.loc[:3, "note"] = ["storm ", " storm", "STORM", "calm, as usual\t"]
    file, out = _write(table, tmp_path / "new.csv"), tmp_path / "out.csv"
    result = _run("correct", file, "--model", model, "--out", out)
    said = _read(out)["context_is"][:4].tolist()
    assert said[:2] + said[3:] == ["known"] * 3
    assert said[2] != "known"
    hint = "There is 'STORM', which calibration has as 'storm': write it the same way."
    assert hint in result.output
    assert _read(out)["note"][0] == "storm "


def test_blanks_in_calibration_are_nothing(tmp_path):
    table = _table()
    table.loc[::2, "note"] = table["note"][::2] + " "
    file, model = _write(table, tmp_path / "rows.csv"), tmp_path / "model"
    assert _run("fit", file, "--out", model, *COLUMNS, *X_SIM).exit_code == 0
    known = load_corrector(model).examples().known
    assert set(known.dropna()) == {"storm", "calm, as usual"}


class TestDraws:
    """Rows that cannot be drawn for are marked, and what is odd is told once."""

    @pytest.fixture(scope="class")
    def posterior(self, tmp_path_factory):
        path = tmp_path_factory.mktemp("posterior") / "posterior"
        flow_posterior().save(path)
        return path

    def _draw(self, table, model, posterior, out, num=3):
        file = _write(table, out.with_name("new.csv"))
        options = ["--model", model, "--posterior", posterior, "--draws", num]
        return _run("correct", file, *options, "--out", out)

    @pytest.mark.parametrize("bad", [range(7), range(33, 40), range(40), [3, 9]], ids=str)
    @pytest.mark.parametrize("out", FORMATS)
    def test_bad_rows_have_a_line_that_says_so(
        self, out, bad, model, posterior, tmp_path, small_blocks
    ):
        table = _new_rows().astype(object)
        table.loc[list(bad), "temp_meas"] = "broken"
        path = tmp_path / f"out.{out}"
        result = self._draw(table, model, posterior, path)
        assert result.exit_code == (len(bad) == 40), result.output
        assert f"{40 - len(bad)} of 40 rows corrected" in result.output
        rows = [row for row in range(40) for _ in range(1 if row in bad else 3)]
        is_bad = np.isin(rows, list(bad))
        if out == "npz":
            with np.load(path) as held:
                assert np.isnan(held["theta"]).all(axis=1).tolist() == is_bad.tolist()
                assert (held["draw"] == -1).tolist() == is_bad.tolist()
            return
        found = _read(path).replace("", np.nan)
        names = ["draw", "theta_0", "theta_1", "theta_2", "x_is", "context_is"]
        assert list(found)[-6:] == names
        assert found["row"].tolist() == rows
        assert found["id"].tolist() == table["id"].iloc[rows].tolist()
        assert (found[names[:4]].isna().to_numpy() == is_bad[:, None]).all()
        not_corrected = found["context_is"].str.startswith("not corrected")
        assert not_corrected.tolist() == is_bad.tolist()
        assert (found["x_is"] == "not a number").tolist() == is_bad.tolist()

    @pytest.mark.parametrize("name", ["theta_0", "theta_1", "theta_99", "draw", "x_is"])
    def test_a_column_of_the_table_is_not_written_over(
        self, name, model, posterior, tmp_path
    ):
        result = self._draw(
            _new_rows().assign(**{name: 1.0}), model, posterior, tmp_path / "out.csv"
        )
        assert result.exit_code == 2
        assert f"has a column {name!r} already" in result.stderr

    def test_a_posterior_of_other_columns_is_refused_before_any_work(
        self, posterior, tmp_path
    ):
        x_sim = np.random.default_rng(0).normal(size=(N, 4))
        notes = [["calm", "storm"][i % 2] for i in range(N)]
        fitted = ShiftCorrector(CategoryEncoder()).fit(notes, x_sim + 1, x_sim)
        fitted.save(tmp_path / "four")
        table = pd.DataFrame(x_sim, columns=[f"x_obs_{i}" for i in range(4)])
        table, out = table.assign(context=notes), tmp_path / "out.csv"
        result = self._draw(table, tmp_path / "four", posterior, out)
        assert result.exit_code == 2
        assert (
            f"the posterior {posterior} takes 3 columns of x, and the model "
            f"{tmp_path / 'four'} corrects 4: pass" in result.stderr
        )
        assert not (tmp_path / "out.csv.blocks").exists()

    def test_a_pickle_is_warned_of_by_its_name(self, model, tmp_path, monkeypatch):
        monkeypatch.setattr(blocks, "_loaded_posterior", {})
        path = tmp_path / "posterior.pkl"
        path.write_bytes(pickle.dumps(sbi_npe()))
        file = _write(_new_rows(), tmp_path / "new.csv")
        options = ["--posterior", path, "--allow-pickle", "--draws", 2]
        result = _run(
            "correct", file, "--model", model, *options, "--out", tmp_path / "out.csv"
        )
        assert result.exit_code == 0, result.output
        warned = f"ma-sbi correct: warning: {path} is a pickle: reading it can run any code"
        assert warned in result.stderr
        assert result.output.count("is a pickle") == 1

    def test_a_worker_does_not_warn_of_a_pickle_again(self, monkeypatch):
        monkeypatch.setattr(blocks, "_loaded_posterior", {})
        with warnings.catch_warnings():
            warnings.simplefilter("error")
            blocks.load_drawn(pickle.dumps(sbi_npe()), allow_pickle=True)

    def test_what_python_warns_of_is_told_once(
        self, model, posterior, tmp_path, small_blocks
    ):
        table = _new_rows()
        table.loc[10:20, "temp_meas"] = 1e4
        result = self._draw(table, model, posterior, tmp_path / "out.csv")
        assert result.exit_code == 0, result.output
        said = " ".join(result.output.split())
        assert said.count("OutsideTrainingRange") == 1
        assert (
            "OutsideTrainingRange (rows 7 to 13, and 1 later blocks of rows): 4 of 7"
            in said
        )
        assert "UnseenContext" not in said

    def test_what_a_stopped_run_was_warned_of_is_told(
        self, model, posterior, tmp_path, small_blocks, monkeypatch
    ):
        table, out = _new_rows(), tmp_path / "out.csv"
        table.loc[2, "temp_meas"] = 1e4
        with stopped_at_block(2):
            assert self._draw(table, model, posterior, out).exit_code == 130
        # Written again, the table is another one by its time.
        options = ["--model", model, "--posterior", posterior, "--draws", 3]
        result = _run("correct", tmp_path / "new.csv", *options, "--out", out)
        assert "OutsideTrainingRange (rows 0 to 6)" in result.output
        assert "14 rows were done by a run" in result.output

    def test_blocks_have_fewer_rows_where_each_has_many_lines(self, model):
        columns = TableColumns(NAMES, ("note",))
        for draws in (1, 30, 500, 10**6):
            job = blocks.Job(b"", columns, ".csv", "draws", draws=draws)
            assert 1 <= job.block_rows <= sources.BLOCK_ROWS
            assert job.block_rows == 1 or job.block_rows * draws <= blocks.MOST_DRAWS


def test_no_more_lines_than_a_few_are_objects_of_python(monkeypatch):
    from ma_sbi.applying import outputs

    monkeypatch.setattr(outputs, "LINES_AT_ONCE", 3)
    seen, plain = [], outputs._as_cells
    monkeypatch.setattr(
        outputs, "_as_cells", lambda column: seen.append(len(column)) or plain(column)
    )
    written = outputs.FORMATS[".csv"]().pack({"a": np.arange(8), "b": np.arange(8) / 2})
    assert max(seen) == 3
    assert len(written.splitlines()) == 9


def test_blocks_of_other_columns_are_not_joined(tmp_path):
    from ma_sbi.applying.outputs import FORMATS, join

    for suffix in (".csv", ".parquet", ".npz"):
        blocks = [tmp_path / f"{number}{suffix}" for number in range(2)]
        for block, name in zip(blocks, ("a", "b"), strict=True):
            block.write_bytes(FORMATS[suffix]().pack({name: np.arange(3)}))
        with pytest.raises(ValueError, match="has columns b, and the first block a"):
            join(FORMATS[suffix](), blocks, tmp_path / f"out{suffix}")
        assert not (tmp_path / f"out{suffix}").exists()


def test_a_model_is_loaded_once(model, tmp_path, small_blocks, monkeypatch):
    loads, plain = [], blocks.load_kept
    monkeypatch.setattr(blocks, "load_kept", lambda *a: loads.append(a) or plain(*a))
    monkeypatch.setattr(blocks, "_loaded", {})
    file = _write(_new_rows(), tmp_path / "new.csv")
    options = ["--model", model, "--out", tmp_path / "out.csv"]
    assert _run("correct", file, *options).exit_code == 0
    assert len(loads) == 1


@pytest.mark.text
def test_a_text_is_embedded_once_in_a_block(tmp_path, monkeypatch):
    minilm = pytest.importorskip("ma_sbi.minilm")
    pytest.importorskip("sentence_transformers", reason="needs the extra 'text'")
    notes = ["The sensor reads high.", "All is well here."]
    x_sim = np.random.default_rng(0).normal(size=(N, 2))
    fitted = ShiftCorrector(SentenceEncoder(show_progress=False))
    fitted.fit([notes[i % 2] for i in range(N)], x_sim + 1, x_sim)
    fitted.save(tmp_path / "model")
    # As many as are corrected in three parts.
    cells = {"context": np.array(notes * 3000, dtype=object)}
    cells |= {f"x_obs_{i}": np.array(["1.0"] * 6000, dtype=object) for i in range(2)}
    columns = TableColumns(("x_obs_0", "x_obs_1"), ("context",))
    job = blocks.Job((tmp_path / "model").read_bytes(), columns, ".csv")
    blocks.load_model(job.model)
    embedded, plain = [], minilm._embed
    monkeypatch.setattr(
        minilm, "_embed", lambda *a, **o: embedded.append(a[1]) or plain(*a, **o)
    )
    blocks.correct_block(job, 0, 0, cells)
    assert [sorted(texts) for texts in embedded] == [sorted(notes)]


def test_columns_of_parquet_keep_their_types(model, tmp_path):
    table = _new_rows().astype({"temp_meas": "float32"}).assign(flow_meas=1, count=7)
    file, out = _write(table, tmp_path / "new.parquet"), tmp_path / "out.parquet"
    assert _run("correct", file, "--model", model, "--out", out).exit_code == 0
    kept = [*NAMES, "count"]
    assert _read(out)[kept].dtypes.to_dict() == table[kept].dtypes.to_dict()


def test_what_is_no_number_is_an_empty_cell_of_any_precision(model, tmp_path):
    arrays = {name: np.array([0.5, np.nan], dtype=np.float32) for name in NAMES}
    np.savez(tmp_path / "new.npz", note=np.array(["storm", "storm"]), **arrays)
    out = tmp_path / "out.csv"
    assert (
        _run("correct", tmp_path / "new.npz", "--model", model, "--out", out).exit_code == 0
    )
    assert out.read_text().splitlines()[2].startswith("storm,,,,,")


def test_lines_may_end_as_on_an_old_mac(model, tmp_path):
    file, out = _write(_new_rows(), tmp_path / "new.csv"), tmp_path / "out.csv"
    file.write_bytes(file.read_bytes().replace(b"\n", b"\r"))
    result = _run("correct", file, "--model", model, "--out", out)
    assert result.exit_code == 0, result.output
    assert len(_read(out)) == 40


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

    def test_a_run_that_finished_nothing_is_no_obstacle(
        self, command, tmp_path, monkeypatch
    ):
        out = tmp_path / "out.csv"
        with monkeypatch.context() as patch:
            self._stop_after(patch, 0, ValueError("wrong"))
            assert _run(*command, out).exit_code == 2
        assert (tmp_path / "out.csv.blocks").exists()
        other = [one for one in command if one != "--candidates"]
        result = _run(*other, out)
        assert result.exit_code == 0, result.output
        assert "stopped" not in result.output
        assert len(_read(out)) == 40
        assert not (tmp_path / "out.csv.blocks").exists()

    def test_another_table_is_noticed(self, command, tmp_path, monkeypatch):
        out = tmp_path / "out.csv"
        with monkeypatch.context() as patch:
            self._stop_after(patch, 2, KeyboardInterrupt())
            _run(*command, out)
        _write(_new_rows().iloc[::-1], tmp_path / "new.csv")
        assert "of another table" in _run(*command, out).stderr

    def test_blocks_of_another_size_are_not_gone_on_with(
        self, command, tmp_path, monkeypatch
    ):
        out = tmp_path / "out.csv"
        with monkeypatch.context() as patch:
            self._stop_after(patch, 2, KeyboardInterrupt())
            _run(*command, out)
        monkeypatch.setattr(sources, "BLOCK_ROWS", 9)
        assert "of another block_rows" in _run(*command, out).stderr

    @pytest.mark.parametrize("options", [[], ["--start-over"]], ids=str)
    def test_a_folder_of_the_users_is_left_alone(self, options, command, tmp_path):
        out, folder = tmp_path / "out.csv", tmp_path / "out.csv.blocks"
        folder.mkdir()
        (folder / "thesis.txt").write_text("mine")
        refused = _run(*command, out, *options)
        assert refused.exit_code == 2
        assert "holds no run: name another output" in refused.stderr
        assert (folder / "thesis.txt").read_text() == "mine"

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
    "a folder for a model": (
        ["new.csv", "--model", "folder"],
        "folder is a folder, and a file is needed: name the file that save, or ma-sbi fit",
    ),
    "a folder for a posterior": (
        ["new.csv", "--draws", "3", "--posterior", "folder"],
        "folder is a folder, and a file is needed",
    ),
    "a table for a model": (["new.csv", "--model", "new.csv"], "not a file that ma-sbi"),
    "no format": (["new.csv", "--out", "out.doc"], "known are .csv"),
    "over itself": (["new.csv", "--out", "new.csv"], "would replace"),
    "no folder": (["new.csv", "--out", "no/where/out.csv"], "there is no folder"),
    "draws of nothing": (["new.csv", "--draws", "3"], "pass --posterior"),
    "no draws": (["new.csv", "--posterior", "model"], "pass --draws"),
    "both": (["new.csv", "--draws", "3", "--candidates"], "either --draws or"),
    "no column": (["new.csv", "--context", "nore"], "is it 'note'"),
    "two columns of three": (
        ["new.csv", "--x-obs", "temp_meas,flow_meas"],
        "the table has 2 columns of x (temp_meas, flow_meas), and the model model corrects "
        "3: name them with --x-obs",
    ),
    "columns that are there": (["out_again.csv"], "has a column 'corrected_temp_meas'"),
    "a column of x less": (
        ["less.csv"],
        "the model reads temp_meas, flow_meas, level_meas; there is no flow_meas in the",
    ),
    "no context": (["no_note.csv"], "the model reads note; there is no note in the table"),
    "no rows": (["empty.csv"], "no rows"),
    "a cut row": (["cut.csv"], "row 1 has 1 cells"),
    "a header in another encoding": (["latin.csv"], "is not UTF-8 text"),
    "a quote that does not end": (["quote.csv"], "has a quote that does not end its cell"),
    "no scheduler": (["new.csv", "--scheduler", "nonsense://here"], "no Dask scheduler"),
    "read otherwise": (["new.csv", "--number", "note"], "calibration read this column as"),
}


@pytest.mark.parametrize("name", REFUSED)
def test_what_cannot_be_done_is_refused_in_a_sentence(name, model, tmp_path, monkeypatch):
    monkeypatch.chdir(tmp_path)
    table = _write(_new_rows(), tmp_path / "new.csv")
    (tmp_path / "folder").mkdir()
    (tmp_path / "model").write_bytes(model.read_bytes())
    header = table.read_text().splitlines()[0]
    (tmp_path / "empty.csv").write_text(f"{header}\n")
    (tmp_path / "cut.csv").write_text(f"{header}\na,calm,1,2,3\nb\n")
    (tmp_path / "latin.csv").write_bytes(f"{header},température\n".encode("latin-1"))
    (tmp_path / "quote.csv").write_text(f'{header}\na,"calm,1,2,3\n')
    _write(_new_rows().drop(columns="flow_meas"), tmp_path / "less.csv")
    _write(_new_rows().drop(columns="note"), tmp_path / "no_note.csv")
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


def test_fit_wants_the_file_of_a_posterior_and_not_its_folder(tmp_path):
    file = _write(_table(), tmp_path / "rows.csv")
    out, named = ["--out", tmp_path / "model"], [*COLUMNS, *X_SIM]
    result = _run("fit", file, *out, *named, "--posterior", tmp_path)
    assert result.exit_code == 2
    assert f"{tmp_path} is a folder, and a file is needed" in result.stderr


@pytest.mark.parametrize(
    ("column", "said"),
    [
        ("temp_meas", "as x_obs and as context: an observation is no context"),
        ("temp_model", "as x_sim and as context: a simulation is no context"),
    ],
)
@pytest.mark.parametrize("command", ["check", "fit"])
def test_a_column_of_x_is_no_context(command, column, said, tmp_path):
    file, out = _write(_table(), tmp_path / "rows.csv"), ["--out", tmp_path / "model"]
    named = ["--context", f"note,{column}", *COLUMNS[2:], *X_SIM]
    result = _run(command, file, *named, *(out if command == "fit" else []))
    assert result.exit_code == 2
    assert f"the column {column!r} is taken {said}" in result.stderr
    assert "name the context without it (--context)" in result.stderr
    assert not (tmp_path / "model").exists()


def test_fit_says_which_columns_it_took(tmp_path):
    file = _write(_table(), tmp_path / "rows.csv")
    options = ["--x-obs", "*_meas", "--x-sim", "*_model", "--context", "note"]
    result = _run("fit", file, "--out", tmp_path / "model", *options)
    said = " ".join(result.output.split())
    assert "x_obs is flow_meas, level_meas, temp_meas" in said
    assert "x_sim is flow_model, level_model, temp_model; context is note." in said
    assert "Not used in the file: id." in said
    assert "was replaced" not in said
    again = _run("fit", file, "--out", tmp_path / "model", *options)
    assert f"An older file {tmp_path / 'model'} was replaced." in again.output


@pytest.mark.parametrize("command", ["check", "fit"])
def test_decimal_commas_are_told(command, tmp_path):
    table = _table().assign(area=20.5)
    out = ["--out", tmp_path / "model"] if command == "fit" else []
    hint = "(1 of 90 rows; the first row is 0); decimals need a point, not a comma"
    for column, options in {"temp_meas": [], "area": ["--number", "area"]}.items():
        changed = table.astype(object)
        changed.loc[4, column] = "19,9"
        file = _write(changed, tmp_path / "rows.csv")
        named = ["--context", "note,area", *COLUMNS[2:], *X_SIM]
        result = _run(command, file, *named, *options, *out)
        assert result.exit_code == 2
        assert "'19,9' in row 4" in result.stderr
        assert hint in result.stderr


@pytest.mark.parametrize("others", ["20.5", "21,5"])
def test_labels_with_decimal_commas_are_told(others, tmp_path):
    from ma_sbi.checking.files import read_observations

    area = np.where(np.arange(N) % 2, "19,9", others)
    file = _write(_table().assign(area=area), tmp_path / "rows.csv")
    (note,) = read_observations(file, context=["area"], x_obs=NAMES).notes
    first = "19,9" if others == "20.5" else others
    assert note == (
        f"area is read as labels, not as numbers: '{first}' is no number (decimals need a "
        "point, not a comma)."
    )


@pytest.mark.parametrize("names", [NAMES, ("x_0", "x_1", "x_2")], ids=str)
@pytest.mark.parametrize("suffix", ["csv", "npz"])
def test_simulations_are_found_by_their_names(names, suffix, tmp_path):
    from ma_sbi.checking.files import read_simulations

    x = np.random.default_rng(5).normal(size=(20, 3))
    table = pd.DataFrame(x, columns=list(names)).assign(seed=1.0)
    file = _write(table, tmp_path / f"simulations.{suffix}")
    assert np.allclose(read_simulations(file, ("no", "such"), NAMES), x)


def test_fit_learns_a_density_of_simulations(tmp_path, monkeypatch):
    import ma_sbi

    given, plain = {}, ma_sbi.fit_corrector

    def fit(*rows, **options):
        given.update(options)
        return plain(*rows, **options | {"density": None})

    monkeypatch.setattr(ma_sbi, "fit_corrector", fit)
    monkeypatch.setattr(ma_sbi, "fit_density", lambda x, seed: ("density", x.shape, seed))
    x = 0.5 * np.random.default_rng(5).normal(size=(300, 3))
    np.savez(tmp_path / "simulations.npz", x=x)
    file = _write(_table(), tmp_path / "rows.csv")
    options = ["--simulations", tmp_path / "simulations.npz", "--density", "--seed", 3]
    out = ["--out", tmp_path / "model"]
    result = _run("fit", file, *out, *COLUMNS, *X_SIM, *options)
    assert result.exit_code == 0, result.output
    assert np.array_equal(given["simulations"], x)
    assert given["density"] == ("density", (300, 3), 3)
    refused = _run("fit", file, *out, *COLUMNS, *X_SIM, "--density")
    assert "pass --simulations" in refused.stderr
    refused = _run("fit", file, *out, *COLUMNS, *X_SIM, "--simulations", file)
    assert refused.exit_code == 0, refused.output  # its columns of x_sim
    _table().drop(columns=[*NAMES, "flow_model"]).to_csv(tmp_path / "less.csv")
    less = ["--simulations", tmp_path / "less.csv"]
    refused = _run("fit", file, *out, *COLUMNS, *X_SIM, *less)
    assert "has no simulations: expected the columns of x (temp_model" in refused.stderr


def test_what_is_left_out_or_replaced_is_told(model, tmp_path):
    arrays = {name: np.full(4, 0.5, dtype=np.float32) for name in NAMES}
    np.savez(tmp_path / "new.npz", note=np.array(["storm"] * 4), **arrays, gain=2.0)
    out = tmp_path / "out.npz"
    options = ["--model", model, "--out", out]
    first = _run("correct", tmp_path / "new.npz", *options)
    assert "Left out, as they are no columns of its rows: gain." in first.output
    assert "was replaced" not in first.output
    again = _run("correct", tmp_path / "new.npz", *options)
    assert f"An older file {out} was replaced." in again.output
    with np.load(out) as held:
        assert held["temp_meas"].dtype == np.float32


def test_fit_speaks_json(tmp_path):
    file = _write(_table(), tmp_path / "rows.csv")
    result = _run("fit", file, "--out", tmp_path / "m", "--json", *COLUMNS, *X_SIM)
    told = json.loads(result.stdout)
    assert told["num_rows"] == N
    assert repr(load_corrector(tmp_path / "m").why.num_rows) == str(N)


def test_a_corrected_posterior_is_a_model(tmp_path, small_blocks):
    from ma_sbi import CorrectedPosterior

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
