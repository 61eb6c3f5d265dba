"""How the finished rows of each experiment are shown: lines of tables, and figures."""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, field
from typing import TYPE_CHECKING

import pandas as pd

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


PRESENTATIONS: dict[str, Presentation] = {
    name: Presentation(one.lines, one.figures, one.captions())
    for name, one in EXPERIMENTS.items()
}
