"""Assigning a context to a regime: by meaning, as sure as left-out contexts allow."""

from __future__ import annotations

from dataclasses import dataclass

import torch
from scipy import stats
from torch import Tensor

from ma_sbi.scaling import median_distance

__all__ = ["Assignment", "assign", "leave_out"]

# Contexts whose distances set the unit: their cost is quadratic.
MOST_COMPARED = 500
# How fast probabilities fall with the squared distance, in units of the median one.
SHARPNESSES = (0.0, *torch.logspace(0, 2.5, 16).tolist())
# Share of contexts that are read wrongly, however near.
MISREAD = (0.0001, 0.001, 0.003, 0.01, 0.03, 0.1, 0.2, 0.3, 0.5, 1.0)
# One in forty contexts of known regimes lies further away than the limit.
BEYOND = 0.025
# Contexts without which there is no limit.
FEWEST_MEASURED = 3


@dataclass(frozen=True)
class Assignment:
    """How contexts belong to regimes: each regime has a centre among the encodings.

    Attributes:
        centres: Mean encoding of each regime, shape ``(num_regimes, dim_z)``; NaN for one
            that only missing contexts have.
        count: Number of contexts behind each, shape ``(num_regimes,)``.
        spread: Variance of contexts around the centre of their regime, over all columns.
        share: How often each regime occurs, shape ``(num_regimes,)``.
        sharpness: How fast the probability of a regime falls with the distance.
        misread: Share of contexts for which it says nothing.
        limit: Squared distance from the nearest centre beyond which a context is unlike
            all that were seen.
    """

    centres: Tensor
    count: Tensor
    spread: float
    share: Tensor
    sharpness: float = 0.0
    misread: float = 1.0
    limit: float = torch.inf

    def distance(self, encoding: Tensor) -> Tensor:
        """Measure squared distances from the centres, shape ``(n, num_regimes)``.

        A centre of few contexts is not known well, and so seems further away than it is:
        that part is subtracted.
        """
        apart = torch.cdist(encoding.to(self.centres), self.centres).square()
        return (apart - self.spread / self.count).nan_to_num(nan=torch.inf)

    def probability(self, distance: Tensor, count: Tensor) -> Tensor:
        """Turn squared distances into probabilities of regimes, shape ``(n, num_regimes)``.

        Args:
            distance: From the centres.
            count: Contexts behind a centre; distances from uncertain centres say less.
        """
        scaled = self.sharpness / 2 * distance / (1 + 1 / count)
        scaled = scaled.nan_to_num(nan=0.0)  # zero times infinity
        near = (self.share.log() - scaled).softmax(dim=1)
        return (1 - self.misread) * near + self.misread * self.share

    def __call__(self, encoding: Tensor) -> tuple[Tensor, Tensor]:
        """Read contexts.

        Args:
            encoding: Shape ``(n, dim_z)``, without missing ones.

        Returns:
            Probabilities of shape ``(n, num_regimes)``, and which contexts are unlike all
            that were seen, shape ``(n,)``. These have the shares of the regimes.
        """
        distance = self.distance(encoding)
        known = self.count[self.count > 0]
        probability = self.probability(distance, 1 / (1 / known).mean())
        unlike = distance.amin(dim=1) > self.limit
        probability[unlike] = self.share
        return probability, unlike


def assign(encoding: Tensor, member: Tensor, share: Tensor) -> Assignment:
    """Learn how contexts belong to regimes.

    Sharpness and misread share are those under which each context, left out whole, is read
    best: what counts is how wordings that were not seen are read. Every context counts
    once, however many rows have it. If no regime has two contexts, nothing is known of new
    ones: they have the shares of the regimes.

    Args:
        encoding: Different contexts, shape ``(num_contexts, dim_z)``, none missing.
        member: Share of each regime in the rows of a context, shape
            ``(num_contexts, num_regimes)``.
        share: How often each regime occurs, shape ``(num_regimes,)``.
    """
    total = member.sum(dim=0)
    count = total.square() / member.square().sum(dim=0)
    centres = member.T @ encoding / total[:, None]
    apart = torch.cdist(encoding, centres).square().nan_to_num()
    freedom = (total * (1 - 1 / count)).nansum()
    spread = ((member * apart).sum() / freedom).item() if freedom > 1e-9 else 0.0
    start = Assignment(centres, count.nan_to_num(), spread, share)
    left_out, without = leave_out(apart, member, spread)
    others = left_out.isfinite() & (member > 0)
    readable = others.any(dim=1)
    if not readable.any():
        return start
    left_out, without = left_out[readable], without[readable]
    target = (member * others)[readable]
    unit = median_distance(encoding[:MOST_COMPARED]) ** 2
    tried = [
        Assignment(centres, start.count, spread, share, sharpness / unit, misread)
        for sharpness in SHARPNESSES
        for misread in MISREAD
    ]
    scores = [
        torch.special.xlogy(target, one.probability(left_out, without)).sum().item()
        for one in tried
    ]
    best = tried[max(range(len(tried)), key=scores.__getitem__)]
    nearest = left_out.amin(dim=1)
    if len(nearest) < FEWEST_MEASURED:
        return best
    # The prediction interval of one more distance.
    error = nearest.std() * (1 + 1 / len(nearest)) ** 0.5
    far = stats.t.ppf(1 - BEYOND, len(nearest) - 1)
    limit = (nearest.mean() + far * error).item()
    return Assignment(
        centres, best.count, spread, share, best.sharpness, best.misread, limit
    )


def leave_out(apart: Tensor, member: Tensor, spread: float) -> tuple[Tensor, Tensor]:
    """Measure each context from centres that were found without it.

    Returns:
        Squared distances of shape ``(num_contexts, num_regimes)``, infinite from a regime
        that has no other context; and the number of contexts that are left of its own
        regimes, shape ``(num_contexts, 1)``.
    """
    total, squares = member.sum(dim=0), member.square().sum(dim=0)
    rest = (total - member).clamp(min=0)
    alone = rest < 1e-9 * total.clamp(min=1e-9)
    count = rest.square() / (squares - member.square()).clamp(min=1e-12)
    moved = apart * (total / rest).square() - spread / count
    moved = moved.masked_fill(alone | (total == 0), torch.inf)
    own = (member * count.masked_fill(alone, 0.0)).sum(dim=1, keepdim=True)
    return moved, own.clamp(min=1e-9)
