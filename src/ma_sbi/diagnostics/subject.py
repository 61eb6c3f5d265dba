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

from ma_sbi.correctors.composed import FittableCorrector
from ma_sbi.diagnostics.corrected_rows import CorrectedRows
from ma_sbi.diagnostics.diagnostic import CannotRun, Skipped
from ma_sbi.diagnostics.wordings import (
    MISSING,
    Blind,
    Wordings,
    learning_rows,
    regimes_of_rows,
)
from ma_sbi.posterior import CorrectedPosterior
from ma_sbi.protocols import Encoder, has_density
from ma_sbi.randomness import derive, generator
from ma_sbi.reading import ContextReading, read_context

__all__ = ["Budget", "Subject"]

# Texts that are worth labelling if they carry most rows.
FEW_WORDINGS = 10
MOST_OF_ALL = 0.5
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


class Corrected(NamedTuple):
    """Rows with their correction.

    Attributes:
        positions: Of the rows among all of the subject.
        rows: The rows.
        drawn: A candidate of each, drawn by its weight; None without a correction.
    """

    positions: np.ndarray
    rows: Subject
    drawn: Tensor | None


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
        given: The context as it was given, constant columns included.
        own_encoder: The user's own encoder, or None.
        repeats: Several simulations of each row, shape ``(n, num_simulations, dim_x)``, of
            which ``x_sim`` is the first; None if there is one.
        simulations: Simulations from the prior, as :func:`~ma_sbi.fit_corrector` takes
            them, or None.
        density: Log density of the simulations, or None.
        wordings: The texts among the context, if they are many; else None.
        correction: Rows corrected by fits to others, by the option that is advised.
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
    given: Any = None
    own_encoder: Encoder | None = None
    repeats: Tensor | None = None
    simulations: Any = None
    density: Callable[..., Any] | None = None
    wordings: Wordings | None = None
    correction: CorrectedRows | None = None
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
            given=None
            if self.given is None
            else self.given.iloc[rows].reset_index(drop=True),
            x_sim=pick(self.x_sim),
            repeats=pick(self.repeats),
            theta=pick(self.theta),
            groups=pick(self.groups),
            wordings=None if self.wordings is None else self.wordings.take(rows),
        )

    def choose(self, most: int, purpose: str) -> np.ndarray:
        """Choose at most so many positions of rows at random, in order."""
        return np.sort(self.shuffle(purpose)[:most])

    def shuffle(self, purpose: str) -> np.ndarray:
        """Put positions of rows into random order."""
        rng = generator(derive(self.seed, f"rows for {purpose}"))
        return torch.randperm(len(self.x_obs), generator=rng).numpy()

    @cached_property
    def reading(self) -> ContextReading:
        """The context with the kind of each of its columns."""
        return read_context(self.entries, encoder=self.encoder)

    # Texts, read as regimes

    @cached_property
    def regimes(self) -> np.ndarray | None:
        """The regime behind each row's text; None without texts that tell regimes.

        One place decides this for every diagnostic: see
        :mod:`ma_sbi.diagnostics.wordings`.
        """
        if self.wordings is None or self.x_sim is None:
            return None
        return regimes_of_rows(self.wordings, self.x_obs, self.x_sim, seed=self.seed)

    @property
    def num_regimes(self) -> int:
        """How many regimes were found behind texts; none if 0."""
        regimes = self.regimes
        return 0 if regimes is None else int(regimes.max()) + 1

    @cached_property
    def by_regime(self) -> ContextReading:
        """The context with regimes in place of texts, for what describes rows."""
        if self.regimes is None:
            return self.reading
        return read_context(self._replace_texts(self.regimes))

    @cached_property
    def blind(self) -> Blind | None:
        """Rows with regimes that were found without them, for tests of dependence."""
        if self.wordings is None or self.x_sim is None:
            return None
        learn = learning_rows(len(self.x_obs), self.seed)
        rows = np.setdiff1d(np.arange(len(self.x_obs)), learn)
        found = regimes_of_rows(self.wordings, self.x_obs, self.x_sim, learn)
        if found is None:
            return Blind(rows, None)
        return Blind(rows, self._replace_texts(found).iloc[rows].reset_index(drop=True))

    def _replace_texts(self, regimes: np.ndarray) -> Any:
        """Replace each text by the name of its regime."""
        assert self.wordings is not None  # noqa: S101
        names = self.wordings.names(regimes)
        column = pd.Series([names[one] for one in regimes.tolist()], dtype=object)
        if self.wordings.column is None:
            return column
        table = pd.DataFrame(self.entries).reset_index(drop=True)
        table.isetitem(self.wordings.column, column)
        return table

    # The posterior

    @cached_property
    def quick_posterior(self) -> Any:
        """The posterior, with its quick sampler where it has one."""
        quick = getattr(self.posterior, "quick", None)
        posterior = self.posterior if quick is None else quick()
        if repr(posterior) != repr(self.posterior):
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

    @cached_property
    def corrected(self) -> Corrected | None:
        """Rows, and what a corrector that was fitted to other rows makes of them."""
        if self.correction is None:
            return None
        drawn = self.correction.draw(derive(self.seed, "corrected"))
        return Corrected(self.correction.rows, self.take(self.correction.rows), drawn)

    def some(self, most: int, purpose: str) -> Corrected:
        """Choose rows for a posterior, with their correction if there is one."""
        if self.corrected is None:
            some = self.choose(most, purpose)
            return Corrected(some, self.take(some), None)
        place = self.corrected.rows.choose(most, purpose)
        positions, rows, drawn = self.corrected
        assert drawn is not None  # noqa: S101
        return Corrected(positions[place], rows.take(place), drawn[place])

    @cached_property
    def corrected_posterior(self) -> CorrectedPosterior | None:
        """The posterior, corrected; its context is the position of a row."""
        if self.correction is None:
            return None
        return CorrectedPosterior(self.quick_posterior, self.correction)

    @cached_property
    def few_wordings(self) -> tuple[int, float] | None:
        """How many texts carry most rows, and which share, where few do.

        Texts that repeat and show no regimes behind them are labels already.
        """
        free = "text" in self.reading.kinds or self.regimes is not None
        if self.wordings is None or not free:
            return None
        codes = self.wordings.codes
        count = np.sort(np.bincount(codes[codes != MISSING]))[::-1]
        share = count[:FEW_WORDINGS].sum() / len(codes)
        if share < MOST_OF_ALL:
            return None
        return min(FEW_WORDINGS, len(count)), float(share)

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
            wordings=None if self.wordings is None else self.wordings.take(first),
        )

    @property
    def contexts_in_one_group(self) -> bool:
        """Whether no context occurs in two groups."""
        if self.groups is None:
            return False
        table = pd.DataFrame({"group": self.groups, "context": self.by_regime.codes})
        return bool((table.groupby("context")["group"].nunique() == 1).all())
