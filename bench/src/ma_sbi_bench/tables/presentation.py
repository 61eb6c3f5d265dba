"""How the finished rows of each experiment are shown: lines of tables, and figures."""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, field
from functools import partial
from types import ModuleType
from typing import TYPE_CHECKING

import pandas as pd

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
from ma_sbi_bench.tables.comparing import Line
from ma_sbi_bench.tables.more_lines import (
    continuous_context_lines,
    decomposition_lines,
    encoder_lines,
    hide_calibration_lines,
)
from ma_sbi_bench.tables.registry import EXPERIMENTS
from ma_sbi_bench.tables.trial_figures import (
    draw_continuous_context,
    draw_curves,
    draw_decomposition,
    draw_hide_calibration,
    draw_posteriors,
)
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


MODULES = {
    "schematic": schematic,
    "theorem_1": theorem_1,
    "sharpness": sharpness,
    "channels": channels,
    "exclusion": exclusion,
    "compute": compute,
    "covid": covid,
    "instructions": instructions,
}


def _of_module(module: ModuleType) -> Presentation:
    figures = getattr(module, "figures", lambda rows: {})
    return Presentation(module.lines, figures, getattr(module, "CAPTIONS", {}))


# Where lines or a figure are not those that every table of trials has.
OWN_LINES = {
    "hide_calibration": hide_calibration_lines,
    "decomposition": decomposition_lines,
    "encoder_ablation": encoder_lines,
    "continuous_context": continuous_context_lines,
}
OWN_FIGURES = {
    "hide_calibration": draw_hide_calibration,
    "posteriors": draw_posteriors,
    "decomposition": draw_decomposition,
    "continuous_context": draw_continuous_context,
}


def _of_trials(table: TrialTable) -> Presentation:
    name = "violins" if table.name == "hide_calibration" else table.name
    return Presentation(
        OWN_LINES.get(table.name, partial(lines_of, table)),
        OWN_FIGURES.get(table.name, partial(draw_curves, table)),
        {name: table.caption} if table.caption else {},
    )


PRESENTATIONS: dict[str, Presentation] = {
    name: _of_trials(one) if isinstance(one, TrialTable) else _of_module(MODULES[name])
    for name, one in EXPERIMENTS.items()
}
"""How each experiment is shown, by its name."""
