"""Values of every seed, one violin per method."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

import numpy as np
from matplotlib.figure import Figure

from ma_sbi_bench.plots.panels import make_panels

__all__ = ["plot_violins"]


def plot_violins(
    panels: Mapping[str, Mapping[str, np.ndarray]],
    *,
    margin: float,
    reference: str = "oracle",
    label: str = "C2ST",
) -> Figure:
    """Draw one panel per backbone, one violin per method, one dot per seed.

    Args:
        panels: Values of every seed, by panel and method.
        margin: Half the height of the band around the median of the reference.
        reference: Method that the others are compared with.
        label: Name of the values.
    """
    figure, axes = make_panels(
        panels, 3.2, 4.4, margins=(4.0, 0.0), sharey=True, label=label
    )
    for title, methods in panels.items():
        axis = axes[title]
        middle = float(np.median(methods[reference]))
        axis.axhspan(middle - margin, middle + margin, color="#2ca02c", alpha=0.12, lw=0)
        axis.axhline(middle, color="#2ca02c", ls="--", lw=1)
        for position, values in enumerate(methods.values()):
            if len(values) > 2 and np.ptp(values) > 0:
                made = axis.violinplot(values, [position], showextrema=False, widths=0.8)
                bodies: Any = made["bodies"]
                for part in bodies:
                    part.set(facecolor="#1f77b4", alpha=0.25)
            spread = np.linspace(-0.12, 0.12, len(values)) if len(values) > 1 else [0.0]
            axis.plot(position + np.asarray(spread), values, "k.", ms=4)
        axis.set_xticks(range(len(methods)), list(methods), rotation=35, ha="right")
        axis.grid(axis="y", alpha=0.25)
    return figure
