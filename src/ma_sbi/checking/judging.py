"""The options of a check, each scored on rows that it was not fitted to.

The judge compares what :func:`~ma_sbi.fit_corrector` would do with no correction, and with
what it would do if it could not read the context. The score is that of the true parameters
under the corrected posterior where they are known, else of parameters drawn from the
posterior at x_sim, else of x_sim itself.
"""

from __future__ import annotations

import warnings
from collections.abc import Callable, Sequence
from dataclasses import dataclass, field
from typing import Any, Literal

import numpy as np
import pandas as pd
import torch
from sklearn.base import clone
from torch import Tensor

from ma_sbi.checking.rows import (
    elsewhere_p_value,
    exchange_p_value,
    is_noise_alone,
    is_noiseless,
    repeated,
    simulated,
)
from ma_sbi.choosing import NotPaired
from ma_sbi.choosing.fit import plan_corrector
from ma_sbi.choosing.pairing import Pairing
from ma_sbi.choosing.plan import Plan
from ma_sbi.choosing.proposals import LearnedForwards
from ma_sbi.choosing.targets import (
    Parameters,
    Predicted,
    SimulatedData,
    Target,
    by_posterior,
    robust,
)
from ma_sbi.correctors.common import SAME, CommonCorrector
from ma_sbi.correctors.matching import MatchingAssumption
from ma_sbi.diagnostics.corrected_rows import CorrectedRows
from ma_sbi.diagnostics.diagnostic import CannotRun
from ma_sbi.diagnostics.subject import Subject
from ma_sbi.diagnostics.thresholds import THRESHOLDS
from ma_sbi.display.progress import say
from ma_sbi.one_at_a_time import local_filters
from ma_sbi.protocols import Corrections
from ma_sbi.randomness import derive

__all__ = ["Judgement", "Option", "Score", "judge"]

NUM_FOLDS = 5
# Rows that are judged, and rows that each fit of a fold learns from.
MOST_JUDGED = 1_000
MOST_JUDGED_BY_POSTERIOR = 500
MOST_TRAINED = 2_000
# A departure that is common to all rows is known well from so many.
MOST_COMMON = 2_000
# Rows from which a context is trusted where nothing tells which side is which.
FEWEST_UNTOLD = 60
# Share of rows that no correction explains. Fewer than a choice allows for: what is done to
# the worst rows is what a judge must see.
UNEXPLAINED = 0.001

OptionName = Literal["by context", "common"]


@dataclass(frozen=True)
class Score:
    """A mean over rows with its standard error.

    Attributes:
        mean: In nats per row.
        error: Standard error, over groups if there are any.
    """

    mean: float
    error: float

    @classmethod
    def of(cls, gains: Tensor, groups: np.ndarray) -> Score:
        """Average gains ``(n,)``, of which those of a group count as one."""
        codes = torch.from_numpy(np.unique(groups, return_inverse=True)[1].reshape(-1))
        num = int(codes.max()) + 1
        mean = gains.mean()
        sums = torch.zeros(num, dtype=gains.dtype).index_add_(0, codes, gains - mean)
        spread = sums.square().sum() * num / max(1, num - 1)
        return cls(mean.item(), (spread.sqrt() / len(gains)).item())

    @property
    def low(self) -> float:
        """Two standard errors below the mean."""
        return self.mean - 2 * self.error

    @property
    def high(self) -> float:
        """Two standard errors above the mean."""
        return self.mean + 2 * self.error

    def __str__(self) -> str:
        return f"{self.mean:+.2f} ± {self.error:.2f}"


@dataclass(frozen=True)
class Option:
    """One thing that may be advised.

    Attributes:
        name: Which.
        corrector: Fitted to all rows.
        gain: Log score on rows that it was not fitted to, minus that of no correction.
        held_out: Corrects the rows that were judged, by fits to others.
        gains: The gain of each row that was judged, shape ``(n,)``.
    """

    name: OptionName
    corrector: Any
    gain: Score
    held_out: CorrectedRows = field(repr=False)
    gains: Tensor = field(repr=False)

    @property
    def lost(self) -> float:
        """Nats per row that are lost on the rows which it makes worse."""
        return -self.gains.clamp(max=0.0).mean().item()


@dataclass(frozen=True)
class Judgement:
    """What the options gain.

    Attributes:
        plan: What ``fit_corrector`` chose.
        scored_by: What the log scores are of.
        by_context: What ``fit_corrector`` does, or the user's own corrector.
        common: The same without the context; None if the first does not read it.
        adds: What the first gains beyond the second; None without the second.
        perfect: What the posterior at x_sim gains, or x_sim itself; None without pairs.
        num_judged: Rows that were judged.
        num_outliers: Rows that are far from all others.
        may_leak: Whether differences between contexts may be of theta: there are neither
            pairs nor true parameters to judge by.
        elsewhere_p_value: Of parameters drawn at x_sim being draws from the prior, where
            they are what rows are judged by; else None.
        exchange_p_value: Of observations being further simulations of their rows, where
            rows are judged by x_sim with noise of its own, or it may have some; else None.
        noise_told: Whether noise of x_sim could be told from departure.
        noise_alone: Whether nothing but noise, alike in all rows, is between x_obs and
            x_sim, and no true parameters judge them.
    """

    plan: Plan
    scored_by: str
    by_context: Option
    common: Option | None
    adds: Score | None
    perfect: Score | None
    num_judged: int
    num_outliers: int = 0
    may_leak: bool = False
    elsewhere_p_value: float | None = None
    exchange_p_value: float | None = None
    noise_told: bool = True
    noise_alone: bool = False

    @property
    def no_pairs(self) -> bool:
        """Whether rows of x_obs and x_sim are no pairs, and no true parameters judge them.

        What is common to all rows may then be x_sim at other parameters, and what differs
        between contexts may be theta.
        """
        return self.may_leak and self.plan.pairing is not None

    @property
    def is_exchangeable(self) -> bool:
        """Whether observations may be further simulations of their rows.

        Then nothing departs, and what predicts x_sim better only evens out its noise. Where
        that noise is known, nothing that could do so is tried. Gross outliers are no
        simulations, whatever the others are.
        """
        known = self.plan.data.noise.found
        level = THRESHOLDS.dependence if known else THRESHOLDS.exchange
        p_value = self.exchange_p_value
        return p_value is not None and p_value > level and not self.num_outliers

    @property
    def is_noisy(self) -> bool:
        """Whether rows are judged by x_sim that has noise of its own, in whatever way."""
        by_x_sim = self.scored_by in (SimulatedData.words, Predicted.words)
        return self.plan.data.noise.found and by_x_sim

    @property
    def is_blurred(self) -> bool:
        """Whether rows are judged by x_sim itself, which may have noise of its own.

        What evens it out seems to gain.
        """
        return not self.noise_told and self.scored_by == SimulatedData.words

    @property
    def surely_departs(self) -> bool:
        """Whether no exchange of x_obs and x_sim is as far apart as rows are."""
        p_value, level = self.exchange_p_value, THRESHOLDS.exchange_judged_by_x_sim
        return p_value is None or p_value <= level or self.num_outliers > 0

    @property
    def sides_told(self) -> bool:
        """Whether rows or true parameters show which side is which, or there is one."""
        pairing = self.plan.pairing
        by_theta = self.scored_by == Parameters.true_words
        return pairing is None or pairing.swapped is not None or by_theta

    @property
    def is_untold(self) -> bool:
        """Whether too few rows are judged by x_sim, and nothing tells the sides.

        Gross outliers are observed, and tell the sides.
        """
        few = self.num_judged < FEWEST_UNTOLD and not self.num_outliers
        reads = self.common is not None
        by_x_sim = self.scored_by == SimulatedData.words
        return few and reads and not self.sides_told and by_x_sim

    @property
    def leans_to_swapped(self) -> float | None:
        """Log odds of swapped sides, if they are not told, and are more probable than not.

        Gross outliers are observed, and tell the sides.
        """
        pairing = self.plan.pairing
        if pairing is None or self.sides_told or self.num_outliers:
            return None
        log_odds = pairing.log_odds
        return log_odds if log_odds is not None and log_odds > 0 else None

    @property
    def is_elsewhere(self) -> bool:
        """Whether theta seems to come from another population than the prior.

        Parameters drawn at x_sim assume the prior, and are the wrong judge then. And what
        draws observations towards that population gains there, and nowhere else.
        """
        p_value = self.elsewhere_p_value
        return p_value is not None and p_value <= THRESHOLDS.leak_found


def judge(subject: Subject) -> Judgement:
    """Score what may be advised on rows that it was not fitted to.

    Raises:
        CannotRun: If there is nothing to compare observations with.
    """
    if subject.x_sim is None and subject.simulations is None:
        raise CannotRun(
            "There is nothing to compare observations with: neither x_sim, simulations at "
            "the inputs of each observation, nor simulations=, any from the prior."
        )
    say("Choosing a correction")
    plan = _plan(subject, subject.given, subject.own_encoder)
    say("Choosing one without the context")
    rows = subject.choose(MOST_COMMON, "the common part")
    few = subject.take(rows)
    common = _plan(few, pd.Series([SAME] * len(few.x_obs)), None, plan.pairing)
    say("Judging both on other rows")
    return _compare(subject, plan, common, rows)


def _plan(
    subject: Subject, entries: Any, encoder: Any, pairing: Pairing | None = None
) -> Plan:
    with local_filters():
        # Both are said by the verdict.
        warnings.simplefilter("ignore", NotPaired)
        warnings.simplefilter("ignore", MatchingAssumption)
        return plan_corrector(
            entries,
            subject.x_obs,
            subject.x_sim if subject.repeats is None else subject.repeats,
            simulations=subject.simulations,
            density=subject.density,
            posterior=subject.posterior,
            encoder=encoder,
            groups=subject.groups,
            theta=subject.theta,
            seed=subject.seed,
            pairing=pairing,
        )


def _compare(
    subject: Subject, plan: Plan, common: Plan, common_rows: np.ndarray
) -> Judgement:
    data = plan.data
    target = _target(subject, plan)
    has_posterior = isinstance(target, (Parameters, Predicted))
    most = MOST_JUDGED_BY_POSTERIOR if has_posterior else MOST_JUDGED
    folds = _folds(data.groups, data.codes, most, derive(subject.seed, "judging"))
    own = subject.corrector
    alike = _by_common(common, plan, common_rows), CommonCorrector(common.fit())
    options: dict[OptionName, tuple[Fit, Any]]
    if own is not None:
        options = {"by context": (_by_own(subject, plan), own), "common": alike}
    elif _reads_context(plan):
        options = {"by context": (_by_plan(plan), plan.fit()), "common": alike}
    else:
        # What reads no context need not hedge where one was not seen.
        options = {"by context": alike}
    # No fit has seen gross outliers.
    gross = np.setdiff1d(np.arange(len(subject.x_obs)), plan.kept)[:most]
    held = {}
    for name, (fit, corrector) in options.items():
        parts = _hold_out(fit, plan, folds, subject.seed)
        with local_filters():
            warnings.simplefilter("ignore")
            if len(gross):
                parts.append(_correct(corrector, subject.take(gross)))
        places = [*(plan.kept[test] for test in folds), *([gross] if len(gross) else [])]
        held[name] = CorrectedRows.joined(places, parts)
    judged = held["by context"].rows
    candidates: dict[str, Corrections] = {
        "nothing": Corrections.certain(subject.x_obs[judged]),
        **{name: one.candidates for name, one in held.items()},
    }
    if data.paired and isinstance(target, Parameters):
        candidates["perfect"] = Corrections.certain(simulated(subject)[judged])
    scored = {name: _score(target, judged, one) for name, one in candidates.items()}
    if isinstance(target, SimulatedData):
        # At the resolution at which some option does best.
        means = torch.stack([one.mean(dim=0) for one in scored.values()])
        width = int(means.amax(dim=0).argmax())
        scored = {name: one[:, width : width + 1] for name, one in scored.items()}
    gains = {name: (one - scored["nothing"]).mean(dim=1) for name, one in scored.items()}
    groups = judged if subject.groups is None else subject.groups[judged]

    def option(name: OptionName) -> Option:
        gain = Score.of(gains[name], groups)
        return Option(name, options[name][1], gain, held[name], gains[name])

    has_common = "common" in held
    noise = data.noise
    told = noise.told or (data.paired and is_noiseless(subject, held["by context"]))
    # A posterior that predicts x_sim knows of its noise, and true parameters have none.
    asked = not told or (noise.found and isinstance(target, SimulatedData))
    # Neither pairs nor true parameters tell a departure from theta.
    unjudged = not data.paired and not has_posterior
    return Judgement(
        plan,
        target.words,
        option("by context"),
        option("common") if has_common else None,
        Score.of(gains["by context"] - gains["common"], groups) if has_common else None,
        Score.of(gains["perfect"], groups) if "perfect" in gains else None,
        len(judged),
        len(subject.x_obs) - len(plan.kept),
        unjudged,
        elsewhere_p_value(subject, target.theta[0])
        if isinstance(target, (Parameters, Predicted))
        else None,
        exchange_p_value(plan) if data.paired and asked else None,
        told,
        subject.theta is None and not len(gross) and is_noise_alone(plan),
    )


def _reads_context(plan: Plan) -> bool:
    """Tell whether anything that was chosen reads the context."""
    if plan.weighing is None:
        return False
    choice = plan.weighing.choice
    weights = torch.maximum(choice.seen, choice.unseen).tolist()
    return any(
        weight > 0 and (proposal.reads_context or isinstance(proposal, LearnedForwards))
        for proposal, weight in zip(plan.tried.values(), weights, strict=True)
    )


def _target(subject: Subject, plan: Plan) -> Target:
    """Choose what rows are judged by."""
    weighing, theta, paired = plan.weighing, subject.theta, plan.data.paired
    at_one_setting = plan.pairing is not None and plan.pairing.at_one_setting
    # The prior of a posterior is wrong at one setting: x_sim judges there.
    if theta is not None or (paired and not at_one_setting):
        behind = by_posterior(
            subject.posterior,
            repeated(subject) if plan.pool is None or paired else plan.pool[:, None],
            own_noise=plan.data.noise.found,
            theta=None if theta is None else theta.float(),
            groups=subject.groups,
            seed=derive(subject.seed, "targets"),
        )
        if behind is not None:
            return behind
    if paired or weighing is None:
        return SimulatedData(simulated(subject), plan.data.noise.variance.cpu())
    return weighing.targets[0]


def _folds(
    groups: np.ndarray, codes: np.ndarray, most: int, seed: int | None
) -> list[np.ndarray]:
    """Deal rows that are judged to folds, whole groups together, contexts evenly."""
    rng = np.random.default_rng(seed)
    first = np.unique(groups, return_index=True)[1]
    shuffled = rng.permutation(len(first))
    order = shuffled[np.argsort(codes[first][shuffled], kind="stable")]
    num = min(NUM_FOLDS, len(first))
    fold = np.empty(len(first), dtype=int)
    fold[order] = np.arange(len(first)) % num
    rows = rng.permutation(len(groups))[:most]
    return [np.sort(rows[fold[groups[rows]] == one]) for one in range(num)]


Fit = Callable[[np.ndarray, np.ndarray, np.ndarray], Corrections]
"""Corrects rows by a fit that does not know them. Takes their positions in the plan's data,
those of all rows of their groups, and those of the rows to learn from."""


def _by_plan(plan: Plan) -> Fit:
    def correct(test: np.ndarray, same: np.ndarray, train: np.ndarray) -> Corrections:
        corrector = plan.fit_without(same, train)
        return corrector.corrections(plan.data.x_obs[test], plan.data.codes[test])

    return correct


def _by_common(common: Plan, plan: Plan, rows: np.ndarray) -> Fit:
    """Fit the common part, of which the rows had these positions among all."""
    there = rows[common.kept]

    def correct(test: np.ndarray, same: np.ndarray, train: np.ndarray) -> Corrections:
        excluded = np.isin(there, plan.kept[same])
        corrector = common.fit_without(*map(np.flatnonzero, (excluded, ~excluded)))
        return corrector.corrections(plan.data.x_obs[test], np.zeros(len(test), dtype=int))

    return correct


def _by_own(subject: Subject, plan: Plan) -> Fit:
    """Fit the user's own corrector, unless it is fitted already."""

    def correct(test: np.ndarray, same: np.ndarray, train: np.ndarray) -> Corrections:
        own = subject.corrector
        if not subject.is_fitted:
            some = subject.take(plan.kept[train])
            own = clone(own).fit(some.given, some.x_obs, some.x_sim, seed=subject.seed)
        return _correct(own, subject.take(plan.kept[test]))

    return correct


def _correct(corrector: Any, rows: Subject) -> Corrections:
    """Correct rows by a corrector that is fitted."""
    if hasattr(corrector, "corrections"):
        found: Corrections = corrector.corrections(rows.x_obs.float(), rows.given)
        return found
    return Corrections.certain(corrector.correct(rows.x_obs.float(), rows.given))


def _hold_out(
    fit: Fit, plan: Plan, folds: Sequence[np.ndarray], seed: int | None
) -> list[Corrections]:
    """Correct each fold by a fit to rows of other groups."""
    groups = plan.data.groups
    rng = np.random.default_rng(derive(seed, "training"))
    parts = []
    with local_filters():
        warnings.simplefilter("ignore")
        for test in folds:
            same = np.isin(groups, groups[test])
            others = rng.permutation(np.flatnonzero(~same))[:MOST_TRAINED]
            parts.append(fit(test, np.flatnonzero(same), np.sort(others)))
    return parts


def _score(target: Target, rows: np.ndarray, candidates: Corrections) -> Tensor:
    """Score rows ``(num_rows, draws)``, allowing for a few that nothing explains."""
    where = torch.from_numpy(rows)
    each = target.score(where, candidates.x)
    each = each.masked_fill(each.isnan(), -torch.inf)
    together = (each + candidates.log_weight.double().cpu()).logsumexp(dim=1)
    return robust(together, target.floor(where), UNEXPLAINED).T
