"""What methods gain on real data, and what each part of a correction takes off a loss."""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence
from typing import Protocol, TypeVar

import numpy as np
from matplotlib.figure import Figure
from matplotlib.ticker import MaxNLocator

from ma_sbi.metrics import PairedGain
from ma_sbi_bench.plots.panels import make_panels

__all__ = ["plot_gains", "plot_parts"]

COLOURS = {"point": "#1f77b4", "stochastic": "#ff7f0e"}


class _Part(Protocol):
    @property
    def label(self) -> str: ...
    @property
    def variant(self) -> str: ...


Part = TypeVar("Part", bound=_Part)


def plot_gains(
    gains: Mapping[tuple[str, str], PairedGain],
    methods: Sequence[str],
    *,
    over: str,
    unit: str = "nats per window",
) -> Figure:
    """Draw gains with their intervals, one line per scope and one colour per method.

    Args:
        gains: A gain for each scope and method, e.g. from
            :func:`ma_sbi_bench.real.covid.study.gains`.
        methods: Which methods to show, in this order.
        over: What they are compared with, for the label of the axis.
        unit: Unit of a gain.

    Raises:
        ValueError: If a method has no gain.
    """
    known = {method for _, method in gains}
    missing = [method for method in methods if method not in known]
    if missing:
        raise ValueError(
            f"methods must be among {', '.join(sorted(known))}, got {', '.join(missing)}"
        )
    scopes = list(dict.fromkeys(scope for scope, _ in gains))
    figure = Figure(figsize=(6.5, 0.45 * len(scopes) + 1.4), layout="constrained")
    axis = figure.subplots()
    offsets = np.linspace(-0.25, 0.25, len(methods)) if len(methods) > 1 else [0.0]
    for method, offset in zip(methods, offsets, strict=True):
        middle, reach = _intervals(gains[scope, method] for scope in scopes)
        rows = np.arange(len(scopes)) + offset
        axis.errorbar(middle, rows, xerr=reach, fmt="o", ms=4, lw=1.2, label=method)
    axis.axvline(0.0, color="0.6", lw=0.8, zorder=0)
    axis.axhline(0.5, color="0.85", lw=0.8, zorder=0)
    axis.set_yticks(range(len(scopes)), scopes)
    axis.invert_yaxis()
    axis.set_xlabel(f"gain over {over} ({unit})")
    axis.spines[["top", "right"]].set_visible(False)
    # Above the axes, where no interval can be hidden.
    axis.legend(frameon=False, fontsize=8, ncols=2, loc="lower left", bbox_to_anchor=(0, 1))
    return figure


def plot_parts(gains: Mapping[str, Mapping[Part, PairedGain]], *, unit: str) -> Figure:
    """Draw what each part takes off the loss, one panel per setting.

    Args:
        gains: The gain of each part, for each setting.
        unit: Unit of the loss.
    """
    columns = 2 if len(gains) <= 4 else 3
    figure, axes = make_panels(
        gains, 3.4, 2.3, columns=columns, margins=(1.4, 0.5), sharey=True
    )
    for title, parts in gains.items():
        axis, position = axes[title], np.arange(len(parts))
        middle, reach = _intervals(parts.values())
        colours = [COLOURS[part.variant] for part in parts]
        lines = {"lw": 1, "capsize": 2}
        axis.barh(position, middle, xerr=reach, color=colours, error_kw=lines)
        axis.axvline(0.0, color="0.3", lw=0.8)
        axis.set_yticks(position, [part.label for part in parts])
        axis.xaxis.set_major_locator(MaxNLocator(5))
        axis.tick_params(labelsize=8)
        axis.spines[["top", "right"]].set_visible(False)
    figure.axes[0].invert_yaxis()  # shared by all
    figure.supxlabel(f"taken off the loss ({unit})", fontsize=9)
    return figure


def _intervals(gains: Iterable[PairedGain]) -> tuple[np.ndarray, np.ndarray]:
    """Return gains, and how far their intervals reach to either side, shape ``(2, n)``."""
    ends = np.array([(one.low, one.gain, one.high) for one in gains])
    # A bootstrap's interval need not hold the estimate.
    return ends[:, 1], np.clip(np.diff(ends).T, 0, None)
