"""The method on one picture."""

from __future__ import annotations

from typing import Any

from matplotlib.figure import Figure
from matplotlib.patches import FancyArrowPatch, FancyBboxPatch

__all__ = ["plot_schematic"]

WIDTH, HEIGHT, GAP = 1.9, 0.75, 0.06
PLAIN, LEARNED, GIVEN = "#f2f2f2", "#deebf7", "#e5f5e0"
# Left and lower end of each box, its text and its colour.
BOXES = {
    "context": (0, 2.2, "context z\n“Reports are late.”", GIVEN),
    "encoder": (2.6, 2.2, "encoder", PLAIN),
    "corrector": (5.2, 2.2, "corrector\n$\\hat\\delta(z)$", LEARNED),
    "observation": (2.6, 0.6, "observation $x_{obs}$", GIVEN),
    "corrected": (5.2, 0.6, "$x_{obs} - \\hat\\delta(z)$", PLAIN),
    "posterior": (7.8, 0.6, "posterior $\\hat q(\\theta \\mid x)$\nas it was", LEARNED),
    "draws": (10.4, 0.6, "draws of $\\theta$", PLAIN),
}
ARROWS = (
    ("context", "encoder"),
    ("encoder", "corrector"),
    ("corrector", "corrected"),
    ("observation", "corrected"),
    ("corrected", "posterior"),
    ("posterior", "draws"),
)
# Height of what is said of a box.
REMARKS = {
    "corrector": (3.25, "learned from triples\n(z, $x_{obs}$, $x_{sim}$), no $\\theta^*$"),
    "posterior": (-0.05, "trained once on simulations ($\\theta$, $x_{sim}$)"),
}


def plot_schematic() -> Figure:
    """Draw context, corrector and posterior, and what each is learned from."""
    figure = Figure(figsize=(10.5, 3.6), layout="constrained")
    axis = figure.subplots()
    axis.set(xlim=(-0.2, 12.6), ylim=(-0.3, 3.9))
    axis.set_axis_off()
    style: dict[str, Any] = {"boxstyle": f"round,pad={GAP}", "edgecolor": "0.4"}
    for left, low, text, colour in BOXES.values():
        axis.add_patch(
            FancyBboxPatch((left, low), WIDTH, HEIGHT, facecolor=colour, **style)
        )
        centre = (left + WIDTH / 2, low + HEIGHT / 2)
        axis.text(*centre, text, ha="center", va="center", fontsize=9, color="0.1")
    for start, end in ARROWS:
        (left, low, *_), (right, lower, *_) = BOXES[start], BOXES[end]
        middle, height = left + WIDTH / 2, low + HEIGHT / 2
        across = (left + WIDTH + GAP, height), (right - GAP, height)
        down = (middle, low - GAP), (middle, lower + HEIGHT + GAP)
        ends = across if low == lower else down
        axis.add_patch(
            FancyArrowPatch(*ends, arrowstyle="-|>", mutation_scale=12, color="0.3")
        )
    for name, (height, text) in REMARKS.items():
        middle = BOXES[name][0] + WIDTH / 2
        axis.text(middle, height, text, ha="center", fontsize=8, color="0.35")
    return figure
