"""Figures as SVG whose text and lines have the colour of the page around it."""

from __future__ import annotations

import io
import re
import warnings
from collections.abc import Iterator
from contextlib import contextmanager
from typing import Any

import matplotlib as mpl
import numpy as np
from matplotlib.axes import Axes
from matplotlib.figure import Figure

from ma_sbi.display.html import text
from ma_sbi.one_at_a_time import local_filters

__all__ = [
    "AFTER",
    "BEFORE",
    "INK",
    "NEUTRAL",
    "OTHER",
    "page_style",
    "side_by_side",
    "svg",
]

# Stands for the colour of the page's text, and is replaced by it.
INK = "#010203"
# Before and after a correction, a second kind of correction, and what is neither.
BEFORE, AFTER, OTHER, NEUTRAL = "#e07a3f", "#2f8fd0", "#3d9a5f", "#8a8f98"
STYLE: Any = {
    "svg.fonttype": "none",
    "svg.hashsalt": "ma-sbi",
    "text.color": INK,
    "axes.labelcolor": INK,
    "axes.edgecolor": INK,
    "axes.linewidth": 0.6,
    "xtick.color": INK,
    "ytick.color": INK,
    "axes.spines.top": False,
    "axes.spines.right": False,
    "axes.titlesize": "medium",
    "axes.facecolor": "none",
    "figure.facecolor": "none",
    "legend.frameon": False,
    "font.size": 10,
}


@contextmanager
def page_style(*, math: bool = False) -> Iterator[None]:
    """Draw for a page: make and save the figures inside.

    Args:
        math: Whether a dollar sign starts a formula; not where texts come from a user.
    """
    with mpl.rc_context(STYLE | {"text.parse_math": math}), local_filters():
        # Warnings of missing glyphs do not apply: the page's own fonts draw the text.
        warnings.simplefilter("ignore")
        yield


def side_by_side(
    height: float, columns: int = 1, **share: Any
) -> tuple[Figure, list[Axes]]:
    """Make axes side by side; all figures are as wide, so that all letters are as high."""
    figure = Figure(figsize=(6.4, height), layout="constrained")
    return figure, list(np.atleast_1d(figure.subplots(1, columns, **share)))


def svg(figure: Figure, title: str) -> str:
    """Return a figure as SVG, to be put into a page unchanged.

    Args:
        figure: Made within :func:`page_style`.
        title: What it shows, for screen readers.
    """
    buffer = io.StringIO()
    figure.savefig(buffer, format="svg", bbox_inches="tight", metadata={"Date": None})
    drawn = buffer.getvalue()
    drawn = drawn[drawn.index("<svg") :]
    drawn = re.sub(r"<metadata>.*?</metadata>", "", drawn, count=1, flags=re.DOTALL)
    # Comments repeat the texts.
    drawn = re.sub(r"<!--.*?-->", "", drawn, flags=re.DOTALL)
    # The page decides how wide it is.
    head, rest = drawn.split(">", 1)
    head = re.sub(r' (width|height)="[^"]*"', "", head)
    rest = re.sub(f"{INK}|#000000", "currentColor", rest)
    return f'{head} role="img" aria-label="{text(title)}">{rest}'
