"""Evans & Hawkins (2019): moving dots with feedback at once or one second later.

The files are on OSF only (project 2vnam). What is known of them comes from the loading
script in the documentation of PyDDM: one tab-separated file per session,
``0s_Delay/Sub01_Ses01.txt`` to ``1s_Delay/Sub21_Ses10.txt``; some lines, then a header with
``RT`` (milliseconds), ``blkNum``, ``percentCoherence`` and ``correct`` among others, then
one line per trial. Subjects 1 to 11 had no delay, 12 to 21 one second.

The loader was written without the files. It reads these names and nothing else.
"""

from __future__ import annotations

from pathlib import Path

import numpy as np
import pandas as pd

from ma_sbi_bench.real.instructions.load import TRIAL_COLUMNS, RegimeText, check_trials
from ma_sbi_bench.real.source import fetch, tidy_folder
from ma_sbi_bench.real.text_files import read_text

__all__ = [
    "DELAY_TEXTS",
    "EVANS_HAWKINS_FOLDER",
    "load_evans_hawkins",
    "read_evans_hawkins",
]

EVANS_HAWKINS_FOLDER = "rt/evans_hawkins"
DELAY_TEXTS = {
    "no_delay": RegimeText("Feedback follows the response at once.", verbatim=False),
    "one_second": RegimeText(
        "Feedback follows the response after a second.", verbatim=False
    ),
}
"""The regimes in our words: not the wording shown to participants."""

_GROUPS = {
    "no_delay": ("0s_Delay", range(1, 12)),
    "one_second": ("1s_Delay", range(12, 22)),
}
_SESSIONS = range(1, 11)
_COLUMNS = ("RT", "blkNum", "percentCoherence", "correct")
_SLOWEST_MS = 7000
_LARGEST_PERCENT = 40
_OSF_ONLY = "the data of Evans & Hawkins (2019) are on OSF only (https://osf.io/2vnam)"


def load_evans_hawkins(*, keep_excluded: bool = False) -> pd.DataFrame:
    """Load the trials from ``rt/evans_hawkins`` under ``MA_SBI_DATA``, or from OSF.

    See :func:`read_evans_hawkins`.

    Raises:
        OSError: If the files are not there and cannot be downloaded.
        ValueError: If a file is not what it should be.
    """
    local = tidy_folder()
    if local is not None:
        folder = local / EVANS_HAWKINS_FOLDER
        return read_evans_hawkins(folder, keep_excluded=keep_excluded)
    try:
        unpacked = fetch("evans_hawkins")
    except OSError as error:
        raise OSError(f"{_OSF_ONLY}: {error}") from error
    return read_evans_hawkins(unpacked, keep_excluded=keep_excluded)


def read_evans_hawkins(folder: str | Path, *, keep_excluded: bool = False) -> pd.DataFrame:
    """Read all 21 subjects with 10 sessions each.

    Left out, as the authors did: response times over 7 s, block 1 of each session, and
    session 1 of subject 6.

    Args:
        folder: Holds ``0s_Delay`` and ``1s_Delay``, directly or further down.
        keep_excluded: Whether to keep what is left out, marked in ``exclude``; such a trial
            may lack a response time.

    Returns:
        One row per trial with the columns of :func:`load_response_times`; ``difficulty`` is
        the coherence, 0 to 0.4, and ``stimulus`` and ``response`` are None.

    Raises:
        FileNotFoundError: If the folder or a session is not there.
        ValueError: If a file is not what it should be.
    """
    root = _find_root(Path(folder))
    sessions = [
        _read_session(
            root / subfolder / f"Sub{subject:02}_Ses{session:02}.txt", regime
        ).assign(subject=f"{subject:02}", session=f"{session:02}")
        for regime, (subfolder, subjects) in _GROUPS.items()
        for subject in subjects
        for session in _SESSIONS
    ]
    trials = pd.concat(sessions, ignore_index=True)
    first = (trials["subject"] == "06") & (trials["session"] == "01")
    trials["exclude"] = (
        first | (trials["block"] == 1) | ~(trials["rt"] <= _SLOWEST_MS / 1000)
    )
    kept = check_trials(trials[~trials["exclude"]], "the sessions of Evans & Hawkins")
    if not kept["difficulty"].between(0, _LARGEST_PERCENT / 100).all():
        raise ValueError(
            f"'percentCoherence' must lie between 0 and {_LARGEST_PERCENT}, got "
            f"{100 * kept['difficulty'].min():g} to {100 * kept['difficulty'].max():g}"
        )
    chosen = trials if keep_excluded else kept.reset_index(drop=True)
    return chosen[[*TRIAL_COLUMNS, "text"]]


def _find_root(folder: Path) -> Path:
    names = [subfolder for subfolder, _ in _GROUPS.values()]
    for found in (folder / names[0], *sorted(folder.rglob(names[0]))):
        if found.is_dir() and (found.parent / names[1]).is_dir():
            return found.parent
    raise FileNotFoundError(
        f"{_OSF_ONLY}; unpack them so that {str(folder)!r} holds "
        f"{' and '.join(map(repr, names))}, which it does not"
    )


def _read_session(path: Path, regime: str) -> pd.DataFrame:
    lines = [line.split("\t") for line in read_text(path).splitlines() if line.strip()]
    lines = [[field.strip() for field in line] for line in lines]
    headers = [i for i, line in enumerate(lines) if set(_COLUMNS) <= set(line)]
    if not headers:
        raise ValueError(
            f"{path.name} must have a line that names {', '.join(_COLUMNS)}, found none in "
            f"{len(lines)} lines"
        )
    header, rows = lines[headers[0]], lines[headers[0] + 1 :]
    width = len([field for field in header if field])
    if not rows or len(rows[-1]) < width or any(len(row) < width for row in rows):
        shortest = min((len(row) for row in rows), default=0)
        raise ValueError(
            f"{path.name} was cut off: its header names {width} columns, a trial has "
            f"{shortest}"
        )
    values = {
        name: np.array([_number(row[header.index(name)], name, path) for row in rows])
        for name in _COLUMNS
    }
    return pd.DataFrame(
        {
            "block": values["blkNum"],
            "trial": np.arange(1, len(rows) + 1),
            "regime": regime,
            "stimulus": None,
            "difficulty": values["percentCoherence"] / 100,
            "response": None,
            "correct": values["correct"],
            "rt": values["RT"] / 1000,
            "text": DELAY_TEXTS[regime].text,
        }
    )


def _number(field: str, name: str, path: Path) -> float:
    # A trial without a response may have an empty field; it is left out for its time.
    try:
        return float(field or "nan")
    except ValueError as error:
        raise ValueError(
            f"{name!r} in {path.name} must be a number, got {field!r}"
        ) from error
