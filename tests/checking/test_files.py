"""Tests for ma_sbi.checking.files: what is read, and what is refused in a sentence."""

import sys

import numpy as np
import pandas as pd
import pytest

from ma_sbi.checking.cells import as_column
from ma_sbi.checking.files import read_observations
from ma_sbi.context import is_missing

X = np.arange(8.0).reshape(4, 2)
NOTES = ["fast", "slow", "fast", "slow"]


def table(**more):
    columns = {"x_obs_0": X[:, 0], "x_obs_1": X[:, 1], "context": NOTES}
    return pd.DataFrame(columns | more)


def write(folder, frame):
    path = folder / "rows.csv"
    frame.to_csv(path, index=False)
    return path


def test_an_npz_is_read(tmp_path):
    path = tmp_path / "rows.npz"
    np.savez(path, x_obs=X, x_sim=X + 1, theta=X[:, :1], context=NOTES, groups=[1, 1, 2, 2])
    held = read_observations(path)
    np.testing.assert_array_equal(held.x_obs, X)
    np.testing.assert_array_equal(held.x_sim, X + 1)
    assert held.theta.shape == (4, 1)
    assert list(held.context) == NOTES
    assert list(held.groups) == [1, 1, 2, 2]
    assert held.unused == ()


@pytest.mark.parametrize("form", ["x_sim_{}", "x_sim[{}]", "x_sim.{}", "x_sim{}"])
@pytest.mark.parametrize("first", [0, 1])
def test_columns_may_be_numbered_in_any_usual_way_and_order(tmp_path, form, first):
    names = [form.format(first + 1), form.format(first)]
    more = {names[0]: X[:, 1] + 1, names[1]: X[:, 0] + 1}
    held = read_observations(write(tmp_path, table(**more)))
    np.testing.assert_array_equal(held.x_sim, X + 1)


def test_ten_columns_keep_their_order(tmp_path):
    frame = pd.DataFrame({f"x_obs_{i}": [float(i)] * 3 for i in range(12)})
    held = read_observations(write(tmp_path, frame.assign(context=[1, 2, 3])))
    np.testing.assert_array_equal(held.x_obs[0], np.arange(12.0))


def test_what_is_not_used_is_named(tmp_path):
    assert read_observations(write(tmp_path, table(hour=1))).unused == ("hour",)


def test_other_columns_may_be_named_as_context_and_groups(tmp_path):
    frame = table(hour=[1, 2, 3, 4], person=list("aabb"))
    held = read_observations(
        write(tmp_path, frame), context=["context", "hour"], groups="person"
    )
    assert list(held.context.columns) == ["context", "hour"]
    assert held.context["hour"].dtype == np.float64
    assert list(held.groups) == list("aabb")


def test_missing_contexts_stay_missing_and_na_is_a_text(tmp_path):
    frame = table(context=["NA", "", "fast", "None"])
    held = read_observations(write(tmp_path, frame))
    assert is_missing(held.context).tolist() == [False, True, False, False]
    assert held.context[[0, 2, 3]].tolist() == ["NA", "fast", "None"]
    numbers = read_observations(write(tmp_path, table(context=["1", "", "2.5", "3"])))
    np.testing.assert_array_equal(numbers.context, [1, np.nan, 2.5, 3])


def test_a_parquet_is_read(tmp_path):
    pytest.importorskip("pyarrow", reason="needs the extra 'parquet'")
    path = tmp_path / "rows.parquet"
    table().to_parquet(path)
    np.testing.assert_array_equal(read_observations(path).x_obs, X)


def test_lists_in_a_parquet_are_rows(tmp_path):
    pytest.importorskip("pyarrow", reason="needs the extra 'parquet'")
    path = tmp_path / "rows.parquet"
    pd.DataFrame({"x_obs": list(X), "context": NOTES}).to_parquet(path)
    np.testing.assert_array_equal(read_observations(path).x_obs, X)


def test_parquet_without_an_engine_names_the_extra(tmp_path, monkeypatch):
    monkeypatch.setitem(sys.modules, "pyarrow.parquet", None)
    path = tmp_path / "rows.parquet"
    path.write_bytes(b"PAR1")
    with pytest.raises(ValueError, match=r"ma-sbi\[parquet\]"):
        read_observations(path)


BAD_TABLES = {
    "no x_obs": (table().drop(columns=["x_obs_0", "x_obs_1"]), "x_obs is missing"),
    "no context": (table().drop(columns="context"), "context is missing"),
    "a gap": (table(x_obs_3=1.0), "column 2 of x_obs is missing"),
    "a text": (table(x_obs_0=["1", "2", "high", "3"]), "'high' in row 2"),
    "an empty cell": (table(x_obs_0=["1", "", "2", "3"]), "empty cell in row 1"),
    "nan": (table(x_obs_0=["1", "2", "nan", "3"]), "x_obs_0 must hold finite numbers"),
    "infinite": (table(x_obs_0=[1, 2, 3, np.inf]), "'inf' in row 3"),
    "both forms": (table(x_obs=1.0), "there is x_obs and also"),
    "the same column twice": (table(**{"x_obs[0]": 1.0}), "the same column"),
    "no rows": (table().iloc[:0], "no rows"),
}


@pytest.mark.parametrize("name", BAD_TABLES)
def test_a_bad_table_is_refused(name, tmp_path):
    frame, match = BAD_TABLES[name]
    with pytest.raises(ValueError, match=match):
        read_observations(write(tmp_path, frame))


BAD_FILES = {
    "empty.csv": (b"", "is empty"),
    "blank.csv": (b"\n\n", "no columns"),
    "latin.csv": ("x_obs,context\n1,Sch\xf6n\n".encode("latin-1"), "not UTF-8"),
    "ragged.csv": (b"x_obs,context\n1,a\n2,b,c,d\n", "not a table with commas"),
    "long.csv": (b"x_obs,context\n1,a,3\n2,b,4\n", "not a table with commas"),
    "tabs.csv": (b"x_obs\tcontext\n1\ta\n2\tb\n", "not separated by commas"),
    "commas.tsv": (b"x_obs,context\n1,a\n2,b\n", "not separated by tabs"),
    "ragged.tsv": (b"x_obs\tcontext\n1\ta\n2\tb\tc\td\n", "not a table with tabs"),
    "twice.csv": (b"x_obs,context,context\n1,a,b\n", "'context' occurs twice"),
    "text.npz": (b"not an archive", "not an npz file"),
    "rows.xlsx": (b"PK", "known are .npz, .csv, .tsv, .parquet"),
    "rows": (b"1", "known are .npz, .csv, .tsv, .parquet"),
}


@pytest.mark.parametrize("name", BAD_FILES)
def test_a_bad_file_is_refused(name, tmp_path):
    content, match = BAD_FILES[name]
    (tmp_path / name).write_bytes(content)
    with pytest.raises(ValueError, match=match):
        read_observations(tmp_path / name)


def test_a_file_or_column_that_is_not_there_is_named(tmp_path):
    with pytest.raises(ValueError, match="there is no file"):
        read_observations(tmp_path / "none.csv")
    with pytest.raises(ValueError, match="is a folder"):
        read_observations(tmp_path)
    with pytest.raises(ValueError, match="no column 'note'"):
        read_observations(write(tmp_path, table()), context=["note"])


def test_python_objects_are_refused_and_never_unpickled(tmp_path):
    class Trap:
        def __reduce__(self):
            return (pytest.fail, ("unpickled",))

    path = tmp_path / "rows.npz"
    np.savez(path, x_obs=X, context=np.array([Trap()] * 4, dtype=object))
    with pytest.raises(ValueError, match="dtype=str"):
        read_observations(path)


def test_a_cut_npz_is_refused(tmp_path):
    path = tmp_path / "rows.npz"
    np.savez(path, x_obs=X, context=NOTES)
    path.write_bytes(path.read_bytes()[:-30])
    with pytest.raises(ValueError, match="not an npz file"):
        read_observations(path)


def test_lengths_that_differ_are_named(tmp_path):
    path = tmp_path / "rows.npz"
    np.savez(path, x_obs=X, context=NOTES[:3])
    with pytest.raises(ValueError, match="expected 4, got shape"):
        read_observations(path)
    np.savez(path, x_obs=X, context=NOTES, groups=[1, 2])
    with pytest.raises(ValueError, match="groups must have one entry"):
        read_observations(path)


def test_a_tsv_is_read(tmp_path):
    path = tmp_path / "rows.tsv"
    table(context=["a, b", "c", "a, b", "c"]).to_csv(path, index=False, sep="\t")
    held = read_observations(path)
    np.testing.assert_array_equal(held.x_obs, X)
    assert list(held.context) == ["a, b", "c", "a, b", "c"]


def own_table(**more):
    return pd.DataFrame(
        {
            "temp_meas": X[:, 0],
            "temp_model": X[:, 0] + 1,
            "flow_meas": X[:, 1],
            "flow_model": X[:, 1] + 1,
            "note": NOTES,
            "k": [1.0, 2.0, 3.0, 4.0],
        }
        | more
    )


@pytest.mark.parametrize(
    ("observed", "simulated", "order"),
    [
        (["temp_meas,flow_meas"], ["temp_model, flow_model"], [0, 1]),
        (["temp_meas", "flow_meas"], ["temp_model", "flow_model"], [0, 1]),
        (["*_meas"], ["*_model"], [1, 0]),
        (["flow_*s", "temp_meas"], ["flow_mod??", "temp_model"], [1, 0]),
    ],
    ids=str,
)
def test_columns_may_have_names_of_the_users_own(tmp_path, observed, simulated, order):
    held = read_observations(
        write(tmp_path, own_table()),
        context=["note"],
        x_obs=observed,
        x_sim=simulated,
        theta=["k"],
    )
    np.testing.assert_array_equal(held.x_obs, X[:, order])
    np.testing.assert_array_equal(held.x_sim, X[:, order] + 1)
    np.testing.assert_array_equal(held.theta, [[1], [2], [3], [4]])
    assert list(held.context) == NOTES
    assert held.unused == ()
    assert held.named.startswith("x_obs is ")


def test_a_pattern_sorts_numbers_as_numbers(tmp_path):
    frame = pd.DataFrame({f"ch{i}": [float(i)] * 3 for i in (10, 2, 1)}).assign(
        note=NOTES[:3]
    )
    held = read_observations(write(tmp_path, frame), context=["note"], x_obs=["ch*"])
    np.testing.assert_array_equal(held.x_obs[0], [1, 2, 10])


def test_a_name_with_a_comma_is_one_column(tmp_path):
    frame = own_table(**{"temp, C": X[:, 0]})
    held = read_observations(write(tmp_path, frame), context=["note"], x_obs=["temp, C"])
    np.testing.assert_array_equal(held.x_obs, X[:, :1])


BAD_NAMES = {
    "misspelt": (
        {"x_obs": ["temp_mes"]},
        r"'temp_mes' \(is it 'temp_meas'\?\), which --x-obs",
    ),
    "misspelt lists all": ({"context": ["remark"]}, "temp_meas, temp_model, .*, note, k"),
    "pattern of nothing": ({"x_sim": ["*_sim"]}, "'\\*_sim', which --x-sim names"),
    "twice": (
        {"x_obs": ["temp_meas,temp_*"]},
        "--x-obs names .* 'temp_meas' twice",
    ),
    "both": ({"x_sim": ["temp_meas"]}, "'temp_meas' is named twice, last by --x-sim"),
    "groups": ({"groups": "*_meas"}, "--groups names one column"),
    "text": ({"theta": ["note"]}, "note must hold finite numbers, got 'fast' in row 0"),
}


@pytest.mark.parametrize("name", BAD_NAMES)
def test_a_bad_name_is_refused_with_what_the_file_has(name, tmp_path):
    options, match = BAD_NAMES[name]
    options = {"x_obs": ["temp_meas"], "context": ["note"]} | options
    with pytest.raises(ValueError, match=match):
        read_observations(write(tmp_path, own_table()), **options)


def test_without_names_the_option_is_said(tmp_path):
    with pytest.raises(ValueError, match="name others with --x-obs"):
        read_observations(write(tmp_path, own_table()), context=["note"])


def test_long_ids_beside_a_gap_stay_apart():
    """In double precision they would be the same number."""
    ids = np.array([2**60 + 1, 2**60 + 2, None] * 4, dtype=object)
    entries, note = as_column(ids, "id", None)
    assert entries.nunique() == 2
    assert note
    small = as_column(np.array([7, 8, None], dtype=object), "id", None)
    assert small.entries.dtype == np.float64
