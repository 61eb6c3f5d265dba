"""Covid-19 by country and day: counts, policies and what was noted about them."""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from dataclasses import dataclass
from pathlib import Path

import numpy as np
import pandas as pd

from ma_sbi_bench.real.covid.jhu import (
    COUNTRIES,
    check_countries,
    read_jhu,
    read_jhu_population,
)
from ma_sbi_bench.real.covid.oxcgrt import (
    FLAGS,
    INDICES,
    LEVELS,
    Policy,
    read_codebook,
    read_oxcgrt,
    read_oxcgrt_notes,
)
from ma_sbi_bench.real.source import fetch, tidy_file, tidy_folder
from ma_sbi_bench.real.text_files import as_dates, as_numbers, name_days, read_table

__all__ = [
    "COUNTRIES",
    "COVID_FILE",
    "PAPER_COUNTRIES",
    "CovidData",
    "check_daily",
    "load_covid",
]

COVID_FILE = "covid/daily.csv.gz"
PAPER_COUNTRIES = ("AUS", "NZL", "GBR", "USA")
"""Our reading of the paper's four countries, which it does not name."""

_COUNTS = ("cases_cum", "deaths_cum", "new_cases", "new_deaths")
_POLICIES = (*INDICES, "pct_vaccinated", *LEVELS, *FLAGS)
DAILY_COLUMNS = ("iso3", "date", "population", *_COUNTS, *_POLICIES)
NOTES_COLUMNS = ("iso3", "date", "policy", "text")


@dataclass(frozen=True)
class CovidData:
    """What is known about some countries, day by day.

    Attributes:
        daily: One row per country and day. ``new_cases`` and ``new_deaths`` are plain
            first differences of the cumulative counts: nothing is repaired. They are NaN
            before the first report of 2020-01-22.
        codebook: The policies by code, with the official wording of their levels.
        notes: Notes on policies (``iso3``, ``date``, ``policy``, ``text``); None if they
            were not asked for.
    """

    daily: pd.DataFrame
    codebook: Mapping[str, Policy]
    notes: pd.DataFrame | None


def load_covid(countries: Iterable[str] | None = None, *, notes: bool = True) -> CovidData:
    """Load counts (JHU CSSE) and policies (OxCGRT), 2020-01-01 to 2022-12-31.

    From the folder that ``MA_SBI_DATA`` names if it is set; otherwise from the official
    files, downloaded once. The tables have the same columns either way, but the notes
    differ: the official files hold the final notes, the tidy folder those written at the
    time (except for GBR), with gaps where none were kept.

    Args:
        countries: ISO codes out of ``COUNTRIES``; all ten if None.
        notes: Whether to load the notes, which are large in the official files.

    Returns:
        The data.

    Raises:
        OSError: If a file is not there and cannot be downloaded.
        ValueError: If a file is damaged, cut off or of another layout.
    """
    codes = check_countries(COUNTRIES if countries is None else countries)
    if tidy_folder() is None:
        return _load_official(codes, notes=notes)
    return CovidData(
        _read_tidy_daily(tidy_file(COVID_FILE), codes),
        read_codebook(tidy_file("covid/oxcgrt_codebook.json")),
        _read_tidy_notes(tidy_file("covid/oxcgrt_notes.csv.gz"), codes) if notes else None,
    )


def check_daily(daily: pd.DataFrame, countries: Iterable[str], name: str) -> None:
    """Check that every country is there, each day once and none left out.

    Raises:
        ValueError: If not; the sentence names the country and the days.
    """
    for code in countries:
        days = pd.DatetimeIndex(daily.loc[daily["iso3"] == code, "date"])
        if len(days) == 0:
            known = ", ".join(sorted(daily["iso3"].unique())) or "none"
            raise ValueError(
                f"{name} has no rows for {code}; countries= may name those it has ({known})"
            )
        if days.has_duplicates:
            twice = days[days.duplicated()].unique()
            raise ValueError(
                f"{name} has more than one row for {code} on {name_days(twice)}"
            )
        lacking = pd.date_range(days.min(), days.max()).difference(days)
        if len(lacking):
            raise ValueError(f"{name} lacks {code} on {name_days(lacking)}")


def _load_official(codes: tuple[str, ...], *, notes: bool) -> CovidData:
    daily = read_oxcgrt(fetch("oxcgrt"), codes)
    population = read_jhu_population(fetch("jhu_population"), codes)
    daily["population"] = daily["iso3"].map(population)
    for kind in ("cases", "deaths"):
        counts = read_jhu(fetch(f"jhu_{kind}"), codes)
        # The first report counts everything before it.
        change = counts.groupby("iso3")["cumulative"].diff()
        counts[f"new_{kind}"] = change.fillna(counts["cumulative"])
        counts = counts.rename(columns={"cumulative": f"{kind}_cum"})
        daily = daily.merge(counts, on=["iso3", "date"], how="left")
    check_daily(daily, codes, "the official data")
    book = read_codebook(fetch("oxcgrt_codebook"))
    if not notes:
        return CovidData(_in_order(daily), book, None)
    years = [
        read_oxcgrt_notes(fetch(f"oxcgrt_notes_{year}"), codes)
        for year in (2020, 2021, 2022)
    ]
    return CovidData(_in_order(daily), book, pd.concat(years, ignore_index=True))


def _read_tidy_daily(path: Path, codes: tuple[str, ...]) -> pd.DataFrame:
    table = read_table(path, DAILY_COLUMNS)
    table = table[table["iso3"].isin(codes)].copy()
    table["date"] = as_dates(table["date"], "%Y-%m-%d", f"'date' in {path.name}")
    may_be_empty = {*_COUNTS, *FLAGS}
    whole = {"population", *_COUNTS, *LEVELS, *FLAGS}
    for column in DAILY_COLUMNS[2:]:
        table[column] = as_numbers(
            table[column],
            f"{column!r} in {path.name}",
            empty=column in may_be_empty,
            whole=column in whole,
        )
    table = table.astype({"population": int} | dict.fromkeys(LEVELS, int))
    check_daily(table, codes, path.name)
    table = _in_order(table)
    for kind in ("cases", "deaths"):
        _check_differences(table, kind, path.name)
    return table


def _check_differences(table: pd.DataFrame, kind: str, name: str) -> None:
    change = table.groupby("iso3")[f"{kind}_cum"].diff()
    new = table[f"new_{kind}"]
    wrong = change.notna() & ~np.isclose(change, new, rtol=0, atol=0.5)
    if wrong.any():
        row = table[wrong].iloc[0]
        raise ValueError(
            f"'new_{kind}' in {name} must be the difference of '{kind}_cum', got "
            f"{row[f'new_{kind}']:g} for {row['iso3']} on {row['date']:%Y-%m-%d}"
        )


def _read_tidy_notes(path: Path, codes: tuple[str, ...]) -> pd.DataFrame:
    table = read_table(path, NOTES_COLUMNS)
    table = table[table["iso3"].isin(codes)].copy()
    table["date"] = as_dates(table["date"], "%Y-%m-%d", f"'date' in {path.name}")
    table["text"] = table["text"].str.split().str.join(" ")
    table = table[table["text"] != ""]
    return table.sort_values(["iso3", "date", "policy"], ignore_index=True, kind="stable")


def _in_order(daily: pd.DataFrame) -> pd.DataFrame:
    daily = daily.sort_values(["iso3", "date"], ignore_index=True)
    return daily[list(DAILY_COLUMNS)]
