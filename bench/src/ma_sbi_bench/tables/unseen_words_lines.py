"""Lines of ``unseen_words``: bars, errors of every method, and texts of other kinds."""

from __future__ import annotations

from collections.abc import Iterator
from typing import NamedTuple

import numpy as np
import pandas as pd

from ma_sbi_bench.paper.comparing import Line, estimate
from ma_sbi_bench.tables.unseen_words import APPLIED, CALLED, CONDITIONS, ERROR
from ma_sbi_bench.trials.wordings import UNRELATED, UNSEEN

__all__ = ["lines"]

BARS = "Bars"
ERRORS = "Error of the shift on wordings never seen"
KINDS = "Regimes by meaning, 500 triples: what other texts do"
NEVER = "Regimes by meaning: texts of a regime that was never visited"
BY_WORLD = "Error of regimes by meaning in each world, 500 triples"
OURS = ("regimes, meaning", "regimes decided, meaning")
USUAL = {words: f"{words} wordings, 500 triples" for words in (3, 8)}
NAMES = {ERROR: "error", CALLED: "called unrelated", APPLIED: "shift applied"}


class Bar(NamedTuple):
    """What regimes must reach, by number of wordings."""

    metric: str
    kind: str
    limits: dict[int, float]
    above: bool = False


ASKED = {
    "error on wordings never seen": Bar(ERROR, UNSEEN, {3: 0.2, 8: 0.1}),
    "error on wordings that were seen": Bar(ERROR, "seen", {1: 0.001, 3: 0.001, 8: 0.001}),
    "unrelated texts noticed": Bar(CALLED, UNRELATED, {3: 0.8, 8: 0.8}, above=True),
    "false alarms": Bar(CALLED, UNSEEN, {3: 0.05, 8: 0.05}),
}


def lines(rows: pd.DataFrame) -> list[Line]:
    """Make all tables."""
    if rows.empty:
        return []
    rows = rows.assign(condition=[one["condition"] for one in rows["settings"]])
    soft, decided = (rows[rows["method"] == name] for name in OURS)
    return [
        *_bars(soft, OURS[0]),
        *_bars(decided, OURS[1]),
        *_errors(rows),
        *_kinds(soft),
        *_never_visited(soft),
        *_by_world(soft),
    ]


def _bars(ours: pd.DataFrame, method: str) -> Iterator[Line]:
    for words, bar in ASKED.items():
        for condition, what in CONDITIONS.items():
            plain = not (what.own_noise or what.never_visited)
            if not plain or what.num_wordings not in bar.limits:
                continue
            values = _values(ours, condition, bar.metric, bar.kind)
            if len(values) == 0:
                continue
            limit = bar.limits[what.num_wordings]
            mean = values.mean()
            reached = mean >= limit if bar.above else mean <= limit
            yield Line(
                BARS,
                {
                    "method": method,
                    "what": words,
                    "condition": condition,
                    "bar": f"{'at least' if bar.above else 'at most'} {limit:g}",
                },
                estimate(values),
                metric="mean",
                note="reached" if reached else "missed",
            )


def _errors(rows: pd.DataFrame) -> Iterator[Line]:
    for condition in CONDITIONS:
        for method in dict.fromkeys(rows["method"]):
            values = _values(rows[rows["method"] == method], condition, ERROR, UNSEEN)
            if len(values):
                labels = {"condition": condition, "method": method}
                yield Line(ERRORS, labels, estimate(values), metric="error")


def _kinds(ours: pd.DataFrame) -> Iterator[Line]:
    for metric, name in NAMES.items():
        for kind in dict.fromkeys(ours.loc[ours["metric"] == metric, "recipe"]):
            for condition in USUAL.values():
                values = _values(ours, condition, metric, kind)
                if len(values):
                    labels = {"what": name, "texts": kind, "condition": condition}
                    yield Line(KINDS, labels, estimate(values), metric="mean")


def _never_visited(ours: pd.DataFrame) -> Iterator[Line]:
    for condition, what in CONDITIONS.items():
        values = _values(ours, condition, CALLED, UNSEEN)
        if what.never_visited and len(values):
            yield Line(
                NEVER, {"condition": condition}, estimate(values), metric=NAMES[CALLED]
            )


def _by_world(ours: pd.DataFrame) -> Iterator[Line]:
    for condition in USUAL.values():
        for world, part in ours.groupby("task", sort=False):
            values = _values(part, condition, ERROR, UNSEEN)
            if len(values):
                labels = {"condition": condition, "world": str(world)}
                yield Line(BY_WORLD, labels, estimate(values), metric="error")


def _values(rows: pd.DataFrame, condition: str, metric: str, kind: str) -> np.ndarray:
    """Collect the values of all sets and worlds."""
    found = rows[
        (rows["condition"] == condition)
        & (rows["metric"] == metric)
        & (rows["recipe"] == kind)
    ]
    return np.concatenate([np.empty(0), *found["values"]])
