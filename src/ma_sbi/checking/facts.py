"""What was found, reduced to the figures on which the verdict depends."""

from __future__ import annotations

import warnings
from dataclasses import dataclass
from typing import Any, Literal

from ma_sbi.checking.judging import Judgement, Option, Score
from ma_sbi.checking.rows import exchanges
from ma_sbi.choosing.exchange import Exchange
from ma_sbi.diagnostics.diagnostic import Skipped
from ma_sbi.diagnostics.subject import Subject
from ma_sbi.diagnostics.thresholds import THRESHOLDS
from ma_sbi.display.text import shorten
from ma_sbi.nan import not_drawn, refuse
from ma_sbi.one_at_a_time import local_filters
from ma_sbi.randomness import derive

__all__ = ["Change", "Facts", "Leak", "Share", "choose", "gather"]

Leak = Literal["found", "suspected", "none", "weak test", "untested"]
"""Whether the context depends on theta. ``"weak test"``: no dependence was found, but there
were too few rows to find a leak of the size that matters."""


@dataclass(frozen=True)
class Change:
    """A p-value before and after the correction; None if it is not known."""

    before: float | None = None
    after: float | None = None


@dataclass(frozen=True)
class Share:
    """How often 80 % regions contain the truth, with the error of that share.

    Attributes:
        before: Observations as they are.
        after: Corrected; None without a correction.
        perfect: At x_sim; None without pairs.
        error: Standard error of a share.
    """

    before: float
    after: float | None
    perfect: float | None
    error: float


@dataclass(frozen=True)
class Facts:
    """What the verdict depends on; None is what is not known.

    Attributes:
        num_rows: Rows that were checked.
        problems: What is wrong with the rows as they were given, in sentences.
        paired: Whether rows of x_obs and x_sim are pairs; None without x_sim.
        pair_p_value: Of the test whether they depend on each other, if that was asked.
        constant: Whether x_sim is the same in every row.
        one_run: Whether there is one simulation for each row, and not several.
        direction_told: Whether the rows tell which side is x_obs and which x_sim.
        swapped_log_odds: Of swapped sides, if they are not told, and it is above zero.
        leak: Whether the context depends on theta.
        leak_detail: The same in a sentence, with its numbers.
        cannot: Why no correction could be judged, in a sentence.
        chosen: The option that does best, None if no correction does.
        no_pairs: Whether rows are no pairs, and no true parameters judge them.
        may_leak: Whether nothing tells departures of contexts from differences of theta.
        elsewhere_p_value: Of theta being drawn from the prior, if that seems wrong.
        exchange_p_value: Of observations being further simulations of their rows, if that
            may be so.
        is_untold: Whether too few rows are judged by x_sim to trust a context where nothing
            tells the sides.
        noise_alone: Whether only noise, alike in all rows, is between x_obs and x_sim.
        gain: What the best option gains, in nats per row, whether it is advised or not.
        adds: What the context adds to a correction of all rows alike.
        perfect: What the posterior at x_sim gains.
        num_judged: Rows that were judged.
        num_outliers: Rows that are far from all others.
        scored_by: What the log scores are of.
        reads_context: Whether the correction of the first option reads the context.
        noise: What is known of noise in x_sim, in a sentence.
        noise_told: Whether noise of x_sim could be told from departure.
        is_blurred: Whether rows are judged by x_sim, which may have noise of its own.
        likeness: P-values of observations being simulations.
        mmd: Distance between observations and simulations.
        places: How observations differ from simulations of their rows, before and after
            the correction.
        coverage: How often regions contain the truth.
        predicted: P-value of the observations under the corrected posterior's predictions.
        outside: Share of corrected observations outside the posterior's training range.
        means_share: Share of the variance of posterior means that the context explains,
            corrected if there is a correction, if that is significant; else None.
        unseen: Whether each context occurs in one group only.
        theta_known: Whether true parameters of the observations were given.
        posterior: Whether there is a posterior.
        own: The user's own corrector as Python prints it; None without one.
        few_wordings: How many texts carry most rows, and which share, if few do.
        failures: What diagnostics that raised an error say of it.
        no_answer: Why the posterior that would be used gives none, in a sentence.
    """

    num_rows: int = 0
    problems: tuple[str, ...] = ()
    paired: bool | None = True
    pair_p_value: float | None = None
    constant: bool = False
    one_run: bool = True
    direction_told: bool = True
    swapped_log_odds: float | None = None
    leak: Leak = "untested"
    leak_detail: str = ""
    cannot: str = ""
    chosen: Literal["by context", "common"] | None = None
    no_pairs: bool = False
    may_leak: bool = False
    elsewhere_p_value: float | None = None
    exchange_p_value: float | None = None
    is_untold: bool = False
    noise_alone: bool = False
    gain: Score | None = None
    adds: Score | None = None
    perfect: Score | None = None
    num_judged: int = 0
    num_outliers: int = 0
    scored_by: str = ""
    reads_context: bool = True
    noise: str = ""
    noise_told: bool = True
    is_blurred: bool = False
    likeness: Change = Change()
    mmd: Change = Change()
    places: tuple[Exchange, Exchange] | None = None
    coverage: Share | None = None
    predicted: float | None = None
    outside: float | None = None
    means_share: float | None = None
    unseen: bool = False
    theta_known: bool = False
    posterior: bool = False
    own: str | None = None
    few_wordings: tuple[int, float] | None = None
    failures: tuple[str, ...] = ()
    no_answer: str = ""


# Nats per row below which a correction is none. More are asked where nothing shows which
# side is which: if they are swapped, it loses what it seems to gain. And of all rows
# together: many rows tell the sides of a large departure, few do not.
WORTH, WORTH_UNTOLD, WORTH_UNTOLD_IN_ALL = 0.005, 0.05, 5.0
# What a context must add to a correction of all rows alike, unless that is a standard error
# above zero.
ADDS = 0.05
# What it must gain by two standard errors where the judge assumes a prior that seems wrong,
# and where it is x_sim with noise that is not known, so that the score does not allow for
# it.
GAIN_ELSEWHERE = 0.05
GAIN_BY_UNKNOWN_NOISE = 0.5
# What it may lose on the rows that it makes worse to count as harmless.
HARMLESS = 0.005


def choose(judgement: Judgement) -> Option | None:
    """Choose the option that does best on rows it was not fitted to; None for none.

    A correction is chosen if its gain is a standard error above zero: more is not asked,
    because it was weighed against "nothing departs" already, and hedges where rows are few.
    It must be two where x_sim has noise of its own, and more than hardly anything. Or a
    correction is chosen because it makes hardly any row worse, such as one that hedges, or
    that only allows for outliers.
    Rows that are no pairs are no reason for a correction. Without x_sim or true parameters,
    what differs between contexts may be theta: at most the common part is chosen. Where
    theta seems to come from another population than the prior, which the judge assumes, or
    rows are judged by x_sim that may have noise of its own, the gain must be larger. Where
    observations may be further simulations of their rows, nothing departs; and noise that
    is alike in all rows may be what x_sim lacks, if it is an expected value. Where sides
    are not told, and more probably swapped than not, a correction would more probably harm;
    and of few rows that x_sim judges, a context is not trusted where nothing tells them.
    """
    if judgement.no_pairs or judgement.is_exchangeable or judgement.noise_alone:
        return None
    if judgement.leans_to_swapped is not None:
        return None
    best = judgement.by_context
    common, adds = judgement.common, judgement.adds
    if common is not None and adds is not None:
        # What the context is not seen to add, it may as well take away.
        seen_to_add = adds.mean > min(adds.error, ADDS)
        if judgement.may_leak or not seen_to_add:
            best = common
    gain = best.gain
    if judgement.is_untold and best.name == "by context":
        return None
    if judgement.is_elsewhere:
        return best if gain.low > GAIN_ELSEWHERE else None
    if judgement.is_blurred:
        is_clear = gain.low > GAIN_BY_UNKNOWN_NOISE and judgement.surely_departs
        return best if is_clear else None
    if best.lost < HARMLESS and (gain.mean > WORTH or judgement.num_outliers):
        return best
    errors = 2 if judgement.is_noisy else 1
    worth = WORTH
    if not judgement.sides_told:
        worth = max(WORTH_UNTOLD, WORTH_UNTOLD_IN_ALL / judgement.num_judged)
    return best if gain.mean > max(errors * gain.error, worth) else None


def gather(subject: Subject, judgement: Judgement | None, cannot: str = "") -> Facts:
    """Reduce what was found to facts.

    Args:
        subject: What was checked, with the results of all diagnostics.
        judgement: What options gain; None if that could not be told.
        cannot: Why not, in a sentence.
    """
    found = subject.found
    paired = judgement is None or judgement.plan.data.paired
    leak, detail = _leak(subject, paired=paired)
    likeness, coverage = found("out_of_distribution"), found("coverage")
    predicted, outside, means = map(found, ("predictive_check", "training_range", "means"))
    known: dict[str, Any] = {}
    if judgement is not None:
        plan, pairing = judgement.plan, judgement.plan.pairing
        chosen = choose(judgement)
        best = judgement.by_context if chosen is None else chosen
        known = {
            "problems": () if pairing is None else pairing.mistakes,
            "num_outliers": judgement.num_outliers,
            "pair_p_value": None if pairing is None else pairing.p_value,
            "constant": pairing is not None and pairing.constant,
            "one_run": subject.repeats is None,
            "direction_told": judgement.sides_told,
            "swapped_log_odds": judgement.leans_to_swapped,
            "no_pairs": judgement.no_pairs,
            "may_leak": judgement.may_leak,
            "elsewhere_p_value": judgement.elsewhere_p_value
            if judgement.is_elsewhere
            else None,
            "exchange_p_value": judgement.exchange_p_value
            if judgement.is_exchangeable
            else None,
            "noise_alone": judgement.noise_alone,
            "is_untold": judgement.is_untold and best.name == "by context",
            "chosen": None if chosen is None else chosen.name,
            "places": None if chosen is None else exchanges(judgement, chosen),
            "gain": best.gain,
            "adds": judgement.adds,
            "perfect": judgement.perfect,
            "num_judged": judgement.num_judged,
            "scored_by": judgement.scored_by,
            "reads_context": judgement.common is not None,
            "noise": plan.data.noise.sentence if plan.data.paired else "",
            "noise_told": judgement.noise_told,
            "is_blurred": judgement.is_blurred,
        }
    return Facts(
        num_rows=len(subject.x_obs),
        paired=None if subject.x_sim is None else paired,
        leak=leak,
        leak_detail=detail,
        cannot=cannot,
        likeness=_change(likeness, "p_value"),
        mmd=_change(likeness, "mmd"),
        coverage=None if coverage is None else _share(coverage),
        predicted=getattr(predicted, "p_value", None),
        outside=getattr(outside, "after", None),
        means_share=None if means is None or not means.move else means.share,
        unseen=subject.contexts_in_one_group,
        theta_known=subject.theta is not None,
        posterior=subject.posterior is not None,
        own=None if subject.corrector is None else type(subject.corrector).__name__,
        few_wordings=subject.few_wordings,
        failures=tuple(
            f"A diagnostic failed, so its answer is not known ({name}): {one.reason}"
            for name, one in subject.results.items()
            if isinstance(one, Skipped) and one.failed
        ),
        no_answer=_no_answer(subject),
        **known,
    )


def _no_answer(subject: Subject) -> str:
    """Say why the posterior that would be used has no draws for some rows."""
    if subject.posterior is None:
        return ""
    positions, rows, _ = subject.some(subject.budget.coverage, "an answer")
    x, seed = rows.x_obs.float(), derive(subject.seed, "an answer")
    corrected = subject.corrected_posterior
    try:
        with local_filters():
            warnings.simplefilter("ignore")
            if corrected is None:
                draws = subject.quick_posterior.sample(1, x, seed=seed)
            else:
                draws = corrected.sample(1, x, positions, seed=seed)
        refuse(not_drawn(draws), "draws")
    except Exception as error:  # noqa: BLE001 (the posterior may be anyone's)
        return f"The posterior gives no answer: {shorten(error)}."
    return ""


def _change(result: Any, name: str) -> Change:
    if result is None:
        return Change()
    after = None if result.after is None else getattr(result.after, name)
    return Change(getattr(result.before, name), after)


def _share(found: Any) -> Share:
    def at(one: Any) -> float | None:
        if one is None:
            return None
        share: float = next(each.share for each in one.expected if each.level == 0.8)
        return share

    num = len(found.before.sbc_ranks)
    before = at(found.before)
    assert before is not None  # noqa: S101
    return Share(before, at(found.after), at(found.simulated), (0.8 * 0.2 / num) ** 0.5)


def _leak(subject: Subject, *, paired: bool) -> tuple[Leak, str]:
    if not paired and subject.theta is None:
        return "untested", (
            "Whether the context depends on theta was not tested: there are neither pairs "
            "nor true parameters."
        )
    exclusion, power = subject.found("exclusion"), subject.found("leak_power")
    if exclusion is None or exclusion.passed is None:
        why = exclusion.reasons[-1] if exclusion else subject.results["exclusion"].reason
        return "untested", f"Whether the context depends on theta was not tested. {why}"
    if not exclusion.passed:
        # Of few rows a context may explain much by chance.
        by_chance = exclusion.p_value > THRESHOLDS.dependence
        how: Leak = "suspected" if by_chance else "found"
        verb = "may depend" if by_chance else "depends"
        return how, f"The context {verb} on theta. " + " ".join(exclusion.reasons)
    if exclusion.p_value <= THRESHOLDS.leak_suspected:
        return "suspected", (
            f"The context may depend on theta (p = {exclusion.p_value:.2g}): below "
            f"{THRESHOLDS.leak_suspected:.0%}, but not so far below that chance is ruled "
            "out. Test more rows."
        )
    if power is not None and power.power < THRESHOLDS.leak_power:
        return "weak test", (
            "No dependence of the context on theta was found, but the test is weak: "
            f"{power.figures}."
        )
    return "none", (
        "No dependence of the context on theta was found in "
        f"{exclusion.num_rows} rows (p = {exclusion.p_value:.2g})."
    )
