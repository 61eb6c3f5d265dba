"""Structural departures: learned forwards from few pairs, inverted on many simulations."""

from __future__ import annotations

import math
import warnings
from dataclasses import dataclass
from functools import cached_property
from typing import Any

import numpy as np
import torch
from sklearn.base import BaseEstimator
from sklearn.exceptions import NotFittedError
from torch import Tensor
from typing_extensions import Self

from ma_sbi.context import as_entries, distinct, match
from ma_sbi.correctors.composed import BaseCorrector
from ma_sbi.correctors.forward_maps import (
    FEWEST_PAIRS,
    ROUNDING,
    ChosenMap,
    choose_map,
)
from ma_sbi.correctors.unseen import SeenContexts, Unseen
from ma_sbi.protocols import Context, Corrections
from ma_sbi.randomness import derive, generator
from ma_sbi.scaling import column_scale, spreads_apart
from ma_sbi.validation import as_count, as_matrix, as_pairs, as_pools

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
# Pairs nearest to a simulation, one of which lends its residual.
NUM_LENDERS = 8
# Candidates of each observation under the map of all pairs, in case its context is wrong.
NUM_OTHERS = 32
# Random features of the way back, beside x itself, and the spread of their slopes.
NUM_FEATURES = 300
STEEPNESS = 1.5
# Quantiles at which each column may bend, as long as these are few features.
KNOTS = (0.1, 0.5, 0.9)
MOST_BENDS = 150
# Strengths of its ridge penalty, in units of the number of rows: tried one after another,
# until left-out rows are predicted worse.
PENALTIES = (1e-1, 1e-2, 1e-3, 1e-4, 1e-5, 1e-6, 1e-8)
# Share of their range by which the way back is trusted beyond imagined observations.
BEYOND = 0.1
# An imagined column is not scaled up beyond this share of the simulations' scale.
LEAST_SCALE = 0.1


class FewPairs(UserWarning):
    """A map of many coefficients that few pairs decide."""


class OtherUnits(UserWarning):
    """Simulations that spread unlike x_sim, as if in other units."""


class ForwardCorrector(BaseCorrector, BaseEstimator):
    r"""Learn how x_obs comes from x_sim, and the way back from many simulations.

    A departure is often simple forwards (counts are reported late) and not backwards. So
    a map :math:`x_{sim} \to x_{obs}` is learned from the pairs of each context
    (:mod:`ma_sbi.correctors.forward_maps`), applied to simulations from the prior, with
    the residuals of left-out pairs added, and the way back is a nonlinear regression on
    these thousands of rows. The candidates are its prediction plus its residuals at
    similar rows: draws of :math:`p(x_s \mid x, z)` under the simulations, so that no
    density has to weigh them again.

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

    def __init__(self, simulations: Any, num_candidates: int = 128) -> None:
        self.simulations = simulations
        self.num_candidates = num_candidates

    def fit(
        self, context: Context, x_obs: Any, x_sim: Any, *, seed: int | None = None
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
        observed, simulated = as_pairs(x_obs, x_sim)
        pool = as_pools(observed, self.simulations)[1].to(observed)
        unusable = why_unusable(simulated, pool)
        if unusable:
            raise ValueError(unusable)
        unlike = about_spreads(simulated, pool)
        if unlike:
            warnings.warn(unlike, OtherUnits, stacklevel=2)
        entries = as_entries(context, num_rows=len(observed))
        self.known_, codes = distinct(entries)
        self.seen_ = SeenContexts(entries)
        pool = pool[_some(len(pool), MOST_SIMULATIONS, derive(seed, "pool"))]
        few = _some(len(observed), MOST_PAIRS, derive(seed, "pairs"))
        observed, simulated, codes = observed[few], simulated[few], codes[few.numpy()]
        some = pool[_some(len(pool), ENOUGH_FOR_SCALE, derive(seed, "scale"))]
        every = choose_map(simulated, observed, some, seed=seed)
        self.maps_: dict[int | None, str] = {}
        self.imagined_: dict[int | None, _Imagined] = {}
        self._learn(None, every, (simulated, observed), pool, seed)
        for code, count in enumerate(np.bincount(codes)):
            if len(self.known_) == 1 or count < FEWEST_PAIRS:
                continue
            rows = torch.from_numpy((codes == code).nonzero()[0])
            pairs = simulated[rows], observed[rows]
            own = choose_map(*pairs, some, seed=seed)
            if own.errors.mean() <= every.errors[rows].mean():
                self._learn(code, own, pairs, pool, seed)
        self.dim_x_ = observed.shape[1]
        # No pair had a context that is wrong. The next one may.
        self.doubt_ = 1 / (len(observed) + 1)
        return self

    def unseen(self, context: Context) -> Unseen:
        """Tell which contexts calibration has not seen; printed, it counts them."""
        self._check_fitted()
        return self.seen_.read(as_entries(context))

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
        x_sim, x_obs = pairs
        few = f"{len(x_sim)} pairs for {pool.shape[1]} columns"
        if len(x_sim) < FEWEST_PAIRS:
            _warn(f"{few}: at most a shift can be learned from so few")
        elif len(x_sim) < pool.shape[1] and chosen.name.startswith("linear"):
            _warn(
                f"{few}: a linear map is then mostly regularisation; more pairs, or fewer "
                "columns (summaries), help"
            )
        imagined = _imagine(chosen, x_sim, x_obs, pool, derive(seed, "residuals"))
        self.maps_[code] = chosen.name
        self.imagined_[code] = _Imagined(imagined, pool, seed)

    def corrections(self, x: Any, context: Context) -> Corrections:
        """Return every candidate correction of x ``(batch, dim_x)`` with its weight."""
        self._check_fitted()
        x = as_matrix(x, "x", dim=self.dim_x_)
        uniques, codes = distinct(as_entries(context, num_rows=len(x)))
        number = match(self.known_, uniques)[codes]
        unseen = self.seen_.read(uniques.iloc[codes].reset_index(drop=True))
        self.seen_.warn(unseen, "they are corrected by the map of all pairs together")
        most = max(self.num_candidates, NUM_OTHERS)
        found = self.imagined_[None].way_back(x, most).to(x)
        every, own = found[:NUM_OTHERS], found[: self.num_candidates].clone()
        for code in set(number.tolist()) & self.imagined_.keys():
            rows = torch.from_numpy((number == code).nonzero()[0])
            back = self.imagined_[code].way_back
            own[:, rows] = back(x[rows], self.num_candidates).to(x)
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
    low, high = (f(simulations, dim=0) for f in (torch.amin, torch.amax))
    # A few rows beyond the largest simulation are chance, or the rounding of a constant.
    far = (high - low) / 2 + 1e-6 * torch.maximum(low.abs(), high.abs())
    apart = ~((x_sim >= low - far) & (x_sim <= high + far)).any(dim=0)
    if not apart.any():
        return ""
    ranges = _ranges(x_sim, simulations, int(apart.nonzero()[0]))
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


@dataclass(frozen=True)
class _Features:
    """Random features of observations, and bends of single columns.

    Attributes:
        centre: Of the imagined observations, shape ``(dim_x,)``.
        scale: Their scale.
        slopes: Of the random features, shape ``(dim_x, num_features)``.
        offsets: Of them.
        knots: Where each column may bend, shape ``(num_knots, dim_x)``.
        ends: Least and largest value of each column that is trusted, shape ``(2, dim_x)``.
    """

    centre: Tensor
    scale: Tensor
    slopes: Tensor
    offsets: Tensor
    knots: Tensor
    ends: Tensor

    @classmethod
    def suited_to(cls, imagined: Tensor, unit: Tensor, seed: int | None) -> _Features:
        rng = generator(derive(seed, "features") or 0)
        dim = len(unit)
        slopes = torch.randn(dim, NUM_FEATURES, generator=rng, dtype=torch.float64)
        offsets = torch.randn(NUM_FEATURES, generator=rng, dtype=torch.float64)
        centre = imagined.mean(dim=0)
        scale = torch.maximum(column_scale(imagined), LEAST_SCALE * unit)
        knots = unit.new_empty(0, dim)
        if dim * len(KNOTS) <= MOST_BENDS:
            quantiles = torch.tensor(KNOTS).to(unit)
            knots = ((imagined - centre) / scale).quantile(quantiles, dim=0)
        slopes = (STEEPNESS / dim**0.5 * slopes).to(unit)
        low, high = imagined.aminmax(dim=0)
        ends = torch.stack([low, high]) + BEYOND * torch.stack([low - high, high - low])
        return cls(centre, scale, slopes, offsets.to(unit), knots, ends)

    def __call__(self, x: Tensor) -> Tensor:
        """Evaluate rows of x, shape ``(n, num)``; beyond the ends, at them."""
        standardised = (x.clamp(*self.ends) - self.centre) / self.scale
        bent = torch.tanh(standardised @ self.slopes + self.offsets)
        bends = [(standardised - knot).clamp(min=0.0) for knot in self.knots]
        return torch.cat([standardised, bent, *bends], dim=1)


@dataclass(frozen=True)
class _WayBack:
    """A regression of simulations on imagined observations.

    Attributes:
        features: Of observations.
        middle: Their mean, shape ``(num,)``.
        shift: Mean of simulation less observation, shape ``(dim_x,)``.
        coefficients: Of the features, shape ``(num, dim_x)``.
        predicted: Predictions for rows that it was not fitted to, shape ``(m, dim_x)``.
        residuals: What they leave of the simulations.
        unit: Scale of the simulations, shape ``(dim_x,)``.
        least: Candidates are not smaller: 0 where simulations are never negative.
    """

    features: _Features
    middle: Tensor
    shift: Tensor
    coefficients: Tensor
    predicted: Tensor
    residuals: Tensor
    unit: Tensor
    least: float

    @classmethod
    def fit(cls, imagined: Tensor, pool: Tensor, seed: int | None) -> _WayBack:
        unit = column_scale(pool)
        features = _Features.suited_to(imagined, unit, seed)
        held_out = torch.arange(len(pool), device=pool.device) % 5 == 0
        train, test = features(imagined[~held_out]), features(imagined[held_out])
        middle = train.mean(dim=0)
        train, test = train - middle, test - middle
        delta = pool - imagined
        shift = delta[~held_out].mean(dim=0)
        delta = delta - shift
        # Without a regression, all rows are shifted alike.
        coefficients, left = train.new_zeros(train.shape[1], len(unit)), delta[held_out]
        least = (left / unit).square().mean()
        if least > ROUNDING:
            gram, moment = train.T @ train, train.T @ delta[~held_out]
            for penalty in PENALTIES:
                ridge = penalty * len(train) * torch.eye(len(gram)).to(gram)
                weaker = torch.cholesky_solve(moment, torch.linalg.cholesky(gram + ridge))
                residuals = delta[held_out] - test @ weaker
                error = (residuals / unit).square().mean()
                if error > least:
                    break
                coefficients, left, least = weaker, residuals, error
        predicted = pool[held_out] - left
        floor = 0.0 if pool.min() >= 0 else -math.inf
        return cls(features, middle, shift, coefficients, predicted, left, unit, floor)

    def __call__(self, x: Tensor, num_candidates: int) -> Tensor:
        """Return candidates ``(K, n, dim_x)``; those of the most similar rows first."""
        x = x.to(self.unit)
        found = x + self.shift + (self.features(x) - self.middle) @ self.coefficients
        apart = torch.cdist(found / self.unit, self.predicted / self.unit)
        num = min(num_candidates, len(self.predicted))
        similar = apart.topk(num, largest=False).indices
        return (found + self.residuals[similar].transpose(0, 1)).clamp(min=self.least)


@dataclass(frozen=True)
class _Imagined:
    """Observations that simulations would have given, row by row."""

    x_obs: Tensor
    x_sim: Tensor
    seed: int | None

    @cached_property
    def way_back(self) -> _WayBack:
        """The way back: it takes time, and not every context is met again."""
        return _WayBack.fit(self.x_obs, self.x_sim, self.seed)


def _imagine(
    chosen: ChosenMap, x_sim: Tensor, x_obs: Tensor, pool: Tensor, seed: int | None
) -> Tensor:
    """Make the observations that simulations would have given, shape ``(num, dim_x)``.

    Each simulation borrows the residual of a similar pair, and the map that left it: so
    imagined observations spread by noise and by what so few pairs leave unknown.
    """
    scale = column_scale(pool)
    lenders = torch.cdist(pool / scale, x_sim / scale)
    lenders = lenders.topk(min(NUM_LENDERS, len(x_sim)), largest=False).indices
    rng = generator(0 if seed is None else seed)
    pick = torch.randint(lenders.shape[1], (len(pool), 1), generator=rng)
    lender = lenders.gather(1, pick.to(pool.device))[:, 0]
    imagined = torch.empty_like(pool)
    for number, predict in enumerate(chosen.folds):
        rows = chosen.fold[lender] == number
        imagined[rows] = predict(pool[rows]) + chosen.residuals[lender[rows]]
    # What is never negative, as counts, is not imagined to be.
    return imagined.clamp(min=0.0) if min(x_obs.min(), pool.min()) >= 0 else imagined


def _some(num: int, most: int, seed: int | None) -> Tensor:
    """Choose rows at random, in order; all of them if they are few enough."""
    if num <= most:
        return torch.arange(num)
    rng = generator(0 if seed is None else seed)
    return torch.randperm(num, generator=rng)[:most].sort().values


def _warn(words: str) -> None:
    warnings.warn(words, FewPairs, stacklevel=4)
