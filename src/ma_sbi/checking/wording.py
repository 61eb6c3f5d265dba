"""The questions that a check asks, and its answers in a line."""

from __future__ import annotations

from collections.abc import Callable
from typing import TYPE_CHECKING, Any

if TYPE_CHECKING:
    from ma_sbi.checking.figures import LeakPower
    from ma_sbi.diagnostics import (
        DepartureFamily,
        Dependence,
        Exclusion,
        Information,
        Likeness,
        OutOfDistribution,
        ThreeWay,
        WeakContext,
    )

__all__ = ["QUESTIONS", "answer"]

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
    """Word a result in a line or two, or the reason why there is none."""
    if isinstance(figure, str):
        return figure
    return ANSWERS.get(name, str)(figure)


def _exclusion(found: Exclusion) -> str:
    parts = []
    if found.r2_sim == found.r2_sim:
        parts.append(
            f"it explains {max(found.r2_sim, 0):.1%} of the simulations' variance "
            f"(threshold {found.threshold:.0%})"
        )
    for side, test in (("simulations", found.x_sim), ("theta", found.theta)):
        if test is not None:
            parts.append(f"dependence of {side} p = {test.p_value:.2g}")
    return f"{'No sign of it' if found.passed else 'Yes'}: {', '.join(parts)}"


def _leak_power(found: LeakPower) -> str:
    likely = "Yes" if found.power >= 0.8 else "Not surely"
    return f"{likely}: {found}"


def _observations(found: Dependence) -> str:
    moves = "Yes" if found.p_value <= 0.05 else "No sign of it"
    return f"{moves}: p = {found.p_value:.2g}"


def _information(found: Information) -> str:
    above = "More than chance" if found.p_value <= 0.05 else "No more than chance"
    return f"{above}: {found}"


def _weak_context(found: WeakContext) -> str:
    needed = ""
    if found.num_needed is not None and found.conditional.low > 0:
        needed = f"; about {found.num_needed} triples give 90 % of what the context can"
    return (
        f"{found.total} of a departure of {found.size:.2g} standard deviations, on rows "
        f"held out: the mean takes away {found.marginal}, the context adds "
        f"{found.conditional}{needed}"
    )


def _family(found: DepartureFamily) -> str:
    if found.family == "shift" and not found.shift.low > 0:
        return f"Nothing calls for slopes; a shift takes away {found.shift}"
    if found.family == "shift":
        return f"Yes: a shift takes away {found.shift}, slopes are not called for"
    return f"No, it depends on x: slopes add {found.on_x_obs} to {found.shift} of a shift"


def _three_way(found: ThreeWay) -> str:
    parts = ("marginal", "conditional", "total")
    if found.gap is None:
        shares = ", ".join(f"{part} {getattr(found, part)}" for part in parts)
        return f"Of the departure: {shares}"
    shares = ", ".join(f"{part} {getattr(found.gap, part)}" for part in parts)
    return f"Of the posterior's gap to its answer at x_sim: {shares}"


def _unusual(found: OutOfDistribution) -> str:
    def said(likeness: Likeness) -> str:
        same = "yes" if likeness.p_value >= 0.01 else "no"
        return (
            f"{same} (p = {likeness.p_value:.2g}, {likeness.outside:.0%} of rows outside)"
        )

    after = "" if found.after is None else f"; after correction {said(found.after)}"
    return f"Before {said(found.before)}{after}"


def _capital(found: Any) -> str:
    text = str(found)
    return text[:1].upper() + text[1:]


ANSWERS: dict[str, Callable[[Any], str]] = {
    "exclusion": _exclusion,
    "leak_power": _leak_power,
    "observations": _observations,
    "information": _information,
    "weak_context": _weak_context,
    "family": _family,
    "affine": _capital,
    "three_way": _three_way,
    "out_of_distribution": _unusual,
    "means": _capital,
    "predictive_check": _capital,
}
