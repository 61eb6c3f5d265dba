"""Noise of counts, and the exact likelihood of counts that were reported late."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Protocol

import torch
from torch import Tensor

__all__ = ["BinomialNoise", "CountNoise", "PoissonNoise"]

# Beyond it, differences between log likelihoods are lost in float64.
LARGEST_COUNT = 1e9


class CountNoise(Protocol):
    """How shares of a population become counts.

    ``delivery`` says which count appears in which report, ones and zeros of shape
    ``(num_reports, num_counts)``, at most one for each count.
    """

    def sample(self, shares: Tensor, generator: torch.Generator | None) -> Tensor:
        """Draw one count for each share."""
        ...

    def largest(self, delivery: Tensor) -> Tensor:
        """Return the largest possible count in each report, shape ``(num_reports,)``."""
        ...

    def log_likelihood(self, shares: Tensor, reports: Tensor, delivery: Tensor) -> Tensor:
        """Evaluate reports that are possible, up to a constant of each row.

        Args:
            shares: Shares between zero and one, shape ``(num, B, num_counts)``, or
                ``(num, 1, num_counts)`` if the same for all rows.
            reports: Reported counts, shape ``(B, num_reports)``.
            delivery: Which count appears in which report.

        Returns:
            Log likelihoods of shape ``(num, B)``.
        """
        ...

    def log_constant(self, reports: Tensor, delivery: Tensor) -> Tensor:
        """Return what :meth:`log_likelihood` leaves out of each row, shape ``(B,)``."""
        ...


@dataclass(frozen=True)
class PoissonNoise:
    """Each case is counted independently of the others; sums of counts are Poisson, too.

    Attributes:
        exposure: Mean count if the share were one.
    """

    exposure: float

    def sample(self, shares: Tensor, generator: torch.Generator | None) -> Tensor:
        """Draw one count for each share."""
        return torch.poisson(self.exposure * shares, generator=generator)

    def largest(self, delivery: Tensor) -> Tensor:
        """Return what can be computed with, or zero where nothing can appear."""
        return LARGEST_COUNT * delivery.any(dim=1).to(delivery)

    def log_likelihood(self, shares: Tensor, reports: Tensor, delivery: Tensor) -> Tensor:
        """Evaluate reports, which need not be whole numbers."""
        some = delivery.any(dim=1)
        rate = self.exposure * shares @ delivery[some].T
        return _paired_product(rate.log(), reports[:, some]) - rate.sum(dim=-1)

    def log_constant(self, reports: Tensor, delivery: Tensor) -> Tensor:
        """Return minus the log factorials of the reports."""
        return -torch.lgamma(reports[:, delivery.any(dim=1)] + 1).sum(dim=1)


@dataclass(frozen=True)
class BinomialNoise:
    """A sample of fixed size is tested each time.

    Attributes:
        size: Size of each sample.
    """

    size: int

    def sample(self, shares: Tensor, generator: torch.Generator | None) -> Tensor:
        """Draw one count for each share."""
        size = torch.full_like(shares, self.size)
        return torch.binomial(size, shares, generator=generator)

    def largest(self, delivery: Tensor) -> Tensor:
        """Return the joint size of the samples in each report."""
        return self.size * delivery.sum(dim=1)

    def log_likelihood(self, shares: Tensor, reports: Tensor, delivery: Tensor) -> Tensor:
        """Evaluate reports; those of two samples are rounded to whole numbers.

        Raises:
            NotImplementedError: If more than two samples appear together.
        """
        counts = delivery.sum(dim=1)
        if counts.max() > 2:
            raise NotImplementedError("at most two binomial counts can appear together")
        pairs = (counts == 2).nonzero().flatten().tolist()
        reports = reports.minimum(self.largest(delivery))
        reports[:, pairs] = reports[:, pairs].round()
        log_odds = shares.logit()
        appears = delivery.any(dim=0)
        result = self.size * torch.log1p(-shares[..., appears]).sum(dim=-1)
        # The odds of the last count have the power of the total; what falls on the first of
        # two counts is a power of the ratio of their odds.
        some = counts > 0
        last = (delivery * torch.arange(1, delivery.shape[1] + 1)).argmax(dim=1)[some]
        result = result + _paired_product(log_odds[..., last], reports[:, some])
        for report in pairs:
            first, second = delivery[report].nonzero().flatten().tolist()
            log_ratio = log_odds[..., first] - log_odds[..., second]
            result = result + self._log_splits(log_ratio, reports[:, report])
        return result

    def log_constant(self, reports: Tensor, delivery: Tensor) -> Tensor:
        """Return the log binomial coefficients of reports that hold one sample each."""
        reports = reports.minimum(self.largest(delivery))
        alone = delivery.sum(dim=1) == 1
        return self._log_choose(reports[:, alone]).sum(dim=1)

    def _log_splits(self, log_ratio: Tensor, total: Tensor) -> Tensor:
        r"""Sum over the ways to split a total between two samples.

        .. math:: \log \sum_j \binom{m}{j} \binom{m}{k - j} r^j

        Args:
            log_ratio: Log ratio of the two odds, shape ``(num, B)`` or ``(num, 1)``.
            total: Totals k, shape ``(B,)``.

        Returns:
            Values of shape ``(num, B)``.
        """
        log_ratio = log_ratio.expand(-1, len(total))
        columns = []
        # Row by row: each total has its own number of ways, often few.
        for ratio, k in zip(log_ratio.T, total.int().tolist(), strict=True):
            ways = torch.arange(max(0, k - self.size), min(k, self.size) + 1).to(ratio)
            log_count = self._log_choose(ways) + self._log_choose(k - ways)
            columns.append(torch.logsumexp(log_count + ratio[:, None] * ways, dim=1))
        return torch.stack(columns, dim=1)

    def _log_choose(self, count: Tensor) -> Tensor:
        size = torch.full_like(count, self.size)
        return (
            torch.lgamma(size + 1)
            - torch.lgamma(count + 1)
            - torch.lgamma(size - count + 1)
        )


def _paired_product(values: Tensor, reports: Tensor) -> Tensor:
    """Multiply ``(num, B or 1, d)`` with ``(B, d)`` row by row: shape ``(num, B)``."""
    if values.shape[1] == 1:
        return values[:, 0] @ reports.T
    return torch.einsum("nbd,bd->nb", values, reports)
