"""The verdict: one small rule from what was found to what to do.

The rule reads :class:`Facts` and nothing else. It is printed as a table in
``docs/how_to/check.md``; the two must say the same.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import Literal, NamedTuple, get_args

from ma_sbi.diagnostics.held_out import Estimate

__all__ = ["Decision", "Facts", "Leak", "VERDICTS", "Verdict", "decide"]

# Beyond this share a point leaves most of the departure.
MOSTLY_WITHIN = 0.5

Verdict = Literal["use", "use the marginal part only", "use with care", "do not use"]
VERDICTS: tuple[Verdict, ...] = get_args(Verdict)

Leak = Literal["found", "suspected", "none", "weak test", "untested"]
"""What is known of theta in the context. ``"weak test"``: nothing was found, but there were
too few rows to find a leak of the size that matters."""


class Decision(NamedTuple):
    """A verdict with its reasons, the decisive one first."""

    verdict: Verdict
    reasons: tuple[str, ...]


@dataclass(frozen=True)
class Facts:
    """What the diagnostics found, as far as the verdict depends on it.

    Everything is optional: None is what could not be found out.

    Attributes:
        leak: What is known of theta in the context.
        leak_detail: The same in a sentence, with its figures.
        departure: Whether observations differ from simulations at all.
        marginal: Held-out gain of the constant part, as a share of the departure.
        conditional: What the context adds to it.
        total: Gain of both.
        why_no_gain: Why there are no gains, in a sentence.
        affine: Whether the departure depends on x, so that a shift is the wrong family.
        informative: Whether the information is above its null and the break-even.
        num_triples: Paired rows.
        num_needed: Triples for 90 % of what the context can give; None if unknown.
        within: Share of the departure's variance that the context cannot explain.
        usual_after: Whether corrected observations look like simulations.
        covered: Whether the corrected posterior's regions hold the truth as they say.
        explained: Whether the corrected posterior predicts what it is shown.
        inside_range: Whether corrected observations lie where the posterior was trained.
        means_move: Whether means of the (corrected) posterior still move with the context.
        observations_move: Whether the observations depend on the context.
        unseen: Whether each context occurs in one group only, so that a group that is held
            out has a context that the others never showed.
    """

    leak: Leak = "untested"
    leak_detail: str = ""
    departure: bool | None = None
    marginal: Estimate | None = None
    conditional: Estimate | None = None
    total: Estimate | None = None
    why_no_gain: str = ""
    affine: bool | None = None
    informative: bool | None = None
    num_triples: int = 0
    num_needed: int | None = None
    within: float | None = None
    usual_after: bool | None = None
    covered: bool | None = None
    explained: bool | None = None
    inside_range: bool | None = None
    means_move: bool | None = None
    observations_move: bool | None = None
    unseen: bool = False

    @property
    def mean_helps(self) -> bool:
        """Whether the constant part alone is shown to help."""
        return self.marginal is not None and self.marginal.low > 0


def decide(facts: Facts) -> Decision:
    """Apply the rule; the first line that holds decides.

    Example:
        >>> decide(Facts(leak="found", leak_detail="It tells theta.")).verdict
        'do not use'
    """
    if facts.leak == "found":
        return Decision("do not use", _refuse_leak(facts))
    if facts.total is None or facts.conditional is None:
        return _without_gain(facts)
    if facts.departure is False:
        return Decision(
            "do not use",
            (
                "No departure was found: the observations cannot be told from simulations "
                "at the same inputs, and no correction helps. That is good news: use the "
                "posterior as it is.",
            ),
        )
    if facts.mean_helps and not facts.conditional.low > 0:
        return Decision("use the marginal part only", _marginal_only(facts))
    if facts.total.high < 0:
        reason = (
            f"On rows held out the correction does harm: it takes away {facts.total} of "
            "the departure."
        )
        return Decision("do not use", (reason, *_unseen(facts)))
    if not facts.total.low > 0:
        return Decision("do not use", _not_shown(facts))
    kind = "an affine correction" if facts.affine else "the correction"
    gain = (
        f"On rows held out {kind} takes away {facts.total} of the departure, of which the "
        f"context adds {facts.conditional}."
    )
    doubts = _doubts(facts)
    if doubts:
        return Decision("use with care", (gain, *doubts))
    return Decision("use", (gain, *_merits(facts)))


def _merits(facts: Facts) -> list[str]:
    """List what speaks for a plain yes."""
    merits = [facts.leak_detail]
    if facts.usual_after:
        merits.append("After the correction little or nothing tells them from simulations.")
    if facts.covered:
        merits.append("The corrected posterior's regions hold the truth as they say.")
    return merits


def _refuse_leak(facts: Facts) -> tuple[str, ...]:
    reasons = [
        facts.leak_detail,
        "To correct by a context that tells theta is to remove a true effect.",
    ]
    if facts.mean_helps:
        reasons.append(
            f"The mean departure, which does not read the context, takes away "
            f"{facts.marginal}: that part may be used."
        )
    return tuple(reasons)


def _marginal_only(facts: Facts) -> tuple[str, ...]:
    reasons = [
        f"The mean departure takes away {facts.marginal} of the departure on rows held "
        f"out; the context adds {facts.conditional}, which is not above zero."
    ]
    if facts.leak == "suspected":
        reasons.append(facts.leak_detail)
    if (
        _lacks_triples(facts)
        and facts.conditional is not None
        and facts.conditional.value > 0
    ):
        reasons.append(_too_few(facts))
    return (*reasons, *_doubts_about_x(facts))


def _not_shown(facts: Facts) -> tuple[str, ...]:
    reasons = [
        f"No correction is shown to help: on rows held out it takes away {facts.total} of "
        "the departure."
    ]
    if _lacks_triples(facts):
        reasons.append(_too_few(facts))
    return (*reasons, *_unseen(facts))


def _unseen(facts: Facts) -> list[str]:
    if not facts.unseen:
        return []
    return [
        "Each context occurs in one group only: whole groups are held out, and what the "
        "others say of a context that they never had is a guess. Leave the groups out, or "
        "observe contexts in several groups."
    ]


def _without_gain(facts: Facts) -> Decision:
    """Decide where no pairs tell what a correction gains."""
    if facts.observations_move is False:
        return Decision(
            "do not use",
            (
                "The observations do not vary with the context, so there is nothing that "
                "it could correct. Whether they all depart by the same amount cannot be "
                "told without paired simulations (x_sim).",
            ),
        )
    reasons = [f"What a correction gains could not be tested. {facts.why_no_gain}".strip()]
    if facts.means_move:
        reasons.append(
            "The posterior's means move with the context. That may be a departure, or "
            "theta itself may change with the context, as when instructions move a "
            "decision boundary; matching distributions across contexts would then remove "
            "a true effect. The data cannot tell the two apart; you must know."
        )
    return Decision(
        "use with care", (*reasons, *_leak_doubts(facts), *_doubts_about_x(facts))
    )


def _doubts(facts: Facts) -> list[str]:
    """List what stands between a correction that helps and a plain yes."""
    doubts = _leak_doubts(facts)
    if facts.conditional is not None and not facts.conditional.low > 0:
        doubts.append(
            "Neither the mean departure nor the context alone is shown to help, only both "
            "together."
        )
    if facts.affine:
        doubts.append(
            "The departure depends on x: use an affine corrector, "
            "ComposedCorrector(encoder, Affine(), Ridge(), Point()), not a shift."
        )
    if facts.informative is False:
        doubts.append(
            "The context's information on the departure is not above its null, or not "
            "above what estimating the shifts costs."
        )
    if _lacks_triples(facts):
        doubts.append(_too_few(facts))
    if facts.within is not None and facts.within > MOSTLY_WITHIN:
        doubts.append(
            f"{facts.within:.0%} of the departure's variance lies within contexts, where a "
            "point corrector is too sure: use one that weighs several departures "
            "(BootstrapCorrector, or Mixture() or Evidence() in place of Point())."
        )
    return doubts + _doubts_about_x(facts)


def _leak_doubts(facts: Facts) -> list[str]:
    return [] if facts.leak == "none" else [facts.leak_detail]


def _doubts_about_x(facts: Facts) -> list[str]:
    """List what is wrong with the observations after the correction."""
    doubts = []
    if facts.usual_after is False:
        doubts.append(
            "After the correction the observations still do not look like simulations, and "
            "more than a tenth of the departure is left."
        )
    if facts.inside_range is False:
        doubts.append(
            "After the correction some observations lie far outside the simulations that "
            "the posterior was trained on."
        )
    if facts.covered is False:
        doubts.append(
            "The corrected posterior is too sure: its regions hold the true theta less "
            "often than they say."
        )
    if facts.explained is False:
        doubts.append("The corrected posterior does not predict what it is shown.")
    if facts.means_move and facts.total is not None:
        doubts.append(
            "After the correction the posterior's means still move with the context: the "
            "correction is not complete, or theta changes with the context."
        )
    return doubts


def _lacks_triples(facts: Facts) -> bool:
    return facts.num_needed is not None and facts.num_triples < facts.num_needed


def _too_few(facts: Facts) -> str:
    return (
        f"There are {facts.num_triples} triples; about {facts.num_needed} would give 90 % "
        "of what the context can."
    )
