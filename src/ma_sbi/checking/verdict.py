"""The verdict: one small rule from the facts to what to do, with code that does it.

The rule depends on :class:`~ma_sbi.checking.facts.Facts` alone. It is printed as a table in
``docs/how_to/check.md``; the two must agree. Every sentence is made of the figures that it
states.
"""

from __future__ import annotations

import math
from dataclasses import dataclass
from typing import Literal, NamedTuple, get_args

from ma_sbi.checking.facts import Facts
from ma_sbi.checking.judging import Score
from ma_sbi.diagnostics.thresholds import THRESHOLDS

__all__ = ["VERDICTS", "Advice", "Decision", "Verdict", "decide"]

Verdict = Literal["use", "use the marginal part only", "use with care", "do not use"]
VERDICTS: tuple[Verdict, ...] = get_args(Verdict)

# Gains beyond this factor are not worth spelling out.
MANY_TIMES = 1000
# Nats per row that are printed as none.
NOTHING = 0.005
# Reasons that are given; other doubts stand below the advice.
MOST_REASONS = 3


@dataclass(frozen=True)
class Advice:
    """What to do next.

    Attributes:
        use: What to use, in words.
        code: Lines of Python that do it, given ``answer``, what ``check`` returned, and
            ``posterior``, ``context`` and ``x_obs``; none if rows have to be mended first.
        doubts: What follows the three reasons of the verdict, in sentences.
        not_checked: What was not checked, in sentences.
        collect: What to collect next, in sentences.
    """

    use: str
    code: str
    doubts: tuple[str, ...] = ()
    not_checked: tuple[str, ...] = ()
    collect: tuple[str, ...] = ()

    def __str__(self) -> str:
        lines = [f"What to use: {self.use}"] + (["", self.code] if self.code else [])
        for title, sentences in self.lists().items():
            lines += ["", f"{title}:", *(f"- {one}" for one in sentences)]
        return "\n".join(lines)

    def lists(self) -> dict[str, tuple[str, ...]]:
        """Return other doubts, what was not checked, and what to collect, by title."""
        every = {
            "Other doubts": self.doubts,
            "Not checked": self.not_checked,
            "To collect next": self.collect,
        }
        return {title: sentences for title, sentences in every.items() if sentences}


class Decision(NamedTuple):
    """A verdict with its reasons, three at most, the decisive one first, and what to do."""

    verdict: Verdict
    reasons: tuple[str, ...]
    advice: Advice


def decide(facts: Facts) -> Decision:
    """Apply the rule; the first line that holds decides.

    Example:
        >>> leak = {"leak": "found", "leak_detail": "It depends on theta."}
        >>> decision = decide(Facts(paired=None, **leak))
        >>> decision.verdict, decision.reasons[0]
        ('do not use', 'It depends on theta.')
    """
    verdict, reasons = _verdict(facts)
    shown, others = tuple(reasons[:MOST_REASONS]), tuple(reasons[MOST_REASONS:])
    return Decision(verdict, shown, _advice(facts, verdict, others))


def _verdict(facts: Facts) -> tuple[Verdict, list[str]]:
    if facts.problems:
        return "do not use", list(facts.problems)
    if facts.no_answer:
        return "do not use", [facts.no_answer]
    if facts.leak == "found" and not _is_harmless(facts):
        return "do not use", [facts.leak_detail, _after_leak(facts)]
    if facts.gain is None:
        return "do not use", [facts.cannot]
    if facts.no_pairs:
        return "do not use", [_unpaired(facts)]
    if facts.exchange_p_value is not None:
        return "do not use", [_exchangeable(facts, facts.gain), *_without_noise(facts)]
    if facts.noise_alone and facts.gain.low > 0:
        return "do not use", [_noise_alone(facts.gain)]
    if facts.chosen is None and facts.swapped_log_odds is not None and facts.gain.low > 0:
        return "do not use", [_leaning(facts, facts.gain)]
    if facts.chosen is None and facts.is_untold and facts.gain.low > 0:
        return "do not use", [_untold(facts, facts.gain)]
    if facts.chosen is None and facts.elsewhere_p_value is not None and facts.gain.low > 0:
        return "do not use", [_elsewhere(facts, facts.gain)]
    if facts.chosen is None and facts.is_blurred and facts.gain.low > 0:
        return "do not use", [_evened_out(facts, facts.gain)]
    if facts.chosen is None:
        reasons = [_no_gain(facts), *_likeness(facts), *_unseen(facts)]
        return "do not use", [*_no_pairs(facts), *reasons]
    worse = _worse(facts)
    if worse:
        return "do not use", [_gain(facts, facts.gain), *worse]
    reasons, doubts = [_gain(facts, facts.gain), *_context(facts)], _doubts(facts)
    if facts.chosen == "common" or not (facts.reads_context or facts.own):
        return "use the marginal part only", reasons + doubts
    if doubts:
        return "use with care", reasons + doubts
    return "use", [*reasons, facts.leak_detail]


def _is_harmless(facts: Facts) -> bool:
    """Tell whether a context that depends on theta leaves a correction right.

    Pairs show the departure row by row. But x_sim that was inferred from x_obs depends on
    the context, too, by the departure that it contains; given x_obs, the context then adds
    nothing. Without pairs, what all contexts have in common may be used.
    """
    if facts.paired is not True:
        return facts.chosen == "common"
    by_context = facts.chosen == "by context" and facts.adds is not None
    return by_context and facts.adds is not None and facts.adds.low > 0


# Sentences, each made of the figures that it states.


def _after_leak(facts: Facts) -> str:
    if facts.paired is not True:
        return "Correcting by a context that depends on theta removes a true effect."
    return (
        "Or x_sim was inferred from x_obs, or the sides are swapped: the context is not "
        "clearly seen to add to a correction."
    )


def _times(gain: float) -> str:
    """Say how many times as probable a gain of the log score makes something."""
    factor = math.exp(min(abs(gain), 50))
    how = f"{factor:.3g}" if factor < MANY_TIMES else f"more than {MANY_TIMES}"
    return f"{how} times {'as' if gain >= 0 else 'less'} probable"


def _gain(facts: Facts, gain: Score) -> str:
    """State the gain, its share of what can be gained, and what the context adds to it."""
    verb = "is" if facts.scored_by.startswith("x_") else "are"
    parts = [
        f"Corrected, {facts.scored_by} {verb} on average {_times(gain.mean)} "
        f"({gain} nats per row, {facts.num_judged} rows that the fit had not seen)"
    ]
    if facts.chosen == "by context" and facts.adds is not None:
        parts.append(f"of this the context adds {facts.adds}")
    if facts.perfect is not None and facts.perfect.low > 0:
        share = gain.mean / facts.perfect.mean
        parts.append(f"it is {share:.0%} of what the posterior at x_sim would give")
    return "; ".join(parts) + "."


def _no_gain(facts: Facts) -> str:
    assert facts.gain is not None  # noqa: S101
    how = "does harm" if facts.gain.high < 0 else "is not shown to help"
    if facts.gain.low > 0:
        how = "gains too little to be worth it"
    if max(abs(facts.gain.low), abs(facts.gain.high)) < NOTHING:
        how = "changes nothing"
    return (
        f"A correction {how}: on {facts.num_judged} rows that the fit had not seen it "
        f"changes the log score of {facts.scored_by} by {facts.gain} nats per row."
    )


def _unpaired(facts: Facts) -> str:
    if facts.constant:
        return (
            "x_sim is the same in every row, as at one setting, without the simulator's "
            "noise. What of x_obs - x_sim is noise cannot be told: pass several runs for "
            "each row, or a posterior."
        )
    return (
        "Rows of x_obs and x_sim are not seen to be pairs (p = "
        f"{facts.pair_p_value:.2g}). What is common to all rows may be a departure, or "
        "x_sim at other parameters; what differs between contexts may be a departure, or "
        "theta. A row of x_sim must be simulated at the inputs of the same row of x_obs. "
        "Simulations from the prior are a pool: pass them as simulations= alone."
    )


def _exchangeable(facts: Facts, gain: Score) -> str:
    said = (
        "Nothing is seen to depart: observations and simulations of their rows could "
        f"change places (p = {facts.exchange_p_value:.2g}, {facts.num_rows} rows)."
    )
    if gain.low <= 0:
        return said
    return (
        f"{said} What predicts x_sim better ({gain} nats per row) only evens out its noise."
    )


def _without_noise(facts: Facts) -> list[str]:
    p_value = facts.likeness.before
    if p_value is None or p_value >= THRESHOLDS.unusual:
        return _likeness(facts)
    return [
        f"As a whole, observations do differ from simulations (p = {p_value:.2g}): x_sim "
        "may lack the simulator's noise, as an expected value or a mean of several runs "
        "does."
    ]


def _noise_alone(gain: Score) -> str:
    return (
        f"A correction seems to gain ({gain} nats per row), but between x_obs and x_sim "
        "there is only noise, alike in all rows: x_sim may be an expected value, or a mean "
        "of several runs, without the simulator's noise. Pass several runs of each row, "
        "which show it."
    )


def _leaning(facts: Facts, gain: Score) -> str:
    return (
        f"A correction seems to gain ({gain} nats per row), but too little shows which "
        "side is which, and what there is points to swapped sides (log odds "
        f"{facts.swapped_log_odds:.1f}): if they are, it loses. More rows, or simulations= "
        "from the prior, tell it."
    )


def _untold(facts: Facts, gain: Score) -> str:
    return (
        f"A correction seems to gain ({gain} nats per row), but nothing in "
        f"{facts.num_rows} rows shows which side is which: if they are swapped, it loses. "
        "More rows, simulations= from the prior or a posterior tell it."
    )


def _elsewhere(facts: Facts, gain: Score) -> str:
    return (
        f"A correction seems to gain ({gain} nats per row), but parameters drawn at x_sim "
        f"are unlike the prior (p = {facts.elsewhere_p_value:.2g}): so small a gain may "
        "hold for this population alone, or be a loss."
    )


def _evened_out(facts: Facts, gain: Score) -> str:
    return (
        f"A correction seems to gain ({gain} nats per row), but x_sim may have noise of "
        "its own, and what only evens it out can seem to gain as well: pass a posterior, "
        "or several simulations of each row."
    )


def _likeness(facts: Facts) -> list[str]:
    p_value = facts.likeness.before
    if p_value is None:
        return []
    if p_value >= THRESHOLDS.unusual:
        return [
            f"Observations are not seen to differ from simulations (p = {p_value:.2g}, "
            f"{facts.num_rows} rows)."
        ]
    return [
        f"Observations do differ from simulations (p = {p_value:.2g}), in a way that "
        "nothing tried here corrects."
    ]


def _no_pairs(facts: Facts) -> list[str]:
    if facts.paired is not False:
        return []
    return [
        "Rows of x_obs and x_sim are not seen to be pairs (p = "
        f"{facts.pair_p_value:.2g}), so x_sim was taken for a pool: that assumes that "
        "theta has the same distribution under every context, and in x_sim."
    ]


def _unseen(facts: Facts) -> list[str]:
    if not facts.unseen:
        return []
    return [
        "Each context occurs in one group only. Whole groups are held out, so the other "
        "groups have never had the context of the one held out. Leave the groups out, or "
        "observe contexts in several groups."
    ]


def _context(facts: Facts) -> list[str]:
    by_context = facts.chosen == "by context" and facts.adds is not None
    if by_context or (facts.own is not None and facts.adds is None):
        return []
    if facts.adds is None:
        return [
            "The correction is the same under every context: none is seen to add to it."
        ]
    if facts.chosen == "common" and facts.may_leak:
        return [
            "Without pairs, what differs between contexts may be theta: a correction by "
            "the context needs x_sim at the inputs of each row, or true parameters."
        ]
    return [f"The context is not seen to add to it ({facts.adds} nats per row)."]


def _worse(facts: Facts) -> list[str]:
    """List figures after which the correction must not be advised."""
    found = []
    covered = facts.coverage
    if covered is not None and covered.after is not None:
        others = [covered.before]
        others += [] if covered.perfect is None else [covered.perfect]
        off = [abs(one - 0.8) for one in others]
        if abs(covered.after - 0.8) > max(off) + 3 * covered.error:
            found.append(
                f"But 80 % regions contain the truth in {covered.after:.0%} of rows after "
                f"it, and in {covered.before:.0%} before: it is not advised."
            )
    if facts.places is not None:
        first, then = facts.places
        farther = then.distance > 2 * max(first.distance, 0.0) + THRESHOLDS.mmd_worse
        if farther and then.p_value <= THRESHOLDS.exchange:
            found.append(
                "But corrected observations differ more from simulations of their rows "
                f"than before (distance {first.distance:.2g} before, {then.distance:.2g} "
                f"after, p = {then.p_value:.2g}): it is not advised."
            )
    before, after, p_value = facts.mmd.before, facts.mmd.after, facts.likeness.after
    if before is None or after is None or p_value is None:
        return found
    farther = after > 2 * max(before, 0.0) + THRESHOLDS.mmd_worse
    if farther and p_value < THRESHOLDS.unusual:
        found.append(
            "But corrected observations are less like simulations than before (squared "
            f"distance {before:.2g} before, {after:.2g} after, p = {p_value:.2g}): it is "
            "not advised."
        )
    return found


def _doubts(facts: Facts) -> list[str]:
    """List what keeps a correction that helps from a plain yes, what weighs most first."""
    doubts = _no_pairs(facts)
    if facts.paired is None:
        doubts.append(
            "Without x_sim, simulations at the inputs of each observation, it is assumed "
            "that theta has the same distribution under every context, and in the "
            "simulations: where that is wrong, a true effect is removed."
        )
    if facts.leak == "found" and facts.paired:
        doubts.append(
            f"{facts.leak_detail} Pairs show the departure row by row, so that a true "
            "effect is not removed, if x_sim was simulated at the true inputs, not at "
            "those inferred from x_obs, and the sides are not swapped: x_sim alone shows "
            "the dependence."
        )
    elif facts.leak != "none":
        doubts.append(facts.leak_detail)
    doubts += [*facts.failures, *_unseen(facts)]
    if not facts.noise_told:
        doubts.append(
            "Whether x_sim has noise of its own, which is no departure, cannot be told "
            "from these rows."
        )
    if facts.gain is not None and facts.gain.low <= 0:
        doubts.append(
            f"The gain is less than two standard errors above zero: {facts.gain}."
        )
    if facts.num_outliers:
        doubts.append(
            f"{facts.num_outliers} of {facts.num_rows} rows are far from all others. An "
            "observation as far away is taken for any simulation: its posterior is about "
            "the prior."
        )
    covered = facts.coverage
    if covered is not None and covered.after is not None:
        short = 0.8 - covered.after
        own = 0.0 if covered.perfect is None else max(0.0, 0.8 - covered.perfect)
        if short > max(own, THRESHOLDS.coverage_slack) + 2 * covered.error:
            doubts.append(
                f"80 % regions of the corrected posterior contain the truth in "
                f"{covered.after:.0%} of rows."
            )
    if facts.outside is not None and facts.outside > THRESHOLDS.outside_range:
        doubts.append(
            f"{facts.outside:.1%} of corrected observations lie far outside the "
            "simulations that the posterior was trained on."
        )
    if facts.predicted is not None and facts.predicted < THRESHOLDS.unusual:
        doubts.append(
            "The corrected posterior does not predict the observations "
            f"(p = {facts.predicted:.2g})."
        )
    if facts.means_share is not None:
        doubts.append(
            f"After the correction the context still explains {facts.means_share:.0%} of "
            "the variance of posterior means: the correction is not complete, or theta "
            "changes with the context."
        )
    return doubts


# What to do: from the same facts, once the verdict is known.


def _advice(facts: Facts, verdict: Verdict, doubts: tuple[str, ...]) -> Advice:
    sample = ["draws = posterior.sample(1000, x_obs)"]
    use = "the posterior as it is"
    if facts.problems:
        sample, use = [], "nothing yet: the rows have to be mended first"
    elif facts.no_answer:
        sample, use = [], "nothing yet: the posterior has to be mended first"
    if verdict != "do not use":
        sample = [
            "from ma_sbi import CorrectedPosterior",
            "",
            "corrected = CorrectedPosterior(posterior, answer.corrector)",
            "# Put new observations in their place: the corrector was fitted to these.",
            "draws = corrected.sample(1000, x_obs, context)",
        ]
        use = "the corrector of this answer, which is fitted"
        if verdict == "use the marginal part only":
            use += ", the same for every context"
        if facts.own is not None and facts.chosen == "by context":
            use = "your own corrector"
            sample = [line.replace("answer.corrector", "corrector") for line in sample]
    left = _not_checked(facts), _collect(facts, verdict)
    return Advice(use, "\n".join(sample), doubts, *left)


def _not_checked(facts: Facts) -> tuple[str, ...]:
    found = []
    if facts.leak == "untested" and not facts.problems:
        found.append(facts.leak_detail)
    if not facts.direction_told and not facts.problems:
        found.append(
            "Which side is which: nothing in these rows would show that x_obs and x_sim "
            "are swapped."
        )
    if facts.paired and facts.one_run and not facts.problems:
        found.append(
            "Whether each x_sim is one run of the simulator, with its noise. If it is an "
            "expected value, or a mean of several runs, noise of x_obs looks like a "
            "departure."
        )
    if not facts.posterior:
        found.append("What becomes of the parameters: there is no posterior.")
    elif not facts.theta_known:
        found.append("Whether the posterior covers the truth: there is no theta.")
    return tuple(found)


def _collect(facts: Facts, verdict: Verdict) -> tuple[str, ...]:
    found = []
    if facts.constant and facts.no_pairs:
        found.append("Several simulations of each row, x_sim of shape (n, m, dim_x).")
    elif facts.paired is not True:
        found.append("x_sim: simulations at the known inputs of each observation.")
    elif not facts.noise_told or facts.noise_alone:
        found.append("Several simulations of each row, x_sim of shape (n, m, dim_x).")
    if facts.gain is not None and facts.gain.low <= 0 <= facts.gain.high:
        found.append(f"More rows than {facts.num_rows}.")
    elif facts.leak == "weak test" and verdict != "do not use":
        found.append(f"More rows than {facts.num_rows}, to test for a leak of theta.")
    if facts.few_wordings is not None:
        num, share = facts.few_wordings
        found.append(
            f"Labels: {num} wordings carry {share:.0%} of the rows. Naming the regime of "
            "each is worth more than any reading of the texts."
        )
    return tuple(found)
