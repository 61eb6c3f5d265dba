"""Assigning a context to a regime: by meaning, as sure as left-out contexts allow."""

from __future__ import annotations

from dataclasses import dataclass, replace
from typing import NamedTuple

import torch
from scipy import stats
from torch import Tensor

from ma_sbi.scaling import median_distance
from ma_sbi.storing.forms import stored

__all__ = [
    "AT_ONCE",
    "MOST_COMPARED",
    "Assignment",
    "assign",
    "leave_out",
    "prediction_limit",
]

# Contexts whose distances set the unit: their cost is quadratic.
MOST_COMPARED = 500
# Contexts that are compared with all that were seen in one pass, to bound memory.
AT_ONCE = 1000
# How fast probabilities fall with the squared distance, in units of the median one.
SHARPNESSES = (0.0, *torch.logspace(0, 2.5, 16).tolist())
# Share of contexts that are read wrongly, however near.
MISREAD = (0.0001, 0.001, 0.003, 0.01, 0.03, 0.1, 0.2, 0.3, 0.5, 1.0)
# Share of contexts of known regimes that lie further away than the limit, if encodings
# are long; up to 5 % if they have one or two columns.
BEYOND = 0.015
# Contexts without which there is no limit.
FEWEST_MEASURED = 3


@stored(
    centres="regimes dim_z?", count="regimes", share="regimes", limit="?", sharpness="?"
)
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
        limit: A context that is further away is unlike all that were seen.
    """

    centres: Tensor
    count: Tensor
    spread: float
    share: Tensor
    sharpness: float = 0.0
    misread: float = 1.0
    limit: float = torch.inf

    @property
    def tells(self) -> bool:
        """Whether a context that was not seen tells anything of its regime."""
        return self.sharpness > 0 and self.misread < 1

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
        known = self.count > 0
        probability = self.probability(distance, 1 / (1 / self.count[known]).mean())
        middle = self.centres[known].mean(dim=0)
        from_middle = (encoding.to(middle) - middle).square().sum(dim=1)
        unlike = _remoteness(distance, from_middle) > self.limit
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
    without = leave_out(encoding, member, spread)
    others = without.distance.isfinite() & (member > 0)
    readable = others.any(dim=1)
    if not readable.any():
        return start
    distance, from_middle, left = (one[readable] for one in without)
    target = (member * others)[readable]
    unit = median_distance(encoding[:MOST_COMPARED]) ** 2
    tried = [
        replace(start, sharpness=sharpness / unit, misread=misread)
        for sharpness in SHARPNESSES
        for misread in MISREAD
    ]
    scores = [
        torch.special.xlogy(target, one.probability(distance, left)).sum().item()
        for one in tried
    ]
    best = tried[max(range(len(tried)), key=scores.__getitem__)]
    return replace(best, limit=prediction_limit(_remoteness(distance, from_middle)))


class LeftOut(NamedTuple):
    """Distances of each context from what was found without it.

    Attributes:
        distance: Squared distances from the centres, shape
            ``(num_contexts, num_regimes)``; infinite from a regime without other contexts.
        from_middle: Squared distance from the mean of the centres, shape
            ``(num_contexts,)``.
        left: Number of contexts that are left of its own regimes, shape
            ``(num_contexts, 1)``.
    """

    distance: Tensor
    from_middle: Tensor
    left: Tensor


def leave_out(encoding: Tensor, member: Tensor, spread: float) -> LeftOut:
    """Measure each context from centres that were found without it."""
    total, squares = member.sum(dim=0), member.square().sum(dim=0)
    known = total > 0
    centres = member.T @ encoding / total.clamp(min=1e-300)[:, None]
    rest = (total - member).clamp(min=0)
    alone = rest <= 1e-9 * total
    count = rest.square() / (squares - member.square()).clamp(min=1e-12)
    apart = torch.cdist(encoding, centres).square()
    distance = apart * (total / rest).square() - spread / count
    distance = distance.masked_fill(alone | ~known, torch.inf)
    # A context pulls the centre of its regime towards itself: undo it.
    pull = (member / rest).masked_fill(alone, 0.0)
    moved = (pull.sum(dim=1, keepdim=True) * encoding - pull @ centres) / known.sum()
    middle = centres[known].mean(dim=0) - moved
    own = (member * count.masked_fill(alone, 0.0)).sum(dim=1, keepdim=True)
    return LeftOut(distance, (encoding - middle).square().sum(dim=1), own.clamp(min=1e-9))


def _remoteness(distance: Tensor, from_middle: Tensor) -> Tensor:
    """Tell how far contexts are from the nearest regime, and from all together."""
    return distance.amin(dim=1) + from_middle


def prediction_limit(remoteness: Tensor) -> float:
    """Return the upper end of the prediction interval of one more context.

    Args:
        remoteness: How far contexts are from what the others show, shape ``(n,)``.
    """
    num = len(remoteness)
    if num < FEWEST_MEASURED:
        return torch.inf
    error = remoteness.std() * (1 + 1 / num) ** 0.5
    far = float(stats.t.ppf(1 - BEYOND, num - 1))
    return (remoteness.mean() + far * error).item()
