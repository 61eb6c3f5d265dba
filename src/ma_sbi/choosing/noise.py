"""Noise that an observation and its simulation do not share.

If x_sim was simulated with random numbers of its own, x_obs - x_sim holds the noise of
both. That noise is no departure: the posterior knows of it already.
"""

from __future__ import annotations

from dataclasses import dataclass

import torch
from torch import Tensor

from ma_sbi.scaling import column_scale

__all__ = ["Noise", "find_noise"]

# Standard errors by which a moment must differ from what it is compared with.
CLEAR = 3.0
# Largest factor by which slopes are corrected for noise in x_sim.
MOST_CORRECTION = 5.0


@dataclass(frozen=True)
class Noise:
    """What of the spread of x_obs - x_sim is noise.

    Attributes:
        share: Share of its variance, shape ``(dim_x,)``; zero if all noise is shared.
        variance: The same as a variance.
        of_simulation: Variance of the noise in one simulation, shape ``(dim_x,)``.
        sentence: How it was found.
    """

    share: Tensor
    variance: Tensor
    of_simulation: Tensor
    sentence: str

    @property
    def found(self) -> bool:
        """Whether there is any."""
        return bool(self.share.any())

    def undo_attenuation(self, x_sim: Tensor, num_repeats: int) -> Tensor:
        """Spread simulations so that a regression of them on x_obs is right.

        Noise of its own in x_sim is uncorrelated with x_obs. The simulation that x_obs
        would have been has the noise of x_obs, with which it is correlated; regressed on
        x_obs, x_sim gives slopes that are too small (errors in variables).

        Args:
            x_sim: Means over the repeated simulations, shape ``(n, dim_x)``.
            num_repeats: Number of simulations behind each mean.
        """
        if not self.found:
            return x_sim
        scale = column_scale(x_sim)
        centred = (x_sim - x_sim.mean(dim=0)) / scale
        noise = torch.diag(self.of_simulation / scale.square())
        signal = centred.T @ centred / max(1, len(centred) - 1) - noise / num_repeats
        values, vectors = torch.linalg.eigh(signal)
        values = values.clamp(min=noise.diag().max() / (MOST_CORRECTION - 1))
        inverse = vectors @ torch.diag(1 / values) @ vectors.T
        factor = torch.eye(len(noise)).to(noise) + noise @ inverse
        return x_sim.mean(dim=0) + centred @ factor.T * scale


def find_noise(x_obs: Tensor, x_sim: Tensor, codes: Tensor) -> Noise:
    """Tell noise that is not shared from departure.

    Where each row has several simulations, they show it. Else the second moments do, for a
    departure that does not depend on x: if noise is shared, ``var(x_obs) - var(x_sim)`` is
    the variance of the departure, and so is ``var(x_obs - x_sim)``; if x_sim has noise of
    its own, only the first is. An x_obs that varies clearly less than x_sim has another
    cause, such as a gain.

    Args:
        x_obs: Observations, shape ``(n, dim_x)``.
        x_sim: Simulations, shape ``(n, num_repeats, dim_x)``.
        codes: Context of each row, shape ``(n,)``; means of contexts do not count.
    """
    num_repeats, mean = x_sim.shape[1], x_sim.mean(dim=1)
    scale = column_scale(mean)
    observed, simulated = (_centre(x / scale, codes) for x in (x_obs, mean))
    freedom = max(1, len(x_obs) - int(codes.max()) - 1)
    residual = (observed - simulated).square()
    total = (residual.sum(dim=0) / freedom).clamp(min=1e-200)
    if num_repeats > 1:
        of_simulation = (x_sim / scale).var(dim=1).mean(dim=0)
        share = (of_simulation * (1 + 1 / num_repeats) / total).clamp(max=1.0)
        sentence = f"x_sim has {num_repeats} simulations per row, which show its noise"
    else:
        share, sentence = _from_moments(observed, simulated, residual)
        of_simulation = share * total / 2
    return Noise(
        share=share,
        variance=share * total * scale.square(),
        of_simulation=of_simulation * scale.square(),
        sentence=sentence,
    )


def _from_moments(
    observed: Tensor, simulated: Tensor, residual: Tensor
) -> tuple[Tensor, str]:
    departure = (observed.square() - simulated.square()).mean(dim=1)
    everything = residual.mean(dim=1)
    none = torch.zeros_like(observed[0])
    if everything.mean() < 1e-8:
        return none, "x_obs - x_sim does not vary within a context"
    excess = departure - everything
    root = len(observed) ** 0.5
    is_less = excess.mean() < -CLEAR * excess.std() / root
    is_gain = departure.mean() < -CLEAR * departure.std() / root
    if not is_less or is_gain:
        return none, "x_obs and x_sim seem to share their noise"
    # A standard error less: spread that is not clearly there is none.
    share = (departure.mean() - departure.std() / root) / everything.mean()
    share = 1 - share.clamp(0.0, 1.0)
    sentence = (
        f"x_sim has noise of its own: {share:.0%} of the variance of x_obs - x_sim is noise"
    )
    return none + share, sentence


def _centre(x: Tensor, codes: Tensor) -> Tensor:
    """Subtract the mean of each context; of all rows, if contexts do not repeat."""
    count = codes.bincount()
    if (count > 1).sum() * 2 < len(count):
        return x - x.mean(dim=0)
    total = x.new_zeros(len(count), x.shape[1]).index_add_(0, codes, x)
    return x - (total / count[:, None])[codes]
