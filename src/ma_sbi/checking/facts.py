"""What the diagnostics found, reduced to the facts on which the verdict depends."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any, Literal

from ma_sbi.diagnostics.chosen_corrector import weights_in_words
from ma_sbi.diagnostics.diagnostic import Skipped
from ma_sbi.diagnostics.held_out import Gain
from ma_sbi.diagnostics.subject import Subject
from ma_sbi.diagnostics.thresholds import THRESHOLDS

__all__ = ["Facts", "Leak", "gather"]

Leak = Literal["found", "suspected", "none", "weak test", "untested"]
"""Whether the context depends on theta. ``"weak test"``: no dependence was found, but there
were too few rows to find a leak of the size that matters."""


@dataclass(frozen=True)
class Facts:
    """What the verdict depends on; None is what is not known.

    Attributes:
        leak: Whether the context depends on theta.
        leak_detail: The same in a sentence, with its numbers.
        departure: Whether observations differ from simulations at all.
        marginal: Held-out gain of the constant part, as a share of the departure.
        conditional: What the context adds to it.
        total: Gain of both.
        why_no_gain: Why there are no gains, in a sentence.
        affine: Whether the departure depends on x, so that a shift is the wrong family.
        informative: Whether the information is above its null and the break-even.
        num_triples: Paired rows.
        num_needed: Triples for 90 % of what the context can give.
        within: Share of the departure's variance that the context cannot explain.
        usual_after: Whether corrected observations look like simulations.
        covered: Whether the corrected posterior's regions cover nearly enough.
        explained: Whether the corrected posterior predicts the observations.
        inside_range: Whether corrected observations lie where the posterior was trained.
        means_move: Whether means of the (corrected) posterior depend on the context.
        observations_move: Whether the observations depend on the context.
        unseen: Whether each context occurs in one group only, so that a group that is held
            out has a context that no other group has.
        theta_known: Whether true parameters of the observations were given.
        own_corrector: The user's own corrector as Python prints it; None without one.
        own_is_fitted: Whether that corrector is fitted already.
        choice: The weights that ``fit_corrector`` gives, in words; empty if not known.
        paired: Whether there is a simulation for each observation.
        encoder: An expression that makes the encoder; empty if ``fit_corrector`` chooses
            the same.
        options: Other arguments of ``fit_corrector`` that were given, as code.
        preparation: Lines that make a posterior, and a corrector, of what was given.
        failures: What diagnostics that raised an error say of it.
    """

    leak: Leak = "untested"
    leak_detail: str = ""
    departure: bool | None = None
    marginal: Gain | None = None
    conditional: Gain | None = None
    total: Gain | None = None
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
    theta_known: bool = False
    own_corrector: str | None = None
    own_is_fitted: bool = False
    choice: str = ""
    paired: bool = True
    encoder: str = ""
    options: tuple[str, ...] = ()
    preparation: tuple[str, ...] = ()
    failures: tuple[str, ...] = ()

    @property
    def mean_helps(self) -> bool:
        """Whether the constant part alone is shown to help."""
        return self.marginal is not None and self.marginal.low > 0

    @property
    def lacks_triples(self) -> bool:
        """Whether more triples would give more of what the context can."""
        return self.num_needed is not None and self.num_triples < self.num_needed

    @property
    def mostly_within(self) -> bool:
        """Whether a single shift per context leaves most of the departure."""
        return self.within is not None and self.within > THRESHOLDS.mostly_within


def gather(subject: Subject, preparation: tuple[str, ...] = ()) -> Facts:
    """Reduce the results of all diagnostics to facts.

    Args:
        subject: What was checked.
        preparation: Lines that make the subject's posterior of the user's.
    """
    found, limits = subject.found, THRESHOLDS
    weak, affine = found("weak_context"), found("affine")
    gains = weak if affine is None else affine
    information, likeness = found("information"), found("out_of_distribution")
    informative = departure = usual_after = None
    if information is not None and weak is not None:
        informative = bool(
            information.p_value <= limits.dependence
            and information.value > weak.min_information
        )
    if likeness is not None and gains is not None:
        helps = any(one.low > 0 for one in (gains.total, gains.conditional, gains.marginal))
        departure = bool(likeness.before.p_value < limits.unusual or helps)
    if likeness is not None and likeness.after is not None:
        little = gains is not None and gains.total.value >= 1 - limits.little_left
        usual_after = bool(likeness.after.p_value >= limits.unusual or little)
    coverage, predicted = found("coverage"), found("predictive_check")
    outside, means = found("training_range"), found("means")
    observations = found("observations")
    # What an affine corrector needs and leaves is not what a shift does.
    shift = weak if affine is None else None
    choice = found("fit_corrector")
    leak, detail = _leak(subject)
    is_corrected = subject.is_fitted or subject.x_sim is not None
    return Facts(
        leak=leak,
        leak_detail=detail,
        departure=departure,
        marginal=getattr(gains, "marginal", None),
        conditional=getattr(gains, "conditional", None),
        total=getattr(gains, "total", None),
        why_no_gain=str(subject.results["weak_context"]) if gains is None else "",
        affine=affine is not None,
        informative=informative,
        num_triples=len(subject.x_obs),
        num_needed=getattr(shift, "num_needed", None),
        within=getattr(shift, "within", None),
        usual_after=usual_after,
        covered=getattr(coverage, "is_enough", None) if is_corrected else None,
        explained=_at_least(predicted, limits.unusual) if is_corrected else None,
        inside_range=None
        if outside is None or outside.after is None
        else outside.after <= limits.outside_range,
        means_move=getattr(means, "move", None),
        observations_move=None
        if observations is None
        else observations.p_value <= limits.dependence,
        unseen=subject.contexts_in_one_group,
        theta_known=subject.theta is not None,
        own_corrector=None if subject.corrector is None else repr(subject.corrector),
        own_is_fitted=subject.corrector is not None and subject.is_fitted,
        choice="" if choice is None else weights_in_words(choice),
        paired=subject.x_sim is not None,
        encoder=subject.encoder_code,
        options=_options(subject),
        preparation=preparation,
        failures=tuple(
            f"A diagnostic failed, so its answer is not known ({name}): {one.reason}"
            for name, one in subject.results.items()
            if isinstance(one, Skipped) and one.failed
        ),
    )


def _options(subject: Subject) -> tuple[str, ...]:
    given = {
        "posterior=posterior": subject.posterior is not None,
        "groups=groups": subject.groups is not None,
        f"seed={subject.seed}": subject.seed is not None,
    }
    return tuple(code for code, is_given in given.items() if is_given)


def _at_least(test: Any, level: float) -> bool | None:
    return None if test is None else test.p_value >= level


def _leak(subject: Subject) -> tuple[Leak, str]:
    exclusion, power = subject.found("exclusion"), subject.found("leak_power")
    if exclusion is None or exclusion.passed is None:
        why = exclusion.reasons[-1] if exclusion else subject.results["exclusion"].reason
        return "untested", f"Whether the context depends on theta was not tested. {why}"
    if not exclusion.passed:
        return "found", "The context depends on theta. " + " ".join(exclusion.reasons)
    if exclusion.p_value <= THRESHOLDS.leak_suspected:
        return "suspected", (
            f"The context may depend on theta (p = {exclusion.p_value:.2g}): below "
            f"{THRESHOLDS.leak_suspected:.0%}, but not so far below that chance is ruled "
            "out. Test more rows."
        )
    if power is not None and power.power < THRESHOLDS.leak_power:
        return "weak test", (
            "No dependence of the context on theta was found, but the test is weak: "
            f"{power}."
        )
    return "none", (
        "No dependence of the context on theta was found in "
        f"{exclusion.num_rows} rows (p = {exclusion.p_value:.2g})."
    )
