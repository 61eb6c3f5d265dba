"""What held-out rows are scored by: parameters, simulations, or observations.

A corrected observation is good if the posterior there is the one at x_sim. So the score of
a candidate is the log density, under the posterior at the candidate, of parameters drawn
from the posterior at x_sim: what the log score of the true parameters would be, which
nobody knows. Where x_sim has noise of its own, it is the density of x_sim that the
posterior at the candidate predicts. Without a posterior it is a density of x_sim around the
candidate; without pairs, the simulations' density at the candidate.
"""

from __future__ import annotations

import math
from abc import ABC, abstractmethod
from collections.abc import Callable
from typing import Any

import numpy as np
import torch
from torch import Tensor

from ma_sbi.choosing.population import ELSEWHERE, prior_p_value
from ma_sbi.nan import no_density, not_drawn, refuse
from ma_sbi.protocols import MAX_ROWS, has_density
from ma_sbi.randomness import derive, generator
from ma_sbi.scaling import column_scale
from ma_sbi.telling import untold

__all__ = [
    "Observations",
    "Parameters",
    "Predicted",
    "SimulatedData",
    "Target",
    "by_posterior",
    "robust",
]

# Parameters drawn for each row.
NUM_DRAWS = 8
# The same where densities are averaged, and not their logarithms: few would miss the peak.
NUM_AVERAGED = 32
# Simulations of a row that are predicted: each costs as much as the first.
MOST_PREDICTED = 2
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

    true_words = "the true parameters"

    def __init__(
        self,
        posterior: Any,
        x_sim: Tensor,
        seed: int | None,
        theta: Tensor | None = None,
    ) -> None:
        self.posterior = posterior.quick() if hasattr(posterior, "quick") else posterior
        self.words = self.true_words
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
        theta = self.theta[:, rows.to(self.theta.device)]
        return _log_prob(self.posterior, theta, candidates)

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


class Predicted(Target):
    r"""x_sim with noise of its own, as the posterior at a candidate predicts it.

    It is a further simulation at the parameters of its row. By Bayes' rule the posterior at
    x_sim gives its density, up to a factor that is the same for every candidate:

    .. math:: \int p(x_{sim} \mid \theta)\, q(\theta \mid x)\, d\theta \propto
        \int q(\theta \mid x_{sim})\, \frac{q(\theta \mid x)}{p(\theta)}\, d\theta

    Unlike the log score of parameters that are drawn at x_sim, it does not favour a
    posterior that is as wide as both noises.

    Args:
        posterior: With a density, and a prior that has one.
        x_sim: Simulations, shape ``(n, num_repeats, dim_x)``.
        seed: Of the draws.
    """

    words = "x_sim under the posterior's predictions"

    def __init__(self, posterior: Any, x_sim: Tensor, seed: int | None) -> None:
        self.posterior = posterior.quick() if hasattr(posterior, "quick") else posterior
        seed = derive(seed, "parameters")
        repeats = x_sim[:, :MOST_PREDICTED].float().unbind(dim=1)
        with untold("no number"):
            drawn = [
                posterior.sample(NUM_AVERAGED, x, seed=derive(seed, str(number)))
                for number, x in enumerate(repeats)
            ]
        for theta in drawn:
            refuse(not_drawn(theta), "at x_sim, draws")
        self.theta = torch.cat(drawn)
        self.log_prior = posterior.prior.log_prob(self.theta).double().cpu()
        self.num_repeats = len(drawn)

    def score(self, rows: Tensor, candidates: Tensor) -> Tensor:
        """Average the posterior at each candidate over parameters drawn at x_sim."""
        each = _log_prob(
            self.posterior, self.theta[:, rows.to(self.theta.device)], candidates
        )
        ratio = each - self.log_prior[:, None, rows.cpu()]
        ratio = ratio.masked_fill(ratio.isnan(), -torch.inf)
        ratio = ratio.unflatten(0, (self.num_repeats, NUM_AVERAGED))
        return ratio.logsumexp(dim=1) - math.log(NUM_AVERAGED)

    def floor(self, rows: Tensor) -> Tensor:
        """Return the score of the prior, which is zero by definition."""
        return torch.zeros(1, len(rows), dtype=torch.float64)


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


def by_posterior(
    posterior: Any,
    x_sim: Tensor,
    *,
    own_noise: bool,
    theta: Tensor | None = None,
    groups: np.ndarray | None = None,
    seed: int | None = None,
) -> Target | None:
    """Choose how a posterior judges rows; None if it cannot.

    Where theta comes from another population than the prior, which pulls the posterior away
    from it, x_sim is predicted best by a correction that undoes the pull, although nothing
    departs: parameters drawn at x_sim are pulled as well, and judge instead.

    Args:
        posterior: Any, or None.
        x_sim: Simulations, shape ``(n, num_repeats, dim_x)``.
        own_noise: Whether they have noise of their own.
        theta: True parameters, shape ``(n, dim_theta)``, if they are known.
        groups: Group of each row, whose rows may share theta, if there are any.
        seed: Of draws.
    """
    if not has_density(posterior) or getattr(posterior, "expensive_density", False):
        return None
    if own_noise and theta is None:
        prior = getattr(posterior, "prior", None)
        if not hasattr(prior, "log_prob"):
            return None
        predicted = Predicted(posterior, x_sim, seed)
        if prior_p_value(predicted.theta[0], prior, groups, seed) > ELSEWHERE:
            return predicted
    return Parameters(posterior, x_sim.mean(dim=1), seed, theta)


def _log_prob(posterior: Any, theta: Tensor, candidates: Tensor) -> Tensor:
    """Evaluate theta ``(draws, num_rows, dim_theta)`` at candidates, in blocks.

    Returns:
        Log densities, shape ``(draws, K, num_rows)``.
    """
    num, batch, dim_x = candidates.shape
    theta, x = theta.repeat(1, num, 1), candidates.reshape(-1, dim_x).float()
    size = max(1, MAX_ROWS // len(theta))
    with untold("no number"):  # a candidate without a density is given none
        parts = [
            posterior.log_prob(theta[:, start : start + size], x[start : start + size])
            for start in range(0, len(x), size)
        ]
    return torch.cat(parts, dim=1).unflatten(1, (num, batch)).double().cpu()


def _log_normal(deviation: Tensor, variance: Tensor) -> Tensor:
    scaled = deviation.square() / variance + (2 * torch.pi * variance).log()
    return -0.5 * scaled.sum(dim=-1)
