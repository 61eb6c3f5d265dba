"""A picture of what each method gains, country by country."""

from __future__ import annotations

from collections.abc import Mapping, Sequence

import numpy as np
from matplotlib.figure import Figure

from ma_sbi.metrics import PairedGain

__all__ = ["plot_gains"]


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

    Returns:
        The figure; ``figure.savefig(path)`` writes it.

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
        found = [gains[scope, method] for scope in scopes]
        middle = np.array([gain.gain for gain in found])
        reach = [
            middle - [gain.low for gain in found],
            [gain.high for gain in found] - middle,
        ]
        rows = np.arange(len(scopes)) + offset
        axis.errorbar(middle, rows, xerr=np.abs(reach), fmt="o", ms=4, lw=1.2, label=method)
    axis.axvline(0.0, color="0.6", lw=0.8, zorder=0)
    axis.axhline(0.5, color="0.85", lw=0.8, zorder=0)
    axis.set_yticks(range(len(scopes)), scopes)
    axis.invert_yaxis()
    axis.set_xlabel(f"gain over {over} ({unit})")
    axis.spines[["top", "right"]].set_visible(False)
    # Above the axes, where no interval can be hidden.
    axis.legend(frameon=False, fontsize=8, ncols=2, loc="lower left", bbox_to_anchor=(0, 1))
    return figure
