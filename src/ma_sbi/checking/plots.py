"""Pictures of a check, as SVG that takes its ink from the page around it."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass
from typing import Any

import numpy as np
from matplotlib.axes import Axes
from matplotlib.figure import Figure
from matplotlib.ticker import MaxNLocator

from ma_sbi.checking.result import Check
from ma_sbi.display.drawing import INK, page_style, svg
from ma_sbi.display.text import printable

__all__ = ["Picture", "draw"]

BEFORE, AFTER, SIMULATED = "#e07a3f", "#2f8fd0", "#8a8f98"
COLUMNS_SHOWN = 4
CONTEXTS_SHOWN = 8
ROWS_SHOWN = 600


@dataclass(frozen=True)
class Picture:
    """A drawing with its words.

    Attributes:
        title: What it shows.
        caption: How to read it.
        svg: The drawing, to be put into a page as it is.
    """

    title: str
    caption: str
    svg: str


def draw(check: Check) -> list[Picture]:
    """Draw what can be drawn of a check; what cannot is left out."""
    makers: list[Callable[[Check], tuple[str, str, Figure] | None]] = [
        _gains,
        _departures,
        _before_after,
        _information,
        _coverage,
    ]
    pictures = []
    with page_style():
        for make in makers:
            made = make(check)
            if made is not None:
                title, caption, figure = made
                pictures.append(Picture(title, caption, svg(figure, title)))
    return pictures


def _axes(height: float, columns: int = 1, **share: Any) -> tuple[Figure, list[Axes]]:
    """Make axes side by side; all pictures are as wide, so that all letters are as high."""
    figure = Figure(figsize=(6.4, height), layout="constrained")
    return figure, list(np.atleast_1d(figure.subplots(1, columns, **share)))


def _found(check: Check, name: str) -> Any:
    figure = check.figures.get(name)
    return None if isinstance(figure, str) else figure


def _short(text: Any, most: int = 26) -> str:
    text = printable(" ".join(str(text).split()))
    return text if len(text) <= most else text[: most - 1] + "…"


def _gains(check: Check) -> tuple[str, str, Figure] | None:
    """Bars of what each part takes away, of the departure and of the posterior's gap."""
    weak, parts, affine = (
        _found(check, n) for n in ("weak_context", "three_way", "affine")
    )
    if weak is None:
        return None
    names = ("marginal", "conditional", "total")
    series = [("of the departure (shift)", AFTER, [getattr(weak, n) for n in names])]
    if affine is not None:
        shares = [getattr(affine, n) for n in names]
        series.append(("of the departure (affine)", "#3d9a5f", shares))
    if parts is not None and parts.gap is not None and not parts.gap.total.blank:
        shares = [getattr(parts.gap, n) for n in names]
        series.append(("of the posterior's gap", BEFORE, shares))
    figure, (axes,) = _axes(1.6 + 0.6 * len(series))
    height = 0.75 / len(series)
    lowest = 0.0
    for number, (label, colour, values) in enumerate(series):
        place = np.arange(3) + (number - (len(series) - 1) / 2) * height
        middle = np.array([one.value for one in values], float)
        ends = np.array([[one.low, one.high] for one in values], float)
        error = np.abs(ends.T - middle)
        axes.barh(place, middle, height * 0.85, color=colour, label=label, alpha=0.85)
        axes.errorbar(middle, place, xerr=error, fmt="none", ecolor=INK, capsize=3, lw=1)
        lowest = min(lowest, float(np.nanmin(ends)))
    axes.axvline(0, color=INK, lw=0.8)
    axes.set_yticks(range(3), ["the mean alone", "the context adds", "both"])
    axes.invert_yaxis()
    axes.set_xlim(max(-1.5, min(-0.05, lowest * 1.1)), 1.1)
    axes.xaxis.set_major_formatter(lambda value, _: f"{value:.0%}")
    if len(series) > 1:
        figure.legend(loc="outside lower center", ncols=len(series))
    return (
        "What a correction takes away",
        "On rows held out, with 95 % intervals. A bar below zero is harm; one whose "
        "interval holds zero shows nothing.",
        figure,
    )


def _departures(check: Check) -> tuple[str, str, Figure] | None:
    """Departures by context, in standard deviations, column by column."""
    rows = check.rows
    if rows.x_sim is None:
        return None
    delta = _departure(rows.x_obs, rows.x_sim)
    largest = np.argsort(-np.square(delta).mean(axis=0), kind="stable")
    columns = np.sort(largest[:COLUMNS_SHOWN])
    delta = delta[:, columns]
    names, counts = np.unique(rows.context.astype(str), return_counts=True)
    if _continuous(rows.context, counts):
        return _departures_by_number(rows.context, delta, columns)
    shown = names[np.argsort(-counts, kind="stable")][:CONTEXTS_SHOWN]
    figure, axes = _axes(max(2.0, 1.0 + 0.35 * len(shown)), len(columns), sharex=True)
    places = np.arange(len(shown))
    for position, (column, ax) in enumerate(zip(columns, axes, strict=True)):
        for place, name in zip(places, shown, strict=True):
            values = delta[rows.context.astype(str) == name, position]
            low, quarter, middle, three, high = np.quantile(
                values, [0.05, 0.25, 0.5, 0.75, 0.95]
            )
            ax.plot([low, high], [place, place], color=AFTER, lw=1.5, alpha=0.6)
            ax.plot([quarter, three], [place, place], color=AFTER, lw=5, alpha=0.6)
            ax.plot(middle, place, "o", color=INK, ms=4)
        ax.axvline(0, color=INK, lw=0.6, ls=":")
        ax.set_title(f"x[{column}]")
        ax.set_ylim(len(shown) - 0.5, -0.5)
        ax.set_yticks(places, [_short(one) for one in shown] if position == 0 else [])
        ax.xaxis.set_major_locator(MaxNLocator(3))
    figure.supxlabel("x_obs - x_sim, in standard deviations of x_sim", fontsize="medium")
    more = len(names) - len(shown)
    rest = f" The {more} rarer contexts are left out." if more else ""
    return (
        "The departure in each context",
        "Median, half and nine tenths of the rows. Contexts that differ tell of the "
        "departure; the same in all is a constant shift. The columns that depart most."
        f"{rest}",
        figure,
    )


def _departure(x_obs: np.ndarray, x_sim: np.ndarray) -> np.ndarray:
    """Subtract, in standard deviations of the simulations."""
    spread = x_sim.std(axis=0)
    return (x_obs - x_sim) / np.where(spread > 0, spread, 1.0)


def _continuous(context: np.ndarray, counts: np.ndarray) -> bool:
    numbers = all(
        isinstance(one, (int, float, np.number)) or one == "(missing)" for one in context
    )
    return numbers and len(counts) > CONTEXTS_SHOWN


def _departures_by_number(
    context: np.ndarray, delta: np.ndarray, columns: np.ndarray
) -> tuple[str, str, Figure]:
    known = np.array([not isinstance(one, str) for one in context])
    numbers = context[known].astype(float)
    figure, axes = _axes(2.8, delta.shape[1], sharey=True)
    chosen = slice(None, None, max(1, len(numbers) // ROWS_SHOWN))
    for position, (column, ax) in enumerate(zip(columns, axes, strict=True)):
        ax.plot(
            numbers[chosen],
            delta[known][chosen, position],
            ".",
            color=AFTER,
            ms=3,
            alpha=0.5,
        )
        ax.axhline(0, color=INK, lw=0.6, ls=":")
        ax.set_title(f"x[{column}]")
        ax.xaxis.set_major_locator(MaxNLocator(3))
    axes[0].set_ylabel("x_obs - x_sim (sd)")
    figure.supxlabel("context", fontsize="medium")
    caption = "In standard deviations of x_sim. A trend is what the context tells."
    return "The departure along the context", caption, figure


def _before_after(check: Check) -> tuple[str, str, Figure] | None:
    """Observations against their simulations, before and after."""
    rows = check.rows
    if rows.x_sim is None or rows.corrected is None or rows.corrected_rows is None:
        return None
    delta = _departure(rows.x_obs, rows.x_sim)
    column = int(np.square(delta).mean(axis=0).argmax())
    chosen = np.arange(
        0, len(rows.corrected_rows), max(1, len(rows.corrected_rows) // ROWS_SHOWN)
    )
    simulated = rows.x_sim[rows.corrected_rows[chosen], column]
    shown = {
        "before": (rows.x_obs[rows.corrected_rows[chosen], column], BEFORE),
        "after": (rows.corrected[chosen, column], AFTER),
    }
    figure, axes = _axes(3.2, 2)
    values = np.concatenate([simulated, *(one for one, _ in shown.values())])
    low, high = np.quantile(values, [0.002, 0.998])
    pad = 0.05 * (high - low) or 1.0
    for ax, (name, (observed, colour)) in zip(axes, shown.items(), strict=True):
        ax.plot([low, high], [low, high], color=INK, lw=0.6, ls=":")
        ax.plot(simulated, observed, ".", color=colour, ms=4, alpha=0.5)
        ax.set(xlim=(low - pad, high + pad), ylim=(low - pad, high + pad))
        ax.set_aspect("equal")
        ax.set_title(f"{name} correction")
        ax.set_xlabel(f"x_sim[{column}]")
    axes[0].set_ylabel(f"x_obs[{column}]")
    return (
        "Observations against simulations",
        "The column that departs most. On the diagonal the observation is what the "
        "simulator gives. Each row was corrected by what other rows taught.",
        figure,
    )


def _information(check: Check) -> tuple[str, str, Figure] | None:
    """Information with its interval, beside the null and the break-even."""
    found, weak = _found(check, "information"), _found(check, "weak_context")
    if found is None:
        return None
    figure, (ax,) = _axes(1.9)
    ax.barh(0, found.value, 0.5, color=AFTER, alpha=0.85)
    error = np.abs(np.array([[found.low], [found.high]]) - found.value)
    ax.errorbar(found.value, 0, xerr=error, fmt="none", ecolor=INK, capsize=4, lw=1)
    ax.axvline(found.null_quantile, color=BEFORE, lw=1.6, ls="--", label="chance (95 %)")
    if weak is not None:
        label = "break-even of a fitted shift"
        ax.axvline(weak.min_information, color="#3d9a5f", lw=1.6, ls=":", label=label)
    right = max(
        found.high, found.null_quantile, 0 if weak is None else weak.min_information
    )
    if np.isfinite(found.upper_bound) and found.upper_bound > 0:
        right = max(right, found.upper_bound)
        ax.axvline(found.upper_bound, color=INK, lw=1, label="most possible")
    ax.set(xlim=(0, 1.08 * right if right > 0 else 1), ylim=(-0.5, 0.5), yticks=[])
    ax.set_xlabel("nats")
    figure.legend(loc="outside upper center", ncols=3)
    return (
        "What the context tells of the departure",
        "Mutual information with its 95 % interval. Left of the dashed line it may be "
        "chance; left of the dotted one fitting a shift per context costs more than it "
        "gives.",
        figure,
    )


def _coverage(check: Check) -> tuple[str, str, Figure] | None:
    """How often regions hold the truth, against what they promise."""
    found = _found(check, "coverage")
    if found is None:
        return None
    figure, (ax,) = _axes(3.8)
    ax.plot([0, 1], [0, 1], color=INK, lw=0.6, ls=":")
    curves = {
        "at x_sim": (found.simulated, SIMULATED),
        "before correction": (found.before, BEFORE),
        "after correction": (found.after, AFTER),
    }
    for label, (coverage, colour) in curves.items():
        if coverage is None:
            continue
        level, share, low, high = np.array(coverage.expected).T
        ax.plot(level, share, "o-", color=colour, label=label, ms=3)
        ax.fill_between(level, low, high, color=colour, alpha=0.15, lw=0)
    ax.set(
        xlim=(0, 1), ylim=(0, 1), xlabel="what a region promises", ylabel="holds the truth"
    )
    ax.set_aspect("equal")
    ax.legend(loc="center left", bbox_to_anchor=(1.02, 0.5))
    return (
        "Coverage of the true theta",
        "Below the diagonal the posterior is too sure. Bands are 95 % intervals.",
        figure,
    )
