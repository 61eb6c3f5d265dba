"""Forward maps: how an observation comes from the simulation at the same inputs.

Each kind is learned from pairs of one context and predicts x_obs from x_sim. Which of them
suits is told by pairs that were left out, always in the units of x: so kinds that are
linear in different spaces can be compared.
"""

from __future__ import annotations

import math
from collections.abc import Callable, Sequence
from dataclasses import dataclass, replace
from functools import partial

import numpy as np
import torch
from scipy.optimize import nnls
from torch import Tensor

from ma_sbi.correctors.fitting import Triples
from ma_sbi.correctors.maps import (
    COUNTS_OF_LOGARITHMS,
    LOGARITHMS,
    PLAIN,
    ROOTS,
    AddedShift,
    CurveMap,
    LinearMap,
    MixingMap,
    Predict,
    Space,
)
from ma_sbi.correctors.ridge import Ridge
from ma_sbi.randomness import generator
from ma_sbi.scaling import column_scale
from ma_sbi.storing.forms import stored

__all__ = [
    "FEWEST_PAIRS",
    "MAPS",
    "ChosenMap",
    "choose_map",
    "fit_curve",
    "fit_linear",
    "fit_mixing",
    "fit_shift",
]

FEWEST_PAIRS = 8
"""Fewer pairs tell a shift at most."""
NUM_FOLDS = 5
# Columns that a mixture reaches over, on either side of its own.
REACH = 10
# Most columns after which the weights of a mixture may repeat: a week of days.
LONGEST_PERIOD = 7
# Share of the data's weight by which a column without data is left as it is.
PRIOR_SHARE = 1e-6
# Steps of non-negative least squares, of which a few dozen are usual.
MOST_STEPS = 10_000
# Residuals of less than this share of the variance are rounding.
ROUNDING = 1e-10
# Quantiles at which a curve may bend, and how strongly it is kept from bending.
KNOTS = (0.01, 0.05, 0.1, 0.2, 0.3, 0.4, 0.5, 0.6, 0.7, 0.8, 0.9, 0.95, 0.99)
SMOOTHING = 1e-4

Fit = Callable[[Tensor, Tensor, Tensor], Predict]
"""From simulations and observations, paired row by row, and from any simulations, whose
scale is the unit, to a map."""


def fit_shift(x_sim: Tensor, x_obs: Tensor, simulations: Tensor) -> AddedShift:
    """Fit a constant that is added to x."""
    return AddedShift((x_obs - x_sim).mean(dim=0))


def fit_linear(
    x_sim: Tensor, x_obs: Tensor, simulations: Tensor, *, space: Space = PLAIN
) -> LinearMap:
    """Fit a map that is linear in a space, by a ridge regression of largest evidence.

    Args:
        x_sim: Simulations, shape ``(n, dim_x)``.
        x_obs: Observations of the same rows.
        simulations: Simulations from the prior, which tell the scale of each column: one
            that hardly varies in few rows may vary in others.
        space: Where it is linear.
    """
    u, reference = space.into(x_sim), space.into(simulations)
    centre, scale = reference.mean(dim=0), column_scale(reference)
    nothing = LinearMap(space.name, centre, scale, u.new_zeros(u.shape[1] + 1, u.shape[1]))
    one = torch.zeros(1, 1).to(u)
    codes = torch.zeros(len(u), dtype=torch.long, device=u.device)
    triples = Triples(one, codes, nothing.basis(x_sim), space.into(x_obs) - u)
    coefficients = Ridge(widths=(1.0,)).fit(triples)(one).coefficients[0, 0]
    return replace(nothing, coefficients=coefficients)


def fit_curve(
    x_sim: Tensor, x_obs: Tensor, simulations: Tensor, *, shared: bool
) -> CurveMap:
    """Fit a function of each column by itself, linear between quantiles: saturation.

    Args:
        x_sim: Simulations, shape ``(n, dim_x)``.
        x_obs: Observations of the same rows.
        simulations: Simulations from the prior, whose quantiles are the knots.
        shared: Whether all columns have the same function.
    """
    pooled = simulations.reshape(-1, 1) if shared else simulations
    centre, scale = pooled.mean(dim=0), column_scale(pooled)
    knots = ((pooled - centre) / scale).quantile(torch.tensor(KNOTS).to(pooled), dim=0)
    nothing = CurveMap(centre, scale, knots, knots.new_zeros(len(centre), len(knots) + 2))
    known = nothing.basis(x_sim)
    gram = torch.einsum("nja,njb->jab", known, known)
    moment = torch.einsum("nja,nj->ja", known, x_obs - x_sim)
    if shared:
        gram, moment = gram.sum(dim=0, keepdim=True), moment.sum(dim=0, keepdim=True)
    size = gram[:, 0, 0].mean()
    penalty = SMOOTHING * size * torch.eye(gram.shape[-1]).to(gram)
    return replace(nothing, coefficients=torch.linalg.solve(gram + penalty, moment))


def fit_mixing(
    x_sim: Tensor, x_obs: Tensor, simulations: Tensor, *, space: Space = PLAIN
) -> MixingMap:
    r"""Fit a map that moves what a column holds to columns nearby: delays, blur, losses.

    .. math:: u_{obs,j} = \sum_{|i - j| \le 10} w_{ij} u_{sim,i}, \qquad w_{ij} \ge 0

    by weighted least squares. The weights may repeat along the columns, as days of a week
    do; after how many columns, if at all, is what the Bayesian information criterion
    prefers. A column without data is left as it is.

    Args:
        x_sim: Simulations, shape ``(n, dim_x)``.
        x_obs: Observations of the same rows.
        simulations: Not used: a mixture has no scale.
        space: Where things are moved: x itself, or the counts whose logarithm x is.
    """
    return MixingMap(space.name, _mixing_weights(space.into(x_sim), space.into(x_obs)))


MAPS: dict[str, tuple[Space, Fit]] = {
    "a shift": (PLAIN, fit_shift),
    "linear in x": (PLAIN, fit_linear),
    "linear in the square root of x": (ROOTS, partial(fit_linear, space=ROOTS)),
    "linear in log(1 + x)": (LOGARITHMS, partial(fit_linear, space=LOGARITHMS)),
    "linear in exp(x) - 1": (
        COUNTS_OF_LOGARITHMS,
        partial(fit_linear, space=COUNTS_OF_LOGARITHMS),
    ),
    "the same curve in every column": (PLAIN, partial(fit_curve, shared=True)),
    "a curve in every column": (PLAIN, partial(fit_curve, shared=False)),
    "mixing of x": (PLAIN, fit_mixing),
    "mixing of exp(x) - 1": (
        COUNTS_OF_LOGARITHMS,
        partial(fit_mixing, space=COUNTS_OF_LOGARITHMS),
    ),
}
"""Every kind by name, the simplest first: the space that x must suit, and the fit."""


@stored(fold="n < folds", residuals="n dim_x", errors="n")
@dataclass(frozen=True)
class ChosenMap:
    """The kind that predicts left-out pairs best, with what it leaves.

    Attributes:
        name: Its name.
        folds: A map for each fold, fitted to the pairs of all others.
        fold: The fold of each pair, shape ``(n,)``.
        residuals: What is left of each pair by the map of its fold, shape ``(n, dim_x)``.
        errors: Mean squared residual of each pair, in units of the simulations' scale,
            shape ``(n,)``.
    """

    name: str
    folds: Sequence[Predict]
    fold: Tensor
    residuals: Tensor
    errors: Tensor


def choose_map(
    x_sim: Tensor, x_obs: Tensor, simulations: Tensor, *, seed: int | None = None
) -> ChosenMap:
    """Learn how x_obs comes from x_sim; choose the kind by pairs that were left out.

    Of kinds that differ by rounding alone, the simplest is taken. Fewer than eight pairs
    tell a shift at most.

    Args:
        x_sim: Simulations, shape ``(n, dim_x)``.
        x_obs: Observations of the same rows.
        simulations: Simulations from the prior; their scale is the unit of each column.
        seed: Deals pairs to folds.
    """
    every = torch.cat([x_sim, x_obs, simulations])
    kinds = {name: fit for name, (space, fit) in MAPS.items() if space.suits(every)}
    if len(x_sim) < FEWEST_PAIRS:
        kinds = {"a shift": fit_shift}
    num_folds = min(NUM_FOLDS, len(x_sim))
    order = torch.randperm(len(x_sim), generator=generator(0 if seed is None else seed))
    fold = (order % num_folds).to(x_sim.device)
    unit = column_scale(simulations)
    folds: dict[str, list[Predict]] = {name: [] for name in kinds}
    residuals = {name: torch.zeros_like(x_obs) for name in kinds}
    loss = {name: rank * ROUNDING for rank, name in enumerate(kinds)}
    # Always the next fold of the kind that has lost least so far: the first to have done
    # all folds is the best, and most others were given up early.
    while len(folds[name := min(loss, key=loss.__getitem__)]) < num_folds:
        out = fold == len(folds[name])
        kept = ~out if num_folds > 1 else out  # a single pair has no others
        predict = kinds[name](x_sim[kept], x_obs[kept], simulations)
        folds[name].append(predict)
        residuals[name][out] = x_obs[out] - predict(x_sim[out])
        lost = (residuals[name][out] / unit).square().sum() / x_obs.numel()
        loss[name] += lost.nan_to_num(nan=math.inf).item()
    errors = (residuals[name] / unit).square().mean(dim=1)
    return ChosenMap(name, folds[name], fold, residuals[name], errors)


def _mixing_weights(u_sim: Tensor, u_obs: Tensor) -> Tensor:
    """Return the weights, shape ``(dim_x, dim_x)``: from column i to column j."""
    num, dim = u_sim.shape
    reach = min(REACH, dim - 1)
    lags = 2 * reach + 1
    # What is near each column: shape (n, dim, lags), zeros beyond the first and the last.
    near = torch.nn.functional.pad(u_sim, (reach, reach)).unfold(1, lags, 1)
    weight = torch.ones_like(u_obs)
    if min(u_sim.min(), u_obs.min()) >= 0:
        # The variance of a count is its mean.
        weight /= u_obs + u_obs.mean().clamp(min=1e-12)
    weighted = near * weight[..., None]
    gram = torch.einsum("nja,njb->jab", weighted, near).cpu().numpy()
    moment = torch.einsum("nja,nj->ja", weighted, u_obs).cpu().numpy()
    total = (weight * u_obs.square()).sum(dim=0).cpu().numpy()
    prior = PRIOR_SHARE * max(np.trace(gram, axis1=1, axis2=2).mean() / lags, 1e-200)
    best, least = np.zeros((dim, lags)), math.inf
    for period in {*range(1, min(LONGEST_PERIOD, dim - 1) + 1), dim}:
        phase = np.arange(dim) % period
        member = (phase == np.arange(period)[:, None]).astype(float)
        joint = [np.tensordot(member, part, axes=1) for part in (gram, moment, total)]
        kernels, left = _non_negative(joint[0], joint[1], joint[2], prior)
        noise = max(left, ROUNDING * total.sum(), 1e-200)
        size = (kernels > 0).sum()
        criterion = num * dim * math.log(noise) + size * math.log(num * dim)
        if criterion < least:
            best, least = kernels[phase], criterion
    weights = torch.zeros(dim + 2 * reach, dim, dtype=torch.float64)
    for column, kernel in enumerate(best):
        weights[column : column + lags, column] = torch.from_numpy(kernel)
    return weights[reach : reach + dim].to(u_sim)


def _non_negative(
    gram: np.ndarray, moment: np.ndarray, total: np.ndarray, prior: float
) -> tuple[np.ndarray, float]:
    """Solve several non-negative least squares problems, given their moments.

    Args:
        gram: Products of regressors, shape ``(num, lags, lags)``.
        moment: Products with what is to be explained, shape ``(num, lags)``.
        total: Its sum of squares, shape ``(num,)``.
        prior: Strength of the prior that only the own column, in the middle, has a weight.

    Returns:
        Weights of shape ``(num, lags)``, and the sum of squares that is left.
    """
    lags = moment.shape[1]
    own = prior * (np.arange(lags) == lags // 2)
    factor = np.linalg.cholesky(gram + prior * np.eye(lags)).transpose(0, 2, 1)
    target = np.linalg.solve(factor.transpose(0, 2, 1), (moment + own)[..., None])[..., 0]
    weights = np.stack(
        [nnls(*pair, maxiter=MOST_STEPS)[0] for pair in zip(factor, target, strict=True)]
    )
    explained = 2 * moment - np.einsum("pab,pb->pa", gram, weights)
    return weights, float((total - (weights * explained).sum(axis=1)).clip(min=0).sum())
