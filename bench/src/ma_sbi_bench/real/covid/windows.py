"""Fortnights: the Covid-19 data cut into windows with a regime, its wording and notes."""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from dataclasses import dataclass
from typing import Literal

import numpy as np
import pandas as pd

from ma_sbi.validation import as_count
from ma_sbi_bench.real.covid.jhu import check_countries
from ma_sbi_bench.real.covid.load import (
    NOTES_COLUMNS,
    PAPER_COUNTRIES,
    CovidData,
    check_daily,
)
from ma_sbi_bench.real.covid.oxcgrt import CLOSURES, Policy
from ma_sbi_bench.real.covid.repairs import find_dumps, spread_corrections
from ma_sbi_bench.real.text_files import as_numbers, name_days, require_columns

__all__ = ["REGIME_CUTS", "Windows", "covid_windows"]

REGIME_CUTS = (25.0, 50.0, 75.0)
"""Where the regimes are cut: 0 to below 25, 25 to below 50, 50 to below 75, 75 to 100.

Fixed cuts: quantiles of the index would know the future."""


@dataclass(frozen=True)
class Windows:
    """Windows of days, country after country, each in order of time.

    Attributes:
        table: One row per window: ``iso3``, ``time`` (0, 1, ... within the country),
            ``start`` (its first day), ``population``, ``stringency`` (mean of the index),
            ``regime`` (0 to 3, see ``REGIME_CUTS``), ``text`` (official wording of the
            levels in force), ``notes`` (what was noted in these days; only if notes were
            loaded), ``repaired`` (whether ``counts`` differ from ``raw_counts``) and
            ``dump`` (whether a day reports much that belongs to other days).
        counts: Daily counts, repaired where asked for, shape ``(n, length)``.
        raw_counts: Daily counts as reported, shape ``(n, length)``.
    """

    table: pd.DataFrame
    counts: np.ndarray
    raw_counts: np.ndarray

    def __len__(self) -> int:
        return len(self.table)


def covid_windows(
    data: CovidData,
    countries: Iterable[str] = PAPER_COUNTRIES,
    *,
    counts: Literal["cases", "deaths"] = "cases",
    length: int = 14,
    start: str = "2020-04-01",
    end: str = "2022-12-31",
    repair: Literal["spread"] | None = "spread",
) -> Windows:
    """Cut countries into windows without overlap; days left over at the end are dropped.

    The defaults give 71 windows per country. Days after ``end`` have no influence. Where a
    country reports weekly, zeros stay zeros.

    Args:
        data: What :func:`load_covid` gave.
        countries: ISO codes; ``COUNTRIES`` are all ten.
        counts: What is counted.
        length: Number of days in a window.
        start: First day of the first window.
        end: Last day that may be used.
        repair: ``"spread"`` takes negative counts off the days before them, with
            :func:`spread_corrections`, before the windows are cut; None leaves the counts
            alone and raises if a window holds a negative one.

    Returns:
        The windows.

    Raises:
        ValueError: If a day is missing, a count is negative and ``repair`` is None, or an
            option is not one of those listed.

    Example:
        >>> windows = covid_windows(load_covid(), countries=COUNTRIES)  # doctest: +SKIP
        >>> windows.counts.shape  # doctest: +SKIP
        (710, 14)
    """
    if counts not in ("cases", "deaths"):
        raise ValueError(f"counts must be 'cases' or 'deaths', got {counts!r}")
    if repair not in ("spread", None):
        raise ValueError(f"repair must be 'spread' or None, got {repair!r}")
    length = as_count(length, "length")
    first, last = pd.Timestamp(start), pd.Timestamp(end)
    num = ((last - first).days + 1) // length
    if num < 1:
        raise ValueError(f"{start} to {end} is shorter than one window of {length} days")
    days = pd.date_range(first, periods=num * length)
    codes = check_countries(countries)
    column = f"new_{counts}"
    policies = list(CLOSURES.values())
    require_columns(
        data.daily, ["iso3", "date", "population", column, "stringency", *policies], "daily"
    )
    check_daily(data.daily, codes, "daily")
    parts = []
    for code in codes:
        country = data.daily[data.daily["iso3"] == code].set_index("date").sort_index()
        country = country.loc[:last]
        _require_days(country[[column, "stringency", *policies]], days, code)
        table = _describe(country.loc[days], data.codebook, length)
        if data.notes is not None:
            table["notes"] = _join_notes(data.notes, code, days, length)
        parts.append(_count(table, country[column].dropna(), days, repair))
    windows = Windows(
        pd.concat([part.table for part in parts], ignore_index=True),
        np.concatenate([part.counts for part in parts]),
        np.concatenate([part.raw_counts for part in parts]),
    )
    _require_counts(windows)
    return windows


def _describe(
    country: pd.DataFrame, codebook: Mapping[str, Policy], length: int
) -> pd.DataFrame:
    firsts = country.iloc[::length]
    index = country["stringency"].to_numpy().reshape(-1, length).mean(axis=1).round(6)
    return pd.DataFrame(
        {
            "iso3": firsts["iso3"].to_numpy(),
            "time": np.arange(len(firsts)),
            "start": firsts.index,
            "population": firsts["population"].to_numpy(),
            "stringency": index,
            "regime": np.digitize(index, REGIME_CUTS),
            "text": _word_levels(country[list(CLOSURES.values())], codebook, length),
        }
    )


def _count(
    table: pd.DataFrame, series: pd.Series, days: pd.DatetimeIndex, repair: str | None
) -> Windows:
    raw = as_numbers(series, f"{series.name!r}", whole=True).to_numpy().astype(np.int64)
    clean = raw if repair is None else spread_corrections(raw)
    inside = series.index.get_indexer(days)
    counts, raw_counts, dumps = (
        values[inside].reshape(len(table), -1) for values in (clean, raw, find_dumps(raw))
    )
    table["repaired"] = np.any(counts != raw_counts, axis=1)
    table["dump"] = np.any(dumps, axis=1)
    return Windows(table, counts, raw_counts)


def _require_days(country: pd.DataFrame, days: pd.DatetimeIndex, code: str) -> None:
    lacking = days.difference(country.index)
    if len(lacking):
        raise ValueError(f"daily lacks {code} on {name_days(lacking)}")
    for column in country.columns:
        empty = country[column].loc[days].isna().to_numpy()
        if empty.any():
            raise ValueError(f"{column!r} of {code} is empty on {name_days(days[empty])}")
    known = pd.DatetimeIndex(country.iloc[:, 0].dropna().index)
    gap = pd.date_range(known[0], known[-1]).difference(known)
    if len(gap):
        raise ValueError(f"{country.columns[0]!r} of {code} is empty on {name_days(gap)}")


def _require_counts(windows: Windows) -> None:
    negative = (windows.counts < 0).any(axis=1)
    if negative.any():
        named = [
            f"{row.iso3} {row.start:%Y-%m-%d}"
            for row in windows.table[negative].itertuples(index=False)
        ]
        raise ValueError(
            f"{len(named)} window(s) hold negative counts ({', '.join(named)}); "
            "repair='spread' takes them off the days before"
        )


def _word_levels(
    levels: pd.DataFrame, codebook: Mapping[str, Policy], length: int
) -> list[str]:
    by_window = levels.to_numpy().astype(int).reshape(-1, length, levels.shape[1])
    texts = []
    for window in by_window:
        clauses = []
        for code, days in zip(CLOSURES, window.T, strict=True):
            policy = codebook[code]
            # The level that held longest; the stricter of two that held equally long.
            times = np.bincount(days) if days.min() >= 0 else np.zeros(1)
            level = len(times) - 1 - int(times[::-1].argmax())
            if days.min() < 0 or level not in policy.levels:
                raise ValueError(
                    f"levels of {code} must be among {sorted(policy.levels)}, got "
                    f"{days.min() if days.min() < 0 else level}"
                )
            clauses.append(f"{policy.name}: {policy.levels[level]}")
        texts.append("; ".join(clauses) + ".")
    return texts


def _join_notes(
    notes: pd.DataFrame, code: str, days: pd.DatetimeIndex, length: int
) -> list[str]:
    require_columns(notes, NOTES_COLUMNS, "notes")
    own = notes[(notes["iso3"] == code) & notes["date"].isin(days)]
    own = own.sort_values(["date", "policy"], kind="stable")
    window = (own["date"] - days[0]).dt.days // length
    texts = [""] * (len(days) // length)
    for place, group in own.groupby(window)["text"]:
        # The same note is often kept under several policies and repeated day by day.
        texts[int(place)] = "\n".join(dict.fromkeys(group))
    return texts
