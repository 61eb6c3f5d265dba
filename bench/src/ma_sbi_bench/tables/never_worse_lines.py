"""Lines of ``never_worse``: differences by calibration set, all tested together."""

from __future__ import annotations

import math
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass, field, replace

import numpy as np
import pandas as pd
from scipy import stats

from ma_sbi.metrics import gap_closed
from ma_sbi_bench.paper.comparing import Compared, Line, closed_share, estimate
from ma_sbi_bench.paper.words import reasons
from ma_sbi_bench.plots import Figures
from ma_sbi_bench.tables.never_worse import (
    DEFAULT,
    EXACT_PARTS,
    LEVELS,
    WITHOUT_DENSITY,
)
from ma_sbi_bench.tables.trial_lines import TASK_NAMES

__all__ = ["MARGIN", "Comparison", "compare", "figures", "holm", "lines"]

MARGIN = 0.02
"""Nats by which the default may be lower."""
LEAST_SHARE = 95.0
BAR = ("npe", "ma_sbi", "stochastic")
"""What the default must nowhere be below."""
COMPARED = (*BAR, "nnpe")
DEFAULTS = {DEFAULT: "with a density", WITHOUT_DENSITY: "without"}
# Clean calibration sets of at least 100 triples, regimes alike.
SHARED_BAR = (
    *("start", "right 0 %", "right 25 %", "right 50 %", "right 100 %"),
    "500 triples",
)
SUMMARY = f"Is the default more than {MARGIN} nats below NPE, point or stochastic?"
LOWER = "Where it is, on average"
SHARES = (
    f"Gaussian linear: share of the gap from NPE to exact Bayes, at least {LEAST_SHARE:g} %"
)
COVER = "90 % intervals cover"
NAMES = TASK_NAMES | {
    "gaussian_linear": "Gaussian linear",
    "sir_delay": "SIR, daily counts",
    "ddm_trials": "DDM, single trials",
    "slcp_continuous": "SLCP, intensity",
}
DRAWN = {"ma_sbi": "point", "stochastic": "stochastic", DEFAULT: "default"}

Place = tuple[str, str]
"""A world and a condition."""
Scores = Mapping[Place, Mapping[str, np.ndarray]]
"""Mean log scores of calibration sets, by place and method."""


@dataclass(frozen=True)
class Comparison:
    """The default less another method, calibration set by calibration set.

    Attributes:
        place: World and condition.
        default: Which default.
        against: The other method.
        differences: One for each set, in nats; positive where the default is better.
        adjusted: p-value of being more than the margin below, adjusted for all
            comparisons.
    """

    place: Place
    default: str
    against: str
    differences: np.ndarray = field(repr=False)
    adjusted: float = math.nan

    @property
    def mean(self) -> Compared:
        """The mean difference with its interval."""
        return estimate(self.differences, better="higher")

    @property
    def p_value(self) -> float:
        """Test that the mean difference is at least minus the margin; one-sided t-test."""
        found = self.differences + MARGIN
        if not np.isfinite(found).all():  # a density of zero, of one of them
            return 0.0 if found.mean() == -math.inf else 1.0
        error = found.std(ddof=1) / math.sqrt(len(found)) if len(found) > 1 else math.nan
        if error > 0:
            return float(stats.t.cdf(found.mean() / error, len(found) - 1))
        return 0.0 if error == 0 and found.mean() < 0 else 1.0

    @property
    def missed(self) -> bool:
        """Whether the default is significantly more than the margin below."""
        return self.adjusted < 0.05


def holm(p_values: Sequence[float]) -> list[float]:
    """Adjust p-values for their number, by Holm's rule.

    The smallest is multiplied by their number, the next by one less, and so on; none is
    smaller than one before it, or above 1.

    Example:
        >>> holm([0.04, 0.01, 0.03])
        [0.06, 0.03, 0.06]
    """
    order = np.argsort(p_values)
    factors = len(p_values) - np.arange(len(p_values))
    adjusted = np.empty(len(p_values))
    adjusted[order] = np.maximum.accumulate(np.asarray(p_values)[order] * factors)
    return np.minimum(adjusted, 1.0).tolist()


def compare(
    scores: Scores, default: str = DEFAULT, others: Sequence[str] = BAR
) -> list[Comparison]:
    """Compare the default with others wherever both are finished, and adjust together."""
    found = [
        Comparison(place, default, other, _paired(known[default], known[other]))
        for place, known in scores.items()
        for other in others
        if default in known and other in known
    ]
    adjusted = holm([one.p_value for one in found])
    return [replace(one, adjusted=p) for one, p in zip(found, adjusted, strict=True)]


def lines(rows: pd.DataFrame) -> list[Line]:
    """Make the summary, where it is lower, shares of the gap, a table for each world."""
    scores, covered = _by_place(rows, "log_score"), _by_place(rows, "coverage")
    compared = {name: compare(scores, name) for name in DEFAULTS}
    return [
        *(_summary(name, found) for name, found in compared.items() if found),
        *_lower(found for some in compared.values() for found in some),
        *_shares(rows, scores),
        *_worlds(rows, scores, covered, compared[DEFAULT]),
    ]


def figures(rows: pd.DataFrame) -> Figures:
    """Draw how much better than NPE each correction is, in every world and condition."""
    from ma_sbi_bench.plots.differences import plot_differences

    panels: dict[str, dict[str, dict[str, Compared]]] = {}
    for (world, condition), known in _by_place(rows, "log_score").items():
        if "npe" not in known:
            continue
        panels.setdefault(NAMES[world], {})[condition] = {
            label: estimate(_paired(known[method], known["npe"]))
            for method, label in DRAWN.items()
            if method in known
        }
    if not any(one for panel in panels.values() for one in panel.values()):
        return {}
    return {"never_worse": plot_differences(panels, margin=MARGIN)}


def _by_place(rows: pd.DataFrame, metric: str) -> dict[Place, dict[str, np.ndarray]]:
    """Collect values by world and condition, then method; seeds one after another."""
    found: dict[Place, dict[str, np.ndarray]] = {}
    rows = rows[rows["metric"] == metric].sort_values("seed", kind="stable")
    for _, row in rows.iterrows():
        known = found.setdefault((row["task"], row["settings"]["condition"]), {})
        parts = [known[row["method"]]] if row["method"] in known else []
        values = row["values"]
        if metric == "coverage":
            values = values.reshape(len(LEVELS), -1)[LEVELS.index(0.9)]
        known[row["method"]] = np.concatenate([*parts, values])
    return found


def _paired(first: np.ndarray, second: np.ndarray) -> np.ndarray:
    """Subtract set by set, as far as both have them; two densities of zero are equal."""
    num = min(len(first), len(second))
    first, second = first[:num], second[:num]
    with np.errstate(invalid="ignore"):
        # A score that is no number stays one, to be seen.
        return np.where(first == second, 0.0, first - second)


def _summary(default: str, found: Sequence[Comparison]) -> Line:
    means = [one.mean.value for one in found]
    return Line(
        SUMMARY,
        {
            "default": DEFAULTS[default],
            "comparisons": len(found),
            "significantly": sum(one.missed for one in found),
            "on average": sum(mean < -MARGIN for mean in means),
        },
        found[int(np.argmin(means))].mean,
        metric="lowest difference",
        note=_where(found[int(np.argmin(means))]),
    )


def _where(one: Comparison) -> str:
    world, condition = one.place
    return f"{NAMES[world]}, {condition}, against {one.against}"


def _lower(found: Iterator[Comparison]) -> Iterator[Line]:
    """Make a line for each place where it is below on average, with why."""
    why = reasons("never_worse")
    for one in found:
        if one.mean.value >= -MARGIN:
            continue
        world, condition = one.place
        yield Line(
            LOWER,
            {
                "default": DEFAULTS[one.default],
                "world": NAMES[world],
                "condition": condition,
                "against": one.against,
                "adjusted p": f"{one.adjusted:.1g}",
            },
            one.mean,
            metric="difference, nats",
            note=why.get(f"{world}, {condition}".lower(), ""),
        )


def _shares(rows: pd.DataFrame, scores: Scores) -> Iterator[Line]:
    """Make a line for each clean condition of worlds whose parts are exact."""
    exact = set(rows.loc[rows["backbone"] == EXACT_PARTS, "task"])
    for (world, condition), known in scores.items():
        if world not in exact or condition not in SHARED_BAR:
            continue
        for default, label in DEFAULTS.items():
            share = _share(known, default, "exact")
            if share is not None:
                reached = "reached" if share.value >= LEAST_SHARE else "missed"
                labels = {"default": label, "condition": condition}
                yield Line(SHARES, labels, closed=share, note=reached)


def _share(known: Mapping[str, np.ndarray], method: str, best: str) -> Compared | None:
    """Compute the share of the gap from NPE to the best answer that a method closes."""
    wanted = ("npe", method, best)
    if method in ("npe", best) or not all(name in known for name in wanted):
        return None
    num = min(len(known[name]) for name in wanted)
    values = [-known[name][:num] for name in wanted]
    if num < 2 or not np.isfinite(values).all():
        return None
    return closed_share(gap_closed(*values))


def _worlds(
    rows: pd.DataFrame, scores: Scores, covered: Scores, compared: Sequence[Comparison]
) -> Iterator[Line]:
    """Make a line for each method in each condition, a table for each world."""
    missed = {(one.place, one.against) for one in compared if one.missed}
    exact = set(rows.loc[rows["backbone"] == EXACT_PARTS, "task"])
    for place, known in scores.items():
        world, condition = place
        for method, values in known.items():
            cover = covered.get(place, {}).get(method)
            difference = None
            if method in COMPARED and DEFAULT in known:
                (found,) = compare({place: known}, others=[method])
                difference = found.mean
            labels = {"condition": condition, "method": method}
            labels[COVER] = "" if cover is None else f"{cover.mean():.1%}"
            yield Line(
                NAMES[world],
                labels,
                difference,
                _share(known, method, "exact" if world in exact else "oracle"),
                estimate(values),
                metric="default less it",
                note="bar missed" if (place, method) in missed else "",
            )
