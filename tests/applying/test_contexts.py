"""Contexts of tables are what calibration had: a table, a list or an array."""

import warnings
from datetime import date, timedelta

import numpy as np
import pandas as pd
import pytest
from typer.testing import CliRunner

from ma_sbi import (
    CategoryEncoder,
    NumberEncoder,
    ShiftCorrector,
    fit_corrector,
    load_corrector,
)
from ma_sbi.applying.contexts import read_as, read_like
from ma_sbi.cli import app

N = 60
DAYS = [date(2024, 1, 1) + timedelta(i) for i in range(N)]
CONTEXTS = {
    "floats": [0.5 * i for i in range(N)],
    "integers": [i % 2 for i in range(N)],
    "integers and gaps": [[0, 1, None][i % 3] for i in range(N)],
    "bools": [bool(i % 2) for i in range(N)],
    "texts": [["calm", "storm"][i % 2] for i in range(N)],
    "texts and integers": [["calm", 1][i % 2] for i in range(N)],
    "days": DAYS,
    "moments": [pd.Timestamp(day) for day in DAYS],
    "moments of a zone": pd.Series(pd.to_datetime(DAYS)).dt.tz_localize("Europe/Oslo"),
    "spans": [timedelta(hours=i) for i in range(N)],
    "an array": np.arange(N) % 2,
    "categories": pd.Series(np.arange(N) % 2).astype("category"),
}


def _run(*options):
    return CliRunner().invoke(app, [str(one) for one in options])


def _pairs():
    x_sim = np.random.default_rng(0).normal(size=(N, 2))
    x_obs = (
        x_sim + 0.1 * np.arange(N)[:, None] + np.where(np.arange(N) % 2, 3.0, 0.0)[:, None]
    )
    return x_obs, x_sim


@pytest.mark.parametrize("name", CONTEXTS)
@pytest.mark.parametrize("suffix", ["csv", "parquet"])
def test_a_table_is_corrected_as_python_corrects_it(name, suffix, tmp_path):
    context = CONTEXTS[name]
    corrector = fit_corrector(context, *_pairs(), seed=0)
    corrector.save(tmp_path / "model")
    x = np.array([[5.0, 0.0], [5.0, 0.0], [4.0, 1.0]])
    rows = [1, 50, 58]
    is_list = isinstance(context, list)
    some = [context[i] for i in rows] if is_list else pd.Series(context).iloc[rows]
    cells = pd.Series(some).reset_index(drop=True)
    table = pd.DataFrame({"context": cells, "x_obs_0": x[:, 0], "x_obs_1": x[:, 1]})
    file, out = tmp_path / f"new.{suffix}", tmp_path / "out.csv"
    if suffix == "csv":
        table.to_csv(file, index=False)
    elif name == "texts and integers":
        pytest.skip("no column of parquet is both")
    else:
        table.to_parquet(file)
    result = _run("correct", file, "--model", tmp_path / "model", "--out", out)
    assert result.exit_code == 0, result.output
    found = pd.read_csv(out)
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")
        expected = corrector.correct(x, some)
        said = corrector.unseen(some)
    assert np.allclose(
        found[["corrected_x_obs_0", "corrected_x_obs_1"]], expected, atol=1e-5
    )
    assert not (said.new | said.far).any()
    assert set(found["context_is"]) <= {"known", "missing"}


def test_a_number_as_text_is_the_number_to_all_that_is_said_of_it():
    context = CONTEXTS["floats"]
    corrector = fit_corrector(context, *_pairs(), seed=0)
    x = np.array([[5.0, 0.0], [5.0, 0.0]])
    assert not corrector.unseen(["0.5", "25.0"]).new.any()
    texts, numbers = (
        corrector.corrections(x, one) for one in (["0.5", "25.0"], [0.5, 25.0])
    )
    assert np.array_equal(texts.log_weight, numbers.log_weight)
    assert np.array_equal(texts.x, numbers.x)


def _read(cells, known):
    known = pd.Series(known, dtype=object)
    return read_like(pd.Series(cells, dtype=object), known, read_as(known)).tolist()


@pytest.mark.parametrize("other", ["13/04/2024", "05/06/2024", "2024-05-06"])
def test_a_date_that_is_not_iso_is_none_whatever_else_is_in_the_block(other):
    assert pd.isna(_read(["03/04/2024", other], [pd.Timestamp("2024-01-01")])[0])


def test_numbers_are_no_dates_and_no_spans():
    assert pd.isna(_read([20240101, "2024-01-02"], [pd.Timestamp("2024-01-01")])[0])
    assert pd.isna(_read(["5", "5 days"], [timedelta(1)])[0])


def test_a_text_is_the_label_that_it_spells_and_else_stays():
    assert _read(["1", "x", "calm"], [1, "calm"]) == [1, "x", "calm"]
    assert _read(["1", 1], [1, "1", "calm"]) == ["1", "1"]


@pytest.mark.parametrize("order", ["wind,rain", "rain,wind", "[rw]*"])
def test_columns_of_calibration_are_told_by_their_names(order, tmp_path):
    x_obs, x_sim = _pairs()
    wind, rain = (np.where(np.arange(N) // k % 2, "yes", "no") for k in (1, 2))
    x_obs = x_sim + np.where(wind == "yes", 5.0, 0.0)[:, None] * [1, 0]
    table = pd.DataFrame({"wind": wind, "rain": rain, "a": x_obs[:, 0], "b": x_obs[:, 1]})
    table[["a_sim", "b_sim"]] = x_sim
    table.to_csv(tmp_path / "rows.csv", index=False)
    model, out = tmp_path / "model", tmp_path / "out.csv"
    names = ["--context", "wind,rain", "--x-obs", "a,b", "--x-sim", "a_sim,b_sim"]
    assert _run("fit", tmp_path / "rows.csv", "--out", model, *names).exit_code == 0
    new = pd.DataFrame({"rain": ["no", "yes"], "wind": ["yes", "no"], "b": 0.0, "a": 5.0})
    new.to_csv(tmp_path / "new.csv", index=False)
    options = ["--context", order, "--x-obs", "b,a"]
    result = _run("correct", tmp_path / "new.csv", "--model", model, "--out", out, *options)
    assert result.exit_code == 0, result.output
    # Without noise the shift of the wind, 5 in a, is found but for shrinkage.
    assert np.allclose(pd.read_csv(out)["corrected_a"], [0.0, 5.0], atol=0.3)


def test_labels_of_parquet_are_the_same_beside_a_gap(tmp_path):
    x_obs, x_sim = _pairs()
    codes = np.arange(N) % 2 + 1
    table = pd.DataFrame({"context": pd.array(codes, dtype="Int64")})
    table[["x_obs_0", "x_obs_1"]], table[["x_sim_0", "x_sim_1"]] = x_obs, x_sim
    model, out = tmp_path / "model", tmp_path / "out.csv"
    for gaps in ([], [7]):
        table.loc[gaps, "context"] = pd.NA
        table.to_parquet(tmp_path / "rows.parquet")
        fitted = _run(
            "fit", tmp_path / "rows.parquet", "--out", model, "--label", "context"
        )
        assert fitted.exit_code == 0, fitted.output
        _run("correct", tmp_path / "rows.parquet", "--model", model, "--out", out)
        expected = ["missing" if i in gaps else "known" for i in range(N)]
        assert pd.read_csv(out)["context_is"].tolist() == expected
        assert set(load_corrector(model).examples().known.dropna()) == {"1", "2"}


@pytest.mark.parametrize("encoder", [CategoryEncoder(unseen="zero"), NumberEncoder()])
def test_a_single_corrector_is_read_alike(encoder, tmp_path):
    corrector = ShiftCorrector(encoder).fit(CONTEXTS["integers"], *_pairs())
    corrector.save(tmp_path / "model")
    new = pd.DataFrame({"context": [0, 1], "x_obs_0": 5.0, "x_obs_1": 2.0})
    new.to_csv(tmp_path / "new.csv", index=False)
    out = tmp_path / "out.csv"
    _run("correct", tmp_path / "new.csv", "--model", tmp_path / "model", "--out", out)
    found = pd.read_csv(out)
    expected = corrector.correct(new[["x_obs_0", "x_obs_1"]].to_numpy(), [0, 1])
    assert np.allclose(
        found[["corrected_x_obs_0", "corrected_x_obs_1"]], expected, atol=1e-5
    )
    assert set(found["context_is"]) == {"known"}
