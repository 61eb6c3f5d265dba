"""Noise of imagined observations: residuals of pairs, lent to simulations."""

from __future__ import annotations

import torch
from torch import Tensor

from ma_sbi.correctors.forward_maps import ROUNDING, ChosenMap
from ma_sbi.randomness import derive, generator
from ma_sbi.scaling import column_scale

__all__ = ["independent_share", "lend_residuals"]

# Pairs nearest to a simulation, one of which lends its residual.
NUM_LENDERS = 8
# Shares of the variance that may be independent between columns.
SHARES = (0.02, 0.05, 0.1, 0.2, 0.4, 0.6, 0.8, 1.0)


def lend_residuals(
    chosen: ChosenMap, x_sim: Tensor, pool: Tensor, seed: int | None
) -> tuple[Tensor, Tensor]:
    """Lend each simulation the residual of a similar pair, and the map that left it.

    A share of the noise is drawn anew in each column, as large as residuals nearby are
    there. For few residuals lie in few directions. In all others imagined observations
    would be exact, and the way back would rely on that.

    Args:
        chosen: The forward map, with its residuals.
        x_sim: Simulations of the pairs, shape ``(n, dim_x)``.
        pool: Simulations from the prior, shape ``(num, dim_x)``.
        seed: Picks who lends, and draws the noise.

    Returns:
        The fold whose map each simulation has, shape ``(num,)``, and its noise, shape
        ``(num, dim_x)``.
    """
    scale = column_scale(pool)
    lenders = torch.cdist(pool / scale, x_sim / scale)
    lenders = lenders.topk(min(NUM_LENDERS, len(x_sim)), largest=False).indices
    rng = generator(derive(seed, "residuals") or 0)
    pick = torch.randint(lenders.shape[1], (len(pool), 1), generator=rng)
    lender = lenders.gather(1, pick.to(pool.device))[:, 0]
    lent = chosen.residuals[lender]
    nearby = chosen.residuals[lenders].square().mean(dim=1).sqrt()
    anew = torch.randn(lent.shape, generator=rng).to(lent) * nearby
    share = independent_share(chosen.residuals / scale, chosen.fold)
    return chosen.fold[lender], (1 - share) ** 0.5 * lent + share**0.5 * anew


def independent_share(residuals: Tensor, fold: Tensor) -> float:
    r"""Tell what share of the noise is best taken as independent between columns.

    That which predicts the directions of left-out residuals best, if these are normal with
    covariance :math:`(1 - s) S + s I`, where S is that of all others, in units of each
    column's spread. Their lengths do not count: they vary with x. Directions of few pairs
    are a poor judge, too, so the share is at least
    :math:`(d / (n + d))^2`, for n pairs of d columns.

    Args:
        residuals: In units of the simulations' scale, shape ``(n, dim_x)``.
        fold: The fold of each pair, shape ``(n,)``.
    """
    num, dim = residuals.shape
    least = (dim / (num + dim)) ** 2
    spread = residuals.double().square().mean(dim=0)
    noisy = spread > ROUNDING
    folds = fold.unique()
    if not noisy.any() or len(folds) == 1:
        return least
    units = residuals.double()[:, noisy] / spread[noisy].sqrt()
    shares = [least, *(share for share in SHARES if share > least)]
    mixed = torch.tensor(shares).to(units)[:, None]
    score = torch.zeros_like(mixed[:, 0])
    for one in folds:
        others, left_out = units[fold != one], units[fold == one]
        # The same axes serve all shares.
        variance, axes = torch.linalg.eigh(others.T @ others / len(others))
        variance = (1 - mixed) * variance.clamp(min=0.0) + mixed
        length = (left_out @ axes).square() @ (1 / variance).T
        # A row that is zero has no direction.
        score -= units.shape[1] / 2 * length[length[:, 0] > 0].log().sum(dim=0)
        score -= len(left_out) / 2 * variance.log().sum(dim=1)
    return shares[int(score.argmax())]
