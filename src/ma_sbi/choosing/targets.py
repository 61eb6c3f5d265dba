"""What held-out rows are scored by: parameters, simulations, or observations.

A corrected observation is good if the posterior there is the one at x_sim. So the score of
a candidate is the log density, under the posterior at the candidate, of parameters drawn
from the posterior at x_sim: what the log score of the true parameters would be, which
nobody knows. Without a posterior it is a density of x_sim around the candidate; without
pairs, the simulations' density at the candidate.
"""

from __future__ import annotations

import math
from abc import ABC, abstractmethod
from collections.abc import Callable
from typing import Any

import torch
from torch import Tensor

from ma_sbi.nan import no_density, not_drawn, refuse
from ma_sbi.protocols import MAX_ROWS
from ma_sbi.randomness import derive, generator
from ma_sbi.scaling import column_scale
from ma_sbi.telling import untold

__all__ = ["Observations", "Parameters", "SimulatedData", "Target", "robust"]

# Parameters drawn for each row.
NUM_DRAWS = 8
# Simulations of other rows that a score is compared with.
NUM_OTHERS = 50
# Share of rows that no correction explains: what keeps a score from being decided by them.
UNEXPLAINED = 0.01
# Instead of minus infinity, which cannot be averaged or subtracted.
LEAST_SCORE = -1e6
# Widths of the density of x_sim around a candidate, in standard deviations of x_sim.
WIDTHS = (0.02, 0.05, 0.1, 0.2, 0.4, 0.8)
# Entries of candidates that are compared with x_sim at once, to bound memory.
ENTRIES_AT_ONCE = 2**22


class Target(ABC):
    """Something known of calibration rows that a corrected observation should predict."""

    words: str

    @abstractmethod
    def score(self, rows: Tensor, candidates: Tensor) -> Tensor:
        """Score candidates ``(K, num_rows, dim_x)``: shape ``(draws, K, num_rows)``."""

    def floor(self, rows: Tensor) -> Tensor:
        """Return the score of knowing nothing of a row, shape ``(draws, num_rows)``."""
        return torch.full((1, len(rows)), -torch.inf, dtype=torch.float64)


def robust(scores: Tensor, floor: Tensor, share: float = UNEXPLAINED) -> Tensor:
    """Allow for a share of rows that no correction explains; the result is finite."""
    both = torch.logaddexp(math.log1p(-share) + scores, math.log(share) + floor)
    return both.clamp(min=LEAST_SCORE)


class Parameters(Target):
    """Parameters drawn from the posterior at x_sim, or the true ones."""

    def __init__(
        self,
        posterior: Any,
        x_sim: Tensor,
        seed: int | None,
        theta: Tensor | None = None,
    ) -> None:
        self.posterior = posterior.quick() if hasattr(posterior, "quick") else posterior
        self.words = "the true parameters"
        if theta is None:
            self.words = "parameters drawn from the posterior at x_sim"
            seed_of_draws = derive(seed, "parameters")
            with untold("no number"):
                self.theta = posterior.sample(NUM_DRAWS, x_sim.float(), seed=seed_of_draws)
            refuse(not_drawn(self.theta), "at x_sim, draws")
        else:
            self.theta = theta[None]
        rng = generator(derive(seed, "others"))
        few = torch.randperm(len(x_sim), generator=rng)[:NUM_OTHERS]
        few = few.to(x_sim.device)
        self.others = x_sim[few]
        with untold("no number"):
            some = few.to(self.theta.device) % self.theta.shape[1]
            known = self.posterior.log_prob(self.theta[:, some], self.others.float())
        # A few count as impossible.
        refuse(no_density(known), "at x_sim, log densities", few=True)

    def score(self, rows: Tensor, candidates: Tensor) -> Tensor:
        """Evaluate the posterior at each candidate."""
        num, batch, dim_x = candidates.shape
        theta = self.theta[:, rows.to(self.theta.device)].repeat(1, num, 1)
        x = candidates.reshape(-1, dim_x).float()
        size = max(1, MAX_ROWS // len(theta))
        with untold("no number"):  # a candidate without a density is given none
            parts = [
                self.posterior.log_prob(
                    theta[:, start : start + size], x[start : start + size]
                )
                for start in range(0, len(x), size)
            ]
        return torch.cat(parts, dim=1).unflatten(1, (num, batch)).double().cpu()

    def floor(self, rows: Tensor) -> Tensor:
        """Average the posterior over x_sim of other rows."""
        # Each x once, with the parameters of all rows as draws: some posteriors normalise
        # their density for each x, which is expensive.
        theta = self.theta[:, rows.to(self.theta.device)]
        flat = theta.reshape(-1, 1, theta.shape[-1]).expand(-1, len(self.others), -1)
        with untold("no number"):
            each = self.posterior.log_prob(flat, self.others.float()).double().cpu()
        each = each.masked_fill(each.isnan(), -torch.inf)
        mean = each.logsumexp(dim=1) - math.log(len(self.others))
        return mean.unflatten(0, theta.shape[:2])


class SimulatedData(Target):
    """The paired simulation, with its own noise, at several resolutions."""

    words = "x_sim"

    def __init__(self, x_sim: Tensor, noise: Tensor) -> None:
        self.x_sim = x_sim
        scale = column_scale(x_sim)
        widths = torch.tensor(WIDTHS).to(x_sim)[:, None]
        self.variance = (widths * scale).square() + noise
        self.spread = scale.square() + noise

    def score(self, rows: Tensor, candidates: Tensor) -> Tensor:
        """Evaluate x_sim around each candidate."""
        x_sim = self.x_sim[rows]
        blocks = candidates.split(max(1, ENTRIES_AT_ONCE // max(1, x_sim.numel())))
        parts = [
            torch.stack([_log_normal(x_sim - some, one) for one in self.variance]).cpu()
            for some in blocks
        ]
        return torch.cat(parts, dim=1)

    def floor(self, rows: Tensor) -> Tensor:
        """Evaluate x_sim around the mean of all, at twice their spread."""
        away = self.x_sim[rows] - self.x_sim.mean(dim=0)
        return _log_normal(away, 4 * self.spread)[None].cpu()


class Observations(Target):
    """The observation itself: its density is that of the simulations at the candidate."""

    def __init__(self, log_density: Callable[[Tensor], Tensor], described: str) -> None:
        self.words = f"x_obs, under simulations described by {described}"
        self.log_density = log_density

    def score(self, rows: Tensor, candidates: Tensor) -> Tensor:
        """Evaluate the density at each candidate."""
        with untold("no number"):
            log_density = self.log_density(candidates.flatten(0, 1))
        return log_density.unflatten(0, candidates.shape[:2]).double()[None].cpu()


def _log_normal(deviation: Tensor, variance: Tensor) -> Tensor:
    scaled = deviation.square() / variance + (2 * torch.pi * variance).log()
    return -0.5 * scaled.sum(dim=-1)
