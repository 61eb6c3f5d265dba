"""Response times under instructions: what a matched correction does to real people.

The posterior of a drift-diffusion simulator explains a part of the trials of each subject
and regime, a *case*; the other trials show how well. Corrections are learned from the other
subjects.

Real speed or accuracy instructions change how much evidence people wait for: the boundary,
a parameter. A correction that makes the regimes equal moves that effect from theta to the
departure, which is wrong even if it predicts well;
:meth:`InstructionStudy.effect` shows it.
"""

from __future__ import annotations

import warnings
from dataclasses import dataclass

import numpy as np
import pandas as pd
import torch
from scipy.integrate import trapezoid
from torch import Tensor

from ma_sbi.correctors import (
    BootstrapCorrector,
    MatchingAssumption,
    MatchingCorrector,
    cross_fit,
)
from ma_sbi.encoders import CategoryEncoder
from ma_sbi.mixture import sample_mixture
from ma_sbi.protocols import AmortizedPosterior, Corrections
from ma_sbi.randomness import derive, generator
from ma_sbi.simulation import sample_prior
from ma_sbi.validation import as_count
from ma_sbi_bench.engine.budget import Budget
from ma_sbi_bench.engine.cell import Backbone
from ma_sbi_bench.real.backbones import flow_backbone, predict
from ma_sbi_bench.real.instructions.evans_hawkins import (
    EVANS_HAWKINS_FOLDER,
    load_evans_hawkins,
)
from ma_sbi_bench.real.instructions.load import (
    RESPONSE_TIMES_FILE,
    check_trials,
    load_response_times,
)
from ma_sbi_bench.tasks.ddm import DDM, GRID, density_summary, simulate_trials

__all__ = [
    "EVANS_HAWKINS",
    "NUM_TRIALS",
    "Cases",
    "InstructionStudy",
    "cut_cases",
    "file_of",
    "load_cases",
    "simulated_cases",
    "trials_backbone",
]

EVANS_HAWKINS = "evans_hawkins"
NUM_TRIALS = 100
"""Trials of a subject under a regime that the posterior sees."""

# Beyond the last cells of the summary it knows no density.
LONGEST = 3.0
FEWEST_HELD_OUT = 20
POOL_PER_CASE = 50
# With a density of zero, one outlying response would decide everything.
FLOOR = 1e-3


def trials_backbone(budget: Budget, seed: int) -> Backbone:
    """Define the posterior of the response times of a subject under a regime."""
    return flow_backbone(budget, "ddm", seed, 50_000, {"num_trials": NUM_TRIALS})


def file_of(data: str) -> str:
    """Name the file or folder of a data set in the tidy layout."""
    return EVANS_HAWKINS_FOLDER if data == EVANS_HAWKINS else RESPONSE_TIMES_FILE


def load_cases(data: str, *, seed: int) -> Cases:
    """Load the trials of a data set, and divide those of each subject and regime."""
    own = data == EVANS_HAWKINS
    trials = load_evans_hawkins() if own else load_response_times(data)
    return cut_cases(trials, NUM_TRIALS, seed=seed)


@dataclass(frozen=True)
class Cases:
    """Trials of subjects under regimes.

    Attributes:
        table: One row per case: ``subject``, ``regime``, ``num_held_out``.
        fitted: Signed times that the posterior sees, shape ``(n, num_trials)``.
        held_out: Signed times that score it, one array per case.
    """

    table: pd.DataFrame
    fitted: Tensor
    held_out: list[Tensor]

    def __len__(self) -> int:
        return len(self.table)


def cut_cases(
    trials: pd.DataFrame, num_trials: int = NUM_TRIALS, *, seed: int = 0
) -> Cases:
    """Divide the trials of each subject and regime into two parts at random.

    Args:
        trials: ``subject``, ``regime``, ``rt`` in seconds and ``correct``, one row per
            trial. Responses after more than three seconds are left out.
        num_trials: Trials of each case that the posterior sees. A case that would leave
            fewer than 20 others is dropped, with a warning.
        seed: Seed of the division.

    Returns:
        The cases.

    Raises:
        ValueError: If a trial is neither right nor wrong, or only one regime has cases
            with enough trials.
    """
    num_trials = as_count(num_trials, "num_trials")
    trials = check_trials(trials, "trials")
    rng = np.random.default_rng(seed)
    rows, fitted, held_out, short = [], [], [], []
    kept = trials[trials["rt"] <= LONGEST]
    for (subject, regime), part in kept.groupby(["subject", "regime"], sort=True):
        signed = np.where(part["correct"] == 1, part["rt"], -part["rt"]).astype(float)
        signed = torch.from_numpy(rng.permutation(signed))
        if len(signed) < num_trials + FEWEST_HELD_OUT:
            short.append(f"{subject}/{regime}")
            continue
        rows.append((str(subject), str(regime), len(signed) - num_trials))
        fitted.append(signed[:num_trials])
        held_out.append(signed[num_trials:])
    table = pd.DataFrame(rows, columns=["subject", "regime", "num_held_out"])
    if table["regime"].nunique() < 2:
        raise ValueError(
            f"at least two regimes with {num_trials + FEWEST_HELD_OUT} trials of a subject "
            f"are needed, got {table['regime'].nunique()}"
        )
    if short:
        warnings.warn(
            f"{len(short)} cases with fewer than {num_trials + FEWEST_HELD_OUT} trials are "
            f"left out: {', '.join(short)}",
            stacklevel=2,
        )
    return Cases(table, torch.stack(fitted), held_out)


def simulated_cases(cases: Cases, theta: Tensor, *, seed: int = 0) -> Cases:
    """Replace the responses by simulated ones: the same cases, no departure.

    Args:
        cases: What to imitate.
        theta: Parameters of each subject, the same under every regime, shape
            ``(num_subjects, 3)``, in the order of the subjects' names.
        seed: Seed of the simulations.
    """
    _, subject = np.unique(cases.table["subject"], return_inverse=True)
    source = generator(derive(seed, "cells"))
    fitted, held_out = [], []
    for row, old in zip(subject, cases.held_out, strict=True):
        total = cases.fitted.shape[1] + len(old)
        # Some more, because those that take too long are left out here, too.
        signed = simulate_trials(theta[[row]], 2 * total, source=source).signed_times()[0]
        signed = signed[signed.abs() <= LONGEST][:total]
        fitted.append(signed[: cases.fitted.shape[1]])
        held_out.append(signed[cases.fitted.shape[1] :])
    return Cases(cases.table, torch.stack(fitted), held_out)


class InstructionStudy:
    """Cases, the posterior that explains them, and what corrections change.

    The pool that regimes are matched to is what the simulator gives for the posteriors of
    the other subjects' cases, of any regime: such people, without the regimes'
    differences.

    Args:
        cases: What is explained.
        task: The simulator, with as many trials as the posterior sees of a case.
        posterior: Its posterior, trained once.
        num_samples: Posterior draws per case.
        seed: Seed of everything.
    """

    def __init__(
        self,
        cases: Cases,
        task: DDM,
        posterior: AmortizedPosterior,
        *,
        num_samples: int = 500,
        seed: int = 0,
    ) -> None:
        if task.num_trials != cases.fitted.shape[1]:
            raise ValueError(
                f"the simulator's {task.num_trials} trials must be as many as the "
                f"{cases.fitted.shape[1]} that the posterior sees of a case"
            )
        self.cases = cases
        self.task = task
        self.posterior = posterior
        self.num_samples = num_samples
        self.seed = seed
        self.x = density_summary(cases.fitted).float()
        theta = posterior.sample(POOL_PER_CASE, self.x, seed=derive(seed, "pool"))
        pool = task.simulate(theta.flatten(0, 1), seed=derive(seed, "pool"))
        self.pool = pool.unflatten(0, theta.shape[:2])
        self.predicted = predict(posterior, task, self.x, seed)

    @property
    def regime(self) -> list[str]:
        """Regime of each case."""
        return self.cases.table["regime"].tolist()

    @property
    def held_out_together(self) -> list[str]:
        """Subject of each case."""
        return self.cases.table["subject"].tolist()

    def corrections(self, method: str, regime: pd.Series | None = None) -> Corrections:
        """Correct every case by what was learned from the other subjects.

        Args:
            method: ``"NPE"`` (none), ``"matched"`` (the means of the regimes, as in the
                paper), ``"stochastic"`` (the residuals of the regime) or
                ``"stochastic, pooled"`` (residuals of all regimes).
            regime: Labels to use instead of the true ones.
        """
        if method == "NPE":
            return Corrections.certain(self.x)
        labels = (self.cases.table["regime"] if regime is None else regime).to_numpy()
        if method == "matched":
            return self._matched(labels)
        widths = {"stochastic": 0.0, "stochastic, pooled": float("inf")}
        if method not in widths:
            raise ValueError(
                f"method must be one of NPE, matched, {', '.join(widths)}, got {method!r}"
            )
        corrector = BootstrapCorrector(CategoryEncoder(), len(self.x), widths[method])
        fitted = cross_fit(corrector, groups=self.cases.table["subject"])
        fitted.fit(labels, self.x, self.predicted, seed=self.seed)
        return fitted.corrections(self.x, labels)

    def parameters(self, corrections: Corrections) -> Tensor:
        """Draw parameters, shape ``(num_samples, num_cases, 3)``."""
        seed = derive(self.seed, "theta")
        return sample_mixture(self.posterior, self.num_samples, corrections, seed=seed)

    def losses(self, corrections: Corrections) -> np.ndarray:
        """Score the predicted density of held-out trials, in nats per trial.

        The prediction is the mean summary over draws of theta, with the departure put
        back, read as a density between its points.

        Returns:
            Losses, shape ``(num_cases,)``.
        """
        theta = self.parameters(corrections)
        departure = (self.x - corrections.x) * corrections.log_weight.exp()[..., None]
        return self._score(self._predicted(theta) + departure.sum(dim=0))

    def prior_losses(self) -> np.ndarray:
        """Score the prior, which knows nothing of any case, by the same draws for all."""
        num, seed = self.num_samples, derive(self.seed, "prior")
        theta = sample_prior(self.task.prior, num, seed=seed)
        return self._score(self._predicted(theta[:, None]).expand_as(self.x))

    def _predicted(self, theta: Tensor) -> Tensor:
        """Average the summaries of draws, ``(num_samples, num_cases, 3)``."""
        seed = derive(self.seed, "score")
        summary = self.task.simulate(theta.flatten(0, 1), seed=seed)
        return summary.unflatten(0, theta.shape[:2]).mean(dim=0)

    def _score(self, predicted: Tensor) -> np.ndarray:
        """Score predicted summaries, ``(num_cases, dim_x)``, on the held-out trials."""
        density = predicted.double().clamp(min=FLOOR).numpy()
        # Half a cell beyond the outermost points the density stays what it is there.
        grid = np.array([-LONGEST, *GRID, LONGEST])
        density = np.pad(density, ((0, 0), (1, 1)), mode="edge")
        density /= trapezoid(density, grid, axis=1)[:, None]
        return np.array(
            [
                -np.log(np.interp(signed.numpy(), grid, row)).mean()
                for signed, row in zip(self.cases.held_out, density, strict=True)
            ]
        )

    def effect(self, corrections: Corrections, first: str, second: str) -> pd.DataFrame:
        """Estimate what a regime does to theta, as a mean over subjects.

        Differences are taken within subjects that have both regimes, else between
        the two groups.

        Args:
            corrections: Where the posterior is evaluated.
            first: A regime.
            second: The regime that it is compared with.

        Returns:
            ``first - second`` and its standard error, one row per parameter.
        """
        mean = pd.DataFrame(
            self.parameters(corrections).mean(dim=0).numpy(), columns=["v", "a", "tau"]
        )
        table = self.cases.table[["subject", "regime"]]
        one, other = (
            mean[table["regime"] == regime].set_axis(
                table["subject"][table["regime"] == regime]
            )
            for regime in (first, second)
        )
        within = (one - other).dropna()
        if len(within):
            return pd.DataFrame({"effect": within.mean(), "error": within.sem()})
        error = np.sqrt(one.sem() ** 2 + other.sem() ** 2)
        return pd.DataFrame({"effect": one.mean() - other.mean(), "error": error})

    def _matched(self, labels: np.ndarray) -> Corrections:
        """Match the means of the regimes, for each subject without its own cases."""
        corrected = torch.empty_like(self.x)
        subject = self.cases.table["subject"].to_numpy()
        for one in np.unique(subject):
            own, others = subject == one, subject != one
            corrector = MatchingCorrector(CategoryEncoder(unseen="zero"))
            with warnings.catch_warnings():
                # Said in the documentation of this module, and shown by `effect`.
                warnings.simplefilter("ignore", MatchingAssumption)
                corrector.fit(
                    labels[others],
                    self.x[others],
                    simulations=self.pool[:, others].flatten(0, 1),
                )
            corrected[own] = corrector.correct(self.x[own], labels[own])
        return Corrections.certain(corrected)

    def shuffled(self, seed: int) -> pd.Series:
        """Shuffle regimes within each subject, or between subjects that have only one."""
        rng = np.random.default_rng(seed)
        subject, regime = self.cases.table["subject"], self.cases.table["regime"]
        if (regime.groupby(subject).nunique() == 1).all():
            return pd.Series(rng.permutation(regime))
        return regime.groupby(subject).transform(rng.permutation)
