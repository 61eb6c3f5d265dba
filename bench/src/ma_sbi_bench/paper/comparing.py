"""Ours beside the paper's: numbers with intervals, and what follows from them.

The rule. The paper's figure is **reproduced** if it lies within our 95 % interval, widened
only by noise that the paper prints itself and by as much as it rounds. Outside, ours is
**better** if the method does better than the paper says, else **not reproduced**. A figure
that nearly anything would agree with is not reproduced by agreeing: each has a largest
half-width with which agreement says something. It is half of what the figure is about: of
the gap from NPE to oracle, or of its distance from NPE where that is larger; 50 points of a
share, or half of it, are the same in other units. A wider interval that holds the paper's
figure is **too noisy**, and the number of observations that would settle it follows from
the present half-width. A figure of ours without a finite interval has no verdict; the same
holds where there is no gap to close.
"""

from __future__ import annotations

import math
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from typing import Any, Literal

import numpy as np
import pandas as pd
from scipy import stats

from ma_sbi.metrics import GapClosed
from ma_sbi_bench.paper.printed import Printed

__all__ = [
    "COARSEST_SHARE",
    "Compared",
    "Line",
    "Verdict",
    "beside",
    "closed_share",
    "estimate",
    "exactly",
    "implied_share",
    "mean_over_seeds",
]

Verdict = Literal["reproduced", "better", "not reproduced", "too noisy", ""]
# A share of the gap, in points, with half-widths up to which agreement says something.
COARSEST_SHARE = 50.0


@dataclass(frozen=True)
class Compared:
    """A number of ours with its interval, beside the paper's.

    Attributes:
        value: Ours; NaN if blank.
        low: Lower end of its 95 % interval; NaN if it has none.
        high: Upper end.
        paper: The paper's; None if it has none.
        implied: What the paper's own raw values imply; None if the same or unknown.
        better: Which direction is good; empty if neither.
        digits: Decimals that the paper gives.
        reason: Why our value is blank, in words.
        coarsest: Largest half-width with which agreement says something; NaN if nobody
            knows, and then there is no verdict.
        paper_half: Half the width of the paper's own interval; None if it prints none.
        alike: Differences up to this are none, for what the figure is used for.
        num: How many independent cases the interval comes from; 0 if it is not known.
        unit: What one of them is.
    """

    value: float
    low: float = math.nan
    high: float = math.nan
    paper: float | None = None
    implied: float | None = None
    better: Literal["lower", "higher", ""] = ""
    digits: int = 3
    reason: str = ""
    coarsest: float = math.inf
    paper_half: float | None = None
    alike: float = 0.0
    num: int = 0
    unit: str = "observations"

    @property
    def difference(self) -> float:
        """Ours less the paper's; NaN if one of them is not there."""
        return math.nan if self.paper is None else self.value - self.paper

    @property
    def half(self) -> float:
        """Half the width of our interval."""
        return (self.high - self.low) / 2

    @property
    def tolerance(self) -> float:
        """Largest difference, on the paper's side, that noise and rounding explain."""
        above = self.difference < 0
        ours = max(self.high - self.value if above else self.value - self.low, 0.0)
        noise = math.hypot(ours, self.paper_half or 0.0)
        return max(noise + 0.5 * 10.0**-self.digits, self.alike)

    @property
    def verdict(self) -> Verdict:
        """Whether ours agrees with the paper's, by the rule of this module."""
        known = (self.difference, self.half, self.tolerance)
        if not all(map(math.isfinite, known)) or math.isnan(self.coarsest):
            return ""
        if abs(self.difference) <= self.tolerance:
            noise = math.hypot(self.half, self.paper_half or 0.0)
            return "reproduced" if noise <= self.coarsest else "too noisy"
        good = {"lower": -1, "higher": 1, "": 0}[self.better]
        return "better" if good * self.difference > 0 else "not reproduced"

    @property
    def needed(self) -> int | None:
        """How many cases would settle what is too noisy; None where none would."""
        papers = self.paper_half or 0.0
        if self.verdict != "too noisy" or not self.num or papers >= self.coarsest:
            return None
        settling = math.sqrt(self.coarsest**2 - papers**2)
        return math.ceil(self.num * (self.half / settling) ** 2)


@dataclass(frozen=True)
class Line:
    """One line of a table.

    Attributes:
        table: Title of the table it belongs to.
        labels: What the line is about, by the head of its column.
        raw: The metric itself, such as C2ST.
        closed: The share of the gap from NPE to oracle that is closed, in per cent.
        log_score: Mean log density of the true parameters, higher is better.
        metric: Name of the metric, for the head of its column.
        note: A remark.
        figure: What of the paper stands beside it, the same wherever it stands; empty if it
            stands nowhere else.
        derived: Whether the paper does not print it, but what it follows from.
        judged: Which of the numbers the verdict rests on; None if there is no verdict.
        verdict: Whether it agrees with the paper's.
    """

    table: str
    labels: Mapping[str, str | int | float]
    raw: Compared | None = None
    closed: Compared | None = None
    log_score: Compared | None = None
    metric: str = ""
    note: str = ""
    figure: tuple[str, ...] = ()
    derived: bool = False
    judged: Compared | None = field(init=False)
    verdict: Verdict = field(init=False)

    def __post_init__(self) -> None:
        """Judge by the share of the gap where the paper gives one, else by the metric.

        Where there is a metric, it decides what a share cannot: one that is too noisy, and
        harm, of which a share is small where the gap is wide.
        """
        share, metric = (
            one if one is not None and one.verdict else None
            for one in (self.closed, self.raw)
        )
        judged = share or metric
        if share is not None and metric is not None:
            undecided = share.verdict == "too noisy" and metric.verdict != "too noisy"
            less_harm = share.verdict == "better" and (share.paper or 0.0) < 0
            judged = metric if undecided or less_harm else share
        object.__setattr__(self, "judged", judged)
        object.__setattr__(self, "verdict", judged.verdict if judged else "")


def estimate(values: np.ndarray | Sequence[float], **known: Any) -> Compared:
    """Average values, with a t interval.

    Args:
        values: Independent values, shape ``(n,)``, or ``(num_seeds, num_cases)``, whose
            mean varies with the seeds and with the cases: both variances are added up.
        **known: Other attributes of :class:`Compared`.
    """
    values = np.atleast_2d(np.asarray(values, dtype=float))
    mean = float(values.mean()) if values.size else math.nan
    margins = {
        unit: values.mean(axis=axis)
        for axis, unit in enumerate(("observations", "seeds"))
        if values.size and values.shape[1 - axis] > 1
    }
    if not margins or not np.isfinite(values).all():
        return Compared(mean, **known)
    variances = {unit: one.var(ddof=1) / len(one) for unit, one in margins.items()}
    variance = float(sum(variances.values()))
    # Welch and Satterthwaite's: two seeds cost little where seeds hardly matter.
    freedoms = [variances[unit] ** 2 / (len(margins[unit]) - 1) for unit in margins]
    freedom = variance**2 / sum(freedoms) if variance else 1.0
    half = float(stats.t.ppf(0.975, freedom)) * math.sqrt(variance)
    # More of what most of the noise comes from would narrow it.
    unit = max(variances, key=variances.__getitem__)
    sampled: dict[str, Any] = {"num": len(margins[unit]), "unit": unit}
    return Compared(mean, mean - half, mean + half, **(sampled | known))


def mean_over_seeds(
    rows: pd.DataFrame, errors: Sequence[str] = ()
) -> dict[str, np.ndarray]:
    """Average the values of each metric over seeds.

    Args:
        rows: Rows of the same cell at different seeds.
        errors: Metrics that are standard errors: of the mean they are smaller.
    """
    found = {
        str(metric): np.mean(list(part["values"]), axis=0)
        for metric, part in rows.groupby("metric", sort=False)
    }
    root = math.sqrt(rows["seed"].nunique())
    return found | {metric: found[metric] / root for metric in errors}


def exactly(value: float, **known: Any) -> Compared:
    """Give a number that has no noise, as a closed form: only rounding is allowed for.

    Args:
        value: The number.
        **known: Other attributes of :class:`Compared`.
    """
    return Compared(float(value), float(value), float(value), **known)


def beside(figure: Printed | None, digits: int = 3) -> dict[str, Any]:
    """Give the attributes of :class:`Compared` that a printed figure decides.

    Args:
        figure: What the paper prints, if anything.
        digits: Decimals of ours where it prints nothing.
    """
    if figure is None:
        return {"digits": digits}
    return {"paper": figure.value, "digits": figure.digits}


def closed_share(
    closed: GapClosed,
    paper: Printed | None = None,
    implied: float | None = None,
    better: Literal["higher", ""] = "higher",
    **known: Any,
) -> Compared:
    """Turn a share of a gap into per cent beside the paper's.

    Args:
        closed: Ours.
        paper: The paper's, in per cent.
        implied: What its raw values imply.
        better: Whether more of it is better.
        **known: Other attributes of :class:`Compared`.
    """
    return Compared(
        100 * closed.value,
        100 * closed.low,
        100 * closed.high,
        implied=implied,
        better=better,
        reason=closed.reason,
        coarsest=max(COARSEST_SHARE, abs(paper.value) / 2 if paper else 0.0),
        **beside(paper, digits=0),
        **known,
    )


def implied_share(
    npe: float | None, method: float | None, oracle: float | None
) -> float | None:
    """Compute the share that the paper's raw values imply, in per cent."""
    if npe is None or method is None or oracle is None or npe == oracle:
        return None
    return 100 * (npe - method) / (npe - oracle)
