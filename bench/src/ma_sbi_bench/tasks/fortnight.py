"""A simulator of daily counts over a fortnight, as simple as an analyst would write it."""

from __future__ import annotations

import math
from typing import Any

import torch
from torch import Tensor
from torch.distributions import Distribution, MultivariateNormal
from torch.nn.functional import softplus

from ma_sbi.randomness import derive, generator
from ma_sbi.validation import as_matrix

__all__ = ["FortnightSimulator"]


class FortnightSimulator:
    r"""Exponential growth, counted with negative-binomial noise.

    .. math:: \lambda_t = e^{\mu + r (t - \bar t)}, \quad
        y_t \sim NB(\lambda_t, \phi), \quad
        Var[y_t] = \lambda_t + \lambda_t^2 / \phi, \quad t = 0, ..., 13

    theta is :math:`(\mu, r, \log\phi)` with independent normal priors: :math:`\mu` with
    mean 6 and deviation 4 (days of 0.1 to a million counts), the growth rate :math:`r` per
    day with mean 0 and deviation 0.1 (a week to double is one deviation), and
    :math:`\log\phi` with mean 2 and deviation 1.5. Every count is reported on its day:
    weekends, batches and dumps are what the simulator leaves out.

    The data are seen as :math:`x = \log(1 + y)`.

    Args:
        dispersion: :math:`\phi`, if it is known and not inferred; theta is then
            :math:`(\mu, r)`.
        days: Length of the window.
    """

    def __init__(self, *, dispersion: float | None = None, days: int = 14) -> None:
        if dispersion is not None and not (math.isfinite(dispersion) and dispersion > 0):
            raise ValueError(f"dispersion must be a positive number, got {dispersion!r}")
        self.dispersion = dispersion
        self.days = days
        mean = torch.tensor([6.0, 0.0, 2.0])
        deviation = torch.tensor([4.0, 0.1, 1.5])
        size = 3 if dispersion is None else 2
        self.prior: Distribution = MultivariateNormal(
            mean[:size], deviation[:size].square().diag()
        )

    def simulate(self, theta: Any, *, seed: int | None = None) -> Tensor:
        """Simulate x for each row of theta.

        Args:
            theta: Parameters, shape ``(n, dim_theta)``.
            seed: Seed of the noise.

        Returns:
            Log counts, shape ``(n, days)``.
        """
        theta = as_matrix(theta, "theta", dim=self.prior.event_shape[0])
        log_mean, dispersion = self._moments(theta.double())
        rng = generator(derive(seed, "simulate"))
        shape = dispersion.expand_as(log_mean)
        # A negative binomial is a Poisson whose rate has a gamma law.
        rate = torch._standard_gamma(shape, generator=rng) / shape * log_mean.exp()
        # Poisson draws in torch lose precision beyond 1e8; there the noise is in the rate.
        counts = torch.where(
            rate < 1e8, torch.poisson(rate.clamp(max=1e8), generator=rng), rate.round()
        )
        return counts.log1p().float()

    def log_likelihood(self, counts: Tensor, theta: Tensor, departure: Tensor) -> Tensor:
        r"""Evaluate :math:`\log NB(y; \lambda(\theta) e^\delta, \phi)`, summed over days.

        Args:
            counts: Counts y, shape ``(..., days)``.
            theta: Parameters, shape ``(..., dim_theta)``.
            departure: Departure of the log mean, shape ``(..., days)``.
        """
        counts = counts.double()
        log_mean, dispersion = self._moments(theta.double())
        log_mean = log_mean + departure.double()
        log_total = torch.logaddexp(log_mean, dispersion.log())
        log_pmf = (
            torch.lgamma(counts + dispersion)
            - torch.lgamma(dispersion)
            - torch.lgamma(counts + 1)
            + dispersion * (dispersion.log() - log_total)
            + counts * (log_mean - log_total)
        )
        return log_pmf.sum(dim=-1)

    def gaussian_log_density(
        self, x: Tensor, theta: Tensor, departure: Tensor, width: float
    ) -> Tensor:
        r"""Evaluate :math:`\log N(x; \log(1 + \lambda(\theta) e^\delta), w^2)`, over days.

        A stated width of log counts in place of the dispersion that theta holds.

        Args:
            x: Log counts, shape ``(..., days)``.
            theta: Parameters, shape ``(..., dim_theta)``.
            departure: Departure of the log mean, shape ``(..., days)``.
            width: w, positive.
        """
        log_mean, _ = self._moments(theta.double())
        center = softplus(log_mean + departure.double())
        error = (x.double() - center) / width
        normal = -0.5 * error.square() - math.log(width) - 0.5 * math.log(2 * math.pi)
        return normal.sum(dim=-1)

    def _moments(self, theta: Tensor) -> tuple[Tensor, Tensor]:
        day = torch.arange(self.days).to(theta) - (self.days - 1) / 2
        log_mean = theta[..., 0:1] + theta[..., 1:2] * day
        if self.dispersion is None:
            # Beyond a million the noise is Poisson to every digit, and lgamma loses some.
            return log_mean, theta[..., 2:3].clamp(-15.0, 15.0).exp()
        return log_mean, torch.full_like(theta[..., 0:1], self.dispersion)
