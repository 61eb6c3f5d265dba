"""What the parts of a correction do to a loss on real data, and what residuals foretell.

Real data have no oracle, so there is no gap to close: a part is judged by what it takes off
the loss of the posterior that nothing corrects.
"""

from __future__ import annotations

import math
from collections.abc import Mapping, Sequence
from typing import Any, NamedTuple

import pandas as pd
from torch import Tensor

from ma_sbi.context import as_codes
from ma_sbi.correctors.bootstrap import OUTLYING, Preflight
from ma_sbi.diagnostics import mutual_information, three_way
from ma_sbi.diagnostics.columns import FEWEST_ROWS
from ma_sbi.metrics import PairedGain
from ma_sbi.protocols import Corrections
from ma_sbi_bench.engine.cell import Measurement
from ma_sbi_bench.tables.comparing import Compared, Line

__all__ = [
    "Part",
    "conditional_part",
    "gain_in_per_cent",
    "measure_preflight",
    "preflight_lines",
    "read_interval",
    "with_interval",
]

# What residuals say beforehand, with the name of its row and its unit.
FORETOLD = {
    "information": "information of the context about the residual, nats",
    "departure_marginal": "departure taken away by the mean shift, %",
    "departure_conditional": "departure taken away by what the context adds, %",
    "departure_total": "departure taken away by both, %",
}
TOO_FEW = f"not estimated from fewer than {FEWEST_ROWS} observations"


class Part(NamedTuple):
    """A bar: what a method gains over another.

    Attributes:
        label: What the difference between the two is.
        over: The method without it.
        method: The method with it.
        variant: ``"point"`` or ``"stochastic"``.
    """

    label: str
    over: str
    method: str
    variant: str


def conditional_part(x: Tensor, whole: Corrections, marginal: Corrections) -> Corrections:
    """Shift x by the whole shift less the marginal one.

    Args:
        x: Observations, shape ``(n, dim_x)``.
        whole: What a point corrector makes of them.
        marginal: What one makes of them that ignores the context.
    """
    return whole._replace(x=x + whole.x - marginal.x)


def with_interval(name: str, value: float, low: float, high: float) -> list[Measurement]:
    """Keep a number with its interval as three metrics."""
    return [
        Measurement(name, (value,)),
        Measurement(f"{name}_low", (low,)),
        Measurement(f"{name}_high", (high,)),
    ]


def read_interval(rows: pd.DataFrame, name: str, **known: Any) -> Compared:
    """Read what :func:`with_interval` kept; a mean over seeds."""
    value, low, high = (
        rows.loc[rows["metric"] == f"{name}{end}", "value"].mean()
        for end in ("", "_low", "_high")
    )
    return Compared(float(value), float(low), float(high), **known)


def measure_preflight(
    regime: Sequence[str], x_obs: Tensor, x_sim: Tensor, groups: Any, seed: int
) -> list[Measurement]:
    """Measure all that the residuals say before a corrector is chosen.

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
    told = mutual_information(residuals, regime, seed=seed)
    measured += [
        *with_interval("information", told.value, told.low, told.high),
        Measurement("information_p", (told.p_value,)),
        Measurement("information_most", (told.upper_bound,)),
    ]
    parts = three_way(regime, x_obs, x_sim, groups=groups, seed=seed)
    for name in ("marginal", "conditional", "total"):
        share = getattr(parts, name)
        measured += with_interval(
            f"departure_{name}", 100 * share.value, 100 * share.low, 100 * share.high
        )
    return measured


def preflight_lines(rows: pd.DataFrame, labels: Mapping[str, str]) -> list[Line]:
    """Tell what the residuals of a setting say.

    Args:
        rows: Rows of one setting's ``"preflight"``.
        labels: Labels of every line.
    """
    by_metric = rows.drop_duplicates("metric").set_index("metric")
    ratio = by_metric.loc["length_over_median", "values"]
    share = float((ratio > OUTLYING).mean())
    advice = "stochastic" if share > 0 else "point"
    notes = {}
    if "information" in by_metric.index:
        limit = f"{by_metric.loc['information_most', 'value']:.3g}"
        p_value = f"{by_metric.loc['information_p', 'value']:.2g}"
        notes = {"information": f"at most {limit}; p = {p_value}"}

    def line(name: str, found: Compared, note: str = "") -> Line:
        return Line(
            "Pre-flight values",
            {**labels, "figure": name},
            raw=found,
            metric="value",
            note=note,
        )

    return [
        line(
            "residuals over three times their regime's median length, %",
            Compared(100 * share, digits=1),
            f"{advice}, by the paper's rule; the longest has {ratio.max():.1f} medians",
        ),
        line(
            "variance of the residuals within regimes, %",
            Compared(100 * float(by_metric.loc["variance_within", "value"]), digits=1),
        ),
        *(
            line(title, read_interval(rows, name), notes.get(name, ""))
            if name in by_metric.index
            else line(title, Compared(math.nan, reason=TOO_FEW), TOO_FEW)
            for name, title in FORETOLD.items()
        ),
    ]


def gain_in_per_cent(gain: PairedGain, **known: Any) -> Compared:
    """Express a gain and its interval in per cent of the baseline's mean loss."""
    unit = 100 * gain.relative / gain.gain if gain.gain else 0.0
    return Compared(
        100 * gain.relative,
        unit * gain.low,
        unit * gain.high,
        better="higher",
        digits=1,
        **known,
    )
