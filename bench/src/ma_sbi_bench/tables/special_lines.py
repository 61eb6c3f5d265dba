"""Lines that a single table of trials has, beside those that all have."""

from __future__ import annotations

import math
from collections.abc import Callable, Iterator, Mapping
from dataclasses import replace
from functools import partial
from typing import Any

import numpy as np
import pandas as pd

from ma_sbi.metrics import tost_paired
from ma_sbi_bench.paper.comparing import (
    COARSEST_SHARE,
    Compared,
    Line,
    beside,
    estimate,
    exactly,
)
from ma_sbi_bench.paper.printed import Printed, printed, printed_beside
from ma_sbi_bench.tables.methods_compared import (
    DECOMPOSITION,
    ENCODER_ABLATION,
    EQUIVALENCE_MARGIN,
    HIDE_CALIBRATION,
)
from ma_sbi_bench.tables.sweeps import (
    CONTINUOUS_CONTEXT,
    EMD,
    ROPE_SWEEPS,
    SINKHORN,
    SINKHORN_EPSILON,
)
from ma_sbi_bench.tables.trial_lines import (
    ENDS,
    TASK_NAMES,
    Cases,
    PaperLine,
    by_seed,
    in_paper,
    labelled,
    lines_of,
    on_published,
    per_observation,
    shown_in,
    view_lines,
)
from ma_sbi_bench.trials.cells import CONTINUOUS, SMALLEST_Z

__all__ = ["SPECIAL_LINES", "decomposition_lines", "equivalence_lines", "mean_of_seeds"]

# By what the corrector is fitted: with fixed sentences the closed form cannot differ.
ENCODED_BY = {
    "closed form": ("ma_sbi", "ma_sbi_minilm"),
    "the paper's network": ("ma_sbi_paper", "ma_sbi_minilm_paper"),
}
REFERENCES = "Reference values of the sweep"
BY_SEED = "Median and quartiles over seeds"
QUARTILES = {
    "lower quartile": ("q25", 0.25),
    "median": ("median", 0.5),
    "upper quartile": ("q75", 0.75),
}
"""Names in the paper's table, and quantiles."""
NUM_BOOTSTRAP = 1000

Seeds = Mapping[tuple[str, str], pd.Series]
"""The mean of every seed, by backbone and method."""
Find = Callable[[str, str], Printed | None]
"""Looks up what the paper prints: a metric of a method."""


def hide_calibration_lines(rows: pd.DataFrame) -> list[Line]:
    """Add medians and quartiles over seeds, and test the equivalence with the oracle.

    The paper's figures are of sbibm's observations: they stand beside ours of them, if
    those are there.
    """
    published = on_published(rows)
    lines = []
    for view in HIDE_CALIBRATION.views:
        of_view = rows[published == view.published]
        compared = view.published == published.any()
        paper = partial(in_paper, HIDE_CALIBRATION, view) if compared else _no_paper
        lines += view_lines(
            shown_in(view, rows), view, paper=paper, order=HIDE_CALIBRATION.order
        )
        for backbone, part in of_view[of_view["metric"] == "c2st"].groupby("backbone"):
            lines += _over_seeds(
                str(backbone), part, published=view.published, compared=compared
            )
    return lines


def _no_paper(row: pd.Series) -> PaperLine:
    return PaperLine()


def _over_seeds(
    backbone: str, rows: pd.DataFrame, *, published: bool, compared: bool
) -> Iterator[Line]:
    """Give quartiles of the seeds of each method, and its difference from the oracle."""
    cases = {str(method): by_seed(part) for method, part in rows.groupby("method")}
    cases = {one: cases[one] for one in HIDE_CALIBRATION.order if one in cases}

    def find(metric: str, method: str) -> Printed | None:
        if not compared:
            return None
        where = {"task": "slcp", "backbone": backbone, "method": method}
        return printed_beside(HIDE_CALIBRATION.name, metric, **where)

    at = " (sbibm's observations)" if published else ""
    for lines in (_quartile_lines, equivalence_lines):
        for line in lines(cases, find):
            labels = {"backbone": backbone, **line.labels}
            yield replace(line, table=line.table + at, labels=labels)


def mean_of_seeds(rows: pd.DataFrame) -> Seeds:
    """Average each seed over our test cases."""
    found = rows[(rows["metric"] == "c2st") & ~on_published(rows)]
    found = found.assign(mean=[per_observation(row).mean() for _, row in found.iterrows()])
    return {
        key: part.set_index("seed")["mean"].sort_index()
        for key, part in found.groupby(["backbone", "method"], sort=False)
    }


def _quartile_lines(cases: Mapping[str, Cases], find: Find) -> Iterator[Line]:
    """Make a line of each quartile of C2ST over seeds, and of the share of the gap."""
    for method in cases:
        triple = _paired(cases, "npe", method, "oracle")
        if triple is None:
            continue
        effect = _paper_effect(method, find)
        for name, (metric, quantile) in QUARTILES.items():
            share = find(f"gap_closed_{metric}", method)
            judged = name == "median" and method not in ENDS
            raw = _of_seeds(
                triple[1:2],
                lambda means: means[0],
                quantile,
                better="lower" if judged else "",
                coarsest=effect,
                **beside(find(f"c2st_{metric}", method)),
            )
            closed = None
            if method not in ENDS:
                closed = _of_seeds(
                    triple,
                    _share_of_gap,
                    quantile,
                    better="higher" if judged else "",
                    coarsest=max(COARSEST_SHARE, abs(share.value) / 2 if share else 0.0),
                    **beside(share, digits=0),
                )
            labels = {"method": method, "over seeds": name}
            note = f"{triple.shape[1]} seeds"
            yield Line(BY_SEED, labels, raw, closed, metric="C2ST", note=note)


def _paired(cases: Mapping[str, Cases], *methods: str) -> np.ndarray | None:
    """Stack methods on the seeds that all have, ``(num_methods, num_seeds, num_cases)``."""
    some = [cases.get(one, {}) for one in methods]
    shared = sorted(set.intersection(*(set(one) for one in some)))
    if len(shared) < 2:
        return None
    return np.stack([[one[seed] for seed in shared] for one in some])


def _paper_effect(method: str, find: Find) -> float:
    """Halve the gap between the paper's medians, or the distance from NPE's."""
    npe, own, oracle = (find("c2st_median", one) for one in ("npe", method, "oracle"))
    if npe is None or own is None or oracle is None:
        return math.nan
    away = 0.0 if method in ENDS else abs(npe.value - own.value)
    return max(npe.value - oracle.value, away) / 2


def _share_of_gap(means: np.ndarray) -> np.ndarray:
    """Compute the share of each seed in per cent; NaN where it has no gap."""
    npe, method, oracle = means
    return 100 * (npe - method) / np.where(npe > oracle, npe - oracle, np.nan)


def _of_seeds(
    values: np.ndarray,
    statistic: Callable[[np.ndarray], np.ndarray],
    quantile: float,
    **known: Any,
) -> Compared:
    """Give a quantile over seeds, with a bootstrap interval over seeds and cases.

    Args:
        values: Shape ``(num_methods, num_seeds, num_cases)``.
        statistic: Means over cases, ``(num_methods, num_seeds) -> (num_seeds,)``.
        quantile: Which quantile.
        **known: Other attributes of :class:`Compared`.
    """
    _, num_seeds, num_cases = values.shape
    rng = np.random.default_rng(0)
    drawn = []
    for _ in range(NUM_BOOTSTRAP):
        seeds = rng.integers(num_seeds, size=num_seeds)
        cases = rng.integers(num_cases, size=num_cases)
        means = values[:, seeds][:, :, cases].mean(axis=2)
        drawn.append(np.nanquantile(statistic(means), quantile))
    low, high = np.nanquantile(drawn, [0.025, 0.975])
    middle = np.nanquantile(statistic(values.mean(axis=2)), quantile)
    # Seeds share their cases, which are nearly all of the noise.
    return Compared(float(middle), float(low), float(high), num=num_cases, **known)


def equivalence_lines(cases: Mapping[str, Cases], find: Find) -> Iterator[Line]:
    """Test whether each method is as good as the oracle, seed by seed as the paper does."""
    for method in cases:
        pair = None if method == "oracle" else _paired(cases, method, "oracle")
        if pair is not None:
            own, oracle = pair.mean(axis=2)
            yield _equivalence(method, own, oracle, find)


def _equivalence(method: str, values: np.ndarray, oracle: np.ndarray, find: Find) -> Line:
    found = tost_paired(values, oracle, margin=EQUIVALENCE_MARGIN)
    low, high, p_value, below, std = (
        find(metric, method)
        for metric in (
            *("difference_low", "difference_high"),
            *("tost_p", "tost_p_below", "difference_std"),
        )
    )
    said = f"{'yes' if found.equivalent else 'not shown'}, TOST p = {found.p_value:.2g}"
    if p_value:
        said += f" (paper {p_value.value:.{p_value.digits}f})"
    elif below:
        said += f" (paper < 1e{math.log10(below.value):.0f})"
    if std:
        said += f"; std {found.std:.4f} (paper {std.value:.{std.digits}f})"
    return Line(
        f"Difference from the oracle, equivalent within {EQUIVALENCE_MARGIN}?",
        {"method": method},
        raw=Compared(
            found.difference,
            found.low,
            found.high,
            better="lower",
            coarsest=EQUIVALENCE_MARGIN,
            paper_half=(high.value - low.value) / 2 if high and low else None,
            num=found.num_pairs,
            unit="seeds",
            **beside(find("difference", method)),
        ),
        metric="difference of C2ST",
        note=said,
    )


def encoder_ablation_lines(rows: pd.DataFrame) -> list[Line]:
    """Compare the encoders observation by observation, on the seeds that both have."""
    lines = lines_of(ENCODER_ABLATION, rows)
    paper = printed(ENCODER_ABLATION.name, "difference_within", method="ma_sbi_minilm")
    bound = paper.value if paper else math.nan
    for task, part in rows[rows["metric"] == "c2st"].groupby("task", sort=False):
        for fitted, pair in ENCODED_BY.items():
            hashed, minilm = (by_seed(part[part["method"] == one]) for one in pair)
            differences = [minilm[seed] - hashed[seed] for seed in minilm if seed in hashed]
            if not differences:
                continue
            # Seeds share their observations, so these are what is independent.
            found = estimate(np.mean(differences, axis=0))
            inside = max(abs(found.low), abs(found.high)) <= bound
            note = f"paper: within {bound}; ours {'is' if inside else 'is not shown'}"
            labels = {"task": TASK_NAMES[str(task)], "corrector": fitted}
            metric = "difference of C2ST"
            lines.append(Line("MiniLM minus hash", labels, found, metric=metric, note=note))
    return lines


def decomposition_lines(rows: pd.DataFrame) -> list[Line]:
    """Add the shares of the exact posterior mean, which have no noise."""
    (view,) = DECOMPOSITION.views
    lines = lines_of(DECOMPOSITION, rows)
    for _, row in labelled(rows[rows["metric"] == "closed"], view.by).iterrows():
        paper = in_paper(DECOMPOSITION, view, row)
        share = exactly(
            100 * row["value"],
            better=paper.better if row["method"] == "ma_sbi" else "",  # not of a part
            **beside(paper.closed, digits=0),
        )
        labels = {"context": row["context"], "method": row["method"]}
        lines.append(Line("Gaussian linear, exact posterior mean", labels, closed=share))
    return lines


def continuous_context_lines(rows: pd.DataFrame) -> list[Line]:
    """Average over large intensities, and add the errors of the recovered shift."""
    lines = lines_of(CONTINUOUS_CONTEXT, _of_intensities(rows))
    lines += _small_gap(rows)
    errors = rows[(rows["metric"] == "shift_error_of_set") & (rows["backbone"] == "ddpm")]
    for method in CONTINUOUS_CONTEXT.order:
        part = errors[errors["method"] == method]
        if part.empty:
            continue
        where = {"task": part.iloc[0]["task"], "backbone": "ddpm", "method": method}
        paper = printed(CONTINUOUS_CONTEXT.name, "shift_error", **where)
        values = np.concatenate(part["values"].tolist())
        error = estimate(values, better="lower", **beside(paper, digits=1))
        title = f"Error of the recovered shift, z >= {SMALLEST_Z}"
        lines.append(Line(title, {"method": method}, raw=error, metric="error, %"))
    return lines


def _small_gap(rows: pd.DataFrame) -> Iterator[Line]:
    """Average the gap over small intensities, where the paper has hardly one."""
    for backbone, part in _of_intensities(rows, small=True).groupby("backbone", sort=False):
        found = part[part["metric"] == "c2st"].set_index("method")["values"]
        if not {*ENDS} <= {*found.index}:
            continue
        paper = printed(
            CONTINUOUS_CONTEXT.name,
            "gap_below",
            task=CONTINUOUS,
            backbone=str(backbone),
            method="npe - oracle",
            axis=f"z < {SMALLEST_Z}",
        )
        note = f"paper < {paper.value}" if paper else ""
        gap = estimate(found["npe"] - found["oracle"])
        title = f"The gap, z < {SMALLEST_Z}"
        labels = {"backbone": str(backbone), "method": "npe - oracle"}
        yield Line(title, labels, gap, metric="C2ST", note=note)


def _of_intensities(rows: pd.DataFrame, *, small: bool = False) -> pd.DataFrame:
    """Average the values of large or small intensities, observation by observation."""

    def mean(row: pd.Series) -> np.ndarray:
        grid = np.linspace(0, 1, row["settings"]["intensities"])
        by_observation = row["values"].reshape(row["settings"]["observations"], -1)
        return by_observation[:, (grid < SMALLEST_Z) == small].mean(axis=1)

    rows = rows[rows["metric"].isin(("c2st", "log_score"))]
    values = pd.Series([mean(row) for _, row in rows.iterrows()], rows.index, dtype=object)
    return rows.assign(values=values)


def rope_sweeps_lines(rows: pd.DataFrame) -> list[Line]:
    """Add what the paper calls the reference values of its sweep."""
    lines = lines_of(ROPE_SWEEPS, rows)
    on_slcp = rows[(rows["backbone"] == "maf") & (rows["metric"] == "c2st")]
    cases = {
        str(method): by_seed(part) for method, part in on_slcp.groupby("method", sort=False)
    }
    where = {"task": "slcp", "backbone": "maf", "axis": "reference"}

    def find(metric: str, method: str) -> Printed | None:
        return printed_beside(ROPE_SWEEPS.name, metric, method=method, **where)

    def known(method: str) -> tuple[dict[str, Any], str]:
        low, high = find("c2st_low", method), find("c2st_high", method)
        if not (low and high):
            return beside(find("c2st", method)), ""
        # It prints what several runs gave: that is its noise.
        half = (high.value - low.value) / 2
        middle = {"paper": low.value + half, "digits": low.digits, "paper_half": half}
        return middle, f"paper {low.value} to {high.value}"

    npe, oracle = (known(end)[0]["paper"] for end in ENDS)
    for method in ("npe", *EMD, "ma_sbi_paper", "oracle"):
        if method not in cases:
            continue
        found = estimate(np.stack(list(cases[method].values())))
        theirs, note = known(method)
        number = replace(
            found,
            coarsest=abs(npe - oracle) / 2,
            better="" if method in ENDS else "lower",
            **theirs,
        )
        lines.append(Line(REFERENCES, {"method": method}, number, metric="C2ST", note=note))
    return lines


def sinkhorn_lines(rows: pd.DataFrame) -> list[Line]:
    """Add how long the sweep took, of which the paper says 1.5 hours."""
    lines = lines_of(SINKHORN_EPSILON, rows)
    where = {"task": "slcp", "backbone": "maf"}
    for method in SINKHORN:
        swept = rows[rows["method"] == method].drop_duplicates("key")
        if swept.empty:
            continue
        paper = printed_beside(SINKHORN_EPSILON.name, "hours", method=method, **where)
        hours = Compared(float(swept["seconds"].sum()) / 3600, **beside(paper))
        note = f"{len(swept)} values of epsilon, one thread each, without training"
        labels = {"method": method}
        lines.append(Line("Hours of the sweep", labels, hours, metric="hours", note=note))
    return lines


SPECIAL_LINES = {
    "hide_calibration": hide_calibration_lines,
    "encoder_ablation": encoder_ablation_lines,
    "decomposition": decomposition_lines,
    "continuous_context": continuous_context_lines,
    "rope_sweeps": rope_sweeps_lines,
    "sinkhorn_epsilon": sinkhorn_lines,
}
"""Functions of rows that take the place of ``lines_of``, by table."""
