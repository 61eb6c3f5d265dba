"""Discovering regimes: departures that repeat, or that form clouds."""

from __future__ import annotations

import warnings

import numpy as np
import torch
from scipy.cluster.hierarchy import fcluster, linkage
from sklearn.decomposition import PCA
from sklearn.exceptions import ConvergenceWarning
from sklearn.mixture import GaussianMixture
from torch import Tensor

from ma_sbi.correctors.bootstrap import merge_equal
from ma_sbi.scaling import column_scale

__all__ = ["discover"]

# Fewer departures that differ are not told apart: together they are one regime.
FEWEST_SPLIT = 8
# Rows of each regime, at least: fewer do not show its spread.
FEWEST_PER_CLOUD = 4
# Departures and directions that clouds are found in: the tree is quadratic in the first.
MOST_ROWS = 1000
MOST_DIRECTIONS = 10
# In a row, numbers of clouds that do worse, before no more are tried.
PATIENCE = 3
# Probabilities below are zero.
LEAST_SHARE = 1e-6


def discover(delta: Tensor, rounding: Tensor, most: int) -> Tensor:
    """Find groups of departures; one group, if there is no sign of more.

    Without noise the departures of a regime are equal: each that repeats is a regime. The
    others are described by a mixture of Gaussians, as many as the Bayesian information
    criterion prefers.

    Args:
        delta: Departures, shape ``(n, dim_x)``.
        rounding: Smaller differences are rounding, shape ``(dim_x,)``.
        most: Largest number of regimes.

    Returns:
        Probability of each regime, shape ``(n, num_regimes)``; rows sum to one.
    """
    _, atom = merge_equal(delta, rounding)
    count = atom.bincount()
    if len(count) <= most:
        return torch.eye(len(count)).to(delta)[atom]
    repeats = count > 1
    if repeats.sum() >= most:  # such as whole numbers, which repeat by chance
        return _clouds(delta, most)
    rest = ~repeats[atom]
    equal = torch.eye(len(count)).to(delta)[atom][:, repeats]
    if not rest.any():
        return equal
    apart = delta.new_zeros(len(delta), most - equal.shape[1])
    clouds = _clouds(delta[rest], apart.shape[1])
    apart = apart[:, : clouds.shape[1]]
    apart[rest] = clouds
    return torch.cat([equal, apart], dim=1)


def _clouds(delta: Tensor, most: int) -> Tensor:
    """Fit mixtures of Gaussians, started from a tree of the departures."""
    whole = delta.new_ones(len(delta), 1)
    most = min(most, len(delta) // FEWEST_PER_CLOUD)
    if len(delta) < FEWEST_SPLIT or most < 2:
        return whole
    points = (delta / column_scale(delta)).cpu().numpy()
    if points.shape[1] > MOST_DIRECTIONS:
        points = PCA(MOST_DIRECTIONS, random_state=0).fit_transform(points)
    # Rows come in any order: every so many are as good as some at random.
    some = points[:: -(-len(points) // MOST_ROWS)]
    tree = linkage(some, method="ward")
    best, best_score, worse = None, np.inf, 0
    for number in range(1, most + 1):
        labels = fcluster(tree, number, "maxclust") - 1
        tried = [_mixture(some, labels, kind) for kind in ("tied", "diag")]
        scores = [one.bic(some) for one in tried]
        if min(scores) < best_score:
            best, best_score, worse = tried[int(np.argmin(scores))], min(scores), 0
        else:
            worse += 1
        if worse == PATIENCE:
            break
    assert best is not None  # noqa: S101 (one cloud always has a score)
    share = torch.from_numpy(best.predict_proba(points)).to(delta)
    share = share.where(share >= LEAST_SHARE, 0.0)
    # A cloud that holds no row most probably is part of another.
    share = share[:, share.argmax(dim=1).unique()]
    return share / share.sum(dim=1, keepdim=True)


def _mixture(points: np.ndarray, labels: np.ndarray, kind: str) -> GaussianMixture:
    """Fit Gaussians that start from groups of points."""
    member = np.eye(labels.max() + 1)[labels]
    means = (member.T @ points) / member.sum(axis=0)[:, None]
    within = np.cov((points - means[labels]).T, bias=True).reshape(points.shape[1], -1)
    within = within + 1e-6 * np.eye(points.shape[1])
    precision = np.linalg.inv(within)
    start = precision if kind == "tied" else np.tile(1 / np.diag(within), (len(means), 1))
    mixture = GaussianMixture(
        len(means),
        covariance_type=kind,
        weights_init=member.mean(axis=0),
        means_init=means,
        precisions_init=start,
        random_state=0,
    )
    with warnings.catch_warnings():
        warnings.simplefilter("ignore", ConvergenceWarning)
        return mixture.fit(points)
