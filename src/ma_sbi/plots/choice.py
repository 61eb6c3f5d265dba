"""What a corrector is made of: its candidates, and what it was chosen from."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

import numpy as np
import torch
from matplotlib.axes import Axes

from ma_sbi.choosing import ChosenCorrector, Why
from ma_sbi.choosing.why import Tried
from ma_sbi.context import as_entries, in_one_column
from ma_sbi.display.drawing import AFTER, BEFORE, INK, NEUTRAL
from ma_sbi.display.text import shorten
from ma_sbi.labels import in_columns, match_rows
from ma_sbi.plots.panels import as_columns, as_names, one_axes
from ma_sbi.protocols import ArrayLike, Context, Corrector
from ma_sbi.validation import as_matrix

__all__ = ["plot_candidates", "plot_tried"]

# Candidates within this share of their range are drawn as one.
RESOLUTION = 0.01
# At most so many weights are written beside their candidates.
FEW = 8
OVER: Any = {"xytext": (0, 6), "textcoords": "offset points", "ha": "center"}
TOGETHER = "all together"


def plot_candidates(
    corrector: Corrector,
    x: ArrayLike,
    context: Context,
    *,
    column: int | None = None,
    names: Sequence[str] | None = None,
    ax: Axes | None = None,
) -> Axes:
    """Plot the candidates for what the simulator would have given, with their weights.

    Candidates that are nearer to each other than a hundredth of their range are drawn as
    one, with the sum of their weights.

    Args:
        corrector: A fitted corrector, or a ``CorrectedPosterior``.
        x: One observation, shape ``(dim_x,)`` or ``(1, dim_x)``.
        context: Its context.
        column: Position of the column to show; the one that the correction changes most if
            None, which means little where columns have different units.
        names: Names of all columns; those of a DataFrame, or positions, if None.
        ax: Where to draw; new axes if None.

    Raises:
        ValueError: If x is not one observation.
    """
    x, context = match_rows(
        x=in_columns(getattr(corrector, "columns_", None), x, None), context=context
    )
    titles_from = x
    x = as_matrix(x, "x")
    if len(x) != 1:
        raise ValueError(f"x must be one observation, got {len(x)}: pass x[:1]")
    titles = as_names(names, x.shape[1], "x", titles_from)
    if column is not None:
        as_columns(column, x.shape[1])
    ax = one_axes(ax, (5.0, 3.2))
    entry = as_entries(context, num_rows=1)
    found = corrector.corrections(x, entry)
    candidates, weight = found.x[:, 0].double(), found.log_weight[:, 0].double().exp()
    if column is None:
        squares = (candidates - x[0].double()).square()
        column = int((weight[:, None] * squares).sum(dim=0).argmax())
    places, heights = _merged(candidates[:, column], weight)
    size = 5 if len(places) <= FEW else 2.5
    label = f"candidates ({len(weight):,})"
    ax.vlines(places, 0, heights, color=AFTER, lw=0.3 * size)
    ax.plot(places, heights, "o", color=AFTER, ms=size, label=label)
    ax.axvline(x[0, column].item(), color=BEFORE, ls="--", lw=1.4, label="observed")
    if len(places) <= FEW:
        for place, height in zip(places, heights, strict=True):
            share = f"{height:.0%}" if height >= 0.005 else "<1%"
            ax.annotate(share, (place, height), fontsize="small", **OVER)
    ax.set(xlabel=titles[column], ylabel="weight")
    ax.set_ylim(0, 1.15 * heights.max())
    ax.margins(x=0.1)
    note = shorten(in_one_column(entry)[0], 60)
    ax.set_title(note, parse_math=False, fontsize="medium", pad=24)
    above: Any = {"loc": "lower center", "bbox_to_anchor": (0.5, 1.0), "ncols": 2}
    ax.legend(fontsize="small", frameon=False, **above)
    return ax


def _merged(values: torch.Tensor, weight: torch.Tensor) -> tuple[np.ndarray, np.ndarray]:
    """Sum the weights of values that are near each other, from the smallest value on."""
    order = values.argsort()
    values, weight = values[order], weight[order]
    near = RESOLUTION * (values[-1] - values[0])
    cell = ((values - values[0]) / near).floor() if near > 0 else torch.zeros_like(values)
    _, code = cell.unique(return_inverse=True)
    total = torch.zeros(int(code.max()) + 1, dtype=values.dtype)
    total = total.to(values.device).index_add(0, code, weight)
    sums = torch.zeros_like(total).index_add(0, code, weight * values)
    counted = total > 0
    return (sums / total)[counted].cpu().numpy(), total[counted].cpu().numpy()


def plot_tried(chosen: ChosenCorrector | Why, *, ax: Axes | None = None) -> Axes:
    """Plot what ``fit_corrector`` tried, and with which weights it is used.

    A dot is the log score on rows that were left out, less that of no correction, with two
    standard errors; right is better. Beside it stand the weights under known contexts and
    under new ones. What has no weight is grey.

    Args:
        chosen: What ``fit_corrector`` returned, or its ``.why``.
        ax: Where to draw; new axes if None.

    Raises:
        ValueError: If it was not chosen by ``fit_corrector``.
    """
    why = getattr(chosen, "why", chosen)
    if not isinstance(why, Why):
        raise ValueError(
            "chosen must be what fit_corrector returned, or its .why, got a "
            f"{type(chosen).__name__}"
        )
    rows = [(one.name, one.score, one.error, _weights(one)) for one in why.tried]
    if why.gain is not None:
        rows.append((TOGETHER, *why.gain, ""))
    used = [one.weight + one.weight_unseen > 0 for one in why.tried]
    colours = [AFTER if one else NEUTRAL for one in used] + [INK]
    ax = one_axes(ax, (6.8, 0.9 + 0.3 * len(rows)))
    ax.axvline(0, color=INK, lw=0.6, ls=":")
    for place, (name, score, error, _) in enumerate(rows):
        if score is not None:
            how: Any = {"fmt": "D" if name == TOGETHER else "o", "color": colours[place]}
            two_errors = 2 * (error or 0.0)
            ax.errorbar(score, place, xerr=two_errors, ms=5, capsize=3, lw=1.2, **how)
    ax.set_yticks(range(len(rows)), [name for name, *_ in rows])
    ax.set_ylim(len(rows) - 0.5, -0.5)
    ax.set_xlabel("log score per row left out, less that of no correction (nats)")
    beside = ax.secondary_yaxis("right")
    beside.set_yticks(range(len(rows)), [weights for *_, weights in rows])
    beside.set_ylabel("weight | under a new context")
    beside.tick_params(length=0)
    beside.spines["right"].set_visible(False)
    for text, colour in zip(beside.get_yticklabels(), colours, strict=False):
        text.set_color(colour)
    return ax


def _weights(one: Tried) -> str:
    return f"{one.weight:.0%} | {one.weight_unseen:.0%}"
