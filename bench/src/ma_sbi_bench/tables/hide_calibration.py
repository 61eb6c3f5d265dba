"""Hide the calibration: ten seeds on SLCP, and a test of equivalence with the oracle."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import replace

import numpy as np
import pandas as pd
from matplotlib.figure import Figure

from ma_sbi.metrics import tost_paired
from ma_sbi_bench.engine.budget import Budget
from ma_sbi_bench.engine.cell import Cell
from ma_sbi_bench.plots.violins import plot_violins
from ma_sbi_bench.tables.comparing import Compared, Line
from ma_sbi_bench.trials.experiment import EXTRA_ROWS, TrialExperiment
from ma_sbi_bench.trials.lines import Published, per_observation, trial_lines

__all__ = ["HideCalibration"]

TASK = "slcp"
MARGIN = 0.02
METHODS = {
    "maf": (
        "npe",
        "rope_emd",
        "rope_paper_ot_only",
        "rope_paper",
        "ma_sbi_paper",
        "oracle",
    ),
    "ddpm": ("npe", "rope_emd", "ma_sbi_paper", "oracle"),
}
# The closed form finds these shifts exactly, so that it is the oracle in every seed.
ONCE = ("ma_sbi", *EXTRA_ROWS)
# Medians over seeds of the flow, means of the diffusion model, with the median gap closed.
PAPER = {
    ("maf", "npe"): (0.758, None),
    ("maf", "rope_emd"): (0.762, -5),
    ("maf", "rope_paper_ot_only"): (0.892, -313),
    ("maf", "rope_paper"): (0.903, -336),
    ("maf", "ma_sbi_paper"): (0.719, 93.6),
    ("maf", "oracle"): (0.714, None),
    ("ddpm", "npe"): (0.778, None),
    ("ddpm", "rope_emd"): (0.775, 6),
    ("ddpm", "ma_sbi_paper"): (0.744, None),
    ("ddpm", "oracle"): (0.743, None),
}
# P-values of the equivalence with the oracle.
PAPER_P_VALUES = {
    ("maf", "npe"): "0.999",
    ("maf", "rope_emd"): "0.999",
    ("maf", "rope_paper_ot_only"): "1.000",
    ("maf", "rope_paper"): "1.000",
    ("maf", "ma_sbi_paper"): "< 1e-4",
    ("ddpm", "ma_sbi_paper"): "< 1e-4",
}
# Mean of the difference from it, and half of the interval over seeds.
PAPER_DIFFERENCES = {
    ("maf", "ma_sbi_paper"): (0.003, 0.0025),
    ("ddpm", "ma_sbi_paper"): (0.002, 0.0025),
}


def published(row: pd.Series) -> Published:
    """Find what the two ten-seed tables print."""
    raw, closed = PAPER.get((row["backbone"], row["method"]), (None, None))
    npe, oracle = (PAPER[row["backbone"], name][0] for name in ("npe", "oracle"))
    return Published(raw, closed, npe, oracle)


class HideCalibration(TrialExperiment):
    """The headline: with text alone, as good as knowing the departure."""

    name = "hide_calibration"
    title = "Hide the calibration, ten seeds"
    place = "the ten-seed tables on flow and diffusion model, and the violins"
    note = (
        "The same observations for every seed; the posterior, the calibration set and the "
        "noise differ. The remark has median and quartiles over seeds; rows without one "
        "have one seed. The equivalence with the oracle is tested by two one-sided tests "
        "paired by seed; their interval is over seeds alone, as the paper's is. The "
        "paper's raw values are medians for the flow and means for the diffusion model; "
        "ours are means. RoPE gets twelve observations at a time, different ones here, in "
        "the paper three in four regimes."
    )

    def cells(self, budget: Budget) -> Sequence[Cell]:
        """List ten seeds of both backbones."""
        return [
            self.method_cell(budget, TASK, backbone, method, seed)
            for backbone, methods in METHODS.items()
            for seed in budget.seeds_of(10, at_least=2)
            for method in (*methods, *ONCE)
            if seed == 0 or method not in ONCE
        ]

    def lines(self, rows: pd.DataFrame) -> Sequence[Line]:
        """Put the means beside the paper's, with medians and the equivalence test."""
        order = ("prior", *METHODS["maf"][:-1], *ONCE[:1], *EXTRA_ROWS[1:3], "oracle")
        lines = trial_lines(
            rows, "SLCP, 500 calibration rows", published=published, order=order
        )
        seeds = _per_seed(rows)
        noted = [replace(line, note=_quartiles(line, seeds)) for line in lines]
        return [*noted, *_equivalences(seeds)]

    def figures(self, rows: pd.DataFrame) -> Mapping[str, Figure]:
        """Draw the values of every seed."""
        seeds = _per_seed(rows)
        panels = {
            backbone: {
                method: seeds[backbone, method].to_numpy()
                for method in methods
                if (backbone, method) in seeds
            }
            for backbone, methods in METHODS.items()
        }
        panels = {name: values for name, values in panels.items() if "oracle" in values}
        return {"violins": plot_violins(panels, margin=MARGIN)} if panels else {}

    def captions(self) -> Mapping[str, str]:
        """Say what the figure shows."""
        return {
            "violins": "C2ST of every seed (dots) on SLCP. Dashed: the median of "
            f"the oracle, the band the margin of {MARGIN} around it."
        }


def _per_seed(rows: pd.DataFrame) -> dict[tuple[str, str], pd.Series]:
    """Average each seed over its test cases."""
    found = rows[rows["metric"] == "c2st"]
    found = found.assign(mean=[per_observation(row).mean() for _, row in found.iterrows()])
    return {
        key: part.set_index("seed")["mean"].sort_index()
        for key, part in found.groupby(["backbone", "method"], sort=False)
    }


def _quartiles(line: Line, seeds: Mapping[tuple[str, str], pd.Series]) -> str:
    values = seeds.get((str(line.labels["backbone"]), str(line.labels["method"])))
    if values is None or len(values) < 2:
        return ""
    low, median, high = np.quantile(values, [0.25, 0.5, 0.75])
    return f"median {median:.3f} [{low:.3f}, {high:.3f}] of {len(values)} seeds"


def _equivalences(seeds: Mapping[tuple[str, str], pd.Series]) -> list[Line]:
    """Test whether methods are as good as the oracle, seed by seed as the paper does."""
    lines = []
    for (backbone, method), values in seeds.items():
        oracle = seeds.get((backbone, "oracle"))
        if oracle is None or method == "oracle":
            continue
        shared = values.index.intersection(oracle.index)
        if len(shared) < 2:
            continue
        pair = (one[shared].to_numpy() for one in (values, oracle))
        found = tost_paired(*pair, margin=MARGIN)
        p_value = PAPER_P_VALUES.get((backbone, method), "")
        paper, paper_half = PAPER_DIFFERENCES.get((backbone, method), (None, None))
        said = f"TOST p = {found.p_value:.2g}" + (f" (paper {p_value})" if p_value else "")
        lines.append(
            Line(
                f"Difference from the oracle, equivalent within {MARGIN}?",
                {"backbone": backbone, "method": method},
                raw=Compared(
                    found.difference,
                    found.low,
                    found.high,
                    paper=paper,
                    better="lower",
                    paper_half=paper_half,
                ),
                metric="difference of C2ST",
                note=f"{'yes' if found.equivalent else 'not shown'}, {said}",
            )
        )
    return lines
