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


def _of(shown: Any) -> Presentation:
    """Collect what a module or an experiment says of its rows."""
    captions = getattr(shown, "CAPTIONS", None) or getattr(shown, "captions", dict)()
    return Presentation(shown.lines, getattr(shown, "figures", lambda rows: {}), captions)


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
PRESENTATIONS: dict[str, Presentation] = {
    name: _of(MODULES.get(name, one)) for name, one in EXPERIMENTS.items()
}
