"""Tests for the parsers of the official layouts, on small files written here."""

import gzip

import numpy as np
import pandas as pd
import pytest

from bench.tests.real import layouts
from bench.tests.real.layouts import DAYS
from ma_sbi_bench.real import read_codebook, read_jhu, read_oxcgrt, read_oxcgrt_notes
from ma_sbi_bench.real.covid.jhu import COUNTRIES, read_jhu_population
from ma_sbi_bench.real.covid.oxcgrt import CLOSURES, LEVELS, Policy
from ma_sbi_bench.real.text_files import name_days, read_table


def test_jhu_counts_are_those_of_the_file(tmp_path):
    counts = read_jhu(layouts.write_jhu(tmp_path / "cases.csv"))
    assert list(counts.columns) == ["iso3", "date", "cumulative"]
    assert tuple(counts["iso3"].unique()) == COUNTRIES
    last = counts[counts["date"] == DAYS[-1]].set_index("iso3")["cumulative"]
    assert last["AUS"] == 8 * len(DAYS)  # its states summed
    assert (last.drop("AUS") == len(DAYS)).all()  # territories left out
    np.testing.assert_array_equal(counts[counts["iso3"] == "NZL"]["date"], DAYS)


def test_jhu_takes_the_countries_asked_for(tmp_path):
    path = layouts.write_jhu(tmp_path / "cases.csv")
    assert list(read_jhu(path, ["ZAF", "DEU"])["iso3"].unique()) == ["ZAF", "DEU"]


@pytest.mark.parametrize(
    ("countries", "got"), [(["FRA"], "'FRA'"), ([], "none"), (["NZL", "NZL"], "'NZL'")]
)
def test_unknown_or_repeated_countries_are_refused(tmp_path, countries, got):
    path = layouts.write_jhu(tmp_path / "cases.csv")
    with pytest.raises(ValueError, match=f"countries must be .* got {got}"):
        read_jhu(path, countries)


def change_jhu(path, change):
    table = change(layouts.jhu_table())
    table.to_csv(path, index=False)
    return path


@pytest.mark.parametrize(
    ("change", "message"),
    [
        (
            lambda t: t.rename(columns={"Country/Region": "Country"}),
            "must have the column 'Country/Region', found 'Province/State', 'Country'",
        ),
        (
            lambda t: t.rename(columns={"1/31/20": "2020-01-31"}),
            "day columns of cases.csv must be dates like .*, got '2020-01-31'",
        ),
        (
            lambda t: t.drop(columns=["2/3/20", "2/4/20"]),
            "cases.csv lacks 2 days, 2020-02-03 to 2020-02-04",
        ),
        (lambda t: t[[*t.columns[:4], *t.columns[:3:-1]]], "must be in order"),
        (lambda t: t[t.columns[:4]], "must have a column per day, found none"),
        (lambda t: t[t["Country/Region"] != "Italy"], r"1 row\(s\) for Italy, found 0"),
        (
            lambda t: t[t["Province/State"] != "State 3"],
            r"8 row\(s\) for Australia, found 7",
        ),
        (
            lambda t: t.replace({"2/1/20": {11: "x"}}),
            "AUS in cases.csv must be whole numbers",
        ),
        (lambda t: t.replace({"2/1/20": {11: ""}}), "must be whole numbers, got ''"),
        (lambda t: t.replace({"2/1/20": {11: 1.5}}), "must be whole numbers, got '1.5'"),
        (lambda t: t.replace({"2/1/20": {11: -1}}), "must not be negative"),
    ],
)
def test_a_changed_jhu_file_is_refused(tmp_path, change, message):
    path = change_jhu(tmp_path / "cases.csv", change)
    with pytest.raises(ValueError, match=message):
        read_jhu(path)


@pytest.mark.parametrize("read", [read_jhu, read_oxcgrt])
@pytest.mark.parametrize(
    ("lost", "message"), [(1, "ends in the middle of line"), (30, "ends in the middle")]
)
def test_a_cut_off_file_is_refused(tmp_path, read, lost, message):
    write = layouts.write_jhu if read is read_jhu else layouts.write_oxcgrt
    path = write(tmp_path / "table.csv")
    path.write_bytes(path.read_bytes()[:-lost])
    with pytest.raises(ValueError, match=f"table.csv {message}"):
        read(path)


def test_a_line_with_fields_missing_is_refused(tmp_path):
    path = tmp_path / "table.csv"
    path.write_text("a,b,c\n1,,3\n1,2\n", encoding="utf-8")
    with pytest.raises(ValueError, match="line 3 of table.csv must have 3 fields .* got 2"):
        read_table(path, ["a"])


@pytest.mark.parametrize("damage", [lambda b: b[: len(b) // 2], lambda b: b"not gzip"])
def test_a_broken_gzip_file_is_refused(tmp_path, damage):
    path = tmp_path / "table.csv.gz"
    path.write_bytes(damage(gzip.compress(b"a,b\n" + b"1,2\n" * 1000)))
    with pytest.raises(ValueError, match="table.csv.gz is damaged or cut off"):
        read_table(path, ["a"])


def test_what_is_no_table_is_refused(tmp_path):
    path = tmp_path / "table.csv"
    path.write_text("\n", encoding="utf-8")
    with pytest.raises(ValueError, match="table.csv must have the column 'a', found none"):
        read_table(path, ["a"])
    path.write_bytes(b"a,b\n\xff\xfe,2\n")
    with pytest.raises(ValueError, match="table.csv must be UTF-8 text"):
        read_table(path, ["a"])
    with pytest.raises(FileNotFoundError, match="there is no file"):
        read_table(tmp_path / "none.csv", ["a"])


def test_populations_are_of_whole_countries(tmp_path):
    path = layouts.write_population(tmp_path / "lookup.csv")
    assert read_jhu_population(path)["GBR"] == 1000 + COUNTRIES.index("GBR")
    text = path.read_text(encoding="utf-8").replace("SWE", "XXX")
    path.write_text(text, encoding="utf-8")
    with pytest.raises(ValueError, match="lookup.csv must have one row for SWE, found 0"):
        read_jhu_population(path)


def test_oxcgrt_levels_and_indices_are_those_of_the_file(tmp_path):
    frame = read_oxcgrt(layouts.write_oxcgrt(tmp_path / "policies.csv", level=2), ["NZL"])
    assert len(frame) == len(DAYS)  # not those of the states
    assert (frame["stringency"] == 30).all()
    assert (frame[list(LEVELS)] == 2).all().all()
    assert frame["c1_school"].dtype == int
    assert (frame["c1_general"] == 1).all()
    np.testing.assert_array_equal(frame["date"], DAYS)


def test_oxcgrt_flags_are_empty_at_level_zero(tmp_path):
    frame = read_oxcgrt(layouts.write_oxcgrt(tmp_path / "policies.csv", level=0))
    assert frame["c1_general"].isna().all()


@pytest.mark.parametrize(
    ("change", "message"),
    [
        (
            lambda t: t.rename(columns={"C1M_School closing": "C1_School closing"}),
            "must have the column 'C1M_School closing', found 'CountryCode', 'Date'.*more",
        ),
        (lambda t: t[t["CountryCode"] != "IND"], "has no national rows for IND"),
        (lambda t: t.assign(Date="2020-01-01"), "'Date' .* got '2020-01-01'"),
        (lambda t: pd.concat([t, t.iloc[:1]]), "more than one row for AUS on 2020-01-22"),
        (
            lambda t: t.assign(**{"C2M_Workplace closing": ""}),
            "'C2M_Workplace closing' in policies.csv must be whole numbers, got ''",
        ),
        (
            lambda t: t.assign(StringencyIndex_Average=101),
            "'StringencyIndex_Average' in policies.csv must lie between 0 and 100",
        ),
        (lambda t: t.assign(C1M_Flag=2), "'C1M_Flag' .* must lie between 0 and 1"),
    ],
)
def test_a_changed_oxcgrt_file_is_refused(tmp_path, change, message):
    path = tmp_path / "policies.csv"
    change(layouts.oxcgrt_table()).to_csv(path, index=False)
    with pytest.raises(ValueError, match=message):
        read_oxcgrt(path)


def test_notes_lose_their_links_and_nothing_else(tmp_path):
    table = layouts.oxcgrt_table(codes=["NZL"])
    table.loc[0, "C1_Notes"] = "Schools\n close  https://example.org/a?b=1, says www.x.org"
    table.loc[1, "C2_Notes"] = "https://example.org"
    path = tmp_path / "notes.csv"
    table.to_csv(path, index=False)
    notes = read_oxcgrt_notes(path)
    assert notes.to_dict("records") == [
        {"iso3": "NZL", "date": DAYS[0], "policy": "C1", "text": "Schools close says"}
    ]
    with pytest.raises(ValueError, match="has no national rows for GBR"):
        read_oxcgrt_notes(path, ["GBR"])


def test_both_codebooks_read_alike(tmp_path):
    folder = layouts.write_tidy(tmp_path)
    (tmp_path / "book.md").write_text(layouts.codebook_markdown(), encoding="utf-8")
    tidy = read_codebook(folder / "covid" / "oxcgrt_codebook.json")
    assert tidy == read_codebook(tmp_path / "book.md")
    assert tidy["C3"] == Policy("Policy C3", {i: f"wording {i} of C3" for i in range(4)})
    assert list(tidy) == list(CLOSURES)


@pytest.mark.parametrize(
    ("name", "text", "message"),
    [
        ("book.md", "# nothing\n", "book.md must word the levels of C1 from 0 up, found"),
        ("book.json", "{}", "book.json must word the levels of C1"),
        ("book.json", "{", "book.json is not a codebook"),
        ("book.json", '{"C1": {"name": "x"}}', "book.json is not a codebook"),
    ],
)
def test_a_codebook_without_wording_is_refused(tmp_path, name, text, message):
    (tmp_path / name).write_text(text, encoding="utf-8")
    with pytest.raises(ValueError, match=message):
        read_codebook(tmp_path / name)


def test_days_with_gaps_are_named_as_such():
    days = pd.DatetimeIndex(["2021-03-01", "2021-03-05"])
    assert name_days(days) == "2 days, 2021-03-01 ... 2021-03-05"
