"""Ours beside the paper's: numbers with intervals, and what follows from them.

The rule. Let h be half the width of our 95 % interval. The paper's figure has noise of its
own: what it prints itself, else ours, had we had its number of test cases, which is
sqrt(m) h where we have m times as many. So the two may differ by sqrt(1 + m) h, and by as
much as the paper rounds. Within that it is **reproduced**. Beyond, it is **better** if the
method does better than the paper says, else **not reproduced**. Agreement means nothing
where noise hides half of the effect: if a share of the gap could differ from the
paper's by more than 50 points, and by more than half of it, and still agree, it is **too
noisy**. A figure of ours without a finite interval has no verdict; the same holds where
there is no gap to close.
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
# Shares that differ by less, in points, count as equal.
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
        coarsest: Largest difference that counts as none, however large the noise.
        more_cases: How many times the paper's number of test cases is behind ours.
        paper_half: Half the width of the paper's own interval; None if it prints none.
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
    more_cases: float = 1.0
    paper_half: float | None = None

    @property
    def difference(self) -> float:
        """Ours less the paper's; NaN if one of them is not there."""
        return math.nan if self.paper is None else self.value - self.paper

    @property
    def tolerance(self) -> float:
        """Largest difference that noise and rounding explain."""
        ours = (self.high - self.low) / 2
        papers = self.paper_half
        if papers is None:
            papers = math.sqrt(self.more_cases) * ours
        return math.hypot(ours, papers) + 0.5 * 10.0**-self.digits

    @property
    def verdict(self) -> Verdict:
        """Whether ours agrees with the paper's, by the rule of this module."""
        if not (math.isfinite(self.difference) and math.isfinite(self.tolerance)):
            return ""
        if abs(self.difference) <= self.tolerance:
            return "reproduced" if self.tolerance <= self.coarsest else "too noisy"
        good = {"lower": -1, "higher": 1, "": 0}[self.better]
        return "better" if good * self.difference > 0 else "not reproduced"


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
    judged: Compared | None = field(init=False)
    verdict: Verdict = field(init=False)

    def __post_init__(self) -> None:
        """Judge by the share of the gap where the paper gives one, else by the metric.

        Harm in shares is small where the gap is wide: less of it than the paper's is judged
        by the metric, where there is one.
        """
        share, metric = (
            one if one is not None and one.verdict else None
            for one in (self.closed, self.raw)
        )
        judged = share or metric
        if share is not None and share.verdict == "better" and (share.paper or 0.0) < 0:
            judged = metric or share
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
    margins = [values.mean(axis=axis) for axis in (0, 1) if values.size]
    margins = [one for one in margins if len(one) > 1]
    if not margins or not np.isfinite(values).all():
        return Compared(mean, **known)
    variances = np.array([one.var(ddof=1) / len(one) for one in margins])
    freedoms = np.array([len(one) - 1 for one in margins])
    variance = float(variances.sum())
    # Welch and Satterthwaite's: two seeds cost little where seeds hardly matter.
    freedom = variance**2 / (variances**2 / freedoms).sum() if variance else 1.0
    half = float(stats.t.ppf(0.975, freedom)) * math.sqrt(variance)
    return Compared(mean, mean - half, mean + half, **known)


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
    paper: float | None = None,
    implied: float | None = None,
    more_cases: float = 1.0,
    better: Literal["higher", ""] = "higher",
) -> Compared:
    """Turn a share of a gap into per cent beside the paper's."""
    return Compared(
        100 * closed.value,
        100 * closed.low,
        100 * closed.high,
        paper=paper,
        implied=implied,
        better=better,
        digits=0 if paper is None or float(paper).is_integer() else 1,
        reason=closed.reason,
        coarsest=max(COARSEST_SHARE, abs(paper or 0.0) / 2),
        more_cases=more_cases,
    )


def implied_share(
    npe: float | None, method: float | None, oracle: float | None
) -> float | None:
    """Compute the share that the paper's raw values imply, in per cent."""
    if npe is None or method is None or oracle is None or npe == oracle:
        return None
    return 100 * (npe - method) / (npe - oracle)
