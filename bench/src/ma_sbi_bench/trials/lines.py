"""Lines of a table of trials: raw metric, share of the gap closed, log score.

NPE and the oracle of the same world are the two ends of the gap. Intervals are over
observations, each of which counts once, and over seeds where there are several.
"""

from __future__ import annotations

import math
from collections.abc import Callable, Sequence
from typing import Any, Literal, NamedTuple

import numpy as np
import pandas as pd

from ma_sbi.metrics import gap_closed
from ma_sbi_bench.tables.comparing import (
    Compared,
    Line,
    closed_share,
    estimate,
    implied_share,
)

__all__ = [
    "METRICS",
    "Published",
    "curve",
    "levels",
    "per_observation",
    "trial_lines",
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


class Published(NamedTuple):
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


def trial_lines(
    rows: pd.DataFrame,
    table: str,
    *,
    by: Sequence[str] = ("task", "backbone"),
    world: Sequence[str] = ("task", "backbone"),
    published: Callable[[pd.Series], Published] = lambda row: Published(),
    order: Sequence[str] = (),
) -> list[Line]:
    """Make one line for each method within each group.

    Args:
        rows: Finished rows of trials; columns other than those of the store may have been
            added, to be named in ``by``.
        table: Title of the table.
        by: Columns that are labels of a line, before its method.
        world: Columns that decide which NPE and oracle a line is compared with.
        published: What the paper prints, given the first row of a line.
        order: Methods in the order of the table; others follow.
    """
    raw = rows[rows["metric"].isin(METRICS)]
    ends = {
        (*_as_tuple(key), method): part
        for key, group in raw.groupby(list(world), sort=False, dropna=False)
        for method, part in group.groupby("method", sort=False)
        if method in ("npe", "oracle")
    }
    lines = _gaps(ends, table, world, published)
    groups = raw.groupby([*by, "method"], sort=False, dropna=False)
    ranked = sorted(groups, key=lambda item: _rank(str(item[0][-1]), order))
    for key, part in sorted(ranked, key=lambda item: _position(item[0][:-1], raw, by)):
        first, method = part.iloc[0], str(key[-1])
        paper = published(first)
        name = METRICS[first["metric"]]
        scores = rows[rows["key"].isin(part["key"]) & (rows["metric"] == "log_score")]
        place = tuple(first[column] for column in world)
        lines.append(
            Line(
                table,
                _labels(by, key[:-1], method),
                raw=_raw(part, paper, DIGITS[first["metric"]]),
                closed=_closed(part, method, place, ends, paper),
                log_score=_pooled(scores) if len(scores) else None,
                metric=name,
            )
        )
    return lines


def _gaps(
    ends: dict, table: str, world: Sequence[str], published: Callable[..., Published]
) -> list[Line]:
    """Make a line of each gap between NPE and oracle, on which every share rests."""
    lines = []
    for (*place, method), npe in ends.items():
        oracle = ends.get((*place, "oracle"))
        if method != "npe" or oracle is None or set(npe["seed"]) != set(oracle["seed"]):
            continue
        first = npe.iloc[0]
        paper = published(first)
        known = None
        if paper.npe is not None and paper.oracle is not None:
            known = round(paper.npe - paper.oracle, 4)
        lines.append(
            Line(
                f"{table}: the gap",
                _labels(world, place, "npe - oracle"),
                raw=estimate(
                    _matrix(npe) - _matrix(oracle),
                    paper=known,
                    digits=DIGITS[first["metric"]],
                    coarsest=abs(known or 0.0),
                    more_cases=_more_cases(npe),
                ),
                metric=METRICS[first["metric"]],
            )
        )
    return lines


def curve(rows: pd.DataFrame, column: str) -> dict[float, float]:
    """Average the values of rows at each value of a column."""
    points: dict[float, list[float]] = {}
    for at, value in zip(rows[column].astype(float), rows["value"], strict=True):
        points.setdefault(at, []).append(value)
    return {at: float(np.mean(values)) for at, values in sorted(points.items())}


def levels(rows: pd.DataFrame, methods: Sequence[str]) -> dict[str, float]:
    """Average the values of methods that nothing is varied of, as far as there are any."""
    return {
        method: float(rows.loc[rows["method"] == method, "value"].mean())
        for method in methods
        if (rows["method"] == method).any()
    }


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


def _matrix(part: pd.DataFrame) -> np.ndarray:
    """Stack seeds, shape ``(num_seeds, num_observations)``."""
    ordered = part.sort_values("seed").drop_duplicates("seed")
    return np.stack([per_observation(row) for _, row in ordered.iterrows()])


def _pooled(part: pd.DataFrame, **known: object) -> Compared:
    """Average, with an interval over observations and seeds."""
    return estimate(_matrix(part), **known)


def _raw(part: pd.DataFrame, paper: Published, digits: int) -> Compared:
    # Half of C2ST's range above the oracle's, or half of an error, must not hide in noise.
    coarsest = 0.1 if part.iloc[0]["metric"] == "c2st" else 0.5 * (paper.raw or 0.0)
    return _pooled(
        part,
        paper=paper.raw,
        better="lower",
        digits=digits,
        coarsest=coarsest,
        more_cases=_more_cases(part),
    )


def _more_cases(part: pd.DataFrame) -> float:
    """Tell how many times the paper's number of test cases there are."""
    first = part.iloc[0]
    num = len(per_observation(first))
    return max(1.0, num / PAPER_CASES.get(first["task"], num))


def _closed(
    part: pd.DataFrame, method: str, place: tuple, ends: dict, paper: Published
) -> Compared | None:
    """Compute the share of the gap on the seeds that all three have."""
    npe, oracle = (ends.get((*place, name)) for name in ("npe", "oracle"))
    if method in ("npe", "oracle") or npe is None or oracle is None:
        return None
    seeds = set(part["seed"]) & set(npe["seed"]) & set(oracle["seed"])
    triple = [_matrix(one[one["seed"].isin(seeds)]) for one in (npe, part, oracle)]
    implied = implied_share(paper.npe, paper.raw, paper.oracle)
    if len({one.shape for one in triple}) > 1 or triple[0].size < 2:
        return None
    if not all(np.isfinite(one).all() for one in triple):
        reason = "a value is infinite"
        return Compared(math.nan, paper=paper.closed, implied=implied, reason=reason)
    return closed_share(
        gap_closed(*triple), paper.closed, implied, _more_cases(part), paper.better
    )


def _labels(heads: Sequence[str], key: Sequence, method: str) -> dict[str, Any]:
    """Label a line; what is empty says nothing."""
    labels = dict(zip(heads, key, strict=True))
    if "task" in labels:
        labels["task"] = TASK_NAMES.get(labels["task"], labels["task"])
    return {name: label for name, label in labels.items() if label != ""} | {
        "method": method
    }


def _as_tuple(key: object) -> tuple:
    return key if isinstance(key, tuple) else (key,)


def _rank(method: str, order: Sequence[str]) -> int:
    return order.index(method) if method in order else len(order)


def _position(key: tuple, rows: pd.DataFrame, by: Sequence[str]) -> tuple:
    """Keep groups in the order in which their cells were listed."""
    return tuple(
        math.inf if pd.isna(value) else list(rows[column].unique()).index(value)
        for value, column in zip(key, by, strict=True)
    )
