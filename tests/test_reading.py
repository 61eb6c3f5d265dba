"""The one rule for regimes, free text and numbers, on every kind of context."""

import datetime

import numpy as np
import pandas as pd
import pytest
import torch

from ma_sbi import CategoryEncoder, HashEncoder, NumberEncoder, TableEncoder
from ma_sbi.diagnostics import (
    dependence_test,
    encoder_for,
    hold_out,
    mutual_information,
    read_context,
)

N = 40
DAYS = pd.date_range("2020-01-01", periods=N)
UNIQUE = [f"note {i}" for i in range(N)]
NUMBERS = [0.1 * i for i in range(N)]
CONTEXTS = {
    "labels": (["calm", "storm"] * 20, "regimes"),
    "codes": (np.arange(N) % 3, "regimes"),
    "booleans": (torch.arange(N) % 2 == 0, "regimes"),
    "floats with few values": (np.arange(N) % 4 / 10, "regimes"),
    "repeated texts": (["The sensor reads high.", "All is well."] * 20, "regimes"),
    "half of the texts unique": (["same"] * 20 + UNIQUE[:20], "regimes"),
    "most texts unique": (["same"] * 19 + UNIQUE[:21], "text"),
    "texts of four rows": ([f"note {i % 10}" for i in range(N)], "text"),
    "unique texts": (UNIQUE, "text"),
    "numbers": (NUMBERS, "numbers"),
    "codes of twenty values": (np.arange(200) % 20, "numbers"),
    "codes of nineteen values": (np.arange(190) % 19, "regimes"),
    "categories of thirty values": (
        pd.Series(np.arange(300) % 30).astype("category"),
        "regimes",
    ),
    "dates": (pd.Series(DAYS), "numbers"),
    "dates with a time zone": (pd.Series(DAYS.tz_localize("UTC")), "numbers"),
    "dates of Python": ([datetime.date(2020, 1, 1 + i % 31) for i in range(N)], "numbers"),
    "two dates": (pd.Series(DAYS[:2].repeat(20)), "regimes"),
    "labels, some missing": (["calm", "storm", None, ""] * 10, "regimes"),
    "numbers, most missing": ([*NUMBERS[:10], *[float("nan")] * 30], "numbers"),
    "texts, most missing": ([*UNIQUE[:10], *[None] * 30], "text"),
    "all missing": ([None] * N, "regimes"),
}


@pytest.mark.parametrize("name", CONTEXTS)
def test_the_kind_of_a_column(name):
    context, kind = CONTEXTS[name]
    assert read_context(context).kinds == (kind,)


TABLES = {
    "numbers": (pd.DataFrame({"a": range(N), "b": range(N)}), NumberEncoder),
    "mixed": (pd.DataFrame({"a": ["x", "y"] * 20, "b": NUMBERS}), TableEncoder),
    "regimes": (pd.DataFrame({"a": ["x", "y"] * 20, "b": [1, 2] * 20}), TableEncoder),
    "one column": (pd.DataFrame({"a": ["x", "y"] * 20}), CategoryEncoder),
    "dates": (pd.DataFrame({"a": DAYS, "b": range(N)}), NumberEncoder),
    "a column missing": (pd.DataFrame({"a": [None] * N, "b": NUMBERS}), TableEncoder),
}


@pytest.mark.parametrize("name", TABLES)
def test_a_table_is_read_column_by_column(name):
    table, kind = TABLES[name]
    reading = read_context(table)
    encoder = reading.suitable_encoder()
    assert isinstance(encoder, kind)
    assert len(reading.kinds) == table.shape[1]
    vectors = encoder.fit(reading.entries).transform(reading.entries)
    assert np.isfinite(vectors).all()


@pytest.mark.parametrize(
    ("name", "encoder"),
    [
        ("labels", CategoryEncoder),
        ("unique texts", HashEncoder),
        ("numbers", NumberEncoder),
    ],
)
def test_the_encoder_suits_the_kind(name, encoder):
    assert isinstance(encoder_for(CONTEXTS[name][0]), encoder)


def test_a_context_that_is_missing_throughout_has_no_encoder():
    with pytest.raises(ValueError, match="missing in every row"):
        encoder_for([None] * N)


def test_rows_of_a_table_that_repeat_are_labels():
    assert len(np.unique(read_context(TABLES["regimes"][0]).labels)) == 2
    apart = pd.DataFrame({"a": np.arange(36) % 6, "b": np.arange(36) // 6})
    assert set(read_context(apart).kinds) == {"regimes"}
    assert read_context(apart).labels is None
    assert read_context(apart).values.shape == (36, 12)


def test_rare_labels_are_merged_and_counted():
    reading = read_context(["a"] * 20 + ["b"] * 15 + ["c"] * 3 + ["d"] * 2)
    assert np.bincount(reading.labels).tolist() == [20, 15, 5]
    assert reading.num_rare == 5
    # Too few even together: they join the most frequent.
    few = read_context(["a"] * 20 + ["b"] * 15 + ["c"] * 3)
    assert np.bincount(few.labels).tolist() == [23, 15]


def test_missing_entries_are_a_label_of_their_own():
    reading = read_context(["calm", "storm", None, ""] * 10)
    assert np.bincount(reading.labels).tolist() == [20, 10, 10]
    assert reading.missing.sum() == 20


def test_dates_are_counted_in_days_that_later_dates_share():
    early, late = (read_context(pd.Series(part)).entries for part in (DAYS[:20], DAYS[20:]))
    assert late.iloc[0] - early.iloc[-1] == 1.0


def test_a_number_missing_beside_others_is_the_mean_and_a_missing_row_is_nan():
    table = pd.DataFrame({"a": [*NUMBERS[:-1], None], "b": [None, *NUMBERS[1:-1], None]})
    values = read_context(table).values
    assert values[0, 1] == pytest.approx(np.mean(NUMBERS[1:-1]))
    assert np.isnan(values[-1]).all()


def test_a_given_encoder_reads_the_entries_as_they_are():
    seen = []

    class Seen(CategoryEncoder):
        def fit(self, context, y=None):
            seen.append(context)
            return super().fit(context)

    reading = read_context(pd.Series(DAYS), encoder=Seen())
    assert reading.values.shape == (N, N)
    assert seen[0].dtype.kind == "M"


def test_every_diagnostic_takes_every_kind():
    """Whatever is read as regimes or numbers needs no encoder anywhere."""
    rng = torch.Generator().manual_seed(0)
    for context, kind in CONTEXTS.values():
        n = len(context)
        if kind == "text" or read_context(context).missing.all():
            continue
        x = torch.randn(n, 2, generator=rng)
        assert dependence_test(x, context, num_permutations=9, seed=0).num_rows == n
        assert mutual_information(x, context, num_permutations=0, seed=0).num_rows == n
        assert hold_out(context, x + 1, x, folds=2, seed=0).predicted.isfinite().all()


def test_free_text_without_an_encoder_is_refused_by_tests_of_dependence():
    x = torch.randn(N, 2, generator=torch.Generator().manual_seed(0))
    with pytest.raises(ValueError, match="pass encoder="):
        dependence_test(x, UNIQUE)
