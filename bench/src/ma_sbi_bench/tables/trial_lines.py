"""Lines of a table of trials: raw metric, share of the gap closed, log score.

NPE and the oracle of the same world are the two ends of the gap. Intervals are over
observations, each of which counts once, and over seeds where there are several.
"""

from __future__ import annotations

import math
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, replace
from functools import cache, partial
from typing import Any, Literal

import numpy as np
import pandas as pd

from ma_sbi.metrics import gap_closed
from ma_sbi_bench.engine.budget import Budget
from ma_sbi_bench.paper.comparing import (
    Compared,
    Line,
    beside,
    closed_share,
    estimate,
    implied_share,
)
from ma_sbi_bench.paper.printed import Printed, printed_beside
from ma_sbi_bench.tables.methods_compared import MAIN_RESULTS, ROPE_PAPER
from ma_sbi_bench.tables.sweeps import ROPE_AUTHORS
from ma_sbi_bench.theory import discrete_information, symmetric_channel
from ma_sbi_bench.trials.table import TrialTable, View

__all__ = [
    "ENDS",
    "METRICS",
    "TASK_NAMES",
    "Cases",
    "PaperLine",
    "by_seed",
    "in_paper",
    "labelled",
    "lines_of",
    "on_published",
    "per_observation",
    "shown_in",
    "view_lines",
]

ENDS = ("npe", "oracle")
METRICS = {"c2st": "C2ST", "mse": "MSE"}
DIGITS = {"c2st": 3, "mse": 4}
# Where text says nothing, more of the mean shift is as little better as more of a part.
FILLER_TEXT = "context=uninformative"
# Quantile of Student's t for an interval of 95 % from the paper's ten seeds.
TEN_SEEDS = 2.262
TASK_NAMES = {
    "gaussian_linear": "GL",
    "slcp": "SLCP",
    "two_moons": "Two Moons",
    "sir_delay_million": "SIR",
    "sir_delay": "SIR, one in a thousand counted",
    "ddm_small_shifts": "DDM",
    "ddm": "DDM, larger shifts",
}

Cases = dict[int, np.ndarray]
"""Values of independent cases, by seed."""


@dataclass(frozen=True)
class PaperLine:
    """What the paper prints for a line.

    Attributes:
        raw: The metric.
        closed: The share of the gap, in per cent.
        npe: The metric of NPE in the same table.
        oracle: The metric of the oracle.
        better: Whether a higher share of the gap is better, or just another one.
        half: Half the width of its own interval of the metric; None if it prints none.
        figure: What it is, the same in every table that repeats it.
        note: How it is printed elsewhere.
    """

    raw: Printed | None = None
    closed: Printed | None = None
    npe: float | None = None
    oracle: float | None = None
    better: Literal["higher", ""] = "higher"
    half: float | None = None
    figure: tuple[str, ...] = ()
    note: str = ""

    @property
    def gap(self) -> float | None:
        """Its gap from NPE to oracle."""
        if self.npe is None or self.oracle is None:
            return None
        return self.npe - self.oracle


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
    rows = rows[on_published(rows) == view.published]
    if view.backbone:
        rows = rows[rows["backbone"] == view.backbone]
    rows = labelled(rows, (*view.by, *view.ends))
    return rows[~rows["method"].isin(view.swept) | rows[view.by[0]].notna()]


def on_published(rows: pd.DataFrame) -> np.ndarray:
    """Tell which rows are of sbibm's own observations."""
    return np.array([one.get("published", False) for one in rows["settings"]], dtype=bool)


def in_paper(table: TrialTable, view: View, row: pd.Series) -> PaperLine:
    """Find what the paper prints for the line of a row.

    What it prints of a trial in its main table, too, is the same figure: it is judged as
    there.
    """
    axis = ""
    if view.axis:
        at = row[view.axis]
        if pd.isna(at):
            return PaperLine()
        axis = f"{view.axis}={at if isinstance(at, str) else format(at, 'g')}"
    own = _printed_in(table, row, axis)
    if table is MAIN_RESULTS or row["key"] not in _main_cells():
        return own
    return _joined(own, _printed_in(MAIN_RESULTS, row, ""))


def _printed_in(table: TrialTable, row: pd.Series, axis: str) -> PaperLine:
    """Find what a table of the paper prints of a trial."""
    where = {"task": row["task"], "backbone": row["backbone"], "axis": axis}
    method, metric = row["method"], row["metric"]

    def find(metric: str, method: str = method) -> Printed | None:
        return printed_beside(table.name, metric, method=method, **where)

    ends = (find(metric, end) for end in ("npe", "oracle"))
    npe, oracle = (None if end is None else end.value for end in ends)
    compared = table.compares_ends or method not in ("npe", "oracle")
    std = find(f"{metric}_std")
    return PaperLine(
        find(metric) if compared else None,
        find("gap_closed"),
        npe,
        oracle,
        "" if method in table.neutral or axis == FILLER_TEXT else "higher",
        TEN_SEEDS * std.value / math.sqrt(10) if std else None,
        (table.name, *where.values(), method),
    )


def _joined(own: PaperLine, main: PaperLine) -> PaperLine:
    """Take a figure for that of the main table, if the paper prints it alike."""
    kind = "raw" if own.closed is None else "closed"
    here, there = getattr(own, kind), getattr(main, kind)
    if here is None or there is None or not here.agrees(there):
        return own
    note = "" if here == there else f"printed as {here.value:.{here.digits}f} here"
    shared = replace(
        own, closed=main.closed, better=main.better, figure=main.figure, note=note
    )
    if own.raw and main.raw and not own.raw.agrees(main.raw):
        return shared  # its metric, and the ends of its gap, are other ones
    return replace(shared, raw=main.raw, npe=main.npe, oracle=main.oracle)


@cache
def _main_cells() -> frozenset[str]:
    """Give the keys of the trials in the main table, of both budgets."""
    budgets = Budget(), Budget(quick=True)
    return frozenset(one.key for some in budgets for one in MAIN_RESULTS.cells(some))


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
        if key[-1] in ENDS
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
        found = {end: ends.get((*place, end)) for end in ENDS}
        known = {end: one[1] for end, one in found.items() if one is not None}
        closed = None
        if len(known) == len(ENDS) and method not in ENDS:
            closed = _closed(known["npe"], cases, known["oracle"], theirs)
        keys = dict(zip(part["seed"], part["key"], strict=True))
        scored = {seed: scores[key] for seed, key in keys.items() if key in scores}
        lines.append(
            Line(
                view.heading,
                _labels(view.by, labels, str(method)),
                raw=_raw(first, cases, theirs, known),
                closed=closed,
                log_score=estimate(_stacked(scored)) if scored else None,
                metric=METRICS[first["metric"]],
                note=theirs.note,
                figure=theirs.figure,
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
        known = None if theirs.gap is None else round(theirs.gap, 4)
        gap = estimate(
            _stacked(npe) - _stacked(oracle),
            paper=known,
            digits=DIGITS[first["metric"]],
            coarsest=abs(known or 0.0) / 2,
        )
        labels = _labels(view.ends, place, "npe - oracle")
        metric, table = METRICS[first["metric"]], f"{view.heading}: the gap"
        lines.append(Line(table, labels, raw=gap, metric=metric, derived=True))
    return lines


def per_observation(row: pd.Series) -> np.ndarray:
    """Return one value per independent case.

    Trials are tested on each observation in one regime, in turn, or on rows of their own.
    Where a single observation was tested, it is the mean over its regimes; of several in
    all regimes, one of each in turn.
    """
    values, settings = row["values"], row["settings"]
    if settings.get("published"):
        # The paper's own cases: no others could have been drawn.
        return values.mean(keepdims=True)
    if settings.get("cases") == "some" or pd.notna(row["regime"]):
        return values
    if pd.notna(row["observation"]):
        return values.mean(keepdims=True)
    by_regime = values.reshape(settings["observations"], -1)
    turn = np.arange(len(by_regime))
    return by_regime[turn, turn % by_regime.shape[1]]


def by_seed(part: pd.DataFrame) -> Cases:
    """Give the independent cases of each seed."""
    return {int(row["seed"]): per_observation(row) for _, row in part.iterrows()}


def _stacked(cases: Cases) -> np.ndarray:
    """Stack seeds, shape ``(num_seeds, num_cases)``."""
    return np.stack([cases[seed] for seed in sorted(cases)])


def _raw(
    first: pd.Series, cases: Cases, paper: PaperLine, ends: Mapping[str, Cases]
) -> Compared:
    return estimate(
        _stacked(cases),
        better="" if first["method"] in ENDS else "lower",
        coarsest=_half_of_the_effect(first["method"], paper, ends),
        paper_half=paper.half,
        **beside(paper.raw, DIGITS[first["metric"]]),
    )


def _half_of_the_effect(method: str, paper: PaperLine, ends: Mapping[str, Cases]) -> float:
    """Halve what a metric is about: the gap, or how far it is from NPE, if that is more.

    They are the paper's where it prints them, else ours.
    """
    if paper.raw is None or len(ends) < len(ENDS):
        return math.nan
    ours = {end: float(_stacked(cases).mean()) for end, cases in ends.items()}
    npe = ours["npe"] if paper.npe is None else paper.npe
    oracle = ours["oracle"] if paper.oracle is None else paper.oracle
    away = 0.0 if method in ENDS else abs(npe - paper.raw.value)
    return max(abs(npe - oracle), away) / 2


def _closed(npe: Cases, cases: Cases, oracle: Cases, paper: PaperLine) -> Compared | None:
    """Compute the share of the gap on the seeds that all three have."""
    shared = npe.keys() & cases.keys() & oracle.keys()
    if not shared:
        return None
    all_three = (npe, cases, oracle)
    triple = [_stacked({seed: one[seed] for seed in shared}) for one in all_three]
    raw = None if paper.raw is None else paper.raw.value
    implied = implied_share(paper.npe, raw, paper.oracle)
    if len({one.shape for one in triple}) > 1 or triple[0].size < 2:
        return None
    if not all(np.isfinite(one).all() for one in triple):
        reason = "a value is infinite"
        known = beside(paper.closed, digits=0)
        return Compared(math.nan, implied=implied, reason=reason, **known)
    # Of these there should be more, where there is too much noise.
    sampled = estimate(triple[0] - triple[1])
    return closed_share(
        gap_closed(*triple),
        paper.closed,
        implied,
        paper.better,
        num=sampled.num,
        unit=sampled.unit,
    )


def _labels(heads: Sequence[str], key: Sequence, method: str) -> dict[str, Any]:
    """Label a line; what is empty says nothing."""
    labels = dict(zip(heads, key, strict=True))
    if "task" in labels:
        labels["task"] = TASK_NAMES.get(labels["task"], labels["task"])
    known = {name: label for name, label in labels.items() if label != ""}
    return known | {"method": method}
