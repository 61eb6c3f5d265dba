"""What residuals show before a corrector is chosen: the pre-flight values."""

from __future__ import annotations

import math
from collections.abc import Mapping, Sequence
from typing import Any

import pandas as pd
from torch import Tensor

from ma_sbi.context import as_codes
from ma_sbi.correctors.preflight import OUTLYING, Preflight
from ma_sbi.diagnostics import mutual_information, three_way
from ma_sbi.diagnostics.columns import FEWEST_ROWS
from ma_sbi_bench.engine.cell import Measurement
from ma_sbi_bench.paper.comparing import Compared, Line

__all__ = [
    "PREFLIGHT",
    "measure_preflight",
    "preflight_lines",
    "read_interval",
    "with_interval",
]

PREFLIGHT = "preflight"
"""The cell that measures the residuals, before any correction."""

# What is estimated from the residuals, with the name of its row and its unit.
ESTIMATES = {
    "information": "information of the context about the residual, nats",
    "departure_marginal": "departure taken away by the mean shift, %",
    "departure_conditional": "departure taken away by what the context adds, %",
    "departure_total": "departure taken away by both, %",
}
TOO_FEW = f"not estimated from fewer than {FEWEST_ROWS} observations"


def with_interval(name: str, value: float, low: float, high: float) -> list[Measurement]:
    """Keep a number with its interval as three metrics."""
    ends = {"": value, "_low": low, "_high": high}
    return [Measurement(f"{name}{end}", (number,)) for end, number in ends.items()]


def read_interval(rows: pd.DataFrame, name: str) -> Compared:
    """Read what :func:`with_interval` kept; a mean over seeds."""
    means = rows.groupby("metric")["value"].mean()
    value, low, high = (float(means[f"{name}{end}"]) for end in ("", "_low", "_high"))
    return Compared(value, low, high)


def measure_preflight(
    regime: Sequence[str], x_obs: Tensor, x_sim: Tensor, groups: Any, seed: int
) -> list[Measurement]:
    """Measure all that the residuals show before a corrector is chosen.

    Args:
        regime: Regime of each observation.
        x_obs: Observations, shape ``(n, dim_x)``.
        x_sim: What the posterior of each observation predicts of it.
        groups: Observations that share one are held out together.
        seed: Seed of folds and permutations.
    """
    residuals = (x_obs - x_sim).double()
    codes = as_codes(regime, "regime", len(regime))
    found = Preflight.of(residuals, residuals.new_tensor(codes).long())
    measured = [
        Measurement("length_over_median", tuple(found.ratio.tolist())),
        Measurement("variance_within", (found.within,)),
    ]
    if len(residuals) < FEWEST_ROWS:
        return measured
    information = mutual_information(residuals, regime, seed=seed)
    interval = information.value, information.low, information.high
    measured += [
        *with_interval("information", *interval),
        Measurement("information_p", (information.p_value,)),
        Measurement("information_most", (information.upper_bound,)),
    ]
    parts = three_way(regime, x_obs, x_sim, groups=groups, seed=seed)
    for name in ("marginal", "conditional", "total"):
        share = getattr(parts, name)
        interval = 100 * share.value, 100 * share.low, 100 * share.high
        measured += with_interval(f"departure_{name}", *interval)
    return measured


def preflight_lines(rows: pd.DataFrame, head: str, names: Mapping[str, str]) -> list[Line]:
    """Show what the residuals of each task say.

    Args:
        rows: Rows of an experiment, of all methods.
        head: Head of the column of tasks.
        names: What that column calls each task.
    """
    before = rows[rows["method"] == PREFLIGHT]
    return [
        Line(
            "Pre-flight values",
            {head: names[str(task)], "figure": title},
            raw=number,
            metric="value",
            note=note,
        )
        for task, part in before.groupby("task", sort=False)
        for title, number, note in _values(part)
    ]


def _values(rows: pd.DataFrame) -> list[tuple[str, Compared, str]]:
    """Return the name, number and note of each pre-flight value of a task."""
    by_metric = rows.drop_duplicates("metric").set_index("metric")
    value = by_metric["value"]
    ratio = by_metric.loc["length_over_median", "values"]
    share = float((ratio > OUTLYING).mean())
    advice = "stochastic" if share > 0 else "point"
    found = [
        (
            "residuals over three times their regime's median length, %",
            Compared(100 * share, digits=1),
            f"{advice}, by the paper's rule; the longest has {ratio.max():.1f} medians",
        ),
        (
            "variance of the residuals within regimes, %",
            Compared(100 * float(value["variance_within"]), digits=1),
            "",
        ),
    ]
    if "information" not in by_metric.index:
        blank = Compared(math.nan, reason=TOO_FEW)
        return [*found, *((title, blank, TOO_FEW) for title in ESTIMATES.values())]
    limit, p_value = value["information_most"], value["information_p"]
    notes = {"information": f"at most {limit:.3g}; p = {p_value:.2g}"}
    return [
        *found,
        *(
            (title, read_interval(rows, name), notes.get(name, ""))
            for name, title in ESTIMATES.items()
        ),
    ]
