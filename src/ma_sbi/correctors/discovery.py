"""Discovering regimes: departures that repeat, or that form clouds."""

from __future__ import annotations

import warnings

import torch
from scipy.cluster.hierarchy import fcluster, linkage
from torch import Tensor

from ma_sbi.correctors.bootstrap import merge_equal
from ma_sbi.correctors.clouds import Clouds
from ma_sbi.randomness import generator
from ma_sbi.scaling import column_scale

__all__ = ["discover"]

# Rows of each cloud, at least: fewer do not show its spread.
FEWEST_PER_CLOUD = 4
# Departures and directions that clouds are found in: the tree is quadratic in the first.
MOST_ROWS = 500
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
        most: Largest number of regimes, unless all departures repeat.

    Returns:
        Probability of each regime, shape ``(n, num_regimes)``; rows sum to one.
    """
    _, atom = merge_equal(delta, rounding)
    count = atom.bincount()
    if len(count) <= most or count.min() >= FEWEST_PER_CLOUD:
        return _one_hot(atom, torch.arange(len(count)).to(atom), delta)
    if (count > 1).sum() >= most:  # such as whole numbers, which repeat by chance
        return _find_clouds(delta, codes, most)
    repeats = count >= FEWEST_PER_CLOUD  # fewer may be alike by chance, to some decimals
    rest = ~repeats[atom]
    clouds = _find_clouds(delta[rest], codes[rest], most - int(repeats.sum()))
    apart = delta.new_zeros(len(delta), clouds.shape[1])
    apart[rest] = clouds
    return torch.cat([_one_hot(atom, repeats.nonzero().flatten(), delta), apart], dim=1)


def _one_hot(atom: Tensor, kinds: Tensor, like: Tensor) -> Tensor:
    """Tell which of some kinds each row is, shape ``(n, num_kinds)``."""
    return (atom[:, None] == kinds).to(like)


def _find_clouds(delta: Tensor, codes: Tensor, most: int) -> Tensor:
    """Describe departures by as many Gaussians as the criterion prefers."""
    codes = codes.unique(return_inverse=True)[1]
    enough = max(1, len(delta) // FEWEST_PER_CLOUD)
    views = _views(delta)
    found = [_search(points, codes, min(most, enough)) for points in views]
    # In the view in which several clouds are most plausible, compared with one.
    place = max(range(len(views)), key=lambda one: found[one][1])
    clouds = found[place][0]
    if len(clouds.mean) == most < enough:
        warnings.warn(
            "there may be more regimes than most_regimes allows, and departures that "
            "differ are then taken for one regime: try a larger most_regimes",
            stacklevel=5,
        )
    share = clouds.member(views[place], codes)
    share = share.where(share >= LEAST_SHARE, 0.0)
    # A cloud that holds no row most probably is part of another.
    share = share[:, share.argmax(dim=1).unique()]
    return share / share.sum(dim=1, keepdim=True)


def _views(delta: Tensor) -> list[Tensor]:
    """Give departures few columns, in which regimes may show.

    Where there are many, scaling all alike hides a regime that moves few of them among the
    noise of the others; without scaling, a column of large numbers may hide it.
    """
    delta = delta - delta.mean(dim=0)
    scaled = delta / column_scale(delta)
    if delta.shape[1] <= MOST_DIRECTIONS:
        return [scaled]
    directions = [
        torch.linalg.svd(one, full_matrices=False).Vh[:MOST_DIRECTIONS]
        for one in (scaled, delta)
    ]
    return [scaled @ directions[0].T, delta @ directions[1].T]


def _search(points: Tensor, codes: Tensor, most: int) -> tuple[Clouds, float]:
    """Find the best number of clouds, and by how much it is better than one cloud."""
    rows = torch.randperm(len(points), generator=generator(0))[:MOST_ROWS]
    some, contexts = points[rows.to(codes)], codes[rows.to(codes)]
    num_contexts = int(codes.max()) + 1  # of which some may have none of the rows
    trees = [(torch.zeros_like(contexts), 1, _Tree(some))]
    if 1 < num_contexts <= len(some) / 2:
        trees.append((contexts, num_contexts, _Tree(some, contexts)))
    best: list[Clouds] = []
    for number in range(1, most + 1):
        tried = [
            Clouds.fit(some, tree.cut(number), groups, num_groups, tied=tied)
            for groups, num_groups, tree in trees
            for tied in (True, False)
        ]
        best.append(min(tried, key=lambda one: one.criterion))
        least = min(range(number), key=lambda one: best[one].criterion)
        if number - 1 - least == PATIENCE:
            break
    return best[least], best[0].criterion - best[least].criterion


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
