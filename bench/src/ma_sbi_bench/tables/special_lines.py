"""Lines that a single table of trials has, beside those that all have."""

from __future__ import annotations

import math
from collections.abc import Mapping
from dataclasses import replace

import numpy as np
import pandas as pd

from ma_sbi.metrics import tost_paired
from ma_sbi_bench.paper.comparing import Compared, Line, beside, estimate, exactly
from ma_sbi_bench.paper.printed import printed
from ma_sbi_bench.tables.methods_compared import (
    DECOMPOSITION,
    ENCODER_ABLATION,
    EQUIVALENCE_MARGIN,
    HIDE_CALIBRATION,
)
from ma_sbi_bench.tables.sweeps import CONTINUOUS_CONTEXT
from ma_sbi_bench.tables.trial_lines import (
    TASK_NAMES,
    by_seed,
    in_paper,
    labelled,
    lines_of,
    per_observation,
)
from ma_sbi_bench.trials.cells import SMALLEST_Z

__all__ = ["SPECIAL_LINES", "decomposition_lines", "mean_of_seeds"]

Seeds = Mapping[tuple[str, str], pd.Series]
"""The mean of every seed, by backbone and method."""


def hide_calibration_lines(rows: pd.DataFrame) -> list[Line]:
    """Add medians over seeds, and test the equivalence with the oracle."""
    seeds = mean_of_seeds(rows)
    lines = [
        replace(line, note=_quartiles(line, seeds))
        for line in lines_of(HIDE_CALIBRATION, rows)
    ]
    for (backbone, method), values in seeds.items():
        oracle = seeds.get((backbone, "oracle"))
        if oracle is None or method == "oracle":
            continue
        shared = values.index.intersection(oracle.index)
        if len(shared) > 1:
            pair = values[shared].to_numpy(), oracle[shared].to_numpy()
            lines.append(_equivalence(backbone, method, *pair))
    return lines


def mean_of_seeds(rows: pd.DataFrame) -> Seeds:
    """Average each seed over its test cases."""
    found = rows[rows["metric"] == "c2st"]
    found = found.assign(mean=[per_observation(row).mean() for _, row in found.iterrows()])
    return {
        key: part.set_index("seed")["mean"].sort_index()
        for key, part in found.groupby(["backbone", "method"], sort=False)
    }


def _quartiles(line: Line, seeds: Seeds) -> str:
    values = seeds.get((str(line.labels["backbone"]), str(line.labels["method"])))
    if values is None or len(values) < 2:
        return ""
    low, median, high = np.quantile(values, [0.25, 0.5, 0.75])
    return f"median {median:.3f} [{low:.3f}, {high:.3f}] of {len(values)} seeds"


def _equivalence(
    backbone: str, method: str, values: np.ndarray, oracle: np.ndarray
) -> Line:
    """Test whether a method is as good as the oracle, seed by seed as the paper does."""
    found = tost_paired(values, oracle, margin=EQUIVALENCE_MARGIN)
    metrics = ("difference", "difference_low", "difference_high", "tost_p", "tost_p_below")
    where = {"task": "slcp", "backbone": backbone, "method": method}
    difference, low, high, p_value, below = (
        printed(HIDE_CALIBRATION.name, metric, **where) for metric in metrics
    )
    said = f"{'yes' if found.equivalent else 'not shown'}, TOST p = {found.p_value:.2g}"
    if p_value:
        said += f" (paper {p_value.value:.{p_value.digits}f})"
    elif below:
        said += f" (paper < 1e{math.log10(below.value):.0f})"
    return Line(
        f"Difference from the oracle, equivalent within {EQUIVALENCE_MARGIN}?",
        {"backbone": backbone, "method": method},
        raw=Compared(
            found.difference,
            found.low,
            found.high,
            paper=difference.value if difference else None,
            better="lower",
            paper_half=(high.value - low.value) / 2 if high and low else None,
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
        hashed, minilm = (
            by_seed(part[part["method"] == one]) for one in ("ma_sbi", "ma_sbi_minilm")
        )
        differences = [minilm[seed] - hashed[seed] for seed in minilm if seed in hashed]
        if not differences:
            continue
        # Seeds share their observations, so these are what is independent.
        found = estimate(np.mean(differences, axis=0))
        inside = max(abs(found.low), abs(found.high)) <= bound
        note = f"paper: within {bound}; ours {'is' if inside else 'is not shown'}"
        labels, metric = {"task": TASK_NAMES[str(task)]}, "difference of C2ST"
        lines.append(Line("MiniLM minus hash", labels, found, metric=metric, note=note))
    return lines


def decomposition_lines(rows: pd.DataFrame) -> list[Line]:
    """Add the shares of the exact posterior mean, which have no noise."""
    (view,) = DECOMPOSITION.views
    lines = lines_of(DECOMPOSITION, rows)
    for _, row in labelled(rows[rows["metric"] == "closed"], view.by).iterrows():
        share = exactly(
            100 * row["value"],
            paper=in_paper(DECOMPOSITION, view, row).closed,
            better="higher" if row["method"] == "ma_sbi" else "",  # the whole, not a part
            digits=0,
        )
        labels = {"context": row["context"], "method": row["method"]}
        lines.append(Line("Gaussian linear, exact posterior mean", labels, closed=share))
    return lines


def continuous_context_lines(rows: pd.DataFrame) -> list[Line]:
    """Average over large intensities, and add the errors of the recovered shift."""
    lines = lines_of(CONTINUOUS_CONTEXT, _large_only(rows))
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


def _large_only(rows: pd.DataFrame) -> pd.DataFrame:
    """Average the values of large intensities, observation by observation."""

    def mean(row: pd.Series) -> np.ndarray:
        grid = np.linspace(0, 1, row["settings"]["intensities"])
        by_observation = row["values"].reshape(row["settings"]["observations"], -1)
        return by_observation[:, grid >= SMALLEST_Z].mean(axis=1)

    rows = rows[rows["metric"].isin(("c2st", "log_score"))]
    values = pd.Series([mean(row) for _, row in rows.iterrows()], rows.index, dtype=object)
    return rows.assign(values=values)


SPECIAL_LINES = {
    "hide_calibration": hide_calibration_lines,
    "encoder_ablation": encoder_ablation_lines,
    "decomposition": decomposition_lines,
    "continuous_context": continuous_context_lines,
}
"""Functions of rows that take the place of ``lines_of``, by table."""
