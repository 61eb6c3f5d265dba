"""Small files in the layouts of the official sources and of the tidy folder."""

import gzip
import json

import numpy as np
import pandas as pd

from ma_sbi_bench.real.covid.jhu import _JHU_NAMES
from ma_sbi_bench.real.covid.load import DAILY_COLUMNS
from ma_sbi_bench.real.covid.oxcgrt import CLOSURES, FLAGS, INDICES, LEVELS
from ma_sbi_bench.real.instructions.load import TRIAL_COLUMNS

DAYS = pd.date_range("2020-01-22", "2020-03-31")
STATES = [f"State {i}" for i in range(1, 9)]


def jhu_header(days=DAYS):
    dates = [f"{day.month}/{day.day}/{day:%y}" for day in days]
    return ["Province/State", "Country/Region", "Lat", "Long", *dates]


def jhu_table(days=DAYS, daily=1):
    """A row per place; every place counts ``daily`` a day, territories a thousand."""
    steps = np.arange(1, len(days) + 1)
    rows = []
    for code, name in _JHU_NAMES.items():
        for state in STATES if code == "AUS" else [""]:
            rows.append([state, name, 0.0, 0.0, *(daily * steps)])
    for territory, name in (
        ("Bermuda", "United Kingdom"),
        ("Cook Islands", "New Zealand"),
    ):
        rows.append([territory, name, 0.0, 0.0, *(1000 * steps)])
    return pd.DataFrame(rows, columns=jhu_header(days))


def write_jhu(path, **options):
    jhu_table(**options).to_csv(path, index=False)
    return path


def write_population(path):
    rows = [[code, "", 1000 + i] for i, code in enumerate(_JHU_NAMES)]
    rows.append(["GBR", "Bermuda", 7])
    table = pd.DataFrame(rows, columns=["iso3", "Province_State", "Population"])
    table.to_csv(path, index=False)
    return path


def oxcgrt_table(days=DAYS, codes=tuple(_JHU_NAMES), stringency=30.0, level=1):
    parts = []
    for code in codes:
        part = pd.DataFrame({"CountryCode": code, "Date": days.strftime("%Y%m%d")})
        part["Jurisdiction"] = "NAT_TOTAL"
        for column in INDICES.values():
            part[column] = stringency
        part["PopulationVaccinated"] = 12.5
        for column in LEVELS.values():
            part[column] = f"{level}.00"
        for column in FLAGS.values():
            part[column] = "1" if level else ""
        part["C1_Notes"] = ""
        part["C2_Notes"] = ""
        parts.append(part)
    state = parts[0].assign(Jurisdiction="STATE_TOTAL", **{INDICES["stringency"]: 99.0})
    return pd.concat([*parts, state], ignore_index=True)


def write_oxcgrt(path, **options):
    oxcgrt_table(**options).to_csv(path, index=False)
    return path


def codebook():
    return {
        code: {
            "name": f"Policy {code}",
            "levels": {str(level): f"wording {level} of {code}" for level in range(4)},
        }
        for code in CLOSURES
    }


def codebook_markdown():
    rows = [
        "| ID | Name | Description | Measurement | Coding |",
        "| --- | --- | --- | --- | --- |",
    ]
    for code, entry in codebook().items():
        coding = " <br/>".join(f"{k} - {v}" for k, v in entry["levels"].items())
        rows.append(
            f"| {code} | `{code}E_{entry['name']}`<br/> `{code}M_{entry['name']}` | what "
            f"| Ordinal scale | {coding} <br/>Blank - no data |"
        )
        rows.append(f"|| `{code}E_Flag` || Binary flag | 0 - targeted <br/>1 - general |")
    return "\n".join(["# Codebook", "", *rows, ""])


def daily_table(days=DAYS, codes=("AUS", "NZL"), cases=10, stringency=30.0, level=1):
    parts = []
    for code in codes:
        part = pd.DataFrame({"iso3": code, "date": days, "population": 1000})
        for kind in ("cases", "deaths"):
            part[f"new_{kind}"] = np.broadcast_to(cases, len(days))
            part[f"{kind}_cum"] = part[f"new_{kind}"].cumsum()
        for column in (*INDICES, "pct_vaccinated"):
            part[column] = stringency
        for column in LEVELS:
            part[column] = level
        for column in FLAGS:
            part[column] = 1.0
        parts.append(part)
    return pd.concat(parts, ignore_index=True)[list(DAILY_COLUMNS)]


def notes_table():
    rows = [
        ("AUS", "2020-02-03", "C1", "Schools close."),
        ("AUS", "2020-02-04", "C2", "Schools close."),
        ("AUS", "2020-02-04", "C6", "Stay  at home."),
        ("AUS", "2020-02-05", "C6", ""),
        ("NZL", "2020-02-03", "C1", "Nothing new."),
    ]
    return pd.DataFrame(rows, columns=["iso3", "date", "policy", "text"])


def trials_table():
    rows = [
        ("forstmann2008", "a", "", "", 1, "speed", "left", "", "left", 1, 0.31, 0),
        ("forstmann2008", "a", "", "", 2, "accuracy", "left", "", "right", 0, 0.62, 0),
        ("forstmann2008", "b", "", "", 1, "speed", "right", "", "right", 1, 0.44, 1),
        ("cavanagh2011_dbs", "0", "", "", 1, "dbs_on", "LL", "HC", "1", 1, 1.2, 0),
        ("ratcliff_rouder1998_exp1", "j", 2, 1, 1, "speed", "dark", 8, "dark", 1, 0.4, 0),
        ("roitman_shadlen2002", "m", "", "", 1, "none", "motion", 0.512, 2, 1, 0.3, 0),
    ]
    return pd.DataFrame(rows, columns=["dataset", *TRIAL_COLUMNS])


def instructions():
    said = {"text": "Be fast.", "verbatim": True}
    return {
        "_note": "made up",
        "forstmann2008": {
            "source": "made up",
            "speed": said,
            "accuracy": {"text": "Be right.", "verbatim": False},
        },
        "cavanagh2011_dbs": {"dbs_on": {"text": "On.", "verbatim": False}},
        "ratcliff_rouder1998_exp1": {"speed": said},
        "roitman_shadlen2002": {"source": "made up"},
    }


def write_gz(table, path):
    path.parent.mkdir(parents=True, exist_ok=True)
    with gzip.open(path, "wt", encoding="utf-8", newline="") as file:
        table.to_csv(file, index=False)
    return path


def write_tidy(folder):
    write_gz(daily_table(), folder / "covid" / "daily.csv.gz")
    write_gz(notes_table(), folder / "covid" / "oxcgrt_notes.csv.gz")
    text = json.dumps(codebook() | {"_source": {"repository": "made up"}})
    (folder / "covid" / "oxcgrt_codebook.json").write_text(text, encoding="utf-8")
    write_gz(trials_table(), folder / "rt" / "rt_trials.csv.gz")
    text = json.dumps(instructions())
    (folder / "rt" / "instructions.json").write_text(text, encoding="utf-8")
    return folder


SESSION_ROWS = [
    # RT, blkNum, percentCoherence, correct
    (400, 1, 40, 1),  # first block
    (500, 2, 40, 1),
    (750, 2, 0, 0),
    (7001, 3, 10, 1),  # too slow
    (7000, 3, 5, 1),
]


def write_session(path, rows=SESSION_ROWS):
    path.parent.mkdir(parents=True, exist_ok=True)
    lines = [f"preamble {i}" for i in range(6)]
    lines.append("trial\tblkNum\tpercentCoherence\tcorrect\tRT\tother")
    for i, (rt, block, percent, correct) in enumerate(rows):
        lines.append(f"{i}\t{block}\t{percent}\t{correct}\t{rt}\tx")
    path.write_text("\n".join(lines) + "\n", encoding="utf-8")


def write_evans_hawkins(folder):
    for subject in range(1, 22):
        group = "0s_Delay" if subject <= 11 else "1s_Delay"
        for session in range(1, 11):
            write_session(folder / group / f"Sub{subject:02}_Ses{session:02}.txt")
    return folder
