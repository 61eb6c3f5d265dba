"""The figures of docs/how_to/speed.md."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import matplotlib.pyplot as plt
from matplotlib.ticker import LogLocator, NullFormatter

from benchmarks.speed.timing import Row

COLOURS = ("#1f77b4", "#d62728", "#2ca02c", "#9467bd")
MARKERS = "osD^"


def draw(rows: list[Row], folder: Path) -> None:
    """Draw every figure."""
    plt.rcParams.update(
        {"font.size": 8, "axes.spines.top": False, "axes.spines.right": False}
    )
    for name, figure in {
        "speed_sampling": sampling,
        "speed_fit": fit,
        "speed_flow": flow,
        "speed_diffusion": diffusion,
        "speed_rates": rates,
    }.items():
        made = figure(rows)
        made.savefig(folder / f"{name}.png", dpi=110)
        plt.close(made)


def _of(rows: list[Row], part: str) -> dict[str, list[Row]]:
    """Group the rows of a part by what was timed."""
    groups: dict[str, list[Row]] = {}
    for row in rows:
        if row.part == part:
            groups.setdefault(row.what, []).append(row)
    return groups


def _ratio(ax: Any, place: float, row: Row, number: int, label: str | None) -> None:
    """Draw a ratio, and a line between its quartiles."""
    ax.plot([row.low, row.high], [place, place], "|-", color=COLOURS[number])
    style = {"marker": MARKERS[number], "color": COLOURS[number], "markersize": 4}
    ax.plot([row.ratio], [place], linestyle="", label=label, **style)


def sampling(rows: list[Row]) -> Any:
    """Corrected over plain, for every posterior and correction."""
    some = [row for row in rows if row.part == "sampling"]
    pairs = [row.what.split(": ") for row in some]
    posteriors, corrections = (list(dict.fromkeys(one)) for one in zip(*pairs, strict=True))
    figure, ax = plt.subplots(figsize=(6.5, 3.2), layout="constrained")
    for row, (posterior, correction) in zip(some, pairs, strict=True):
        number = posteriors.index(posterior)
        place = corrections.index(correction) + 0.16 * (number - 1.5)
        is_first = correction == corrections[0]
        _ratio(ax, place, row, number, posterior if is_first else None)
    ax.axvline(1, color="grey", linewidth=0.8, linestyle="--")
    ax.set_yticks(range(len(corrections)), corrections)
    ax.invert_yaxis()
    ax.set_xlabel("time of corrected draws / time of plain draws")
    ax.legend(frameon=False, loc="best")
    return figure


def fit(rows: list[Row]) -> Any:
    """Seconds over sizes, with lines of linear growth."""
    figure, axes = plt.subplots(1, 3, figsize=(8, 2.8), layout="constrained", sharey=True)
    words = {"rows": "rows", "contexts": "different contexts", "columns": "columns of x"}
    for ax, (part, label) in zip(axes, words.items(), strict=True):
        groups = _of(rows, f"fit, {part}")
        for number, (name, some) in enumerate(groups.items()):
            style = {"color": COLOURS[number], "marker": MARKERS[number], "markersize": 4}
            _growth(ax, some, label=name, **style)
        ax.set_xlabel(label)
    axes[0].set_ylabel("seconds")
    axes[0].legend(frameon=False)
    return figure


def _growth(ax: Any, rows: list[Row], **style: Any) -> None:
    sizes, seconds = zip(*((row.size, row.seconds) for row in rows), strict=True)
    ax.loglog(sizes, seconds, **style)
    # A line of linear growth that ends at the last point.
    ends = (sizes[0], sizes[-1])
    linear = [seconds[-1] * one / sizes[-1] for one in ends]
    ax.loglog(ends, linear, color=style.get("color"), linestyle=":", linewidth=0.8)


def flow(rows: list[Row]) -> Any:
    """Seconds per epoch of fit_flow over those of others."""
    some = [row for row in rows if row.part == "flow"]
    others = list(dict.fromkeys(row.against for row in some))
    cases = list(dict.fromkeys(row.what for row in some))
    figure, ax = plt.subplots(figsize=(6.5, 2.2), layout="constrained")
    for row in some:
        number = others.index(row.against)
        place = cases.index(row.what) + 0.2 * (number - 0.5)
        label = f"against {row.against}" if row.what == cases[0] else None
        _ratio(ax, place, row, number, label)
    ax.axvline(1, color="grey", linewidth=0.8, linestyle="--")
    ax.set_yticks(range(len(cases)), cases)
    ax.invert_yaxis()
    ax.set_xlabel("time per epoch of fit_flow / time of the other")
    figure.legend(frameon=False, loc="outside upper center", ncols=2)
    return figure


def diffusion(rows: list[Row]) -> Any:
    """C2ST over the seconds of training, and of drawing; a line of panels for each task."""
    every = [row for row in rows if row.part.startswith("diffusion")]
    tasks = list(dict.fromkeys(row.what.split(": ")[0] for row in every))
    shape = {"figsize": (7, 2.3 * len(tasks)), "sharey": "row", "squeeze": False}
    figure, axes = plt.subplots(len(tasks), 2, layout="constrained", **shape)
    for line, task in zip(axes, tasks, strict=True):
        for ax, part in zip(line, ("training", "drawing"), strict=True):
            groups = _of(
                [r for r in every if r.what.startswith(task)], f"diffusion, {part}"
            )
            for number, (name, some) in enumerate(groups.items()):
                style = {"color": COLOURS[number], "marker": MARKERS[number]}
                ax.plot(
                    [row.seconds for row in some],
                    [row.reached for row in some],
                    linestyle="-" if part == "training" else "",
                    label=name.split(": ")[1],
                    markersize=4,
                    **style,
                )
            ax.set_xscale("log")
            ax.xaxis.set_major_locator(LogLocator(subs=(1, 2, 5)))
            ax.xaxis.set_major_formatter("{x:g}")
            ax.xaxis.set_minor_formatter(NullFormatter())
            ax.axhline(0.5, color="grey", linewidth=0.8, linestyle="--")
            ax.set_xlabel(f"{part}, seconds")
        line[0].set_ylabel(f"{task}\nC2ST to the exact posterior")
    axes[0, 0].legend(frameon=False)
    return figure


def rates(rows: list[Row]) -> Any:
    """Contexts and rows per second."""
    figure, axes = plt.subplots(1, 2, figsize=(7.5, 2.8), layout="constrained")
    for number, (name, some) in enumerate(_of(rows, "encoding").items()):
        sizes = [row.size for row in some]
        per_second = [row.size / row.seconds for row in some]
        style = {"color": COLOURS[number], "marker": MARKERS[number], "markersize": 4}
        axes[0].loglog(sizes, per_second, label=name, **style)
    axes[0].set_xlabel("contexts")
    axes[0].set_ylabel("contexts per second")
    axes[0].legend(frameon=False, fontsize=6.5)
    some = [row for row in rows if row.part == "streaming"]
    sizes = [row.size for row in some]
    for number, (label, seconds) in enumerate(
        {
            "ma-sbi correct": [row.seconds for row in some],
            "pandas copies the table": [row.against_seconds for row in some],
        }.items()
    ):
        per_second = [a / b for a, b in zip(sizes, seconds, strict=True)]
        style = {"color": COLOURS[number], "marker": MARKERS[number], "markersize": 4}
        axes[1].loglog(sizes, per_second, label=label, **style)
    axes[1].set_xlabel("rows of the table")
    axes[1].set_ylabel("rows per second")
    axes[1].legend(frameon=False)
    return figure
