"""Policies: the Oxford Covid-19 Government Response Tracker, final release (v1).

Three of its official files are read: the compact national table (levels and indices by
day), the national table with notes, and the codebook, which words every level.
"""

from __future__ import annotations

import json
import re
from collections.abc import Iterable, Mapping
from pathlib import Path
from typing import NamedTuple

import pandas as pd

from ma_sbi_bench.real.covid.jhu import COUNTRIES, check_countries
from ma_sbi_bench.real.text_files import as_dates, as_numbers, read_table, read_text

__all__ = [
    "CLOSURES",
    "FLAGS",
    "INDICES",
    "LEVELS",
    "Policy",
    "read_codebook",
    "read_oxcgrt",
    "read_oxcgrt_notes",
]

INDICES = {
    "stringency": "StringencyIndex_Average",
    "gov_response": "GovernmentResponseIndex_Average",
    "containment_health": "ContainmentHealthIndex_Average",
    "economic_support": "EconomicSupportIndex",
}
# "M": the rule for the majority, vaccinated or not; "EV": for everyone or the vaccinated.
LEVELS = {
    "c1_school": "C1M_School closing",
    "c2_work": "C2M_Workplace closing",
    "c3_events": "C3M_Cancel public events",
    "c4_gatherings": "C4M_Restrictions on gatherings",
    "c5_transport": "C5M_Close public transport",
    "c6_home": "C6M_Stay at home requirements",
    "c7_internal": "C7M_Restrictions on internal movement",
    "c8_borders": "C8EV_International travel controls",
    "h1_info": "H1_Public information campaigns",
    "h2_testing": "H2_Testing policy",
    "h3_tracing": "H3_Contact tracing",
    "h6_masks": "H6M_Facial Coverings",
    "h7_vaccine": "H7_Vaccination policy",
    "h8_elderly": "H8M_Protection of elderly people",
    "e1_income": "E1_Income support",
    "e2_debt": "E2_Debt/contract relief",
}
FLAGS = {f"c{i}_general": f"C{i}M_Flag" for i in range(1, 8)} | {"h6_general": "H6M_Flag"}
CLOSURES = {
    column.split("_")[0].upper(): column for column in LEVELS if column.startswith("c")
}
"""The closure and containment policies, C1 to C8, and the column of each one's level."""

_LINK = re.compile(r"(?:https?://|www\.)\S+")


class Policy(NamedTuple):
    """A policy's official name and the official wording of each of its levels."""

    name: str
    levels: Mapping[int, str]


def read_oxcgrt(path: str | Path, countries: Iterable[str] = COUNTRIES) -> pd.DataFrame:
    """Read the compact national table, ``OxCGRT_compact_national_v1.csv``.

    Args:
        path: The file.
        countries: ISO codes of the countries to take.

    Returns:
        Columns ``iso3`` and ``date``, the four indices (0 to 100), ``pct_vaccinated``, the
        level of each policy, and its flag: 1 where it holds for the whole country, 0 for
        a part, NaN at level 0.

    Raises:
        FileNotFoundError: If there is no such file.
        ValueError: If the file is cut off, a column has another name, a country is not
            there, or a value cannot be.
    """
    name = Path(path).name
    vaccinated = {"pct_vaccinated": "PopulationVaccinated"}
    official = INDICES | vaccinated | LEVELS | FLAGS
    table = _national_rows(path, official.values(), countries)
    frame = table[["iso3", "date"]].copy()
    for column, source in official.items():
        where = f"{source!r} in {name}"
        level = column in LEVELS
        empty = column in FLAGS or column in vaccinated
        frame[column] = as_numbers(table[source], where, empty=empty, whole=level)
        top = 100 if column in INDICES else 1 if column in FLAGS else None
        if top is not None and not frame[column].dropna().between(0, top).all():
            raise ValueError(f"{where} must lie between 0 and {top}")
    return frame.astype(dict.fromkeys(LEVELS, int))


def read_oxcgrt_notes(
    path: str | Path, countries: Iterable[str] = COUNTRIES
) -> pd.DataFrame:
    """Read the notes of a national table with notes (``OxCGRT_fullwithnotes_*.csv``).

    Args:
        path: The file, of one year or of one country.
        countries: ISO codes of the countries to take; those that the file lacks are left
            out, since there are files of one country.

    Returns:
        Columns ``iso3``, ``date``, ``policy`` (``"C1"``) and ``text``: the note without
        links; notes of nothing but links are left out.

    Raises:
        FileNotFoundError: If there is no such file.
        ValueError: If the file is cut off or a column has another name.
    """
    table = _national_rows(path, ["C1_Notes"], countries, notes=True)
    tidy = table.melt(["iso3", "date"], var_name="policy", value_name="text")
    tidy["policy"] = tidy["policy"].str.removesuffix("_Notes")
    tidy["text"] = tidy["text"].map(_without_links)
    tidy = tidy[tidy["text"] != ""]
    return tidy.sort_values(["iso3", "date", "policy"], ignore_index=True)


def read_codebook(path: str | Path) -> dict[str, Policy]:
    """Read the wording of every level of every policy.

    Args:
        path: The official ``documentation_and_codebook.md``, or the tidy JSON file made
            of it.

    Returns:
        A policy by its code, ``"C1"`` to ``"C8"`` at least.

    Raises:
        FileNotFoundError: If there is no such file.
        ValueError: If a policy from C1 to C8 is not there.
    """
    text = read_text(path)
    name = Path(path).name
    try:
        book = _parse_json(text) if name.endswith(".json") else _parse_markdown(text)
    except (json.JSONDecodeError, KeyError, TypeError, AttributeError) as error:
        raise ValueError(f"{name} is not a codebook: {error!r}") from error
    for code in CLOSURES:
        levels = sorted(book[code].levels) if code in book else []
        if len(levels) < 3 or levels != list(range(len(levels))):
            raise ValueError(
                f"{name} must word the levels of {code} from 0 up, found {levels}"
            )
    return book


def _national_rows(
    path: str | Path,
    columns: Iterable[str],
    countries: Iterable[str],
    *,
    notes: bool = False,
) -> pd.DataFrame:
    name = Path(path).name
    keys = ["CountryCode", "Jurisdiction", "Date"]
    table = read_table(
        path, [*keys, *columns], keep=lambda name: notes and name.endswith("_Notes")
    )
    table = table[table["Jurisdiction"] == "NAT_TOTAL"].drop(columns="Jurisdiction")
    codes = check_countries(countries)
    lacking = [code for code in codes if code not in set(table["CountryCode"])]
    if lacking and (not notes or len(lacking) == len(codes)):
        raise ValueError(f"{name} has no national rows for {', '.join(lacking)}")
    table = table[table["CountryCode"].isin(codes)].rename(columns={"CountryCode": "iso3"})
    table.insert(1, "date", as_dates(table.pop("Date"), "%Y%m%d", f"'Date' in {name}"))
    table = table.sort_values(["iso3", "date"], ignore_index=True)
    twice = table.duplicated(["iso3", "date"])
    if twice.any():
        code, day = table.loc[twice, ["iso3", "date"]].iloc[0]
        raise ValueError(f"{name} has more than one row for {code} on {day:%Y-%m-%d}")
    return table


def _without_links(note: str) -> str:
    return " ".join(_LINK.sub(" ", note).split())


def _parse_json(text: str) -> dict[str, Policy]:
    return {
        code: Policy(
            entry["name"],
            {
                int(level): " ".join(words.split())
                for level, words in entry["levels"].items()
            },
        )
        for code, entry in json.loads(text).items()
        if not code.startswith("_")
    }


def _parse_markdown(text: str) -> dict[str, Policy]:
    book = {}
    for line in text.splitlines():
        cells = [cell.strip() for cell in line.strip().strip("|").split("|")]
        if len(cells) != 5 or cells[3] != "Ordinal scale":
            continue
        title = re.search(r"`[A-Z]\d[A-Z]*_([^`]+)`", cells[1])
        levels = re.findall(r"(?:^|<br/>)\s*(\d)\s*-\s*(.*?)\s*(?=<br/>|$)", cells[4])
        if title and levels:
            wording = {int(level): " ".join(words.split()) for level, words in levels}
            book[cells[0]] = Policy(title[1].strip(), wording)
    return book
