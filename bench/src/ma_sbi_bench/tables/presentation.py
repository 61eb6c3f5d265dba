"""How the finished rows of each experiment are shown: lines of tables, and figures."""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, field
from functools import partial
from typing import TYPE_CHECKING

import pandas as pd

from ma_sbi_bench.paper.comparing import Line
from ma_sbi_bench.real.covid import table as covid
from ma_sbi_bench.real.instructions import table as instructions
from ma_sbi_bench.tables import (
    channels,
    compute,
    exclusion,
    schematic,
    sharpness,
    theorem_1,
)
from ma_sbi_bench.tables.registry import EXPERIMENTS
from ma_sbi_bench.tables.special_lines import SPECIAL_LINES
from ma_sbi_bench.tables.trial_figures import FIGURES, draw_curves
from ma_sbi_bench.tables.trial_lines import lines_of
from ma_sbi_bench.trials.table import TrialTable

if TYPE_CHECKING:
    from matplotlib.figure import Figure

__all__ = ["PRESENTATIONS", "Presentation"]


@dataclass(frozen=True)
class Presentation:
    """Functions of finished rows.

    Attributes:
        lines: Puts rows beside the paper's, as far as there are any.
        figures: Draws rows; a figure for each name.
        captions: What each figure shows, by its name.
    """

    lines: Callable[[pd.DataFrame], Sequence[Line]]
    figures: Callable[[pd.DataFrame], Mapping[str, Figure]] = lambda rows: {}
    captions: Mapping[str, str] = field(default_factory=dict)


OTHERS = {
    "schematic": Presentation(schematic.lines, schematic.figures, schematic.CAPTIONS),
    "theorem_1": Presentation(theorem_1.lines),
    "sharpness": Presentation(sharpness.lines, sharpness.figures, sharpness.CAPTIONS),
    "channels": Presentation(channels.lines, channels.figures, channels.CAPTIONS),
    "exclusion": Presentation(exclusion.lines),
    "compute": Presentation(compute.lines),
    "covid": Presentation(covid.lines, covid.figures, covid.CAPTIONS),
    "instructions": Presentation(
        instructions.lines, instructions.figures, instructions.CAPTIONS
    ),
}
"""Experiments that are no tables of trials."""


def _of_trials(table: TrialTable) -> Presentation:
    """Present a table of trials by its description."""
    lines = SPECIAL_LINES.get(table.name, partial(lines_of, table))
    if table.figure:
        name, draw = table.figure, FIGURES[table.figure]
    elif table.curves is not None:
        name, draw = table.name, partial(draw_curves, table.curves)
    else:
        return Presentation(lines)

    def figures(rows: pd.DataFrame) -> dict[str, Figure]:
        drawn = draw(rows)
        return {} if drawn is None else {name: drawn}

    return Presentation(lines, figures, {name: table.caption})


PRESENTATIONS: dict[str, Presentation] = {
    name: _of_trials(one) if isinstance(one, TrialTable) else OTHERS[name]
    for name, one in EXPERIMENTS.items()
}
"""How each experiment is shown, by its name."""
