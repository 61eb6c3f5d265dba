"""The way back: what simulations may be behind an observation, given a forward map."""

from __future__ import annotations

import math
from collections.abc import Callable
from dataclasses import dataclass
from functools import cached_property, partial

import torch
from torch import Tensor

from ma_sbi.correctors.forward_maps import ROUNDING, ChosenMap
from ma_sbi.correctors.lending import lend_residuals
from ma_sbi.correctors.maps import COUNTS_OF_LOGARITHMS, PLAIN, Space
from ma_sbi.randomness import derive, generator
from ma_sbi.scaling import column_scale
from ma_sbi.storing.forms import stored

__all__ = ["Imagined"]

# Random features of the way back, beside x itself, and the spread of their slopes.
NUM_FEATURES = 300
STEEPNESS = 1.5
# Quantiles at which each column may bend, as long as these are few features.
KNOTS = (0.1, 0.5, 0.9)
MOST_BENDS = 150
# Strengths of its ridge penalty, in units of the number of rows: tried one after another,
# until left-out rows are predicted worse.
PENALTIES = (1e-1, 1e-2, 1e-3, 1e-4, 1e-5, 1e-6, 1e-8)
# Share of their range by which the way back is trusted beyond simulations, and what they
# would have been observed as.
BEYOND = 0.1
# An imagined column is not scaled up beyond this share of the simulations' scale.
LEAST_SCALE = 0.1
# Every so many simulations one is not fitted to, and lends its residual.
ONE_IN = 5
# Times that candidates are moved.
NUM_STEPS = 2
# Simulations, and candidates of each, that show whether moving helps, and what they must
# leave unexplained, in units of the noise: what a linear regression does, is twice as much.
NUM_JUDGED = 50
MOST_NOISE = 10.0
# Candidates that are moved at the same time, to bound the memory.
ROWS_AT_ONCE = 20_000
# Relative precision of counts whose logarithms were kept in single precision, and the
# rounding from which it does not show whether numbers are whole.
PRECISION = 2e-6
MOST_ROUNDING = 0.02


@stored(x_sim="num dim_x", fold="num < num", noise="num dim_x", floor="?")
@dataclass(frozen=True, eq=False)
class Imagined:
    """What simulations would have been observed as, and the way back from there.

    Each simulation borrows the residual of a similar pair, and the map that left it: so
    imagined observations spread by noise and by what so few pairs leave unknown.

    Attributes:
        chosen: The forward map.
        x_sim: Simulations from the prior, shape ``(num, dim_x)``.
        fold: The fold whose map each has, shape ``(num,)``.
        noise: What is added to that, shape ``(num, dim_x)``.
        floor: Nothing smaller is observed: 0 if nothing that is known is negative.
        seed: Of the way back.
    """

    chosen: ChosenMap
    x_sim: Tensor
    fold: Tensor
    noise: Tensor
    floor: float
    seed: int | None

    def __post_init__(self) -> None:
        if len(self.fold) and int(self.fold.max()) >= len(self.chosen.folds):
            raise ValueError(f"there are {len(self.chosen.folds)} folds, and more are used")

    @classmethod
    def by(
        cls, chosen: ChosenMap, pairs: tuple[Tensor, Tensor], pool: Tensor, seed: int | None
    ) -> Imagined:
        """Apply a map to simulations.

        Args:
            chosen: The map.
            pairs: Simulations and observations that it was learned from.
            pool: Simulations from the prior, shape ``(num, dim_x)``.
            seed: Of the noise, and of the way back.
        """
        x_sim, x_obs = pairs
        fold, noise = lend_residuals(chosen, x_sim, pool, seed)
        floor = 0.0 if min(x_obs.min(), pool.min()) >= 0 else -math.inf
        return cls(chosen, pool, fold, noise, floor, seed)

    def observe(self, x: Tensor, number: Tensor) -> Tensor:
        """Imagine what simulations x would have been observed as.

        Args:
            x: Shape ``(..., dim_x)``.
            number: Of the simulation whose map and noise each has, shape ``(...)``.
        """
        fold = self.fold[number]
        observed = torch.empty_like(x)
        for one, predict in enumerate(self.chosen.folds):
            rows = fold == one
            observed[rows] = predict(x[rows])
        return (observed + self.noise[number]).clamp(min=self.floor)

    @cached_property
    def x_obs(self) -> Tensor:
        """What the simulations would have been observed as, shape ``(num, dim_x)``."""
        every = torch.arange(len(self.x_sim), device=self.x_sim.device)
        return self.observe(self.x_sim, every)

    @cached_property
    def _regression(self) -> _Regression:
        """The regression: it takes time, and not every context is met again."""
        return _Regression.fit(self.x_obs, self.x_sim, self.seed)

    @cached_property
    def _round(self) -> Callable[[Tensor], Tensor]:
        """Make candidates what simulations are: whole numbers, or logarithms of them."""
        for space, precision in ((PLAIN, 0.0), (COUNTS_OF_LOGARITHMS, PRECISION)):
            if space.suits(self.x_sim) and _are_whole(space.into(self.x_sim), precision):
                return partial(_rounded, space)
        return lambda x: x

    @property
    def most_candidates(self) -> int:
        """How many candidates there are."""
        return len(self._regression.number)

    def candidates(self, x: Tensor, num: int) -> Tensor:
        """Return simulations that may be behind observations.

        Each is the prediction of the regression plus its residual at a similar simulation.
        Where noise does not explain what it leaves of x, it is then moved, as the
        regression says, until it would have been observed as x.

        Args:
            x: Observations, shape ``(n, dim_x)``.
            num: Of candidates.

        Returns:
            Shape ``(num, n, dim_x)``; those of the most similar simulations first.
        """
        parts = []
        for some in x.to(self.x_sim).split(max(1, ROWS_AT_ONCE // num)):
            found, number = self._start(some, num)
            if self._moving_helps:
                found = self._moved(found, number, some[:, None])
            parts.append(self._round(found))
        return torch.cat(parts).transpose(0, 1)

    def _start(self, x: Tensor, num: int, *, skip: int = 0) -> tuple[Tensor, Tensor]:
        """Find candidates of observations by the regression.

        Args:
            x: Observations, shape ``(n, dim_x)``.
            num: Of candidates.
            skip: How many of the most similar simulations do not count.

        Returns:
            Candidates of shape ``(n, num, dim_x)``, and the simulation that lent each its
            residual, shape ``(n, num)``.
        """
        back = self._regression
        predicted = back(x)
        similar = back.similar(predicted, num + skip)[:, skip:]
        found = (predicted[:, None] + back.residuals[similar]).clamp(min=back.floor)
        return found, back.number[similar]

    def _moved(self, found: Tensor, number: Tensor, x: Tensor) -> Tensor:
        """Move candidates as long as they would be observed as something nearer to x."""
        back = self._regression
        aim, seen = back(x), self.observe(found, number)
        away = self._distance(x, seen)
        for _ in range(NUM_STEPS):
            moved = (found + aim - back(seen)).clamp(*back.ends)
            seen_there = self.observe(moved, number)
            away_there = self._distance(x, seen_there)
            nearer = (away_there < away)[..., None]
            found = torch.where(nearer, moved, found)
            seen = torch.where(nearer, seen_there, seen)
            away = torch.minimum(away, away_there)
        return found

    @cached_property
    def _moving_helps(self) -> bool:
        """Whether candidates leave more of an observation unexplained than noise may.

        Then the regression is at fault, and moving them repairs it. Else the difference is
        noise, which moving would take for a difference between simulations.
        """
        number = self._regression.number[:NUM_JUDGED]
        x = self.x_obs[number]
        found, lender = self._start(x, NUM_JUDGED, skip=1)
        unexplained = self._distance(x[:, None], self.observe(found, lender)).mean()
        noise = self.chosen.errors.mean()
        return bool(unexplained > MOST_NOISE * noise + ROUNDING)

    def _distance(self, x: Tensor, y: Tensor) -> Tensor:
        return ((x - y) / self._regression.unit).square().mean(dim=-1)


def _are_whole(u: Tensor, precision: float) -> bool:
    """Tell whether numbers are whole, as far as their relative precision shows it."""
    rounding = precision * u.abs()
    shows = rounding < MOST_ROUNDING
    whole = (u - u.round()).abs() <= rounding
    return bool(shows.double().mean() > 0.5) and bool(whole[shows].all())


def _rounded(space: Space, x: Tensor) -> Tensor:
    """Round in a space; what is too large for it stays as it is."""
    u = space.into(x)
    return torch.where(u.isfinite(), space.back(u.round()), x)


def _ends(x: Tensor) -> Tensor:
    """Return the least and the largest value of each column that is trusted."""
    low, high = x.aminmax(dim=0)
    return torch.stack([low, high]) + BEYOND * torch.stack([low - high, high - low])


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
        return cls(centre, scale, slopes, offsets.to(unit), knots, _ends(imagined))

    def __call__(self, x: Tensor) -> Tensor:
        """Evaluate rows of x, shape ``(n, num)``; beyond the ends, at them."""
        standardised = (x.clamp(*self.ends) - self.centre) / self.scale
        bent = torch.tanh(standardised @ self.slopes + self.offsets)
        bends = [(standardised - knot).clamp(min=0.0) for knot in self.knots]
        return torch.cat([standardised, bent, *bends], dim=1)


@dataclass(frozen=True)
class _Regression:
    """Of simulations on what they would have been observed as.

    Attributes:
        features: Of observations.
        middle: Their mean, shape ``(num,)``.
        shift: Mean of simulation less observation, shape ``(dim_x,)``.
        coefficients: Of the features, shape ``(num, dim_x)``.
        number: Simulations that it was not fitted to, shape ``(m,)``.
        predicted: What it predicts for them, shape ``(m, dim_x)``.
        residuals: What that leaves of them.
        unit: Scale of the simulations, shape ``(dim_x,)``.
        ends: Least and largest value of each column of simulations, with a margin, shape
            ``(2, dim_x)``.
        floor: No simulation is smaller: 0 if none is negative.
    """

    features: _Features
    middle: Tensor
    shift: Tensor
    coefficients: Tensor
    number: Tensor
    predicted: Tensor
    residuals: Tensor
    unit: Tensor
    ends: Tensor
    floor: float

    @classmethod
    def fit(cls, imagined: Tensor, pool: Tensor, seed: int | None) -> _Regression:
        unit = column_scale(pool)
        features = _Features.suited_to(imagined, unit, seed)
        held_out = torch.arange(len(pool), device=pool.device) % ONE_IN == 0
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
        number = held_out.nonzero()[:, 0]
        predicted = pool[held_out] - left
        floor = 0.0 if pool.min() >= 0 else -math.inf
        ends = _ends(pool).clamp(min=floor)
        return cls(
            features,
            middle,
            shift,
            coefficients,
            number,
            predicted,
            left,
            unit,
            ends,
            floor,
        )

    def __call__(self, x: Tensor) -> Tensor:
        """Predict the simulations behind observations, shape ``(..., dim_x)``."""
        flat = x.reshape(-1, x.shape[-1])
        bent = (self.features(flat) - self.middle) @ self.coefficients
        return (flat + self.shift + bent).reshape(x.shape)

    def similar(self, predicted: Tensor, num: int) -> Tensor:
        """Find residuals at similar predictions, shape ``(n, num)``; the nearest first."""
        apart = torch.cdist(predicted / self.unit, self.predicted / self.unit)
        return apart.topk(min(num, len(self.predicted)), largest=False).indices
