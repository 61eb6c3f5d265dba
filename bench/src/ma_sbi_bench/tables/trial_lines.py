"""Lines of a table of trials: raw metric, share of the gap closed, log score.

NPE and the oracle of the same world are the two ends of the gap. Intervals are over
observations, each of which counts once, and over seeds where there are several.
"""

from __future__ import annotations

import math
from collections.abc import Callable, Sequence
from functools import partial
from typing import Any, Literal, NamedTuple

import numpy as np
import pandas as pd

from ma_sbi.metrics import gap_closed
from ma_sbi_bench.paper.comparing import (
    Compared,
    Line,
    closed_share,
    estimate,
    implied_share,
)
from ma_sbi_bench.paper.printed import printed
from ma_sbi_bench.tables.methods_compared import ROPE_PAPER
from ma_sbi_bench.tables.sweeps import ROPE_AUTHORS
from ma_sbi_bench.theory import discrete_information, symmetric_channel
from ma_sbi_bench.trials.table import TrialTable, View

__all__ = [
    "METRICS",
    "TASK_NAMES",
    "PaperLine",
    "by_seed",
    "in_paper",
    "labelled",
    "lines_of",
    "per_observation",
    "shown_in",
    "view_lines",
]

METRICS = {"c2st": "C2ST", "mse": "MSE"}
DIGITS = {"c2st": 3, "mse": 4}
# Where we have more: the paper's are three observations in four regimes.
PAPER_CASES = {"slcp": 12}
TASK_NAMES = {
    "gaussian_linear": "GL",
    "slcp": "SLCP",
    "two_moons": "Two Moons",
    "sir_delay": "SIR",
    "ddm": "DDM",
}

Cases = dict[int, np.ndarray]
"""Values of independent cases, by seed."""


class PaperLine(NamedTuple):
    """What the paper prints for a line.

    Attributes:
        raw: The metric.
        closed: The share of the gap, in per cent.
        npe: The metric of NPE in the same table.
        oracle: The metric of the oracle.
        better: Whether a higher share of the gap is better, or just another one.
    """

    raw: float | None = None
    closed: float | None = None
    npe: float | None = None
    oracle: float | None = None
    better: Literal["higher", ""] = "higher"


def lines_of(table: TrialTable, rows: pd.DataFrame) -> list[Line]:
    """Make the lines of a table.

    Args:
        table: Its description.
        rows: Finished rows of its cells.
    """
    lines = []
    for view in table.views:
        paper = partial(in_paper, table, view)
        lines += view_lines(shown_in(view, rows), view, paper=paper, order=table.order)
    return lines


def shown_in(view: View, rows: pd.DataFrame) -> pd.DataFrame:
    """Pick the rows that a view shows, and add the columns that it names."""
    if view.backbone:
        rows = rows[rows["backbone"] == view.backbone]
    rows = labelled(rows, (*view.by, *view.ends))
    return rows[~rows["method"].isin(view.swept) | rows[view.by[0]].notna()]


def in_paper(table: TrialTable, view: View, row: pd.Series) -> PaperLine:
    """Find what the paper prints for the line of a row."""
    where = {"task": row["task"], "backbone": row["backbone"]}
    if view.axis:
        at = row[view.axis]
        if pd.isna(at):
            return PaperLine()
        where["axis"] = f"{view.axis}={at if isinstance(at, str) else format(at, 'g')}"

    def find(metric: str, method: str) -> float | None:
        found = printed(table.name, metric, method=method, **where)
        return None if found is None else found.value

    method, metric = row["method"], row["metric"]
    npe, oracle = find(metric, "npe"), find(metric, "oracle")
    compared = table.compares_ends or method not in ("npe", "oracle")
    return PaperLine(
        find(metric, method) if compared else None,
        find("gap_closed", method),
        npe,
        oracle,
        "" if method in table.neutral else "higher",
    )


def labelled(rows: pd.DataFrame, columns: Sequence[str]) -> pd.DataFrame:
    """Add columns that follow from the settings of a row; None where it has no such thing.

    A column without a rule is an option of the method.
    """

    def values(column: str) -> list[Any]:
        rule = LABEL_RULES.get(column, lambda row: row["settings"]["options"].get(column))
        return [rule(row) for _, row in rows.iterrows()]

    added = [one for one in dict.fromkeys(columns) if one not in rows.columns]
    return rows.assign(**{one: pd.Series(values(one), rows.index) for one in added})


def _in_transport(row: pd.Series) -> tuple[int | None, int | None]:
    """Give N_s where N_o is 12, and N_o where N_s is 2000, of the paper's RoPE."""
    if row["method"] not in ROPE_PAPER:
        return None, None
    num_simulations = row["settings"]["options"].get("num_simulations", 2000)
    num_observations = 12 + row["settings"].get("unlabelled", 0)
    return (
        num_simulations if num_observations == 12 else None,
        num_observations if num_simulations == 2000 else None,
    )


def _gamma(row: pd.Series) -> float | None:
    gamma = row["settings"]["options"].get("gamma", 0.5)
    return gamma if row["method"] in ROPE_AUTHORS else None


def _information(row: pd.Series) -> float:
    channel = symmetric_channel(4, row["settings"].get("reliability", 1.0))
    return round(discrete_information(channel), 3)


LABEL_RULES: dict[str, Callable[[pd.Series], Any]] = {
    "n_cal": lambda row: row["num_calibration"],
    "left_out": lambda row: row["regime"],
    "context": lambda row: row["settings"]["task"].get("setting", "informative"),
    "p": lambda row: row["settings"].get("reliability", 1.0),
    "I": _information,
    "N_s": lambda row: _in_transport(row)[0],
    "N_o": lambda row: _in_transport(row)[1],
    "gamma": _gamma,
}
"""Columns that are not in the store, by the function of a row that fills them."""


def view_lines(
    rows: pd.DataFrame,
    view: View,
    *,
    paper: Callable[[pd.Series], PaperLine] = lambda row: PaperLine(),
    order: Sequence[str] = (),
) -> list[Line]:
    """Make one line for each method within each group.

    Args:
        rows: Finished rows of trials, with the columns that the view names.
        view: What groups them.
        paper: What the paper prints, given the first row of a line.
        order: Methods in the order of the table; others follow.
    """
    raw = rows[rows["metric"].isin(METRICS)]
    scores = {
        row["key"]: per_observation(row)
        for _, row in rows[rows["metric"] == "log_score"].iterrows()
    }
    ends = {
        tuple(key): (part.iloc[0], by_seed(part))
        for key, part in raw.groupby([*view.ends, "method"], sort=False, dropna=False)
        if key[-1] in ("npe", "oracle")
    }
    lines = _gaps(ends, view, paper)
    listed = {column: list(raw[column].unique()) for column in view.by}
    ranks = {method: number for number, method in enumerate(dict.fromkeys(order))}

    def position(group: tuple[tuple, pd.DataFrame]) -> tuple[float, ...]:
        """Keep groups in the order of their cells, and methods in that of the table."""
        *labels, method = group[0]
        places = [
            math.inf if pd.isna(label) else listed[column].index(label)
            for column, label in zip(view.by, labels, strict=True)
        ]
        return (*places, ranks.get(method, len(ranks)))

    groups = raw.groupby([*view.by, "method"], sort=False, dropna=False)
    for (*labels, method), part in sorted(groups, key=position):
        first, cases = part.iloc[0], by_seed(part)
        theirs = paper(first)
        place = tuple(first[column] for column in view.ends)
        npe, oracle = (ends.get((*place, end)) for end in ("npe", "oracle"))
        closed = None
        if npe and oracle and method not in ("npe", "oracle"):
            closed = _closed(first, npe[1], cases, oracle[1], theirs)
        keys = dict(zip(part["seed"], part["key"], strict=True))
        scored = {seed: scores[key] for seed, key in keys.items() if key in scores}
        lines.append(
            Line(
                view.heading,
                _labels(view.by, labels, str(method)),
                raw=_raw(first, cases, theirs.raw),
                closed=closed,
                log_score=estimate(_stacked(scored)) if scored else None,
                metric=METRICS[first["metric"]],
            )
        )
    return lines


def _gaps(ends: dict, view: View, paper: Callable[..., PaperLine]) -> list[Line]:
    """Make a line of each gap between NPE and oracle, on which every share rests."""
    lines = []
    for (*place, method), (first, npe) in ends.items():
        _, oracle = ends.get((*place, "oracle"), (None, {}))
        if method != "npe" or npe.keys() != oracle.keys():
            continue
        theirs = paper(first)
        known = None
        if theirs.npe is not None and theirs.oracle is not None:
            known = round(theirs.npe - theirs.oracle, 4)
        gap = estimate(
            _stacked(npe) - _stacked(oracle),
            paper=known,
            digits=DIGITS[first["metric"]],
            coarsest=abs(known or 0.0),
            more_cases=_more_cases(first),
        )
        labels = _labels(view.ends, place, "npe - oracle")
        metric = METRICS[first["metric"]]
        lines.append(Line(f"{view.heading}: the gap", labels, raw=gap, metric=metric))
    return lines


def per_observation(row: pd.Series) -> np.ndarray:
    """Return one value per independent case: those that every trial of a table has.

    That is each observation in one regime, in turn, or the first half of the rows; the
    mean over the regimes where a single observation or regime was tested.
    """
    values, settings = row["values"], row["settings"]
    if settings.get("cases") == "some" or pd.notna(row["regime"]):
        return values
    if pd.notna(row["observation"]):
        return values.mean(keepdims=True)
    if "observations" not in settings:
        return values[: len(values) // 2]
    by_regime = values.reshape(settings["observations"], -1)
    turn = np.arange(len(by_regime))
    return by_regime[turn, turn % by_regime.shape[1]]


def by_seed(part: pd.DataFrame) -> Cases:
    """Give the independent cases of each seed."""
    return {int(row["seed"]): per_observation(row) for _, row in part.iterrows()}


def _stacked(cases: Cases) -> np.ndarray:
    """Stack seeds, shape ``(num_seeds, num_cases)``."""
    return np.stack([cases[seed] for seed in sorted(cases)])


def _raw(first: pd.Series, cases: Cases, paper: float | None) -> Compared:
    return estimate(
        _stacked(cases),
        paper=paper,
        better="lower",
        digits=DIGITS[first["metric"]],
        # Half of C2ST's range above the oracle's, or half of an error, must not hide in
        # noise.
        coarsest=0.1 if first["metric"] == "c2st" else 0.5 * (paper or 0.0),
        more_cases=_more_cases(first),
    )


def _more_cases(first: pd.Series) -> float:
    """Tell how many times the paper's number of test cases there are."""
    num = len(per_observation(first))
    return max(1.0, num / PAPER_CASES.get(first["task"], num))


def _closed(
    first: pd.Series, npe: Cases, cases: Cases, oracle: Cases, paper: PaperLine
) -> Compared | None:
    """Compute the share of the gap on the seeds that all three have."""
    shared = npe.keys() & cases.keys() & oracle.keys()
    if not shared:
        return None
    all_three = (npe, cases, oracle)
    triple = [_stacked({seed: one[seed] for seed in shared}) for one in all_three]
    implied = implied_share(paper.npe, paper.raw, paper.oracle)
    if len({one.shape for one in triple}) > 1 or triple[0].size < 2:
        return None
    if not all(np.isfinite(one).all() for one in triple):
        reason = "a value is infinite"
        return Compared(math.nan, paper=paper.closed, implied=implied, reason=reason)
    return closed_share(
        gap_closed(*triple), paper.closed, implied, _more_cases(first), paper.better
    )


def _labels(heads: Sequence[str], key: Sequence, method: str) -> dict[str, Any]:
    """Label a line; what is empty says nothing."""
    labels = dict(zip(heads, key, strict=True))
    if "task" in labels:
        labels["task"] = TASK_NAMES.get(labels["task"], labels["task"])
    known = {name: label for name, label in labels.items() if label != ""}
    return known | {"method": method}
