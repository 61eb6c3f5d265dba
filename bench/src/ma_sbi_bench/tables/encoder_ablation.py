"""Hashed characters and a sentence encoder, on every task."""

from __future__ import annotations

from collections.abc import Sequence

import numpy as np
import pandas as pd

from ma_sbi_bench.engine.budget import Budget
from ma_sbi_bench.engine.cell import Cell
from ma_sbi_bench.tables.comparing import Line, estimate
from ma_sbi_bench.tables.main_results import TASKS
from ma_sbi_bench.trials.experiment import EXTRA_ROWS, TrialExperiment, possible
from ma_sbi_bench.trials.lines import TASK_NAMES, per_observation, trial_lines

__all__ = ["EncoderAblation"]

PAPER_WITHIN = 0.02
METHODS = ("npe", "ma_sbi", "ma_sbi_minilm", "oracle", *EXTRA_ROWS)


class EncoderAblation(TrialExperiment):
    """Whether it matters who reads the text, when texts are fixed templates."""

    name = "encoder_ablation"
    title = "Encoder ablation"
    place = "the appendix on text encoders"
    note = (
        "Diffusion model, closed-form corrector. The paper: MiniLM lands within 2 C2ST "
        "points of the hash on all benchmarks. With four fixed sentences both tell "
        "them apart; what they do with new wordings is another matter "
        "(docs/how_to/encoders.md)."
    )

    def cells(self, budget: Budget) -> Sequence[Cell]:
        """List both encoders on every task."""
        return [
            self.method_cell(budget, task, "ddpm", method, seed)
            for seed in budget.seeds_of()
            for task in TASKS
            for method in possible(METHODS, task)
        ]

    def lines(self, rows: pd.DataFrame) -> Sequence[Line]:
        """Show both encoders, and their difference beside the paper's bound."""
        order = ("prior", "npe", *METHODS)
        lines = trial_lines(rows, "Hash and MiniLM", by=("task",), order=order)
        return [*lines, *_differences(rows)]


def _differences(rows: pd.DataFrame) -> list[Line]:
    """Compare the encoders observation by observation, on the seeds that both have."""
    lines = []
    for task, part in rows[rows["metric"] == "c2st"].groupby("task", sort=False):
        hashed, minilm = (
            {row["seed"]: per_observation(row) for _, row in one.iterrows()}
            for one in (part[part["method"] == m] for m in ("ma_sbi", "ma_sbi_minilm"))
        )
        differences = [minilm[seed] - hashed[seed] for seed in minilm if seed in hashed]
        if not differences:
            continue
        # Seeds share their observations, so these are what is independent.
        found = estimate(np.mean(differences, axis=0))
        inside = max(abs(found.low), abs(found.high)) <= PAPER_WITHIN
        line = Line(
            "MiniLM minus hash",
            {"task": TASK_NAMES[str(task)]},
            raw=found,
            metric="difference of C2ST",
            note=f"paper: within {PAPER_WITHIN}; ours {'is' if inside else 'is not shown'}",
        )
        lines.append(line)
    return lines
