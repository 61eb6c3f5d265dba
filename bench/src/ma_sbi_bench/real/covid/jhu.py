"""Cases and deaths: the wide tables of the JHU CSSE repository."""

from __future__ import annotations

from collections.abc import Iterable
from pathlib import Path

import pandas as pd

from ma_sbi_bench.real.text_files import as_dates, as_numbers, name_days, read_table

__all__ = ["COUNTRIES", "check_countries", "read_jhu", "read_jhu_population"]

_JHU_NAMES = {
    "AUS": "Australia",
    "BRA": "Brazil",
    "DEU": "Germany",
    "GBR": "United Kingdom",
    "IND": "India",
    "ITA": "Italy",
    "NZL": "New Zealand",
    "SWE": "Sweden",
    "USA": "US",
    "ZAF": "South Africa",
}
COUNTRIES = tuple(_JHU_NAMES)

# Australia is listed by its states and territories only, every other country in one row;
# its further rows, where it has any, are overseas territories.
_NUM_PARTS = {"AUS": 8}


def check_countries(countries: Iterable[str]) -> tuple[str, ...]:
    """Check that there are countries and that they are known, each named once.

    Raises:
        ValueError: If not.
    """
    codes = (countries,) if isinstance(countries, str) else tuple(countries)
    unknown = [code for code in codes if code not in COUNTRIES]
    if not codes or unknown or len(set(codes)) < len(codes):
        raise ValueError(
            f"countries must be different codes out of {', '.join(COUNTRIES)}, got "
            f"{', '.join(map(repr, unknown or codes)) or 'none'}"
        )
    return codes


def read_jhu(path: str | Path, countries: Iterable[str] = COUNTRIES) -> pd.DataFrame:
    """Read a global time series: one row per place, one column per day, cumulative.

    Australia is the sum of its states and territories. Overseas territories of the United
    Kingdom and New Zealand are left out.

    Args:
        path: ``time_series_covid19_confirmed_global.csv`` or the one of deaths.
        countries: ISO codes of the countries to take.

    Returns:
        Columns ``iso3``, ``date`` and ``cumulative``, sorted by country and day.

    Raises:
        FileNotFoundError: If there is no such file.
        ValueError: If the file is cut off, lacks a country or a day, or holds something
            that is not a count.
    """
    name = Path(path).name
    place = ["Province/State", "Country/Region", "Lat", "Long"]
    table = read_table(path, place, keep=lambda column: True)
    columns = [column for column in table.columns if column not in place]
    days = as_dates(pd.Index(columns), "%m/%d/%y", f"the day columns of {name}")
    if len(days) == 0:
        raise ValueError(f"{name} must have a column per day, found none")
    lacking = pd.date_range(days.min(), days.max()).difference(days)
    if len(lacking):
        raise ValueError(f"{name} lacks {name_days(lacking)}")
    if days.has_duplicates or not days.is_monotonic_increasing:
        raise ValueError(f"the day columns of {name} must be in order, each day once")
    frames = []
    for code in check_countries(countries):
        rows = table[table["Country/Region"] == _JHU_NAMES[code]]
        if code not in _NUM_PARTS:
            rows = rows[rows["Province/State"] == ""]
        if len(rows) != _NUM_PARTS.get(code, 1):
            raise ValueError(
                f"{name} must have {_NUM_PARTS.get(code, 1)} row(s) for "
                f"{_JHU_NAMES[code]}, found {len(rows)}"
            )
        texts = pd.Series(rows[columns].to_numpy().ravel())
        counts = as_numbers(texts, f"{code} in {name}", whole=True).to_numpy()
        if (counts < 0).any():
            raise ValueError(f"cumulative counts of {code} in {name} must not be negative")
        total = counts.reshape(len(rows), len(days)).sum(axis=0)
        frames.append(pd.DataFrame({"iso3": code, "date": days, "cumulative": total}))
    return pd.concat(frames, ignore_index=True)


def read_jhu_population(
    path: str | Path, countries: Iterable[str] = COUNTRIES
) -> dict[str, int]:
    """Read the populations of whole countries from ``UID_ISO_FIPS_LookUp_Table.csv``.

    Raises:
        FileNotFoundError: If there is no such file.
        ValueError: If the file is cut off or lacks a country.
    """
    name = Path(path).name
    table = read_table(path, ["iso3", "Province_State", "Population"])
    whole = table[table["Province_State"] == ""]
    population = {}
    for code in check_countries(countries):
        found = whole.loc[whole["iso3"] == code, "Population"]
        if len(found) != 1:
            raise ValueError(f"{name} must have one row for {code}, found {len(found)}")
        number = as_numbers(found, f"the population of {code} in {name}", whole=True)
        population[code] = int(number.iloc[0])
    return population
