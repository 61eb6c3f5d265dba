"""How the finished rows of each experiment are shown: lines of tables, and figures."""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, field
from typing import TYPE_CHECKING, Any

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
from ma_sbi_bench.tables.registry import EXPERIMENTS

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


def _of_trials(table: Any) -> Presentation:
    """Present a table of trials, with figures if it has any."""
    if not hasattr(table, "figures"):
        return Presentation(table.lines)
    return Presentation(table.lines, table.figures, table.captions())


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

PRESENTATIONS: dict[str, Presentation] = {
    name: OTHERS.get(name) or _of_trials(one) for name, one in EXPERIMENTS.items()
}
"""How each experiment is shown, by its name."""
