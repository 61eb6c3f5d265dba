r"""Markov chains that sample the simulation behind a noisy observation.

.. math:: p(x \mid y) \propto q(x) \prod_j p(y_j \mid x_j)

All chains of all observations move together, one evaluation of q for all of them. A
statistic is either right, and then x_j is very close to y_j, or wrong, and then it
may be anywhere: a small region of high density inside a wide one of low density, between
which ordinary proposals rarely move. Two moves take turns:

- one statistic of each chain is proposed independently of its value, from the error model
  around y_j or from the simulations' marginal, which finds the spike, the slab and, for a
  y far outside, the simulations;
- given which statistics are wrong (drawn from their probability given x), the wrong ones
  move together along the difference of two other chains of the same observation
  (differential evolution, ter Braak 2006), which follows their correlations.
"""

from __future__ import annotations

import math
from collections.abc import Callable
from functools import partial
from typing import NamedTuple

import torch
from torch import Tensor
from torch.distributions import Normal
from tqdm.auto import tqdm

from ma_sbi.randomness import generator
from ma_sbi_bench.methods.error_model import SpikeAndSlab

__all__ = ["Denoised", "denoise", "split_r_hat"]

LogDensity = Callable[[Tensor], Tensor]
"""Log density of standardised x, ``(n, dim_x)`` to ``(n,)``; need not be normalised."""


class Denoised(NamedTuple):
    """What the chains found.

    Attributes:
        x: States of the chains, shape ``(num_states * num_chains, batch, dim_x)``.
        misspecified: Probability that each statistic is wrong, ``(batch, dim_x)``.
        r_hat: Split R-hat of each statistic, the larger of that of its value and that of
            its probability of being wrong, shape ``(batch, dim_x)``.
    """

    x: Tensor
    misspecified: Tensor
    r_hat: Tensor


def denoise(
    log_density: LogDensity,
    y: Tensor,
    start: Tensor,
    error_model: SpikeAndSlab,
    *,
    num_steps: int = 300,
    num_states: int = 1,
    seed: int | None = None,
    show_progress: bool = False,
) -> Denoised:
    """Sample x given y for a batch of observations.

    The first half of the steps is burn-in. Chains of different observations are
    independent.

    Args:
        log_density: Log density of the simulations.
        y: Observations, standardised like the simulations, shape ``(batch, dim_x)``.
        start: First states, where the density is positive; ``(num_chains, batch, dim_x)``.
        error_model: Density of ``y - x``.
        num_steps: Steps of each chain, each with both moves.
        num_states: States kept of each chain, equally spaced, the last one always.
        seed: Makes the chains repeatable.
        show_progress: Whether to show a progress bar.
    """
    chains = _Chains(log_density, y, start, error_model, generator(seed, y.device))
    burn_in = num_steps // 2
    length = (num_steps - burn_in) // 2
    spacing = (num_steps - burn_in) // num_states
    traces = [_Moments(), _Moments()]
    kept: list[Tensor] = []
    for left in tqdm(range(num_steps - 1, -1, -1), "Denoising", disable=not show_progress):
        chains.move_statistic()
        chains.move_jointly()
        if left < 2 * length:
            responsibility = error_model.responsibility(y - chains.x)
            traces[left < length].add(torch.cat([chains.x, responsibility], dim=-1))
        if left % spacing == 0 and left < spacing * num_states:
            kept.append(chains.x.clone())
    x_hat, misspecified_hat = split_r_hat(
        torch.cat([trace.mean for trace in traces]),
        torch.cat([trace.var for trace in traces]),
        length,
        # Differences finer than the spike are negligible.
        floor=error_model.spike_scale**2,
    ).chunk(2, dim=-1)
    misspecified = torch.stack([trace.mean for trace in traces]).mean(dim=(0, 1))
    return Denoised(
        torch.cat(kept),
        misspecified.chunk(2, dim=-1)[1],
        torch.maximum(x_hat, misspecified_hat),
    )


def split_r_hat(mean: Tensor, var: Tensor, length: int, *, floor: float = 0.0) -> Tensor:
    r"""Compare the spread between half chains with that within (Gelman et al. 2013).

    .. math:: \hat R^2 = \frac{\frac{n - 1}{n} W + \mathrm{var}(\bar x_c)}{W}

    Args:
        mean: Mean of each half chain, shape ``(num_halves, ...)``.
        var: Variance within each half chain, same shape.
        length: States in each half chain.
        floor: Variance that is added within and between, below which differences are
            negligible.

    Returns:
        Shape ``(...)``; one if the half chains agree.
    """
    within = var.mean(dim=0)
    total = within * (length - 1) / length + mean.var(dim=0)
    return ((total + floor) / (within + floor)).sqrt().nan_to_num(1.0)


class _Moments:
    """Running mean and variance over time, so that no chain has to be stored."""

    def __init__(self) -> None:
        self.count = 0
        self.mean = torch.zeros(())
        self.sum_squares = torch.zeros(())

    def add(self, state: Tensor) -> None:
        self.count += 1
        step = state - self.mean.to(state)
        self.mean = self.mean.to(state) + step / self.count
        self.sum_squares = self.sum_squares.to(state) + step * (state - self.mean)

    @property
    def var(self) -> Tensor:
        return self.sum_squares / max(self.count - 1, 1)


class _Chains:
    """States of all chains, shape ``(num_chains, batch, dim_x)``, and their moves."""

    marginal = Normal(0.0, 1.0, validate_args=False)  # of a standardised statistic
    share_marginal = 0.25
    share_long = 0.1  # of the differences taken whole, which jump between modes

    def __init__(
        self,
        log_density: LogDensity,
        y: Tensor,
        start: Tensor,
        error_model: SpikeAndSlab,
        rng: torch.Generator | None,
    ) -> None:
        self.log_density = log_density
        self.y = y
        self.error_model = error_model
        self.rng = rng
        self.x = start.clone()
        self.log_q = self._evaluate(self.x)
        every = torch.arange(len(start), device=y.device)
        self.halves = (every[0::2], every[1::2])

    def move_statistic(self) -> None:
        """Propose one statistic of each chain independently of its value."""
        shape = self.x.shape
        which = torch.randint(shape[2], shape[:2], generator=self.rng, device=self.y.device)
        which = which[..., None]
        y = self.y.expand(shape).gather(2, which)
        around = y + self.error_model.sample(y.shape, seed=self.rng, device=y.device)
        anywhere = self._normal(y.shape)
        new = torch.where(self._uniform(y.shape) < self.share_marginal, anywhere, around)
        old = self.x.gather(2, which)
        gain = self._importance(y, new) - self._importance(y, old)
        proposal = self.x.scatter(2, which, new)
        self._accept(slice(None), proposal, gain.squeeze(2))

    def move_jointly(self) -> None:
        """Move all statistics of each chain, the wrong ones along their correlations.

        Half of the chains move by differences of the other half, which stays: if all
        moved at once by one another, p(x | y) would not be kept.
        """
        for moving, resting in (self.halves, self.halves[::-1]):
            x = self.x[moving]
            residual = self.y - x
            wrong = self._uniform(x.shape) < self.error_model.responsibility(residual)
            step = self._scale(wrong) * self._difference(self.x[resting], len(moving))
            jitter = self.error_model.spike_scale * self._normal(x.shape)
            # A right statistic is drawn from its spike; a wrong one gets a jitter
            # so small that it only keeps the differences from spanning a plane.
            proposal = torch.where(wrong, x + step + 0.1 * jitter, self.y + jitter)
            gain = self.error_model.log_slab(self.y - proposal)
            gain = gain - self.error_model.log_slab(residual)
            self._accept(moving, proposal, (gain * wrong).sum(dim=2))

    def _importance(self, y: Tensor, x: Tensor) -> Tensor:
        """Log ratio of the error model to what one statistic is proposed from."""
        error = self.error_model.log_prob(y - x)
        share = self.share_marginal
        proposal = torch.logaddexp(
            error + math.log1p(-share), self.marginal.log_prob(x) + math.log(share)
        )
        return error - proposal

    def _scale(self, wrong: Tensor) -> Tensor:
        """Give the optimal length of a step in that many dimensions, sometimes one."""
        best = 2.38 / (2 * wrong.sum(dim=2, keepdim=True).clamp(min=1)).sqrt()
        return torch.where(self._uniform(best.shape) < self.share_long, 1.0, best)

    def _difference(self, states: Tensor, num: int) -> Tensor:
        """Subtract random pairs of states of each observation, ``(num, batch, dim_x)``."""
        count, batch, _ = states.shape
        draw = partial(torch.randint, generator=self.rng, device=states.device)
        first = draw(count, (num, batch))
        second = (first + draw(1, count, (num, batch))) % count
        column = torch.arange(batch, device=states.device)
        return states[first, column] - states[second, column]

    def _accept(self, chains: Tensor | slice, proposal: Tensor, gain: Tensor) -> None:
        """Accept or refuse by Metropolis and Hastings, given the gain besides that in q."""
        log_q = self._evaluate(proposal)
        chance = (log_q - self.log_q[chains] + gain).exp()
        accepted = self._uniform(chance.shape) < chance  # a NaN is refused
        self.x[chains] = torch.where(accepted[..., None], proposal, self.x[chains])
        self.log_q[chains] = torch.where(accepted, log_q, self.log_q[chains])

    def _evaluate(self, x: Tensor) -> Tensor:
        return self.log_density(x.flatten(0, 1)).reshape(x.shape[:2])

    def _uniform(self, shape: torch.Size) -> Tensor:
        return torch.rand(shape, generator=self.rng, device=self.y.device)

    def _normal(self, shape: torch.Size) -> Tensor:
        return torch.randn(shape, generator=self.rng, device=self.y.device)
