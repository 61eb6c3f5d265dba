"""How the finished rows of each experiment are shown: lines of tables, and figures."""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, field, replace
from functools import partial

import pandas as pd

from ma_sbi_bench.paper.comparing import Line
from ma_sbi_bench.paper.words import captions
from ma_sbi_bench.plots import Figures
from ma_sbi_bench.real.covid import table as covid
from ma_sbi_bench.real.instructions import table as instructions
from ma_sbi_bench.tables import (
    advice_lines,
    channels,
    compute,
    exclusion,
    never_worse_lines,
    recovered_shift,
    sharpness,
    structural,
    theorem_1,
    training,
    unpaired,
    unseen_words_lines,
)
from ma_sbi_bench.tables.registry import EXPERIMENTS
from ma_sbi_bench.tables.special_lines import SPECIAL_LINES
from ma_sbi_bench.tables.trial_figures import trial_figures
from ma_sbi_bench.tables.trial_lines import lines_of
from ma_sbi_bench.trials.table import TrialTable

__all__ = ["PRESENTATIONS", "Presentation"]


@dataclass(frozen=True)
class Presentation:
    """Functions of finished rows.

    Attributes:
        lines: Puts rows beside the paper's, as far as there are any.
        figures: Draws rows; a figure for each name.
        captions: What each figure shows, by its name.
    """

    lines: Callable[[pd.DataFrame], Sequence[Line]] = lambda rows: []
    figures: Callable[[pd.DataFrame], Figures] = lambda rows: {}
    captions: Mapping[str, str] = field(default_factory=dict)


def _schematic(rows: pd.DataFrame) -> Figures:
    from ma_sbi_bench.plots.schematic import plot_schematic

    return {"schematic": plot_schematic()}


OTHERS = {
    "schematic": Presentation(figures=_schematic),
    "theorem_1": Presentation(theorem_1.lines),
    "recovered_shift": Presentation(recovered_shift.lines),
    "sharpness": Presentation(sharpness.lines, sharpness.figures),
    "channels": Presentation(channels.lines, channels.figures),
    "exclusion": Presentation(exclusion.lines),
    "never_worse": Presentation(never_worse_lines.lines, never_worse_lines.figures),
    "unseen_words": Presentation(unseen_words_lines.lines),
    "unpaired": Presentation(unpaired.lines),
    "structural": Presentation(structural.lines),
    "advice": Presentation(advice_lines.lines),
    "compute": Presentation(compute.lines),
    "training": Presentation(training.lines),
    "covid": Presentation(covid.lines, covid.figures),
    "instructions": Presentation(instructions.lines, instructions.figures),
}
"""Experiments that are no tables of trials."""


def _of_trials(table: TrialTable) -> Presentation:
    lines = SPECIAL_LINES.get(table.name, partial(lines_of, table))
    return Presentation(lines, partial(trial_figures, table))


PRESENTATIONS: dict[str, Presentation] = {
    name: replace(
        _of_trials(one) if isinstance(one, TrialTable) else OTHERS[name],
        captions=captions(name),
    )
    for name, one in EXPERIMENTS.items()
}
"""How each experiment is shown, by its name."""
