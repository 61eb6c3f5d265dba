"""The questions that a check asks, and its answers in a line."""

from __future__ import annotations

from typing import Any

__all__ = ["QUESTIONS", "answer", "printable"]

QUESTIONS = {
    "exclusion": "Does the context leak theta?",
    "leak_power": "Would a leak have been found?",
    "observations": "Do the observations vary with the context?",
    "information": "What does the context tell of the departure?",
    "weak_context": "What does a correction gain?",
    "family": "Is the departure a shift?",
    "affine": "What would an affine correction gain?",
    "three_way": "Which part of the correction does it?",
    "out_of_distribution": "Do the observations look simulated?",
    "training_range": "Are they where the posterior was trained?",
    "means": "Do posterior means move with the context?",
    "coverage": "Does the posterior cover the truth?",
    "predictive_check": "Does the posterior predict what it is shown?",
}
"""What each diagnostic answers, in the order in which they are run."""


def answer(name: str, figure: Any) -> str:
    """Word a result, or the reason why there is none."""
    if isinstance(figure, str):
        return figure
    if name == "observations":
        moves = "yes" if figure.p_value <= 0.05 else "no sign of it"
        return f"{moves}: {figure}"
    text = str(figure)
    return text[:1].upper() + text[1:]


def printable(text: str) -> str:
    """Replace control characters, which a terminal would obey."""
    return "".join(one if one.isprintable() or one == "\n" else "\ufffd" for one in text)
