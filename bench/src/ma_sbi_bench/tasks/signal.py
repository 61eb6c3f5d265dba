"""A signal in noise that a worn instrument distorts."""

from __future__ import annotations

import math
from collections.abc import Callable
from typing import Literal, get_args

import torch
from torch import Tensor
from torch.distributions import MultivariateNormal

from ma_sbi_bench.tasks.base import Regime, Setting, Task

__all__ = ["Distortion", "Signal"]

Distortion = Literal["shift", "gain", "lag", "saturation"]
"""What a worn instrument does to the signal."""

NUM_WAVES, NUM_TIMES = 4, 24
NOISE = 0.3
# Columns by which the most worn instrument lags.
LONGEST_LAG = 6
WORDS = ("new", "used", "worn", "broken")
# How worn each of them is.
WEAR = tuple(number / (len(WORDS) - 1) for number in range(len(WORDS)))


class Signal(Task):
    r"""Infer the amplitudes of four waves from 24 readings.

    .. math:: \theta \sim N(0, I_4), \quad
        x_t = \sum_k \theta_k \cos(\pi k t / 24) + \epsilon_t, \quad
        \epsilon_t \sim N(0, 0.3^2)

    with k from 1 to 4. The instrument is new, used, worn or broken, which the context says:
    it adds a ramp to x, multiplies x by up to two, delays x by up to six columns (the first
    reading fills the gap), or compresses x to :math:`x / (1 + w |x|)`.

    Args:
        distortion: Which of them.
        setting: What the context tells.

    Example:
        >>> Signal("gain").depart(torch.ones(1, 24), 3)[0, 0]
        tensor(2.)
    """

    name = "signal"

    def __init__(
        self, distortion: Distortion = "lag", *, setting: Setting = "informative"
    ) -> None:
        if distortion not in get_args(Distortion):
            raise ValueError(
                f"distortion must be one of {', '.join(get_args(Distortion))}, "
                f"got {distortion!r}"
            )
        self.distortion = distortion
        time = torch.arange(NUM_TIMES, dtype=torch.float64)
        wave = torch.arange(1, NUM_WAVES + 1, dtype=torch.float64)
        self._waves = torch.cos(math.pi * wave[:, None] * time / NUM_TIMES)
        regimes = [Regime(word, f"The instrument is {word}.") for word in WORDS]
        prior = MultivariateNormal(torch.zeros(NUM_WAVES), torch.eye(NUM_WAVES))
        super().__init__(prior, NUM_TIMES, regimes, setting)

    def _simulate(self, theta: Tensor, source: torch.Generator | None) -> Tensor:
        noise = torch.randn(len(theta), NUM_TIMES, dtype=torch.float64, generator=source)
        return theta @ self._waves + NOISE * noise

    def _depart(self, x: Tensor, regime: Tensor) -> Tensor:
        distort = DISTORTIONS[self.distortion]
        result = torch.empty_like(x)
        for index, wear in enumerate(WEAR):
            result[regime == index] = distort(x[regime == index], wear)
        return result

    def _reference(
        self, x: Tensor, num_samples: int, source: torch.Generator | None
    ) -> Tensor:
        precision = self._waves @ self._waves.T / NOISE**2 + torch.eye(NUM_WAVES).double()
        covariance = torch.linalg.inv(precision)
        mean = x @ self._waves.T @ covariance / NOISE**2
        noise = torch.randn(
            num_samples, len(x), NUM_WAVES, dtype=torch.float64, generator=source
        )
        return mean + noise @ torch.linalg.cholesky(covariance).T

    def _log_joint(self, theta: Tensor, x: Tensor) -> Tensor:
        noise = torch.distributions.Normal(theta @ self._waves, NOISE)
        log_prior = torch.distributions.Normal(0.0, 1.0).log_prob(theta).sum(dim=1)
        return log_prior + noise.log_prob(x).sum(dim=1)

    def _log_evidence(self, x: Tensor) -> Tensor:
        covariance = self._waves.T @ self._waves + NOISE**2 * torch.eye(NUM_TIMES).double()
        return MultivariateNormal(torch.zeros(NUM_TIMES).double(), covariance).log_prob(x)


def _shift(x: Tensor, wear: float) -> Tensor:
    return x + wear * torch.linspace(-1, 1, NUM_TIMES).to(x)


def _gain(x: Tensor, wear: float) -> Tensor:
    return (1 + wear) * x


def _lag(x: Tensor, wear: float) -> Tensor:
    columns = torch.arange(NUM_TIMES) - round(wear * LONGEST_LAG)
    return x[:, columns.clamp(min=0)]


def _saturate(x: Tensor, wear: float) -> Tensor:
    return x / (1 + wear * x.abs())


DISTORTIONS: dict[str, Callable[[Tensor, float], Tensor]] = {
    "shift": _shift,
    "gain": _gain,
    "lag": _lag,
    "saturation": _saturate,
}
"""From x and how worn the instrument is, between 0 and 1, to what it shows."""
