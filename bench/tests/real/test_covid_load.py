"""Tests for loading Covid-19 data and cutting windows, on small files written here."""

import dataclasses
import gzip

import numpy as np
import pandas as pd
import pytest

from bench.tests.real import layouts
from bench.tests.real.layouts import DAYS
from ma_sbi_bench.real import covid_windows, load_covid
from ma_sbi_bench.real.covid import load
from ma_sbi_bench.real.covid.load import DAILY_COLUMNS

TWO = ("AUS", "NZL")
SPAN = {"start": "2020-02-01", "end": "2020-03-05"}  # two fortnights and six days


@pytest.fixture
def tidy(tmp_path, monkeypatch):
    monkeypatch.setenv("MA_SBI_DATA", str(layouts.write_tidy(tmp_path / "tidy")))
    return tmp_path / "tidy"


@pytest.fixture
def official(tmp_path, monkeypatch):
    files = {
        "jhu_cases": layouts.write_jhu(tmp_path / "cases.csv", daily=10),
        "jhu_deaths": layouts.write_jhu(tmp_path / "deaths.csv"),
        "jhu_population": layouts.write_population(tmp_path / "lookup.csv"),
        "oxcgrt": layouts.write_oxcgrt(
            tmp_path / "policies.csv", days=pd.date_range("2020-01-01", DAYS[-1])
        ),
        "oxcgrt_codebook": tmp_path / "book.md",
    }
    files["oxcgrt_codebook"].write_text(layouts.codebook_markdown(), encoding="utf-8")
    for year in (2020, 2021, 2022):
        table = layouts.oxcgrt_table(pd.date_range(f"{year}-01-01", periods=3))
        table.loc[0, "C1_Notes"] = f"Noted in {year}."
        files[f"oxcgrt_notes_{year}"] = tmp_path / f"notes_{year}.csv"
        table.to_csv(files[f"oxcgrt_notes_{year}"], index=False)
    monkeypatch.delenv("MA_SBI_DATA", raising=False)
    monkeypatch.setattr(load, "fetch", files.__getitem__)
    return files


def windows_of(cases=10, codes=TWO, notes=None, options=None, **changes):
    daily = layouts.daily_table(cases=cases, codes=codes, **changes)
    book = {
        code: load.Policy(entry["name"], {int(k): v for k, v in entry["levels"].items()})
        for code, entry in layouts.codebook().items()
    }
    data = load.CovidData(daily, book, notes)
    return covid_windows(data, codes, **SPAN, **(options or {}))


def series(**changes):
    cases = np.full(len(DAYS), 10)
    for day, count in changes.items():
        cases[DAYS.get_loc(day.replace("_", "-").strip("d"))] = count
    return cases


def test_the_tidy_folder_is_read(tidy):
    data = load_covid(TWO)
    assert list(data.daily.columns) == list(DAILY_COLUMNS)
    assert len(data.daily) == 2 * len(DAYS)
    assert list(data.notes["text"]) == [
        "Schools close.",
        "Schools close.",
        "Stay at home.",
        "Nothing new.",
    ]
    assert load_covid(TWO, notes=False).notes is None


def test_the_official_files_give_the_same_columns_and_types(official, tidy, monkeypatch):
    ours = load_covid(TWO)
    monkeypatch.delenv("MA_SBI_DATA")
    theirs = load_covid(TWO)
    assert list(theirs.daily.columns) == list(ours.daily.columns)
    kinds = [[dtype.kind for dtype in data.daily.dtypes] for data in (ours, theirs)]
    assert kinds[0] == kinds[1]
    assert list(theirs.notes.columns) == list(ours.notes.columns)
    assert theirs.codebook == ours.codebook


def test_the_official_counts_are_differences(official):
    daily = load_covid(["AUS", "GBR"]).daily.set_index(["iso3", "date"])
    assert daily.loc[("GBR", "2020-01-21"), "new_cases":].isna().iloc[0]
    assert (daily.loc["GBR"].loc["2020-01-22":, "new_cases"] == 10).all()
    assert (daily.loc["AUS"].loc["2020-01-22":, "new_cases"] == 80).all()
    assert daily.loc[("GBR", DAYS[-1]), "deaths_cum"] == len(DAYS)
    assert daily.loc[("AUS", DAYS[-1]), "population"] == 1000


def test_the_official_notes_of_all_years_are_joined(official):
    notes = load_covid(["AUS"]).notes
    assert list(notes["text"]) == [f"Noted in {year}." for year in (2020, 2021, 2022)]
    assert load_covid(["AUS"], notes=False).notes is None


def test_an_official_file_that_ends_too_early_gives_no_windows(official):
    layouts.write_jhu(official["jhu_cases"], days=DAYS[:20], daily=10)
    with pytest.raises(ValueError, match="'new_cases' of NZL is empty on 18 days, 2020-02"):
        covid_windows(load_covid(), ["NZL"], **SPAN)


def test_a_country_that_is_not_there_is_an_error(tidy):
    with pytest.raises(ValueError, match="daily.csv.gz has no rows for ZAF"):
        load_covid(["AUS", "ZAF"])
    with pytest.raises(ValueError, match="countries must be different codes .* 'XXX'"):
        load_covid(["XXX"])


@pytest.mark.parametrize(
    ("change", "message"),
    [
        (
            lambda t: t.rename(columns={"stringency": "index"}),
            "daily.csv.gz must have the column 'stringency', found 'iso3', 'date'",
        ),
        (
            lambda t: t[~t["date"].between("2020-02-03", "2020-02-09")],
            "daily.csv.gz lacks AUS on 7 days, 2020-02-03 to 2020-02-09",
        ),
        (lambda t: pd.concat([t, t.tail(1)]), "more than one row for NZL on 2020-03-31"),
        (
            lambda t: t.assign(new_cases=11),
            "'new_cases' in daily.csv.gz must be the difference of 'cases_cum', got 11 for",
        ),
        (lambda t: t.assign(c1_school=1.5), "'c1_school' .* whole numbers, got '1.5'"),
        (lambda t: t.assign(stringency=""), "'stringency' .* must be numbers, got ''"),
        (lambda t: t.assign(date="1/2/20"), "'date' .* must be dates like .* '1/2/20'"),
    ],
)
def test_a_changed_tidy_table_is_refused(tidy, change, message):
    layouts.write_gz(change(layouts.daily_table()), tidy / "covid" / "daily.csv.gz")
    with pytest.raises(ValueError, match=message):
        load_covid(TWO)


def test_a_cut_off_tidy_table_is_refused(tidy):
    path = tidy / "covid" / "daily.csv.gz"
    whole = path.read_bytes()
    path.write_bytes(whole[:-200])
    with pytest.raises(ValueError, match="daily.csv.gz is damaged or cut off"):
        load_covid(TWO)
    path.write_bytes(gzip.compress(gzip.decompress(whole)[:-3]))
    with pytest.raises(ValueError, match="daily.csv.gz ends in the middle of line"):
        load_covid(TWO)


def test_windows_are_whole_and_in_order():
    windows = windows_of(cases=np.arange(len(DAYS)))
    assert len(windows) == 4
    assert windows.counts.shape == (4, 14)
    assert list(windows.table["iso3"]) == ["AUS", "AUS", "NZL", "NZL"]
    assert list(windows.table["time"]) == [0, 1, 0, 1]
    first = DAYS.get_loc("2020-02-01")
    assert windows.counts[1].tolist() == list(range(first + 14, first + 28))
    assert windows.table["start"][1] == pd.Timestamp("2020-02-15")
    assert (windows.table["population"] == 1000).all()
    assert not windows.table[["repaired", "dump"]].any().any()


@pytest.mark.parametrize(
    ("index", "regime"),
    [(0, 0), (24.99, 0), (25, 1), (49.99, 1), (50, 2), (74.99, 2), (75, 3), (100, 3)],
)
def test_regimes_are_cut_at_fixed_places(index, regime):
    table = windows_of(stringency=index).table
    assert (table["regime"] == regime).all()
    np.testing.assert_allclose(table["stringency"], index)


def test_the_regime_is_that_of_the_mean_index():
    table = windows_of(stringency=np.where(DAYS < "2020-02-08", 100.0, 20.0)).table
    assert table["stringency"].tolist() == [60, 20, 60, 20]
    assert table["regime"].tolist() == [2, 0, 2, 0]


def test_the_text_words_the_level_that_held_longest():
    level = np.where(DAYS < "2020-02-09", 3, np.where(DAYS < "2020-02-22", 0, 2))
    texts = windows_of(level=level).table["text"]
    assert texts[0].startswith("Policy C1: wording 3 of C1; Policy C2: wording 3 of C2; ")
    assert texts[0].endswith("Policy C8: wording 3 of C8.")
    # Seven days each: the stricter.
    assert "Policy C4: wording 2 of C4" in texts[1]


@pytest.mark.parametrize("level", [4, -1])
def test_a_level_without_wording_is_an_error(level):
    with pytest.raises(
        ValueError, match=r"levels of C1 .* \[0, 1, 2, 3\], got " + str(level)
    ):
        windows_of(level=level)


def test_notes_are_those_of_the_fortnight_each_once():
    notes = layouts.notes_table().assign(date=lambda t: pd.to_datetime(t["date"]))
    table = windows_of(notes=notes[notes["text"] != ""]).table
    assert table["notes"].tolist() == [
        "Schools close.\nStay  at home.",
        "",
        "Nothing new.",
        "",
    ]
    assert "notes" not in windows_of().table


def test_a_correction_is_spread_and_the_window_marked():
    windows = windows_of(cases=series(d2020_02_20=-14))
    table = windows.table
    assert table["repaired"].tolist() == [True, True, True, True]
    assert (windows.counts >= 0).all()
    assert windows.raw_counts.min() == -14
    assert windows.counts.sum() == windows.raw_counts.sum()
    assert windows.counts[1].tolist() == [9] * 5 + [0] + [10] * 8


def test_without_repair_negative_counts_are_an_error():
    cases = series(d2020_02_20=-14)
    with pytest.raises(
        ValueError, match=r"2 window\(s\) hold .*\(AUS 2020-02-15, NZL 2020"
    ):
        windows_of(cases=cases, options={"repair": None})
    windows = windows_of(options={"repair": None})
    assert (windows.counts == windows.raw_counts).all()


def test_days_after_the_end_have_no_influence():
    quiet = windows_of()
    later = windows_of(cases=series(d2020_03_06=-30, d2020_03_07=9999))
    pd.testing.assert_frame_equal(quiet.table, later.table)
    assert (quiet.counts == later.counts).all()


def test_a_dump_is_marked_and_not_changed():
    windows = windows_of(cases=series(d2020_02_10=500))
    assert windows.table["dump"].tolist() == [True, False, True, False]
    assert windows.counts[0, 9] == 500


def test_weekly_reports_keep_their_zeros():
    cases = np.where(np.arange(len(DAYS)) % 7 == 0, 700, 0)
    windows = windows_of(cases=cases)
    assert ((windows.counts > 0).sum(axis=1) == 2).all()
    assert not windows.table[["dump", "repaired"]].any().any()


def test_deaths_are_counted_too():
    assert (windows_of(cases=3, options={"counts": "deaths"}).counts == 3).all()


@pytest.mark.parametrize(
    ("options", "message"),
    [
        ({"counts": "tests"}, "counts must be 'cases' or 'deaths', got 'tests'"),
        ({"repair": "drop"}, "repair must be 'spread' or None, got 'drop'"),
        ({"length": 0}, "length must be a positive integer, got 0"),
        ({"length": 40}, "2020-02-01 to 2020-03-05 is shorter than one window of 40 days"),
    ],
)
def test_other_options_are_refused(options, message):
    with pytest.raises(ValueError, match=message):
        windows_of(options=options)


@pytest.mark.parametrize(
    ("change", "message"),
    [
        (
            lambda t: t[t["date"] != "2020-02-17"],
            "daily lacks AUS on 2020-02-17",
        ),
        (
            lambda t: t[t["date"] < "2020-02-20"],
            "daily lacks AUS on 9 days, 2020-02-20 to 2020-02-28",
        ),
        (
            lambda t: t.assign(new_cases=t["new_cases"].where(t["date"] != "2020-02-17")),
            "'new_cases' of AUS is empty on 2020-02-17",
        ),
        (
            lambda t: t.assign(new_cases=t["new_cases"].where(t["date"] != "2020-01-25")),
            "'new_cases' of AUS is empty on 2020-01-25",
        ),
        (
            lambda t: t.assign(stringency=t["stringency"].where(t["iso3"] != "NZL")),
            "'stringency' of NZL is empty on 28 days, 2020-02-01 to 2020-02-28",
        ),
        (lambda t: t.assign(new_cases=1.5), "'new_cases' must be whole numbers, got '1.5'"),
        (lambda t: t.drop(columns="c3_events"), "daily must have the column 'c3_events'"),
    ],
)
def test_days_or_columns_that_are_missing_are_named(tidy, change, message):
    data = load_covid(TWO)
    data = dataclasses.replace(data, daily=change(data.daily))
    with pytest.raises(ValueError, match=message):
        covid_windows(data, TWO, **SPAN)
