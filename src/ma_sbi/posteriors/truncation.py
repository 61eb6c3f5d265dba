"""Draws inside the prior's support, in bounded time, from a posterior that may leak.

sbi's rejection loop has no limit: on an observation far from the simulations it never
returns. Here rejection stops after a fixed number of rounds; missing draws are then
approximated by importance resampling from the prior, with a warning.
"""

from __future__ import annotations

import copy
import logging
import warnings
from abc import abstractmethod
from collections.abc import Callable
from typing import Any, NamedTuple

import torch
from torch import Tensor
from typing_extensions import Self

from ma_sbi.posteriors.amortized import Amortized
from ma_sbi.posteriors.support import is_bounded, within_support
from ma_sbi.protocols import MAX_ROWS, ArrayLike
from ma_sbi.randomness import seeded
from ma_sbi.telling import levels_to_caller, tell

__all__ = ["DenseTruncated", "LeakyPosterior", "Truncated", "sample_truncated"]

log = logging.getLogger(__name__)

MAX_DRAWS = 10_000
# Enough to normalise a density to about a tenth.
FEW_DRAWS = 100
# For scores that are averaged over many x: errors of single ones even out.
QUICK_DRAWS = 40
# With which estimates of the share inside begin.
FIRST_DRAWS = 10
# As many take so long that the log says what they are for.
MANY_DRAWS = 10_000

Draw = Callable[[int, Tensor], Tensor]
LogProb = Callable[[Tensor, Tensor], Tensor]


class LeakyPosterior(UserWarning):
    """Almost no draw of the posterior lies inside the prior's support."""


class Truncated(Amortized):
    """A posterior that may leak, kept inside the prior's support."""

    @abstractmethod
    def _propose(self, num_samples: int, x: Tensor) -> Tensor:
        """Draw ``(num_samples, batch, dim_theta)``, inside the support or not."""

    def _draw(self, num_samples: int, x: Tensor) -> Tensor:
        if not is_bounded(self.prior):
            return self._propose(num_samples, x)
        density = getattr(self, "_density", None)
        return sample_truncated(self._propose, density, self.prior, num_samples, x)

    def acceptance(self, x: ArrayLike, num_draws: int) -> Tensor:
        """Estimate the share of draws inside the prior's support, shape ``(batch,)``.

        The draws are the same in every call.
        """
        x = self.as_rows(x)
        if not is_bounded(self.prior):
            return torch.ones(len(x), device=x.device)
        rows_per_pass = max(1, MAX_ROWS // num_draws)
        with torch.no_grad(), seeded(0, x.device):
            share = [
                within_support(self.prior, self._propose(num_draws, part))
                for part in x.split(rows_per_pass)
            ]
        return torch.cat(share, dim=1).float().mean(dim=0)


class DenseTruncated(Truncated):
    """A leaky posterior with a density, which is normalised over the support."""

    leakage_samples = 2_000
    _last_acceptance: tuple[tuple[Any, ...], Tensor] | None = None
    _told_of_leakage = False

    def quick(self) -> Self:
        """Return the same posterior, with a density that is normalised by few draws."""
        return self.normalised_by(min(self.leakage_samples, QUICK_DRAWS))

    def normalised_by(self, num_draws: int) -> Self:
        """Return the same posterior, its density normalised by so many draws per x."""
        other = copy.copy(self)
        other.leakage_samples = num_draws
        other._last_acceptance = None
        return other

    @abstractmethod
    def _density(self, theta: Tensor, x: Tensor) -> Tensor:
        """Evaluate theta ``(num_samples, batch, dim_theta)``, without normalisation."""

    def log_prob(self, theta: ArrayLike, x: ArrayLike) -> Tensor:
        """Evaluate theta ``(num_samples, batch, dim_theta)`` at x ``(batch, dim_x)``.

        Normalised over the prior's support; minus infinity outside it. Differentiable in
        theta.
        """
        return self.log_prob_by_weight(theta, x, None)

    def log_prob_by_weight(
        self, theta: ArrayLike, x: ArrayLike, weight: Tensor | None
    ) -> Tensor:
        """Evaluate as ``log_prob`` does, where densities at x are to be averaged.

        Args:
            theta: Parameters, shape ``(num_samples, batch, dim_theta)``.
            x: Observations, shape ``(batch, dim_x)``.
            weight: What each counts for in its average, shape ``(batch,)``: one of little
                weight is normalised by fewer draws; all alike if None.
        """
        theta, x = self._check_density_input(theta, x)
        with torch.set_grad_enabled(theta.requires_grad):
            log_prob = self._density(theta, x)
        if not is_bounded(self.prior):
            return self._told(log_prob)
        if self.leakage_samples > 0:
            log_prob = log_prob - self._log_acceptance(x, weight)
        inside = within_support(self.prior, theta)
        return self._told(log_prob.masked_fill(~inside, -torch.inf))

    def _log_acceptance(self, x: Tensor, weight: Tensor | None) -> Tensor:
        """Estimate the log share of draws inside the support, shape ``(batch,)``."""
        most = torch.full((len(x),), float(self.leakage_samples), device=x.device)
        if weight is not None:
            least = min(self.leakage_samples, FEW_DRAWS)
            most = (most * weight.to(most)).clamp(min=least, max=self.leakage_samples)
        # Optimisers evaluate many theta at one x: the last estimate is cached, by value.
        numbers = (x.cpu().numpy().tobytes(), most.cpu().numpy().tobytes())
        key = (x.shape, x.device, *numbers)
        last = self._last_acceptance  # one look: another thread may replace it
        if last is None or last[0] != key:
            last = self._last_acceptance = (key, self._estimate_acceptance(x, most))
        return last[1]

    def _estimate_acceptance(self, x: Tensor, most: Tensor) -> Tensor:
        """Draw until the share is known as well as a half would be by ``most`` draws.

        Most x leave little outside, which few draws show. The share of k in n draws is
        taken as (k + 1) / (n + 1): its inverse, by which a density is multiplied, is on
        average that of the true share, but for (1 - share)^(n + 1).
        """
        log_share = torch.zeros(len(x), device=x.device)
        rows, num_draws, total = torch.arange(len(x), device=x.device), FIRST_DRAWS, 0
        while len(rows):
            num_draws = min(num_draws, self.leakage_samples)
            inside = self.of_rows().acceptance(x[rows], num_draws) * num_draws
            total += num_draws * len(rows)
            log_share[rows] = ((inside + 1) / (num_draws + 1)).log()
            enough = most[rows] * (num_draws - inside + 1) / (inside + 1)
            rows = rows[num_draws < torch.minimum(enough, most[rows])]
            num_draws *= 2
        if total > MANY_DRAWS and not self._told_of_leakage:
            self._told_of_leakage = True
            log.info(
                "normalising the density within the prior's bounds at %d x: %d draws so "
                "far; leakage_samples=0, or normalised_by(0), leaves that out",
                len(x),
                total,
            )
        return log_share


def sample_truncated(
    draw: Draw,
    log_prob: LogProb | None,
    prior: Any,
    num_samples: int,
    x: Tensor,
    *,
    max_rounds: int = 12,
    num_proposals: int = 20_000,
) -> Tensor:
    """Draw from a posterior truncated to the prior's support.

    Args:
        draw: Maps a count and x ``(batch, dim_x)`` to draws ``(n, batch, dim_theta)``.
        log_prob: Density of those draws, if it has one.
        prior: The prior.
        num_samples: Draws per observation.
        x: Observations, shape ``(batch, dim_x)``.
        max_rounds: Rounds of rejection.
        num_proposals: Draws from the prior to resample from after the last round.

    Returns:
        Draws of shape ``(num_samples, batch, dim_theta)``, all inside the support; NaN
        where the posterior gives no other.

    Raises:
        ValueError: If draws are missing and there is no density to resample by.
    """
    kept = x.new_empty(num_samples, len(x), prior.event_shape[0])
    filled = torch.zeros(len(x), dtype=torch.long, device=x.device)
    rows = torch.arange(len(x), device=x.device)
    total = 0
    for round_ in range(max_rounds):
        # Twice as many in each round, for the rows that are still short.
        count = min(int(num_samples - filled[rows].min()) << round_, MAX_DRAWS)
        total += count
        for part in rows.split(max(1, MAX_ROWS // count)):
            draws = draw(count, x[part])
            inside = within_support(prior, draws)
            hopeless = draws.isnan().any(dim=2).all(dim=0)
            kept[:, part[hopeless]] = torch.nan
            filled[part[hopeless]] = num_samples
            place = inside.cumsum(dim=0) - 1 + filled[part]
            use = inside & (place < num_samples)
            row = part.expand(count, -1)
            kept[place[use], row[use]] = draws[use]
            filled[part] = (filled[part] + inside.sum(dim=0)).clamp(max=num_samples)
        rows = (filled < num_samples).nonzero().flatten()
        if len(rows) == 0:
            return kept
    if log_prob is None:
        raise ValueError(
            f"no more than {filled[rows].min().item()} of {total} draws for row "
            f"{rows[0].item()} lie inside the prior, and this posterior has no density to "
            "resample by; the observation is far from the simulations"
        )
    effective = num_proposals
    for row in rows.tolist():
        proposals = prior.sample((num_proposals,)).to(kept)
        log_weight = log_prob(proposals[:, None], x[row, None])[:, 0]
        # Rounded, a draw may be the upper bound itself, where the prior's density is zero.
        log_prior = prior.log_prob(proposals)
        log_weight = torch.where(log_prior.isfinite(), log_weight - log_prior, -torch.inf)
        weight = log_weight.softmax(dim=0)
        missing = num_samples - int(filled[row])
        if weight.isnan().any():  # its density is NaN, or zero throughout the prior
            kept[num_samples - missing :, row] = torch.nan
            continue
        effective = min(effective, int(1 / weight.square().sum()))
        pick = torch.multinomial(weight, missing, replacement=True)
        kept[num_samples - missing :, row] = proposals[pick]
    tell("leaky", "leaky", _Leak(len(rows), len(x), effective), _say_leaky)
    return kept


class _Leak(NamedTuple):
    """At how many x draws are missing, of how many, and how well they are resampled."""

    num_leaky: int
    num_x: int
    effective: int


def _say_leaky(parts: list[_Leak]) -> None:
    # Not by number: inside a corrected posterior these x are candidates of the user's.
    num, every = (sum(counts) for counts in list(zip(*parts, strict=True))[:2])
    warnings.warn(
        f"at {num} of {every} x nearly all draws lie outside the prior: such an x is far "
        "from the simulations. What is missing is resampled from draws of the prior by the "
        "posterior's density, with an effective sample size as low as "
        f"{min(part.effective for part in parts)}; leave these observations out, or check "
        "their units and their correction",
        LeakyPosterior,
        stacklevel=levels_to_caller(),
    )
