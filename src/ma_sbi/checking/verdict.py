"""The verdict: one small rule from the facts to what to do, with code that does it.

The rule depends on :class:`~ma_sbi.checking.facts.Facts` alone. It is printed as a table in
``docs/how_to/check.md``; the two must agree.
"""

from __future__ import annotations

import re
from dataclasses import dataclass
from typing import Literal, NamedTuple, get_args

from ma_sbi.checking.facts import Facts

__all__ = ["VERDICTS", "Advice", "Decision", "Verdict", "decide"]

Verdict = Literal["use", "use the marginal part only", "use with care", "do not use"]
VERDICTS: tuple[Verdict, ...] = get_args(Verdict)

# Where the names of the code come from.
MODULES = {
    "ma_sbi": {
        "CorrectedPosterior",
        "SentenceEncoder",
        "fit_corrector",
        "from_sbi",
    },
    "ma_sbi.diagnostics": {"read_context"},
}
# Columns that every terminal has: a line that is broken cannot be copied.
TERMINAL = 79
RESULTS = 'The page "Results" of the documentation compares them.'


@dataclass(frozen=True)
class Advice:
    """What to use, and how.

    Attributes:
        corrector: ``"fit_corrector"``, or a class of correctors; None for no correction.
        code: Lines of Python that do it, given ``posterior``, ``context``, ``x_obs``,
            ``x_sim`` (or ``x_pool``), and ``encoder``, ``groups`` or ``corrector`` if they
            are yours.
        reasons: Why, in sentences.
    """

    corrector: str | None
    code: str
    reasons: tuple[str, ...] = ()

    def __str__(self) -> str:
        lines = [f"What to use: {self.corrector or 'the posterior as it is'}"]
        lines += [f"- {reason}" for reason in self.reasons]
        return "\n".join([*lines, "", self.code])


class Decision(NamedTuple):
    """A verdict with its reasons, the decisive one first, and what to use."""

    verdict: Verdict
    reasons: tuple[str, ...]
    advice: Advice


def decide(facts: Facts) -> Decision:
    """Apply the rule; the first line that holds decides.

    Example:
        >>> decision = decide(Facts(leak="found", leak_detail="It depends on theta."))
        >>> decision.verdict, decision.advice.corrector
        ('do not use', None)
    """
    verdict, reasons = _verdict(facts)
    return Decision(verdict, tuple(reasons), _advice(facts, verdict))


def _verdict(facts: Facts) -> tuple[Verdict, list[str]]:
    if facts.leak == "found":
        reasons = [
            facts.leak_detail,
            "Correcting by a context that depends on theta removes a true effect.",
        ]
        if facts.mean_helps:
            reasons.append(
                "The mean departure, which does not use the context, removes "
                f"{facts.marginal}: that part may be used."
            )
        return "do not use", reasons
    if facts.total is None or facts.conditional is None:
        return _without_gain(facts)
    if facts.departure is False:
        return "do not use", [
            f"No departure was found in {facts.num_triples} rows, and no correction is "
            "shown to help. If that is enough rows to see one that matters, it is good "
            "news: use the posterior as it is."
        ]
    if facts.mean_helps and not facts.conditional.low > 0:
        reasons = [
            f"The mean departure removes {facts.marginal} of the departure on rows held "
            f"out; the context adds {facts.conditional}, which is not above zero."
        ]
        if facts.leak == "suspected":
            reasons.append(facts.leak_detail)
        if facts.lacks_triples and facts.conditional.value > 0:
            reasons.append(_too_few(facts))
        return "use the marginal part only", reasons + _doubts_after(facts)
    if not facts.total.low > 0:
        harm = facts.total.high < 0
        how = "The correction does harm" if harm else "No correction is shown to help"
        reasons = [f"{how}: on rows held out it removes {facts.total} of the departure."]
        if facts.lacks_triples and not harm:
            reasons.append(_too_few(facts))
        if facts.unseen:
            reasons.append(
                "Each context occurs in one group only. Whole groups are held out, so the "
                "other groups have never had the context of the one held out. Leave the "
                "groups out, or observe contexts in several groups."
            )
        return "do not use", reasons
    kind = "an affine correction" if facts.affine else "the correction"
    gain = (
        f"On rows held out {kind} removes {facts.total} of the departure, of which the "
        f"context adds {facts.conditional}."
    )
    doubts = _doubts(facts)
    if doubts:
        return "use with care", [gain, *doubts]
    merits = {
        facts.leak_detail: True,
        "After the correction little or nothing of the departure is left.": (
            facts.usual_after
        ),
        "Regions of the corrected posterior contain the truth as often as they should.": (
            facts.covered
        ),
    }
    return "use", [gain, *_true(merits)]


def _without_gain(facts: Facts) -> tuple[Verdict, list[str]]:
    """Decide where there are no pairs to measure the gain of a correction."""
    if facts.observations_move is False:
        return "do not use", [
            "The observations were not found to vary with the context in "
            f"{facts.num_triples} rows, so nothing is known that it could correct. Whether "
            "they all depart by the same amount cannot be known without paired simulations "
            "(x_sim)."
        ]
    reasons = [f"What a correction gains could not be tested. {facts.why_no_gain}".strip()]
    if facts.means_move:
        reasons.append(
            "The posterior's means move with the context. That may be a departure, or "
            "theta itself may change with the context, as when instructions move a "
            "decision boundary; matching distributions across contexts would then remove "
            "a true effect. The data cannot distinguish the two; you must know."
        )
    return "use with care", reasons + _leak_doubt(facts) + _doubts_after(facts)


def _doubts(facts: Facts) -> list[str]:
    """List what keeps a correction that helps from a plain yes."""
    assert facts.conditional is not None
    doubts = {
        "Neither the mean departure nor the context alone is shown to help, only both "
        "together.": not facts.conditional.low > 0,
        "The departure depends on x: a shift is the wrong family.": facts.affine,
        "The context's information on the departure is not above its null, or not above "
        "what estimating the shifts costs.": facts.informative is False,
        _too_few(facts): facts.lacks_triples,
        f"{facts.within or 0:.0%} of the departure's variance lies within contexts, where "
        "a single shift per context makes the posterior too sure.": facts.mostly_within,
    }
    return _leak_doubt(facts) + _true(doubts) + _doubts_after(facts)


def _doubts_after(facts: Facts) -> list[str]:
    """List what is wrong after the correction, or could not be seen."""
    still_move = facts.means_move and facts.total is not None
    return [*facts.failures] + _true(
        {
            "After the correction the observations still do not look like simulations, "
            "and more than a tenth of the departure is left.": facts.usual_after is False,
            "After the correction some observations lie far outside the simulations that "
            "the posterior was trained on.": facts.inside_range is False,
            "The corrected posterior is too sure: its regions contain the true theta less "
            "often than they should.": facts.covered is False,
            "The corrected posterior does not predict the observations.": (
                facts.explained is False
            ),
            "After the correction the posterior's means still move with the context: the "
            "correction is not complete, or theta changes with the context.": still_move,
        }
    )


def _leak_doubt(facts: Facts) -> list[str]:
    return [] if facts.leak == "none" else [facts.leak_detail]


def _too_few(facts: Facts) -> str:
    return (
        f"There are {facts.num_triples} triples; about {facts.num_needed} would give 90 % "
        "of what the context can."
    )


def _true(sentences: dict[str, bool | None]) -> list[str]:
    """Keep the sentences that hold."""
    return [words for words, holds in sentences.items() if holds]


# What to use: from the same facts, once the verdict is known.


def _advice(facts: Facts, verdict: Verdict) -> Advice:
    if verdict == "do not use":
        reasons = []
        if facts.departure is not False:
            reasons.append(
                "Methods that allow for a wrong simulator without a context, such as NNPE "
                f"and RNPE, are in the package ma-sbi-bench. {RESULTS}"
            )
        code = _code(facts, ["draws = posterior.sample(1000, x_obs)"])
        return Advice(None, code, tuple(reasons))
    if verdict == "use the marginal part only":
        return _common_part(facts)
    if facts.own_corrector is not None:
        name = facts.own_corrector.partition("(")[0]
        reason = "The results are those of the corrector that was given."
        fit = [] if facts.own_is_fitted else [f"corrector.fit({_rows(facts)})"]
        return Advice(name, _code(facts, [*fit, *_sample("context")]), (reason,))
    reasons = [f"Its weights, by rows held out: {facts.choice}."] if facts.choice else []
    if not facts.paired:
        reasons.append(
            "Without simulations at the inputs of each observation, distributions can be "
            "matched. That assumes that theta has the same distribution in every context, "
            "which the data cannot show: where it is wrong, a true effect is removed."
        )
    elif facts.theta_known:
        reasons.append(
            "True parameters are known for these rows. Methods that learn from them, such "
            f"as RoPE, are in the package ma-sbi-bench. {RESULTS}"
        )
    fit = _fit_corrector(facts, _rows(facts), encoder=facts.encoder)
    code = _code(facts, [*fit, *_sample("context")])
    return Advice("fit_corrector", code, tuple(reasons))


def _common_part(facts: Facts) -> Advice:
    """Correct all rows alike, by giving them the same context."""
    reasons = (
        "Every row is given the same context: only the common part is shown to help.",
        "Departures that differ by more than x varies show in x itself: "
        "density=fit_density(x), with x many simulations from the prior, lets "
        "fit_corrector weigh them by it, without a context.",
    )
    rows = '["same"] * len(x_obs), x_obs, x_sim'
    fit = _fit_corrector(facts, rows)
    return Advice("fit_corrector", _code(facts, [*fit, *_sample('"same"')]), reasons)


def _rows(facts: Facts) -> str:
    return f"context, x_obs, {'x_sim' if facts.paired else 'simulations=x_pool'}"


def _fit_corrector(facts: Facts, rows: str, encoder: str = "") -> list[str]:
    """Write the call, with what was given, in lines that fit a terminal."""
    lines = [] if encoder in ("", "encoder") else [f"encoder = {encoder}"]
    options = ", ".join([*(["encoder=encoder"] if encoder else []), *facts.options])
    call = f"corrector = fit_corrector({rows}{', ' if options else ''}{options})"
    if len(call) <= TERMINAL:
        return [*lines, call]
    return [*lines, "corrector = fit_corrector(", f"    {rows},", f"    {options},", ")"]


def _sample(context: str) -> list[str]:
    return [
        "corrected = CorrectedPosterior(posterior, corrector)",
        f"draws = corrected.sample(1000, x_obs, {context})",
    ]


def _code(facts: Facts, lines: list[str]) -> str:
    """Put imports, and what was given taken apart, before lines of code."""
    lines = [*facts.preparation, *lines]
    called = set(re.findall(r"\w+(?=\()", "\n".join(lines)))
    imports = [
        f"from {module} import {', '.join(sorted(called & names))}"
        for module, names in MODULES.items()
        if called & names
    ]
    return "\n".join([*imports, "", *lines] if imports else lines)
