"""Facts about the real data, where they are available."""

import os

import numpy as np
import pandas as pd
import pytest

from ma_sbi_bench.real import (
    COUNTRIES,
    PAPER_COUNTRIES,
    covid_windows,
    find_dumps,
    load_covid,
    load_response_times,
    regime_texts,
    spread_corrections,
)

pytestmark = pytest.mark.skipif(
    "MA_SBI_DATA" not in os.environ,
    reason="needs MA_SBI_DATA, the folder that holds covid/ and rt/",
)


@pytest.fixture(scope="module")
def data():
    return load_covid()


@pytest.fixture(scope="module")
def windows(data):
    return covid_windows(data, COUNTRIES)


def reported(data, code, kind="cases"):
    country = data.daily[data.daily["iso3"] == code].set_index("date")
    return country[f"new_{kind}"].dropna().astype(int)


def test_ten_countries_have_three_years(data):
    assert len(COUNTRIES) == 10
    assert (data.daily.groupby("iso3").size() == 1096).all()
    assert set(data.daily["iso3"]) == set(COUNTRIES)


def test_windows_are_as_many_as_in_the_paper(data, windows):
    assert len(windows) == 710
    assert len(covid_windows(data, PAPER_COUNTRIES)) == 284
    assert windows.table["start"].min() == pd.Timestamp("2020-04-01")
    assert windows.table["start"].max() == pd.Timestamp("2022-12-07")


@pytest.mark.parametrize(
    ("code", "day", "count"),
    [
        ("AUS", "2022-01-31", -26856),
        ("BRA", "2020-06-21", -19796),
        ("GBR", "2022-01-31", 847371),
        ("BRA", "2021-09-18", 124878),
        ("ZAF", "2021-11-23", 18586),
    ],
)
def test_known_corrections_and_dumps_stand_as_reported(data, windows, code, day, count):
    series = reported(data, code)
    assert series[day] == count
    inside = windows.table["start"].between(
        pd.Timestamp(day) - pd.Timedelta(days=13), pd.Timestamp(day)
    )
    row = windows.table[inside & (windows.table["iso3"] == code)]
    assert count in windows.raw_counts[row.index[0]]
    assert row["repaired" if count < 0 else "dump"].item()


@pytest.mark.parametrize(
    ("kind", "numbers"),
    [
        ("cases", {"AUS": 2, "BRA": 2, "GBR": 3, "IND": 3, "ITA": 1, "NZL": 4}),
        (
            "deaths",
            {"AUS": 5, "BRA": 2, "DEU": 3, "IND": 1, "ITA": 1, "NZL": 1}
            | {"SWE": 7, "USA": 2, "ZAF": 1},
        ),
    ],
)
def test_negative_days_are_as_many_as_documented(data, kind, numbers):
    found = {code: int((reported(data, code, kind) < 0).sum()) for code in COUNTRIES}
    assert found == dict.fromkeys(COUNTRIES, 0) | numbers


@pytest.mark.parametrize("kind", ["cases", "deaths"])
@pytest.mark.parametrize("code", COUNTRIES)
def test_repair_keeps_the_total_of_every_country(data, code, kind):
    raw = reported(data, code, kind).to_numpy()
    repaired = spread_corrections(raw)
    assert repaired.sum() == raw.sum()
    assert repaired.min() >= 0
    assert (repaired != raw).any() == (raw < 0).any()


def test_windows_have_no_negative_count(windows):
    assert (windows.counts >= 0).all()
    changed = (windows.counts != windows.raw_counts).any(axis=1)
    assert (changed == windows.table["repaired"]).all()
    negative = (windows.raw_counts < 0).any(axis=1)
    assert negative.sum() == 15
    assert windows.table["repaired"][negative].all()


def test_without_repair_the_windows_are_named(data):
    with pytest.raises(ValueError, match=r"9 window\(s\) hold .*\(AUS 2022-01-19, "):
        covid_windows(data, PAPER_COUNTRIES, repair=None)


def test_dumps_are_few_and_weekly_reports_are_none(data, windows):
    assert windows.table["dump"].sum() == 6
    for code, start in (
        ("SWE", "2022-04-15"),
        ("GBR", "2022-07-15"),
        ("AUS", "2022-09-15"),
    ):
        series = reported(data, code)
        assert find_dumps(series.to_numpy())[series.index >= start].sum() <= 1


def test_weekly_reports_keep_their_zeros(windows):
    table = windows.table
    late = (table["iso3"] == "GBR") & (table["start"] >= "2022-07-15")
    assert ((windows.counts[late] == 0).sum(axis=1) >= 10).all()


def test_regimes_are_all_there(windows):
    table = windows.table
    assert np.bincount(table["regime"]).tolist() == [167, 176, 280, 87]
    paper = table[table["iso3"].isin(PAPER_COUNTRIES)]
    assert np.bincount(paper["regime"]).tolist() == [81, 68, 112, 23]


def test_texts_word_all_eight_policies(windows):
    texts = windows.table["text"]
    assert (texts.str.count(": ") >= 8).all()
    assert not texts.str.contains(r"\bnan\b", case=False).any()
    assert texts.nunique() > 100


def test_notes_have_the_documented_gaps(windows):
    table = windows.table
    end = table["start"] + pd.Timedelta(days=13)
    others = table["iso3"] != "GBR"
    gap = (end <= "2020-05-22") | (table["start"] > "2022-07-26")
    assert (table["notes"][others & gap] == "").all()
    assert (table["notes"][others & ~gap] != "").mean() > 0.7
    assert not table["notes"].str.contains("https?://").any()


def test_notes_of_a_window_are_those_of_its_days(data, windows):
    row = windows.table.query("iso3 == 'NZL' and start <= '2021-05-14'").iloc[-1]
    days = pd.date_range(row["start"], periods=14)
    own = data.notes[(data.notes["iso3"] == "NZL") & data.notes["date"].isin(days)]
    assert set(row["notes"].split("\n")) == set(own["text"])


@pytest.mark.parametrize(
    ("dataset", "kept", "excluded", "subjects", "regimes"),
    [
        ("ratcliff_rouder1998_exp1", 23848, 510, 3, {"speed", "accuracy"}),
        ("forstmann2008", 15818, 0, 19, {"speed", "neutral", "accuracy"}),
        ("cavanagh2011_dbs", 3988, 0, 14, {"dbs_on", "dbs_off"}),
        ("roitman_shadlen2002", 6149, 0, 2, {"none"}),
    ],
)
def test_trials_are_as_many_as_documented(dataset, kept, excluded, subjects, regimes):
    trials = load_response_times(dataset)
    assert len(trials) == kept
    assert len(load_response_times(dataset, keep_excluded=True)) == kept + excluded
    assert trials["subject"].nunique() == subjects
    assert set(trials["regime"]) == regimes
    assert (trials["text"] == "").all() == (regimes == {"none"})
    assert trials.groupby("regime")["text"].nunique().eq(1).all()


def test_only_one_data_set_has_verbatim_instructions():
    for dataset in ("ratcliff_rouder1998_exp1", "forstmann2008", "cavanagh2011_dbs"):
        verbatim = {entry.verbatim for entry in regime_texts(dataset).values()}
        assert verbatim == {dataset == "ratcliff_rouder1998_exp1"}


def test_speed_instructions_make_people_faster_and_less_accurate():
    for dataset in ("ratcliff_rouder1998_exp1", "forstmann2008"):
        regime = load_response_times(dataset).groupby("regime")
        assert regime["rt"].median()["speed"] < regime["rt"].median()["accuracy"]
        assert regime["correct"].mean()["speed"] < regime["correct"].mean()["accuracy"]
