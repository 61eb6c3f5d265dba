"""Tests for ma_sbi.context."""

import numpy as np
import pandas as pd
import pytest
import torch

from ma_sbi.context import as_codes, as_entries, distinct, is_missing

FORMS = {
    "list": ["a", "b", "a"],
    "tuple": ("a", "b", "a"),
    "array": np.array(["a", "b", "a"]),
    "object_array": np.array(["a", "b", "a"], dtype=object),
    "series": pd.Series(["a", "b", "a"], index=[7, 8, 9]),
}


@pytest.mark.parametrize("form", FORMS)
def test_every_form_gives_the_same_entries(form):
    assert list(as_entries(FORMS[form])) == ["a", "b", "a"]


def test_a_bare_entry_holds_for_every_row():
    assert list(as_entries(0.5, num_rows=3)) == [0.5, 0.5, 0.5]


def test_a_tensor_of_numbers_is_a_context():
    assert list(as_entries(torch.tensor([1.0, 2.0]))) == [1.0, 2.0]


def test_a_dict_of_columns_holds_for_every_row():
    table = as_entries({"note": "fast", "dose": 0.5}, num_rows=2)
    assert table.to_dict("list") == {"note": ["fast", "fast"], "dose": [0.5, 0.5]}


def test_two_columns_make_a_table():
    table = as_entries([["a", 1.0], ["b", 2.0]])
    assert table.shape == (2, 2)


@pytest.mark.parametrize("empty", [[], np.array([]), pd.DataFrame()], ids=type)
def test_an_empty_context_is_refused(empty):
    with pytest.raises(ValueError, match="context is empty"):
        as_entries(empty)


def test_a_wrong_number_of_entries_is_refused():
    with pytest.raises(ValueError, match="expected 3, got 2"):
        as_entries(["a", "b"], num_rows=3)


def test_entries_that_cannot_be_compared_are_refused():
    with pytest.raises(ValueError, match="texts, labels or numbers"):
        distinct(as_entries([{"a"}, {"b"}]))


@pytest.mark.parametrize(
    "entries",
    [
        pd.Series(["x", None, "y", "x", float("nan")], dtype=object),
        pd.DataFrame({"t": ["x", "x", None, "x"], "n": [1.0, 2.0, np.nan, 1.0]}),
    ],
    ids=["series", "frame"],
)
def test_distinct_entries_and_codes_rebuild_the_original(entries):
    uniques, codes = distinct(entries)
    rebuilt = uniques.iloc[codes].reset_index(drop=True)
    assert (rebuilt.isna().to_numpy() == entries.isna().to_numpy()).all()
    known = ~entries.isna().to_numpy()
    assert (rebuilt.to_numpy()[known] == entries.to_numpy()[known]).all()
    assert len(uniques) == 3


@pytest.mark.parametrize(
    ("values", "message"),
    [
        (["a"], "groups must have one entry per observation: expected 3, got 1"),
        ("a", "got a single value"),
        ([["a"], ["b"], ["a"]], "got 3x1"),
        (["a", None, "b"], "groups must not be missing, got 1 gaps"),
    ],
)
def test_groups_belong_to_rows(values, message):
    with pytest.raises(ValueError, match=message):
        as_codes(values, "groups", 3)


def test_missing_in_a_list_of_mixed_types():
    assert is_missing(["a", float("nan"), 1.0, " "]).tolist() == [
        False,
        True,
        False,
        True,
    ]
