"""How a statistic of a real observation departs from its simulation (Ward et al. 2022)."""

from __future__ import annotations

import math
from dataclasses import dataclass

import torch
from torch import Tensor
from torch.distributions import Cauchy, Normal

from ma_sbi.randomness import generator

__all__ = ["SpikeAndSlab"]


@dataclass(frozen=True)
class SpikeAndSlab:
    r"""Noise on each standardised statistic: tiny if it is right, heavy-tailed if not.

    .. math:: m_j \sim \mathrm{Bernoulli}(\rho), \qquad y_j - x_j \sim
        \begin{cases} N(0, \sigma^2) & m_j = 0 \text{ (spike)} \\
        \mathrm{Cauchy}(0, \tau) & m_j = 1 \text{ (slab)} \end{cases}

    The scales are in standard deviations of the simulations: standardise first.

    Attributes:
        spike_scale: Standard deviation of the spike.
        slab_scale: Scale of the slab, the median of its absolute value.
        slab_probability: Prior probability that a statistic is wrong.

    Raises:
        ValueError: If a scale is not positive or the probability not inside (0, 1).

    Example:
        >>> error_model = SpikeAndSlab()
        >>> error_model.responsibility(torch.tensor([0.0, 1.0])).round(decimals=2)
        tensor([0.0300, 1.0000])
    """

    spike_scale: float = 0.01
    slab_scale: float = 0.25
    slab_probability: float = 0.5

    def __post_init__(self) -> None:
        for name in ("spike_scale", "slab_scale"):
            scale = getattr(self, name)
            if not 0 < scale < math.inf:
                raise ValueError(f"{name} must be positive, got {scale!r}")
        if not 0 < self.slab_probability < 1:
            raise ValueError(
                "slab_probability must lie between 0 and 1, both excluded, got "
                f"{self.slab_probability!r}"
            )

    def sample(
        self,
        shape: tuple[int, ...],
        *,
        seed: int | torch.Generator | None = None,
        device: torch.device | str = "cpu",
    ) -> Tensor:
        """Draw noise, each entry with a spike or slab of its own.

        Args:
            shape: Shape of the result.
            seed: A seed, or a generator to draw from; torch's global one if None.
            device: Where to put the result.
        """
        rng = seed if isinstance(seed, torch.Generator) else generator(seed, device)
        uniform = torch.rand(shape, generator=rng, device=device)
        spike = torch.randn(shape, generator=rng, device=device) * self.spike_scale
        slab = torch.empty(shape, device=device).cauchy_(
            sigma=self.slab_scale, generator=rng
        )
        return torch.where(uniform < self.slab_probability, slab, spike)

    def log_prob(self, residual: Tensor) -> Tensor:
        """Evaluate the mixture at ``y - x``, entry by entry."""
        return torch.logaddexp(self.log_spike(residual), self.log_slab(residual))

    def responsibility(self, residual: Tensor) -> Tensor:
        r"""Give :math:`P(m = 1 \mid y - x)`, entry by entry."""
        return torch.sigmoid(self.log_slab(residual) - self.log_spike(residual))

    def log_spike(self, residual: Tensor) -> Tensor:
        """Give the log joint density of the residual and of being right."""
        return Normal(0.0, self.spike_scale, validate_args=False).log_prob(
            residual
        ) + math.log1p(-self.slab_probability)

    def log_slab(self, residual: Tensor) -> Tensor:
        """Give the log joint density of the residual and of being wrong."""
        return Cauchy(0.0, self.slab_scale, validate_args=False).log_prob(
            residual
        ) + math.log(self.slab_probability)
