"""The diagnostics, each run on what there is; a failure is a sentence, not the end."""

from __future__ import annotations

import warnings
from collections.abc import Callable
from dataclasses import dataclass, field
from functools import cached_property
from typing import Any, NamedTuple

import numpy as np
import pandas as pd
import torch
from scipy import stats
from torch import Tensor

from ma_sbi.checking.figures import AffineGain, BeforeAfter, LeakPower, Means, Outside
from ma_sbi.checking.subject import Subject
from ma_sbi.checking.wording import QUESTIONS
from ma_sbi.context import Entries, distinct
from ma_sbi.correctors.composed import ComposedCorrector, FittableCorrector
from ma_sbi.correctors.departures import Affine
from ma_sbi.correctors.inference import Point
from ma_sbi.correctors.ridge import Ridge
from ma_sbi.correctors.shift import ShiftCorrector
from ma_sbi.diagnostics.coverage import Coverage, coverage
from ma_sbi.diagnostics.decomposition import ThreeWay, three_way
from ma_sbi.diagnostics.departure_family import (
    MANY_COLUMNS,
    MANY_CONTEXTS,
    DepartureFamily,
    departure_family,
)
from ma_sbi.diagnostics.dependence import NUM_COSINES, Dependence, dependence_test
from ma_sbi.diagnostics.exclusion import Exclusion, exclusion_test, held_out_r2
from ma_sbi.diagnostics.held_out import HeldOut, hold_out
from ma_sbi.diagnostics.information import Information, mutual_information
from ma_sbi.diagnostics.out_of_distribution import OutOfDistribution, out_of_distribution
from ma_sbi.diagnostics.predictive_check import PredictiveCheck, predictive_check
from ma_sbi.diagnostics.reading import as_labels, departures
from ma_sbi.diagnostics.weak_context import WeakContext, weak_context
from ma_sbi.encoders import CategoryEncoder
from ma_sbi.posteriors.diffusion import DiffusionPosterior
from ma_sbi.protocols import has_density
from ma_sbi.randomness import derive, generator, seeded

__all__ = ["Diagnosis"]

# Levels at which a dependence is a leak, and at which it is suspected to be one.
LEAK_FOUND = 0.001
LEAK_SUSPECTED = 0.01
# Enough for a p-value of LEAK_FOUND after Holm's adjustment for two tests.
LEAK_PERMUTATIONS = 1_999
# Share of the variance of one column: the paper's threshold.
LEAK_THAT_MATTERS = 0.10
MOST_ROWS_AFFINE = 500
# Fewer cannot be permuted to any purpose.
FEWEST_GROUPS = 20
LEVELS = (0.1, 0.2, 0.3, 0.4, 0.5, 0.6, 0.7, 0.8, 0.9, 0.95)
# A diffusion posterior with more steps is sampled with its fast sampler.
FEW_STEPS = 50


class _Budget(NamedTuple):
    """Rows and draws that a posterior is asked for."""

    coverage: int
    means: int
    gap: int
    draws: int
    draws_of_means: int


QUICK = _Budget(coverage=500, means=1_000, gap=200, draws=200, draws_of_means=50)
# What draws step by step: a diffusion model, and most of what has no density.
SLOW = _Budget(coverage=200, means=500, gap=100, draws=100, draws_of_means=20)


@dataclass
class Diagnosis:
    """Runs one diagnostic after the other and keeps what came out.

    Attributes:
        subject: What is checked.
        stage: Called with the name of each step.
        figures: A result for each diagnostic, or a sentence why there is none.
        notes: What was assumed or limited, and what diagnostics warned of.
    """

    subject: Subject
    stage: Callable[[str], None] = lambda name: None
    figures: dict[str, Any] = field(default_factory=dict)
    notes: list[str] = field(default_factory=list)

    def run(self) -> None:
        """Run everything that the data allow."""
        for name, step in self._steps.items():
            if (
                name == "affine"
                and self.found("family") is not None
                and not self._is_affine
            ):
                continue  # a shift is the right family
            self.stage(QUESTIONS[name])
            self.figures[name] = self._attempt(step)

    @property
    def _steps(self) -> dict[str, Callable[[], Any]]:
        return {
            "exclusion": self._exclusion,
            "leak_power": self._leak_power,
            "observations": self._observations,
            "information": self._information,
            "weak_context": self._weak_context,
            "family": self._family,
            "affine": self._affine,
            "three_way": self._three_way,
            "out_of_distribution": self._unusual,
            "training_range": self._range,
            "means": self._means,
            "coverage": self._coverage,
            "predictive_check": self._predictive,
        }

    def found(self, name: str) -> Any:
        """Return a result, or None if there is none."""
        figure = self.figures.get(name)
        return None if isinstance(figure, str) else figure

    def _attempt(self, step: Callable[[], Any]) -> Any:
        with warnings.catch_warnings(record=True) as caught:
            warnings.simplefilter("always")
            try:
                result = step()
            except _CannotRun as why:
                result = str(why)
            except Exception as error:  # noqa: BLE001 (no result may be lost for another)
                said = " ".join(str(error).split()) or type(error).__name__
                result = f"It could not be run: {said}"
        for warning in caught:
            if issubclass(warning.category, UserWarning):
                note = " ".join(str(warning.message).split())
                if note not in self.notes:
                    self.notes.append(note)
        return result

    # What everything else builds on

    @cached_property
    def _simulated(self) -> Tensor:
        if self.subject.x_sim is None:
            raise _CannotRun(
                "It needs x_sim: simulations at the inputs of each observation."
            )
        return self.subject.x_sim

    @cached_property
    def _posterior(self) -> Any:
        posterior = self.subject.posterior
        if posterior is None:
            raise _CannotRun("It needs a posterior.")
        if isinstance(posterior, DiffusionPosterior) and len(posterior.steps) > FEW_STEPS:
            self.notes.append(
                "The diffusion posterior was sampled with its deterministic sampler of 20 "
                "steps, which is ten times as fast."
            )
            return posterior.deterministic()
        return posterior

    @property
    def _budget(self) -> _Budget:
        posterior = self.subject.posterior
        quick = has_density(posterior) and not isinstance(posterior, DiffusionPosterior)
        return QUICK if quick else SLOW

    @cached_property
    def _unfitted(self) -> FittableCorrector:
        """The user's corrector without its fit, or a closed-form shift."""
        if isinstance(self.subject.corrector, FittableCorrector):
            return self.subject.corrector
        return ShiftCorrector(self.subject.encoder)

    @cached_property
    def _is_affine(self) -> bool:
        if self.subject.corrector is not None:
            return False
        family = self.found("family")
        return family is not None and family.family == "affine"

    def _hold_out(
        self, subject: Subject, corrector: FittableCorrector, entries: Any
    ) -> HeldOut:
        return hold_out(
            entries,
            subject.x_obs,
            subject.x_sim,
            corrector=corrector,
            groups=subject.groups,
            seed=derive(subject.seed, "correction"),
        )

    @cached_property
    def affine_rows(self) -> np.ndarray:
        """The rows that an affine corrector is fitted to: it takes its time."""
        subject = self.subject
        num_contexts = len(distinct(subject.entries)[0])
        many = subject.x_obs.shape[1] > MANY_COLUMNS or num_contexts > MANY_CONTEXTS
        most = MOST_ROWS_AFFINE if many else len(subject.x_obs)
        return self._some(len(subject.x_obs), most, "affine")

    @cached_property
    def _affine_subject(self) -> Subject:
        return self.subject.rows(self.affine_rows)

    @cached_property
    def _held_affine(self) -> HeldOut:
        corrector = ComposedCorrector(
            self.subject.encoder, Affine(), Ridge(widths=(1.0,)), Point()
        )
        subject = self._affine_subject
        return self._hold_out(subject, corrector, subject.entries)

    @cached_property
    def corrected(self) -> tuple[Subject, Tensor] | None:
        """Rows with their correction by what other rows taught; None without one."""
        subject, corrector = self.subject, self.subject.corrector
        if hasattr(corrector, "correct") and _is_fitted(corrector):
            return subject, corrector.correct(
                subject.x_obs.float(), subject.entries
            ).double()
        if subject.x_sim is None:
            return None
        if self._is_affine:
            subject, held = self._affine_subject, self._held_affine
        else:
            held = self._hold_out(subject, self._unfitted, subject.entries)
        return subject, subject.x_obs - held.predicted * held.scale

    def _some(self, size: int, most: int, purpose: str) -> np.ndarray:
        rng = generator(derive(self.subject.seed, f"rows for {purpose}"))
        return torch.randperm(size, generator=rng)[:most].sort().values.numpy()

    # The diagnostics

    def _exclusion(self) -> Exclusion:
        subject = self.subject
        if subject.x_sim is None and subject.theta is None:
            raise _CannotRun(
                "It needs x_sim or theta: observations alone mix what the context may tell "
                "with what it must not."
            )
        rows = self._leak_rows
        return exclusion_test(
            rows.entries,
            rows.x_sim,
            None if rows.x_sim is None else rows.x_obs,
            rows.theta,
            encoder=rows.encoder,
            level=LEAK_FOUND,
            num_permutations=LEAK_PERMUTATIONS,
            groups=rows.groups,
            seed=derive(subject.seed, "exclusion"),
        )

    @cached_property
    def _leak_rows(self) -> Subject:
        """Rows to permute: one per group where the context never changes within one."""
        subject = self.subject
        if subject.groups is None or _varies_within(subject.entries, subject.groups).any():
            return subject
        codes = torch.from_numpy(subject.groups).long()
        num = int(codes.max()) + 1
        self.notes.append(
            "The context never changes within a group, so the leak is sought between the "
            f"means of {num} groups."
        )

        def average(values: Tensor | None) -> Tensor | None:
            if values is None:
                return None
            sums = torch.zeros(num, values.shape[1], dtype=values.dtype)
            return sums.index_add_(0, codes, values) / codes.bincount()[:, None]

        if num < FEWEST_GROUPS:
            raise _CannotRun(
                f"The context never changes within a group, and there are {num} groups, "
                f"expected at least {FEWEST_GROUPS}."
            )
        first = np.unique(subject.groups, return_index=True)[1]
        observed = average(subject.x_obs)
        assert observed is not None
        return Subject(
            observed,
            subject.entries.iloc[first].reset_index(drop=True),
            subject.encoder,
            average(subject.x_sim),
            average(subject.theta),
        )

    @property
    def contexts_in_one_group(self) -> bool:
        """Whether no context occurs in two groups."""
        subject = self.subject
        if subject.groups is None:
            return False
        table = pd.DataFrame(
            {"group": subject.groups, "context": distinct(subject.entries)[1]}
        )
        return bool((table.groupby("context")["group"].nunique() == 1).all())

    def _leak_power(self) -> LeakPower:
        if self.found("exclusion") is None:
            raise _CannotRun("The context was not tested for a leak.")
        rows = self._leak_rows
        codes = distinct(rows.entries)[1]
        labels, _ = as_labels(codes)
        # The test sees level, spread and two finer features of each side.
        num_features = NUM_COSINES if labels is None else max(1, int(labels.max()))
        freedom = NUM_COSINES * num_features
        tested = rows.theta if rows.x_sim is None else rows.x_sim
        assert tested is not None
        # It looks at each coordinate and at each principal axis.
        level = LEAK_SUSPECTED / (2 * tested.shape[1])
        n = len(codes)
        if rows.groups is not None:
            n = int(_varies_within(rows.entries, rows.groups).sum())
        per_row = LEAK_THAT_MATTERS / (1 - LEAK_THAT_MATTERS)
        cut = stats.chi2.isf(level, freedom)
        power = float(stats.ncx2.sf(cut, freedom, max(n * per_row, 1e-9)))
        sizes = np.arange(20, 5_000)
        enough = np.asarray(stats.ncx2.sf(cut, freedom, sizes * per_row) >= 0.8)
        return LeakPower(power, n, int(sizes[enough.argmax()]))

    def _observations(self) -> Dependence:
        rows = self._leak_rows
        return dependence_test(
            rows.x_obs,
            rows.entries,
            encoder=rows.encoder,
            groups=rows.groups,
            seed=derive(rows.seed, "observations"),
        )

    def _information(self) -> Information:
        subject = self.subject
        return mutual_information(
            departures(subject.x_obs, self._simulated),
            subject.entries,
            encoder=subject.encoder,
            seed=derive(subject.seed, "information"),
        )

    def _weak_context(self) -> WeakContext:
        subject = self.subject
        return weak_context(
            subject.entries,
            subject.x_obs,
            self._simulated,
            corrector=self._unfitted,
            information=self.found("information"),
            groups=subject.groups,
            seed=derive(subject.seed, "correction"),
        )

    def _family(self) -> DepartureFamily:
        subject = self.subject
        return departure_family(
            subject.entries,
            subject.x_obs,
            self._simulated,
            encoder=subject.encoder,
            groups=subject.groups,
            seed=derive(subject.seed, "family"),
        )

    def _affine(self) -> AffineGain:
        _ = self._simulated
        if not self._is_affine:
            raise _CannotRun("Whether the departure depends on x is not known.")
        subject, held = self._affine_subject, self._held_affine
        same = pd.Series(["same"] * len(subject.x_obs))
        corrector = ComposedCorrector(
            CategoryEncoder(), Affine(), Ridge(widths=(1.0,)), Point()
        )
        without = self._hold_out(subject, corrector, same)
        none, common, total = (
            held.loss(one) for one in (0.0, without.predicted, held.predicted)
        )
        return AffineGain(
            without.share(none, common), held.share(common, total), held.share(none, total)
        )

    def _three_way(self) -> ThreeWay:
        subject = self.subject
        return three_way(
            subject.entries,
            subject.x_obs,
            self._simulated,
            corrector=self._unfitted,
            posterior=None if subject.posterior is None else self._posterior,
            theta=subject.theta,
            num_samples=self._budget.draws,
            max_rows=self._budget.gap,
            groups=subject.groups,
            seed=derive(subject.seed, "correction"),
        )

    def _unusual(self) -> OutOfDistribution:
        """Compare with the paired simulations, or with ones from the prior."""
        subject, corrected = self.subject, None
        if self.corrected is not None:
            subject, corrected = self.corrected
        seed = derive(subject.seed, "out of distribution")
        if subject.x_sim is not None:
            return out_of_distribution(
                subject.x_obs, subject.x_sim, corrected=corrected, paired=True, seed=seed
            )
        return out_of_distribution(
            subject.x_obs, self._pool(), corrected=corrected, seed=seed
        )

    def _pool(self) -> Tensor:
        simulator = self.subject.simulator
        prior = getattr(self.subject.posterior, "prior", None)
        if simulator is None or prior is None:
            raise _CannotRun(
                "It needs x_sim, or a simulator and a posterior that knows its prior."
            )
        with seeded(derive(self.subject.seed, "pool")):
            return torch.as_tensor(simulator(prior.sample((2_000,)))).double()

    def _range(self) -> Outside:
        training_range = getattr(self._posterior, "training_range", None)
        if training_range is None:
            raise _CannotRun("The posterior does not know the range of its simulations.")

        def share(x: Tensor) -> float:
            return training_range.outside(x.float()).double().mean().item()

        after = None if self.corrected is None else share(self.corrected[1])
        return Outside(share(self.subject.x_obs), after)

    def _chosen(self, most: int, purpose: str) -> tuple[Subject, Tensor | None]:
        """Choose rows for a posterior, with their correction if there is one."""
        subject, corrected = self.subject, None
        if self.corrected is not None:
            subject, corrected = self.corrected
        rows = self._some(len(subject.x_obs), most, purpose)
        return subject.rows(rows), None if corrected is None else corrected[rows]

    def _means(self) -> Means:
        posterior = self._posterior
        subject, corrected = self._chosen(self._budget.means, "means")
        seed = derive(subject.seed, "means")

        def test(x: Tensor) -> tuple[Dependence, float]:
            draws = posterior.sample(
                self._budget.draws_of_means, x.float(), seed=derive(seed, "draws")
            )
            mean = draws.double().mean(dim=0).cpu()
            mean = (mean - mean.mean(dim=0)) / mean.std(dim=0).clamp(min=1e-30)
            options: dict[str, Any] = {
                "encoder": subject.encoder,
                "groups": subject.groups,
                "seed": seed,
            }
            return (
                dependence_test(mean, subject.entries, **options),
                held_out_r2(mean, subject.entries, **options),
            )

        before, share_before = test(subject.x_obs)
        if corrected is None:
            return Means(before, None, share_before, None)
        after, share_after = test(corrected)
        return Means(before, after, share_before, share_after)

    def _coverage(self) -> BeforeAfter:
        posterior = self._posterior
        if self.subject.theta is None:
            raise _CannotRun("It needs theta, the true parameters of the observations.")
        subject, corrected = self._chosen(self._budget.coverage, "coverage")

        def at(x: Tensor | None) -> Coverage | None:
            if x is None:
                return None
            return coverage(
                posterior,
                subject.theta,
                x.float(),
                num_samples=self._budget.draws,
                levels=LEVELS,
                # A diffusion model's density takes a dozen times as long as its draws.
                with_density=not isinstance(posterior, DiffusionPosterior),
                seed=derive(subject.seed, "coverage"),
            )

        before = at(subject.x_obs)
        assert before is not None
        return BeforeAfter(before, at(corrected), at(subject.x_sim))

    def _predictive(self) -> PredictiveCheck:
        posterior = self._posterior
        if self.subject.simulator is None:
            raise _CannotRun("It needs a simulator, which only Python can pass.")
        subject, corrected = self._chosen(self._budget.gap, "prediction")
        return predictive_check(
            posterior,
            self.subject.simulator,
            (subject.x_obs if corrected is None else corrected).float(),
            seed=derive(subject.seed, "prediction"),
        )


class _CannotRun(Exception):  # noqa: N818 (no error: the data do not allow it)
    """Why a diagnostic has nothing to work on, in a sentence."""


def _is_fitted(corrector: Any) -> bool:
    """Tell a fitted corrector from one to be fitted; those of others count as fitted."""
    return not isinstance(corrector, FittableCorrector) or hasattr(corrector, "fitted_")


def _varies_within(entries: Entries, groups: np.ndarray) -> np.ndarray:
    """Tell which rows belong to a group whose context changes, shape ``(n,)``."""
    table = pd.DataFrame({"group": groups, "context": distinct(entries)[1]})
    return (table.groupby("group")["context"].transform("nunique") > 1).to_numpy()
