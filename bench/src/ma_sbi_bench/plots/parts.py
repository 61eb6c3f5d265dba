"""What each part of a correction takes off a loss."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Protocol, TypeVar

import numpy as np
from matplotlib.figure import Figure
from matplotlib.ticker import MaxNLocator

from ma_sbi.metrics import PairedGain

__all__ = ["plot_parts"]

COLOURS = {"point": "#1f77b4", "stochastic": "#ff7f0e"}


class _Part(Protocol):
    @property
    def label(self) -> str: ...
    @property
    def variant(self) -> str: ...


Part = TypeVar("Part", bound=_Part)


def plot_parts(gains: Mapping[str, Mapping[Part, PairedGain]], *, unit: str) -> Figure:
    """Draw what each part takes off the loss, one panel per setting.

    Args:
        gains: The gain of each part, for each setting.
        unit: Unit of the loss.
    """
    columns = min(2 if len(gains) <= 4 else 3, len(gains))
    rows = -(-len(gains) // columns)
    figure = Figure(figsize=(1.4 + 3.4 * columns, 0.5 + 2.3 * rows), layout="constrained")
    axes = np.atleast_1d(figure.subplots(rows, columns, sharey=True)).flatten()
    for axis, (title, parts) in zip(axes, gains.items(), strict=False):
        position = np.arange(len(parts))
        value = np.array([gain.gain for gain in parts.values()])
        low = np.array([gain.low for gain in parts.values()])
        high = np.array([gain.high for gain in parts.values()])
        axis.barh(
            position,
            value,
            # A bootstrap's interval need not hold the estimate.
            xerr=np.clip([value - low, high - value], 0, None),
            color=[COLOURS[part.variant] for part in parts],
            error_kw={"lw": 1, "capsize": 2},
        )
        axis.axvline(0.0, color="0.3", lw=0.8)
        axis.set_yticks(position, [part.label for part in parts])
        axis.set_title(title, loc="left", fontsize=9)
        axis.xaxis.set_major_locator(MaxNLocator(5))
        axis.tick_params(labelsize=8)
        axis.spines[["top", "right"]].set_visible(False)
    if len(axes):
        axes[0].invert_yaxis()  # shared by all
    for axis in axes[len(gains) :]:
        axis.set_visible(False)
    figure.supxlabel(f"taken off the loss ({unit})", fontsize=9)
    return figure
