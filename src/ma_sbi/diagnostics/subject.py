"""What a check is made on: rows that match, and what several diagnostics build on."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass, field, replace
from functools import cached_property
from typing import Any, NamedTuple

import numpy as np
import pandas as pd
import torch
from torch import Tensor

from ma_sbi.context import distinct
from ma_sbi.correctors.composed import ComposedCorrector, FittableCorrector
from ma_sbi.correctors.departures import Affine
from ma_sbi.correctors.inference import Point
from ma_sbi.correctors.ridge import Ridge
from ma_sbi.correctors.shift import ShiftCorrector
from ma_sbi.diagnostics.departure_family import MANY_COLUMNS, MANY_CONTEXTS
from ma_sbi.diagnostics.diagnostic import CannotRun, Skipped
from ma_sbi.diagnostics.held_out import HeldOut, hold_out
from ma_sbi.protocols import Encoder, has_density
from ma_sbi.randomness import derive, generator
from ma_sbi.reading import ContextReading, read_context

__all__ = ["Budget", "Subject"]

# An affine corrector is slow to fit to many columns or contexts.
MOST_ROWS_AFFINE = 500
# Fewer groups are too few to permute.
FEWEST_GROUPS = 20


class Budget(NamedTuple):
    """Numbers of rows and draws at which a posterior is evaluated."""

    coverage: int
    means: int
    gap: int
    draws: int
    draws_of_means: int


QUICK = Budget(coverage=500, means=1_000, gap=200, draws=200, draws_of_means=50)
# What draws step by step: a diffusion model, and most of what has no density.
SLOW = Budget(coverage=200, means=500, gap=100, draws=100, draws_of_means=20)


@dataclass(frozen=True, eq=False)
class Subject:
    """What is checked: rows that match, already validated.

    Attributes:
        x_obs: Observations, shape ``(n, dim_x)``, float64.
        entries: The context, one entry per row.
        encoder: Context to vectors.
        x_sim: Simulations at the same inputs, or None.
        theta: True parameters, or None.
        groups: A code per row, or None.
        posterior: The trained posterior, or None.
        corrector: The user's own corrector, fitted or not, or None.
        simulator: theta to x, or None.
        seed: Seed of everything.
        encoder_code: An expression that makes the encoder; ``"encoder"`` if it is the
            user's own, empty if it is the one that ``fit_corrector`` chooses.
        results: What the diagnostics found so far, by name.
        notes: What was assumed or limited, in sentences.
    """

    x_obs: Tensor
    entries: Any
    encoder: Encoder
    x_sim: Tensor | None = None
    theta: Tensor | None = None
    groups: np.ndarray | None = None
    posterior: Any = None
    corrector: Any = None
    simulator: Callable[..., Any] | None = None
    seed: int | None = None
    encoder_code: str = "encoder"
    results: dict[str, Any] = field(default_factory=dict)
    notes: list[str] = field(default_factory=list)

    def found(self, name: str) -> Any:
        """Return a result; None if the diagnostic was not run."""
        result = self.results.get(name)
        return None if isinstance(result, Skipped) else result

    def take(self, rows: np.ndarray) -> Subject:
        """Keep some rows."""

        def pick(values: Any) -> Any:
            return None if values is None else values[rows]

        return replace(
            self,
            x_obs=self.x_obs[rows],
            entries=self.entries.iloc[rows].reset_index(drop=True),
            x_sim=pick(self.x_sim),
            theta=pick(self.theta),
            groups=pick(self.groups),
        )

    def choose(self, most: int, purpose: str) -> np.ndarray:
        """Choose at most so many positions of rows at random, in order."""
        rng = generator(derive(self.seed, f"rows for {purpose}"))
        order = torch.randperm(len(self.x_obs), generator=rng)
        return order[:most].sort().values.numpy()

    @cached_property
    def reading(self) -> ContextReading:
        """The context with the kind of each of its columns."""
        return read_context(self.entries, encoder=self.encoder)

    # The posterior

    @cached_property
    def quick_posterior(self) -> Any:
        """The posterior, with its quick sampler where it has one."""
        quick = getattr(self.posterior, "quick", None)
        posterior = self.posterior if quick is None else quick()
        if posterior is not self.posterior:
            self.notes.append(
                f"The posterior was sampled with a quicker sampler: {posterior!r}."
            )
        return posterior

    @property
    def expensive_density(self) -> bool:
        """Whether the posterior's density takes much longer than its draws."""
        return bool(getattr(self.posterior, "expensive_density", False))

    @property
    def budget(self) -> Budget:
        """How many rows and draws the posterior is evaluated at."""
        quick = has_density(self.posterior) and not self.expensive_density
        return QUICK if quick else SLOW

    # The correction

    @property
    def is_fitted(self) -> bool:
        """Whether there is a corrector that is fitted; one that is not ours counts so."""
        if isinstance(self.corrector, FittableCorrector):
            return hasattr(self.corrector, "fitted_")
        return hasattr(self.corrector, "correct")

    @property
    def unfitted(self) -> FittableCorrector:
        """The user's corrector without its fit, or a closed-form shift."""
        if isinstance(self.corrector, FittableCorrector):
            return self.corrector
        return ShiftCorrector(self.encoder)

    @cached_property
    def held_out(self) -> HeldOut:
        """What the corrector predicts of each row, from the others if it is fitted here."""
        held = self.hold_out(self.unfitted, self.entries)
        if not self.is_fitted:
            return held
        corrected = self.corrector.correct(self.x_obs.float(), self.entries).double()
        predicted = (self.x_obs - corrected) / held.scale
        return replace(
            held,
            predicted=predicted,
            common=predicted.mean(dim=0).expand_as(predicted),
            training_loss=held.loss(predicted).mean().item(),
        )

    @property
    def is_affine(self) -> bool:
        """Whether the correction is affine: the departure depends on x."""
        if self.corrector is not None:
            return False
        family = self.found("family")
        return family is not None and family.family == "affine"

    @cached_property
    def affine_rows(self) -> np.ndarray:
        """Positions of the rows that an affine corrector, or a choice, is fitted to."""
        num_contexts = len(distinct(self.entries)[0])
        many = self.x_obs.shape[1] > MANY_COLUMNS or num_contexts > MANY_CONTEXTS
        return self.choose(MOST_ROWS_AFFINE if many else len(self.x_obs), "affine")

    @cached_property
    def affine_subject(self) -> Subject:
        """Those rows."""
        return self.take(self.affine_rows)

    @cached_property
    def affine_held_out(self) -> HeldOut:
        """What an affine corrector predicts of each of those rows from the others."""
        corrector = affine_corrector(self.encoder)
        return self.affine_subject.hold_out(corrector, self.affine_subject.entries)

    def hold_out(self, corrector: FittableCorrector, entries: Any) -> HeldOut:
        """Predict each departure by a corrector fitted to other rows."""
        return hold_out(
            entries,
            self.x_obs,
            self.x_sim,
            corrector=corrector,
            groups=self.groups,
            seed=derive(self.seed, "correction"),
        )

    @cached_property
    def corrected(self) -> tuple[Subject, Tensor] | None:
        """Rows, and what a corrector that was fitted to other rows makes of them.

        None without x_sim, unless the user's corrector is already fitted.
        """
        if self.is_fitted:
            corrected = self.corrector.correct(self.x_obs.float(), self.entries)
            return self, corrected.double()
        if self.x_sim is None:
            return None
        if self.is_affine:
            subject, held = self.affine_subject, self.affine_held_out
        else:
            subject, held = self, self.held_out
        return subject, subject.x_obs - held.predicted * held.scale

    @property
    def corrected_rows(self) -> np.ndarray:
        """Positions of the corrected rows."""
        return self.affine_rows if self.is_affine else np.arange(len(self.x_obs))

    def some(self, most: int, purpose: str) -> tuple[Subject, Tensor | None]:
        """Choose rows for a posterior, with their correction if there is one."""
        subject, corrected = (self, None) if self.corrected is None else self.corrected
        rows = subject.choose(most, purpose)
        return subject.take(rows), None if corrected is None else corrected[rows]

    # Rows that may be permuted

    @cached_property
    def permutable(self) -> Subject:
        """Rows to permute: one per group where the context never changes within one.

        Raises:
            CannotRun: If there are too few groups.
        """
        if self.groups is None or self.reading.changes_within(self.groups).any():
            return self
        codes = torch.from_numpy(self.groups).long()
        num = int(codes.max()) + 1
        if num < FEWEST_GROUPS:
            raise CannotRun(
                f"The context never changes within a group, and there are {num} groups, "
                f"too few to permute: expected at least {FEWEST_GROUPS}."
            )
        self.notes.append(
            "The context never changes within a group, so leaks were tested on the means "
            f"of {num} groups."
        )

        def average(values: Tensor | None) -> Any:
            if values is None:
                return None
            sums = torch.zeros(num, values.shape[1], dtype=values.dtype)
            return sums.index_add_(0, codes, values) / codes.bincount()[:, None]

        first = np.unique(self.groups, return_index=True)[1]
        return replace(
            self,
            x_obs=average(self.x_obs),
            entries=self.entries.iloc[first].reset_index(drop=True),
            x_sim=average(self.x_sim),
            theta=average(self.theta),
            groups=None,
        )

    @property
    def contexts_in_one_group(self) -> bool:
        """Whether no context occurs in two groups."""
        if self.groups is None:
            return False
        table = pd.DataFrame({"group": self.groups, "context": self.reading.codes})
        return bool((table.groupby("context")["group"].nunique() == 1).all())


def affine_corrector(encoder: Encoder) -> ComposedCorrector:
    """Make an unfitted affine corrector in closed form, of a single kernel width."""
    return ComposedCorrector(encoder, Affine(), Ridge(widths=(1.0,)), Point())
