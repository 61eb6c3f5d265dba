"""Discovering regimes: departures that repeat, or that form clouds."""

from __future__ import annotations

import torch
from scipy.cluster.hierarchy import fcluster, linkage
from torch import Tensor

from ma_sbi.correctors.bootstrap import merge_equal
from ma_sbi.correctors.clouds import Clouds
from ma_sbi.scaling import column_scale

__all__ = ["discover"]

# Rows of each cloud, at least: fewer do not show its spread.
FEWEST_PER_CLOUD = 4
# Departures and directions that clouds are found in: the tree is quadratic in the first.
MOST_ROWS = 1000
MOST_DIRECTIONS = 10
# In a row, numbers of clouds that do worse, before no more are tried.
PATIENCE = 3
# Probabilities below are zero.
LEAST_SHARE = 1e-6


def discover(delta: Tensor, codes: Tensor, rounding: Tensor, most: int) -> Tensor:
    """Find groups of departures; one group, if there is no sign of more.

    Without noise the departures of a regime are equal: each that repeats is a regime. The
    others are described by a mixture of Gaussians, as many as the Bayesian information
    criterion prefers. Regimes may occur equally often under every context, or under each
    as often as they do: the criterion decides that, too.

    Args:
        delta: Departures, shape ``(n, dim_x)``.
        codes: Context of each row, shape ``(n,)``.
        rounding: Smaller differences are rounding, shape ``(dim_x,)``.
        most: Largest number of regimes.

    Returns:
        Probability of each regime, shape ``(n, num_regimes)``; rows sum to one.
    """
    _, atom = merge_equal(delta, rounding)
    count = atom.bincount()
    member = torch.eye(len(count)).to(delta)[atom]
    if len(count) <= most:
        return member
    repeats = count > 1
    if repeats.sum() >= most:  # such as whole numbers, which repeat by chance
        return _find_clouds(delta, codes, most)
    rest = ~repeats[atom]
    if not rest.any():
        return member
    clouds = _find_clouds(delta[rest], codes[rest], most - int(repeats.sum()))
    apart = delta.new_zeros(len(delta), clouds.shape[1])
    apart[rest] = clouds
    return torch.cat([member[:, repeats], apart], dim=1)


def _find_clouds(delta: Tensor, codes: Tensor, most: int) -> Tensor:
    """Describe departures by as many Gaussians as the criterion prefers."""
    points = _compressed(delta / column_scale(delta))
    codes = codes.unique(return_inverse=True)[1]
    most = max(1, min(most, len(points) // FEWEST_PER_CLOUD))
    # Rows come in any order: every so many are as good as some at random.
    every = slice(None, None, -(-len(points) // MOST_ROWS))
    some, groups = points[every], codes[every]
    trees = [(torch.zeros_like(groups), _Tree(some))]
    if 1 < len(groups.unique()) <= len(some) / 2:
        trees.append((groups, _Tree(some, groups)))
    best, worse = None, 0
    for number in range(1, most + 1):
        tried = [
            Clouds.fit(some, groups, tree.cut(number), tied=tied)
            for groups, tree in trees
            for tied in (True, False)
        ]
        found = min(tried, key=lambda one: one.criterion)
        if best is None or found.criterion < best.criterion:
            best, worse = found, 0
        else:
            worse += 1
        if worse == PATIENCE:
            break
    assert best is not None  # noqa: S101 (one cloud is always tried)
    share = best.member(points, codes)
    share = share.where(share >= LEAST_SHARE, 0.0)
    # A cloud that holds no row most probably is part of another.
    share = share[:, share.argmax(dim=1).unique()]
    return share / share.sum(dim=1, keepdim=True)


class _Tree:
    """Points, or the means of groups of points, joined step by step (Ward's method)."""

    def __init__(self, points: Tensor, groups: Tensor | None = None) -> None:
        self.leaf = torch.arange(len(points)).to(points.device)
        if groups is not None:
            self.leaf = groups.unique(return_inverse=True)[1]
            count = self.leaf.bincount().to(points)[:, None]
            total = points.new_zeros(len(count), points.shape[1])
            points = total.index_add_(0, self.leaf, points) / count
        self.joined = linkage(points.cpu().numpy(), "ward") if len(points) > 1 else None

    def cut(self, number: int) -> Tensor:
        """Return the branch of each point, of at most so many, shape ``(n,)``."""
        if self.joined is None:
            return torch.zeros_like(self.leaf)
        branch = torch.from_numpy(fcluster(self.joined, number, "maxclust"))
        return branch.to(self.leaf)[self.leaf] - 1


def _compressed(points: Tensor) -> Tensor:
    """Keep the directions in which points vary most."""
    centred = points - points.mean(dim=0)
    if points.shape[1] <= MOST_DIRECTIONS:
        return centred
    directions = torch.linalg.svd(centred, full_matrices=False).Vh[:MOST_DIRECTIONS]
    return centred @ directions.T
