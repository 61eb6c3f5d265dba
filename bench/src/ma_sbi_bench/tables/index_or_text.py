"""The number of the calibration row in place of a text: does MA-SBI become RoPE?"""

from __future__ import annotations

from collections.abc import Mapping, Sequence

import pandas as pd
from matplotlib.figure import Figure

from ma_sbi_bench.engine.budget import Budget
from ma_sbi_bench.engine.cell import Cell
from ma_sbi_bench.plots.sweeps import plot_sweeps
from ma_sbi_bench.tables.comparing import Line
from ma_sbi_bench.trials.experiment import EXTRA_ROWS, TrialExperiment
from ma_sbi_bench.trials.lines import Published, curve, levels, trial_lines

__all__ = ["IndexOrText"]

TASK, BACKBONE = "slcp", "ddpm"
SIZES = (100, 500, 2000)
METHODS = {
    "rope_emd": {},
    "index, new row": {"form": "ma_sbi_index", "context": "index"},
    "index, nearest row": {"form": "ma_sbi_index", "context": "nearest"},
    "ma_sbi_paper": {},
    "ma_sbi": {},
}
# The paper does not say which index a test row has; its figures stand beside "new row".
PAPER = {
    ("rope_emd", 100): 23.5,
    ("rope_emd", 500): 18.0,
    ("index, new row", 100): 9.4,
    ("index, new row", 500): -6.0,
    ("ma_sbi_paper", 100): 45.8,
    ("ma_sbi_paper", 500): 105.2,
}


class IndexOrText(TrialExperiment):
    """Theorem 3 of the paper, tried: calibration index against text."""

    name = "index_or_text"
    title = "Calibration index against text"
    place = "the table and the figure that verify Theorem 3"
    note = (
        "SLCP, diffusion model. `index, new row` gives every test row an index that "
        "calibration has not seen, so that the average correction is all there is; "
        "`index, nearest row` gives it the index of the nearest calibration observation."
    )

    def cells(self, budget: Budget) -> Sequence[Cell]:
        """List all sizes with index and text."""
        cells = []
        for seed in budget.seeds_of():
            cells += [
                self.method_cell(budget, TASK, BACKBONE, method, seed)
                for method in ("npe", *EXTRA_ROWS, "oracle")
            ]
            cells += [
                self.method_cell(
                    budget, TASK, BACKBONE, method, seed, num_calibration=size, **known
                )
                for size in SIZES[: 2 if budget.quick else None]
                for method, known in METHODS.items()
            ]
        return cells

    def lines(self, rows: pd.DataFrame) -> Sequence[Line]:
        """Put every size beside the paper's."""

        def published(row: pd.Series) -> Published:
            return Published(closed=PAPER.get((row["method"], row["n_cal"])))

        return trial_lines(
            rows.assign(n_cal=rows["num_calibration"]),
            "SLCP, index and text",
            by=("n_cal",),
            published=published,
            order=("prior", "npe", *METHODS, *EXTRA_ROWS[1:3], "oracle", "exact"),
        )

    def figures(self, rows: pd.DataFrame) -> Mapping[str, Figure]:
        """Draw C2ST against the number of calibration rows."""
        rows = rows[rows["metric"] == "c2st"]
        curves = {
            str(method): curve(part, "num_calibration")
            for method, part in rows.groupby("method", sort=False)
            if method in METHODS
        }
        if not curves:
            return {}
        flat = levels(rows, ("npe", "oracle"))
        drawn = plot_sweeps({"SLCP": curves}, "C2ST", levels=flat, horizontal="n_cal")
        return {"index_or_text": drawn}

    def captions(self) -> Mapping[str, str]:
        """Say what the figure shows."""
        return {
            "index_or_text": "C2ST on SLCP with the calibration index as context, with "
            "text, and of RoPE-EMD."
        }
