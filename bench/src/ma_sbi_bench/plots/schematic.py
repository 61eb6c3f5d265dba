"""The method on one picture."""

from __future__ import annotations

from typing import Any

from matplotlib.axes import Axes
from matplotlib.figure import Figure
from matplotlib.patches import FancyArrowPatch, FancyBboxPatch

__all__ = ["plot_schematic"]

WIDTH, HEIGHT = 1.9, 0.75
PLAIN, LEARNED, GIVEN = "#f2f2f2", "#deebf7", "#e5f5e0"


def plot_schematic() -> Figure:
    """Draw context, corrector and posterior, and what each is learned from."""
    figure = Figure(figsize=(10.5, 3.6), layout="constrained")
    axis = figure.subplots()
    axis.set(xlim=(-0.2, 12.6), ylim=(-0.3, 3.9))
    axis.set_axis_off()
    boxes = {
        "context": (0, 2.2, "context z\n“Reports are late.”", GIVEN),
        "encoder": (2.6, 2.2, "encoder", PLAIN),
        "corrector": (5.2, 2.2, "corrector\n$\\hat\\delta(z)$", LEARNED),
        "observation": (2.6, 0.6, "observation $x_{obs}$", GIVEN),
        "corrected": (5.2, 0.6, "$x_{obs} - \\hat\\delta(z)$", PLAIN),
        "posterior": (7.8, 0.6, "posterior $\\hat q(\\theta \\mid x)$\nas it was", LEARNED),
        "draws": (10.4, 0.6, "draws of $\\theta$", PLAIN),
    }
    for left, bottom, text, colour in boxes.values():
        _box(axis, left, bottom, text, colour)
    for start, end in (
        ("context", "encoder"),
        ("encoder", "corrector"),
        ("observation", "corrected"),
        ("corrected", "posterior"),
        ("posterior", "draws"),
    ):
        _across(axis, boxes[start], boxes[end])
    _down(axis, boxes["corrector"], boxes["corrected"])
    known: dict[str, Any] = {"ha": "center", "fontsize": 8, "color": "0.35"}
    middle = 5.2 + WIDTH / 2
    axis.text(
        middle,
        3.25,
        "learned from triples\n(z, $x_{obs}$, $x_{sim}$), no $\\theta^*$",
        **known,
    )
    axis.text(
        7.8 + WIDTH / 2,
        -0.05,
        "trained once on simulations ($\\theta$, $x_{sim}$)",
        **known,
    )
    return figure


def _box(axis: Axes, left: float, bottom: float, text: str, colour: str) -> None:
    shape = FancyBboxPatch(
        (left, bottom),
        WIDTH,
        HEIGHT,
        boxstyle="round,pad=0.06",
        facecolor=colour,
        edgecolor="0.4",
    )
    axis.add_patch(shape)
    centre = (left + WIDTH / 2, bottom + HEIGHT / 2)
    axis.text(*centre, text, ha="center", va="center", fontsize=9, color="0.1")


def _across(axis: Axes, start: tuple, end: tuple) -> None:
    height = start[1] + HEIGHT / 2
    _arrow(axis, (start[0] + WIDTH + 0.06, height), (end[0] - 0.06, height))


def _down(axis: Axes, start: tuple, end: tuple) -> None:
    middle = start[0] + WIDTH / 2
    _arrow(axis, (middle, start[1] - 0.06), (middle, end[1] + HEIGHT + 0.06))


def _arrow(axis: Axes, start: tuple[float, float], end: tuple[float, float]) -> None:
    axis.add_patch(
        FancyArrowPatch(start, end, arrowstyle="-|>", mutation_scale=12, color="0.3")
    )
