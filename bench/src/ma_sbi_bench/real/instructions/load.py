"""Response times of people instructed to be fast, or accurate, or neither."""

from __future__ import annotations

import json
from typing import NamedTuple

import pandas as pd

from ma_sbi_bench.real.source import tidy_file
from ma_sbi_bench.real.text_files import as_numbers, read_table, read_text

__all__ = [
    "RESPONSE_TIMES",
    "RESPONSE_TIMES_FILE",
    "TRIAL_COLUMNS",
    "RegimeText",
    "check_trials",
    "load_response_times",
    "regime_texts",
]

RESPONSE_TIMES_FILE = "rt/rt_trials.csv.gz"
RESPONSE_TIMES = (
    "ratcliff_rouder1998_exp1",
    "forstmann2008",
    "cavanagh2011_dbs",
    "roitman_shadlen2002",
)
TRIAL_COLUMNS = (
    "subject",
    "session",
    "block",
    "trial",
    "regime",
    "stimulus",
    "difficulty",
    "response",
    "correct",
    "rt",
    "exclude",
)


class RegimeText(NamedTuple):
    """What a regime is called in words.

    Attributes:
        text: The words.
        verbatim: Whether they stand so in the source; if not, they restate the name of
            the condition, and were not shown to anyone.
    """

    text: str
    verbatim: bool


def load_response_times(dataset: str, *, keep_excluded: bool = False) -> pd.DataFrame:
    """Load the trials of an experiment from the folder that ``MA_SBI_DATA`` names.

    ``ratcliff_rouder1998_exp1``: brightness, speed or accuracy by block.
    ``forstmann2008``: moving dots, speed, neutral or accuracy by trial.
    ``cavanagh2011_dbs``: choices under deep brain stimulation on or off.
    ``roitman_shadlen2002``: moving dots, two monkeys, one regime without a text.

    Args:
        dataset: One of ``RESPONSE_TIMES``.
        keep_excluded: Whether to keep trials that the source marks as ones to leave out.

    Returns:
        One row per trial with ``TRIAL_COLUMNS`` and ``text``, the regime in words (empty
        if it has none). ``rt`` is in seconds, ``correct`` is 0 or 1, ``difficulty`` is a
        number where the source has numbers, and NaN where it has none.

    Raises:
        FileNotFoundError: If ``MA_SBI_DATA`` is not set or the folder lacks the file.
        ValueError: If there is no such data set, or the file is not whole.
    """
    _check_dataset(dataset)
    path = tidy_file(RESPONSE_TIMES_FILE)
    table = read_table(path, ["dataset", *TRIAL_COLUMNS])
    trials = table[table["dataset"] == dataset].drop(columns="dataset")
    trials = trials[list(TRIAL_COLUMNS)].reset_index(drop=True)
    if len(trials) == 0:
        raise ValueError(f"{path.name} has no trials of {dataset}")
    for column in ("rt", "correct", "exclude"):
        trials[column] = as_numbers(trials[column], f"{column!r} in {path.name}")
    trials["difficulty"] = _numbers_if_all(trials["difficulty"])
    words = {regime: entry.text for regime, entry in regime_texts(dataset).items()}
    unknown = set(trials["regime"]) - set(words) - {"none"}
    if unknown:
        raise ValueError(
            f"regimes of {dataset} must have a text ({', '.join(words)}), got "
            f"{', '.join(sorted(unknown))}"
        )
    trials["text"] = trials["regime"].map(words | {"none": ""})
    trials["exclude"] = trials["exclude"] == 1
    if not keep_excluded:
        trials = trials[~trials["exclude"]].reset_index(drop=True)
    return check_trials(trials, path.name)


def regime_texts(dataset: str) -> dict[str, RegimeText]:
    """Load the regimes of an experiment in words, and whether the words are verbatim.

    Args:
        dataset: One of ``RESPONSE_TIMES``.

    Returns:
        A text per regime; none for ``roitman_shadlen2002``.

    Raises:
        FileNotFoundError: If ``MA_SBI_DATA`` is not set or the folder lacks the file.
        ValueError: If there is no such data set, or the file is not what it should be.
    """
    _check_dataset(dataset)
    path = tidy_file("rt/instructions.json")
    try:
        entries = json.loads(read_text(path))[dataset]
        return {
            regime: RegimeText(str(entry["text"]), entry["verbatim"] is True)
            for regime, entry in entries.items()
            if isinstance(entry, dict)
        }
    except (json.JSONDecodeError, KeyError, TypeError, AttributeError) as error:
        raise ValueError(
            f"{path.name} must word the regimes of {dataset}: {error!r}"
        ) from error


def check_trials(trials: pd.DataFrame, name: str) -> pd.DataFrame:
    """Check that response times are positive and answers right or wrong.

    Raises:
        ValueError: If not.
    """
    slow = ~(trials["rt"] > 0)
    if slow.any():
        raise ValueError(
            f"'rt' in {name} must be positive, got {trials['rt'][slow].iloc[0]}"
        )
    odd = ~trials["correct"].isin([0, 1])
    if odd.any():
        raise ValueError(
            f"'correct' in {name} must be 0 or 1, got {trials['correct'][odd].iloc[0]:g}"
        )
    return trials.astype({"correct": int})


def _check_dataset(dataset: str) -> None:
    if dataset not in RESPONSE_TIMES:
        raise ValueError(
            f"dataset must be one of {', '.join(RESPONSE_TIMES)}, got {dataset!r}"
        )


def _numbers_if_all(values: pd.Series) -> pd.Series:
    numbers = pd.to_numeric(values, errors="coerce")
    return values if (numbers.isna() & (values != "")).any() else numbers
