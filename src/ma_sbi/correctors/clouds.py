"""Mixtures of Gaussians whose shares may differ between contexts."""

from __future__ import annotations

import math
from dataclasses import dataclass

import torch
from torch import Tensor

__all__ = ["Clouds"]

MOST_STEPS = 100
# Nats per row that a step must add.
LEAST_GAIN = 1e-4
# Least variance within a cloud, relative to that of all points.
FLOOR = 1e-6


@dataclass(frozen=True)
class Clouds:
    """A mixture of Gaussians.

    Attributes:
        mean: Shape ``(num_clouds, dim)``.
        scale: Cholesky factors of the covariances, shape ``(num_clouds, dim, dim)``.
        share: How often each cloud occurs in each group, shape
            ``(num_groups, num_clouds)``.
        criterion: Bayesian information criterion; the smallest is best.
    """

    mean: Tensor
    scale: Tensor
    share: Tensor
    criterion: float

    @classmethod
    def fit(
        cls,
        points: Tensor,
        labels: Tensor,
        groups: Tensor,
        num_groups: int = 1,
        *,
        tied: bool,
    ) -> Clouds:
        """Fit by expectation maximisation.

        Args:
            points: Shape ``(n, dim)``.
            labels: Cloud of each to start from, shape ``(n,)``.
            groups: Group of each, within which shares are the same, shape ``(n,)``.
            num_groups: How many groups there are; one without points has the shares of
                all.
            tied: Whether all clouds have the same covariance, of any form; else each has
                variances of its own.
        """
        member = torch.eye(int(labels.max()) + 1).to(points)[labels]
        before = -math.inf
        for _ in range(MOST_STEPS):
            mean, scale = _gaussians(points, member, tied=tied)
            share = _shares(member, groups, num_groups)
            joint = _log_joint(points, groups, mean, scale, share)
            log_density = joint.logsumexp(dim=1)
            member = (joint - log_density[:, None]).exp()
            now = log_density.mean().item()
            if now - before < LEAST_GAIN:
                break
            before = now
        (num, dim), num_clouds = points.shape, len(mean)
        sizes = groups.bincount().clamp(min=1).double()
        # A share is learned from the rows of its group alone.
        numbers = (num_clouds - 1) * sizes.log().sum().item()
        shape = dim * (dim + 1) // 2 if tied else num_clouds * dim
        numbers += (num_clouds * dim + shape) * math.log(num)
        return cls(mean, scale, share, numbers - 2 * log_density.sum().item())

    def member(self, points: Tensor, groups: Tensor) -> Tensor:
        """Return the probability of each cloud, shape ``(n, num_clouds)``.

        Args:
            points: Shape ``(n, dim)``.
            groups: Their groups; all alike, if the fit had one group.
        """
        if len(self.share) == 1:
            groups = torch.zeros_like(groups)
        joint = _log_joint(points, groups, self.mean, self.scale, self.share)
        return joint.softmax(dim=1)


def _gaussians(points: Tensor, member: Tensor, *, tied: bool) -> tuple[Tensor, Tensor]:
    """Return means and Cholesky factors of the clouds."""
    total = member.sum(dim=0).clamp(min=1e-9)
    mean = member.T @ points / total[:, None]
    floor = FLOOR * points.var(dim=0, correction=0).clamp(min=1e-300)
    if not tied:
        square = member.T @ points.square() / total[:, None] - mean.square()
        return mean, torch.diag_embed((square.clamp(min=0) + floor).sqrt())
    between = (mean.T * total) @ mean
    within = (points.T @ points - between) / len(points) + torch.diag(floor)
    return mean, torch.linalg.cholesky(within).expand(len(mean), -1, -1)


def _shares(member: Tensor, groups: Tensor, num_groups: int) -> Tensor:
    """Return how often clouds occur in each group; as in all, if it has no points."""
    total = member.new_zeros(num_groups, member.shape[1])
    total = total.index_add_(0, groups, member)
    total = torch.where(total.sum(dim=1, keepdim=True) > 0, total, member.mean(dim=0))
    return total / total.sum(dim=1, keepdim=True)


def _log_joint(
    points: Tensor, groups: Tensor, mean: Tensor, scale: Tensor, share: Tensor
) -> Tensor:
    """Return log density and share of each cloud, shape ``(n, num_clouds)``."""
    away = (points[:, None] - mean).movedim(0, 2)
    scaled = torch.linalg.solve_triangular(scale, away, upper=False)
    log_scale = scale.diagonal(dim1=1, dim2=2).log().sum(dim=1)
    normaliser = log_scale + points.shape[1] / 2 * math.log(2 * math.pi)
    log_density = -0.5 * scaled.square().sum(dim=1).T - normaliser
    return share.log()[groups] + log_density
