"""Structural departures: learned forwards from few pairs, inverted on many simulations."""

from __future__ import annotations

import warnings

import numpy as np
import torch
from sklearn.base import BaseEstimator
from sklearn.exceptions import NotFittedError
from torch import Tensor
from typing_extensions import Self

from ma_sbi.context import Entries, as_entries, distinct, match
from ma_sbi.correctors.composed import BaseCorrector
from ma_sbi.correctors.forward_maps import (
    FEWEST_PAIRS,
    ChosenMap,
    choose_map,
)
from ma_sbi.correctors.observed_range import ObservedRange
from ma_sbi.correctors.unseen import Examples, SeenContexts, Unseen
from ma_sbi.correctors.way_back import Imagined
from ma_sbi.labels import column_names, match_rows
from ma_sbi.protocols import ArrayLike, Context, Corrections
from ma_sbi.randomness import derive, generator
from ma_sbi.scaling import ranges_apart, spreads_apart
from ma_sbi.storing.forms import stored
from ma_sbi.validation import as_count, as_matrix, as_pairs, as_pools, warn_of_precision

__all__ = [
    "FEWEST_PAIRS",
    "FEWEST_SIMULATIONS",
    "FewPairs",
    "ForwardCorrector",
    "OtherUnits",
    "about_spreads",
    "why_unusable",
]

FEWEST_SIMULATIONS = 500
"""Fewer simulations do not tell the way back."""
# Factor between the spreads of simulations and x_sim from which one is of other units.
MOST_APART = 5.0
# Rows without which spreads are not compared: those of long tails vary by chance.
FEWEST_COMPARED = 50
# Pairs that maps are learned from: more would cost time and tell nothing new.
MOST_PAIRS = 5000
# Simulations that the way back is learned from.
MOST_SIMULATIONS = 3000
# Of them, those that the scale of each column is learned from.
ENOUGH_FOR_SCALE = 500
# Candidates of each observation under the map of all pairs, in case its context is wrong.
NUM_OTHERS = 32


class FewPairs(UserWarning):
    """A map of many coefficients that few pairs decide."""


class OtherUnits(UserWarning):
    """Simulations that spread unlike x_sim, as if in other units."""


@stored(
    "known_",
    "seen_",
    "maps_",
    "imagined_",
    "dim_x_",
    "doubt_",
    "columns_",
    simulations="-",
    num_candidates="<1000000",
)
class ForwardCorrector(BaseCorrector, BaseEstimator):
    r"""Learn how x_obs comes from x_sim, and the way back from many simulations.

    A departure is often simple forwards (counts are reported late) and not backwards. So
    a map :math:`x_{sim} \to x_{obs}` is learned from the pairs of each context
    (:mod:`ma_sbi.correctors.forward_maps`), applied to simulations from the prior, with
    the residuals of left-out pairs added, and the way back is a nonlinear regression on
    these thousands of rows. The candidates are its prediction plus its residuals at
    similar rows, moved until they would have been observed as x: draws of
    :math:`p(x_s \mid x, z)` under the simulations, so that no density has to weigh them
    again. Where simulations are counts, or their logarithms, so are candidates.

    A context that was not seen, or has few pairs, gets the map of all pairs. So do all
    others with a small weight, since a context may be wrong.

    Args:
        simulations: Simulations from the prior, shape ``(num_simulations, dim_x)``; up to
            3000 of them are used.
        num_candidates: Candidates of each observation.

    Example:
        >>> import torch
        >>> from ma_sbi.correctors import ForwardCorrector
        >>> x = torch.rand(1100, 3, generator=torch.Generator().manual_seed(0))
        >>> notes, x_sim = ["The sensor saturates."] * 100, x[:100]
        >>> corrector = ForwardCorrector(x[100:]).fit(notes, x_sim / (1 + x_sim), x_sim)
        >>> corrected = corrector.correct([[0.5, 0.25, 0.2]], notes[0])
        >>> torch.allclose(corrected, torch.tensor([1, 1 / 3, 1 / 4]), atol=0.05)
        True
    """

    known_: Entries
    seen_: SeenContexts
    maps_: dict[int | None, str]
    imagined_: dict[int | None, Imagined]
    dim_x_: int
    doubt_: float

    def __init__(self, simulations: ArrayLike, num_candidates: int = 128) -> None:
        self.simulations = simulations
        self.num_candidates = num_candidates

    def fit(
        self,
        context: Context,
        x_obs: ArrayLike,
        x_sim: ArrayLike,
        *,
        seed: int | None = None,
    ) -> Self:
        """Learn from calibration triples.

        Args:
            context: One entry per observation; entries are compared, not read.
            x_obs: Observations, shape ``(n, dim_x)``.
            x_sim: Simulations at the same inputs, row by row.
            seed: Makes the fit repeatable.

        Raises:
            ValueError: If rows do not match, are too few, or the simulations are
                somewhere else.
        """
        as_count(self.num_candidates, "num_candidates")
        if self.simulations is None:
            raise ValueError(
                "this ForwardCorrector came from a file, which does not hold simulations "
                "to fit with: make a new one, ForwardCorrector(simulations)"
            )
        x_obs, x_sim, context = match_rows(x_obs=x_obs, x_sim=x_sim, context=context)
        observed, simulated = as_pairs(x_obs, x_sim)
        warn_of_precision(x_obs=observed, x_sim=simulated)
        pool = as_pools(x_obs, self.simulations)[1].to(observed)
        unusable = why_unusable(simulated, pool)
        if unusable:
            raise ValueError(unusable)
        unlike = about_spreads(simulated, pool)
        if unlike:
            warnings.warn(unlike, OtherUnits, stacklevel=2)
        entries = as_entries(context, num_rows=len(observed))
        self.known_, codes = distinct(entries)
        self.seen_ = SeenContexts.of(entries, observed)
        pool = pool[_some(len(pool), MOST_SIMULATIONS, derive(seed, "pool"))]
        few = _some(len(observed), MOST_PAIRS, derive(seed, "pairs"))
        observed, simulated, codes = observed[few], simulated[few], codes[few.numpy()]
        some = pool[_some(len(pool), ENOUGH_FOR_SCALE, derive(seed, "scale"))]
        every = choose_map(simulated, observed, some, seed=seed)
        self.maps_, self.imagined_ = {}, {}
        self._learn(None, every, (simulated, observed), pool, seed)
        for code, count in enumerate(np.bincount(codes)):
            if len(self.known_) == 1 or count < FEWEST_PAIRS:
                continue
            rows = torch.from_numpy((codes == code).nonzero()[0])
            pairs = simulated[rows], observed[rows]
            own = choose_map(*pairs, some, seed=seed)
            if own.errors.mean() <= every.errors[rows].mean():
                self._learn(code, own, pairs, pool, seed)
        self.dim_x_, self.columns_ = observed.shape[1], column_names(x_obs)
        # No pair had a context that is wrong. The next one may.
        self.doubt_ = 1 / (len(observed) + 1)
        return self

    def unseen(self, context: Context) -> Unseen:
        """Tell which contexts calibration has not seen; printed, it counts them."""
        self._check_fitted()
        return self.seen_.read(as_entries(context))

    def examples(self) -> Examples:
        """Return a few calibration rows."""
        self._check_fitted()
        return self.seen_.examples()

    def _x_range(self) -> ObservedRange:
        self._check_fitted()
        return self.seen_.x_range

    def _check_fitted(self) -> None:
        if not hasattr(self, "imagined_"):
            raise NotFittedError("this ForwardCorrector is not fitted yet: call fit first")

    def _learn(
        self,
        code: int | None,
        chosen: ChosenMap,
        pairs: tuple[Tensor, Tensor],
        pool: Tensor,
        seed: int | None,
    ) -> None:
        """Keep a map, applied to simulations; of context None are all pairs."""
        x_sim = pairs[0]
        few = f"{len(x_sim)} pairs for {pool.shape[1]} columns"
        if len(x_sim) < FEWEST_PAIRS:
            _warn(f"{few}: at most a shift can be learned from so few")
        elif len(x_sim) < pool.shape[1] and chosen.name.startswith("linear"):
            _warn(
                f"{few}: a linear map is then mostly regularisation; more pairs, or fewer "
                "columns (summaries), help"
            )
        self.maps_[code] = chosen.name
        self.imagined_[code] = Imagined.by(chosen, pairs, pool, seed)

    def corrections(self, x: ArrayLike, context: Context) -> Corrections:
        """Return every candidate correction of x ``(batch, dim_x)`` with its weight."""
        self._check_fitted()
        x, context = self.matched(x, context, self.dim_x_)
        x = as_matrix(x, "x", dim=self.dim_x_)
        self.seen_.x_range.warn(x)
        uniques, codes = distinct(as_entries(context, num_rows=len(x)))
        number = match(self.known_, uniques)[codes]
        unseen = self.seen_.read(uniques.iloc[codes].reset_index(drop=True))
        self.seen_.warn(unseen, "they are corrected by the map of all pairs together")
        every = self.imagined_[None].candidates(x, NUM_OTHERS).to(x)
        num = min(self.num_candidates, self.imagined_[None].most_candidates)
        own = x.new_empty(num, len(x), self.dim_x_)
        has_own = np.isin(number, [code for code in self.imagined_ if code is not None])
        for code in np.unique(np.where(has_own, number, -1)).tolist():
            rows = torch.from_numpy(number == code if code >= 0 else ~has_own)
            imagined = self.imagined_[code if code >= 0 else None]
            own[:, rows] = imagined.candidates(x[rows], num).to(x)
        parts = ((own, 1 - self.doubt_), (every, self.doubt_))
        weights = [x.new_full(some.shape[:2], share / len(some)) for some, share in parts]
        log_weight = torch.cat(weights).log()
        return Corrections(
            torch.cat([own, every]), log_weight, torch.zeros_like(log_weight)
        )


def why_unusable(x_sim: Tensor, simulations: Tensor) -> str:
    """Say why a map cannot be inverted on these simulations; nothing if it can.

    Args:
        x_sim: Simulations of the pairs, shape ``(n, dim_x)``.
        simulations: Simulations from the prior, shape ``(num_simulations, dim_x)``.
    """
    if len(simulations) < FEWEST_SIMULATIONS:
        return (
            f"{len(simulations)} simulations are too few to invert a departure on: at "
            f"least {FEWEST_SIMULATIONS} are needed"
        )
    columns = ranges_apart(x_sim, simulations)
    if not columns:
        return ""
    ranges = _ranges(x_sim, simulations, columns[0])
    return f"simulations do not overlap with x_sim{ranges}"


def about_spreads(x_sim: Tensor, simulations: Tensor) -> str:
    """Say that simulations spread unlike x_sim; nothing if they do not.

    It is a doubt and not a reason to stop: a column that is nearly constant in some rows
    may vary much in others.

    Args:
        x_sim: Simulations of the pairs, shape ``(n, dim_x)``.
        simulations: Simulations from the prior, shape ``(num_simulations, dim_x)``.
    """
    if len(x_sim) < FEWEST_COMPARED:
        return ""
    columns = spreads_apart(x_sim, simulations, MOST_APART)
    if not columns:
        return ""
    ranges = _ranges(x_sim, simulations, columns[0])
    return f"simulations spread far more or less than x_sim{ranges}"


def _ranges(x_sim: Tensor, simulations: Tensor, column: int) -> str:
    """Show where both lie in a column."""
    ours, theirs = (part[:, column].aminmax() for part in (x_sim, simulations))
    return (
        f": in column {column} they lie between {theirs.min:g} and {theirs.max:g}, x_sim "
        f"between {ours.min:g} and {ours.max:g}; are units or columns mixed up?"
    )


def _some(num: int, most: int, seed: int | None) -> Tensor:
    """Choose rows at random, in order; all of them if they are few enough."""
    if num <= most:
        return torch.arange(num)
    rng = generator(0 if seed is None else seed)
    return torch.randperm(num, generator=rng)[:most].sort().values


def _warn(words: str) -> None:
    warnings.warn(words, FewPairs, stacklevel=4)
