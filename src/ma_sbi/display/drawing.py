"""Figures as SVG that takes its ink from the page around it."""

from __future__ import annotations

import io
import re
import warnings
from collections.abc import Iterator
from contextlib import contextmanager
from typing import Any

import matplotlib as mpl
from matplotlib.figure import Figure

from ma_sbi.display.html import text

__all__ = ["INK", "page_style", "svg"]

# Stands for the colour of the page's text, and is replaced by it.
INK = "#010203"
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
        math: Whether a dollar sign starts a formula, which it must not in others' texts.
    """
    with mpl.rc_context(STYLE | {"text.parse_math": math}), warnings.catch_warnings():
        # That a font lacks a sign matters not: the page's own fonts draw the text.
        warnings.simplefilter("ignore")
        yield


def svg(figure: Figure, title: str) -> str:
    """Save a figure to be put into a page as it is.

    Args:
        figure: Made within :func:`page_style`.
        title: What it shows, for those who cannot see it.
    """
    buffer = io.StringIO()
    figure.savefig(buffer, format="svg", bbox_inches="tight", metadata={"Date": None})
    drawn = buffer.getvalue()
    drawn = drawn[drawn.index("<svg") :]
    drawn = re.sub(r"<metadata>.*?</metadata>", "", drawn, count=1, flags=re.DOTALL)
    # Comments repeat the texts, which are of no use here.
    drawn = re.sub(r"<!--.*?-->", "", drawn, flags=re.DOTALL)
    # The page decides how wide it is.
    head, rest = drawn.split(">", 1)
    head = re.sub(r' (width|height)="[^"]*"', "", head)
    rest = re.sub(f"{INK}|#000000", "currentColor", rest)
    return f'{head} role="img" aria-label="{text(title)}">{rest}'
