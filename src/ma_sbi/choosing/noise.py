"""Noise that an observation and its simulation do not share.

If x_sim was simulated with random numbers of its own, x_obs - x_sim holds the noise of
both. That noise is no departure: the posterior knows of it already.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import NamedTuple

import numpy as np
import torch
from sklearn.linear_model import RidgeCV
from sklearn.model_selection import GroupKFold, cross_val_predict
from sklearn.pipeline import make_pipeline
from sklearn.preprocessing import PolynomialFeatures, StandardScaler
from torch import Tensor

from ma_sbi.correctors.forward_maps import choose_map
from ma_sbi.scaling import column_scale

__all__ = ["Noise", "find_noise", "simulator_noise"]

# Standard errors by which a moment must differ from what it is compared with.
CLEAR = 3.0
# Logarithm of the factor up to which the variance of the simulator's noise is known: it is
# learned from few rows, and may differ from one to another.
ABOUT = 1.0
# Parameters up to which the simulator may be quadratic in them.
MOST_CURVED = 10
# Rows of a context from which it has a map from x_sim to x_obs.
FEWEST_MAPPED = 8
# Rows from which maps are learned: more would not tell more.
MOST_MAPPED = 1000
# Share of residuals that must occur twice to show that there is no noise.
OFTEN = 0.1
# Share of the noise that such a map may leave, if there is no such noise.
FORESEEN = 0.5
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
        told: Whether it could be told from departure.
    """

    share: Tensor
    variance: Tensor
    of_simulation: Tensor
    sentence: str
    told: bool = True

    @property
    def found(self) -> bool:
        """Whether there is any."""
        return bool(self.share.any())

    def undo_attenuation(self, x_sim: Tensor, num_repeats: int) -> tuple[Tensor, Tensor]:
        """Spread simulations so that a regression of them on x_obs is right.

        Noise of its own in x_sim is uncorrelated with x_obs. The simulation that x_obs
        would have been has the noise of x_obs, with which it is correlated; regressed on
        x_obs, x_sim gives slopes that are too small (errors in variables).

        Args:
            x_sim: Means over the repeated simulations, shape ``(n, dim_x)``.
            num_repeats: Number of simulations behind each mean.

        Returns:
            The simulations, spread, and the variance of what the regression leaves of them
            that is noise, shape ``(dim_x,)``: noise is spread as well.
        """
        if not self.found:
            return x_sim, self.variance
        scale = column_scale(x_sim)
        centred = (x_sim - x_sim.mean(dim=0)) / scale
        noise = torch.diag(self.of_simulation / scale.square())
        total = centred.T @ centred / max(1, len(centred) - 1)
        values, vectors = torch.linalg.eigh(total - noise / num_repeats)
        signal = vectors @ torch.diag(values.clamp(min=0.0)) @ vectors.T
        values = values.clamp(min=noise.diag().max() / (MOST_CORRECTION - 1))
        inverse = vectors @ torch.diag(1 / values) @ vectors.T
        factor = torch.eye(len(noise)).to(noise) + noise @ inverse
        # What the simulation behind x_obs, with its own noise, tells of the signal.
        told = signal @ torch.linalg.pinv(signal + noise) @ signal
        left = (factor @ (total - told) @ factor.T).diag().clamp(min=0.0)
        spread = x_sim.mean(dim=0) + centred @ factor.T * scale
        return spread, left * scale.square()


def find_noise(
    x_obs: Tensor, x_sim: Tensor, codes: Tensor, simulator: Tensor | None = None
) -> Noise:
    """Tell noise that is not shared from departure.

    Where each row has several simulations, they show it. Else there are two signs. Second
    moments, for a departure that does not depend on x: if noise is shared,
    ``var(x_obs) - var(x_sim)`` is the variance of the departure, and so is
    ``var(x_obs - x_sim)``; if x_sim has noise of its own, only the first is. (An x_obs that
    varies clearly less than x_sim has another cause, such as a gain.) And the simulator's
    noise, if it is known: ``x_obs - x_sim`` varies about twice as much.

    Args:
        x_obs: Observations, shape ``(n, dim_x)``.
        x_sim: Simulations, shape ``(n, num_repeats, dim_x)``.
        codes: Context of each row, shape ``(n,)``; means of contexts do not count.
        simulator: Variance of the simulator's noise, shape ``(dim_x,)``, if known.
    """
    num_repeats, mean = x_sim.shape[1], x_sim.mean(dim=1)
    told = True
    scale = column_scale(mean)
    observed, simulated = (_centre(x / scale, codes) for x in (x_obs, mean))
    freedom = len(x_obs) - _num_means(codes)
    residual = (observed - simulated).square() * len(x_obs) / max(1, freedom)
    total = residual.mean(dim=0).clamp(min=1e-200)
    if num_repeats > 1:
        of_simulation = (x_sim / scale).var(dim=1).mean(dim=0)
        share = (of_simulation * (1 + 1 / num_repeats) / total).clamp(max=1.0)
        sentence = f"x_sim has {num_repeats} simulations per row, which show its noise"
    else:
        known = None if simulator is None else 2 * simulator / scale.square()
        some = slice(MOST_MAPPED)
        repeats = _repeats((x_obs - mean)[some] / scale, mean[some] / scale)
        moments = _Moments.of(observed, simulated, residual)
        share = _unshared(moments, residual, None if repeats else known)
        if share.any() and _is_foreseen(x_obs, mean, codes, share * total / 2 * scale**2):
            share = torch.zeros_like(share)
        of_simulation = share * total / 2
        told = (
            bool(share.any())
            or repeats
            or (known is not None and not moments.allow(residual, known, residual))
            or _is_told(observed, simulated)
            or _is_foreseen(x_obs, mean, codes, total / 2 * scale**2)
        )
        if share.any():
            sentence = (
                f"x_sim has noise of its own: {share.mean():.0%} of the variance of "
                "x_obs - x_sim is noise"
            )
        elif told:
            sentence = "x_obs and x_sim seem to share their noise"
        else:
            sentence = (
                "x_sim is taken to share its noise with x_obs: whether it has noise of its "
                "own cannot be told, and if it has, the corrected posterior is too wide"
            )
    return Noise(
        share=share,
        variance=share * total * scale.square(),
        of_simulation=of_simulation * scale.square(),
        sentence=sentence,
        told=told,
    )


class _Moments(NamedTuple):
    """How much more x_obs varies than x_sim, less what x_obs - x_sim varies.

    Attributes:
        departure: Mean over columns of ``x_obs ** 2 - x_sim ** 2``, shape ``(n,)``.
        excess: The same less the squared residual.
    """

    departure: Tensor
    excess: Tensor

    @classmethod
    def of(cls, observed: Tensor, simulated: Tensor, residual: Tensor) -> _Moments:
        departure = (observed.square() - simulated.square()).mean(dim=1)
        return cls(departure, departure - residual.mean(dim=1))

    @property
    def error(self) -> Tensor:
        """Standard error of the mean excess."""
        return self.excess.std() / len(self.excess) ** 0.5

    def allow(self, residual: Tensor, known: Tensor, noise: Tensor) -> bool:
        """Tell whether residuals may be noise of both sides.

        Args:
            residual: Squared, shape ``(n, dim_x)``.
            known: Variance that such noise has, about, shape ``(dim_x,)``.
            noise: Variance by which x_obs would vary less than x_sim and residual together.
        """
        alike = _near_one((residual / known.clamp(min=1e-12)).mean(dim=1))
        return alike and bool(self.excess.mean() <= CLEAR * self.error - noise.mean())


def _unshared(moments: _Moments, residual: Tensor, known: Tensor | None) -> Tensor:
    """Return the share of noise in the variance of the residual, shape ``(dim_x,)``."""
    none = torch.zeros_like(residual[0])
    if residual.mean() < 1e-8:
        return none
    departure, excess, error = *moments, moments.error
    is_gain = departure.mean() < -CLEAR * departure.std() / len(departure) ** 0.5
    if excess.mean() < -CLEAR * error and not is_gain:
        departing = (departure.mean() / residual.mean()).clamp(0.0, 1.0)
        return none + (1 - departing)
    if known is None:
        return none
    return torch.ones_like(none) if moments.allow(residual, known, known) else none


def _is_told(observed: Tensor, simulated: Tensor) -> bool:
    """Tell whether second moments could have shown noise that is not shared.

    If all of ``x_obs - x_sim`` were such noise, both sides would vary alike.
    """
    residual = (observed - simulated).square().mean(dim=1)
    if residual.mean() < 1e-8:
        return True
    excess = (observed.square() - simulated.square()).mean(dim=1) - residual
    error = excess.std() / len(excess) ** 0.5
    return bool(excess.mean() - 2 * error > -residual.mean() / 2)


def _is_foreseen(x_obs: Tensor, x_sim: Tensor, codes: Tensor, noise: Tensor) -> bool:
    """Tell whether x_sim predicts x_obs better than noise of its own would allow.

    A departure that depends on x, such as a delay, can look like noise. But no map from
    x_sim could predict the noise in x_obs, if x_sim had another one.

    Args:
        x_obs: Observations, shape ``(n, dim_x)``.
        x_sim: Simulations of the same rows.
        codes: Context of each row, shape ``(n,)``.
        noise: Variance of the noise that x_sim would have, shape ``(dim_x,)``.
    """
    x_obs, x_sim, codes = (part[:MOST_MAPPED] for part in (x_obs, x_sim, codes))
    parts = [codes == code for code in codes.unique()]
    parts = [rows for rows in parts if rows.sum() >= FEWEST_MAPPED]
    left = [
        choose_map(x_sim[rows], x_obs[rows], x_sim).residuals
        for rows in parts or [torch.ones_like(codes, dtype=torch.bool)]
    ]
    unit = column_scale(x_sim).square()
    return bool((torch.cat(left).square() / unit).mean() < FORESEEN * (noise / unit).mean())


def _repeats(residual: Tensor, x: Tensor) -> bool:
    """Tell whether a tenth of all residuals occur twice, as noise does not.

    Unless x are counts, or on another grid: the noise of few columns repeats there.
    """
    apart = torch.cdist(residual, residual).fill_diagonal_(torch.inf)
    if (apart.amin(dim=1) < 1e-4 * residual.std()).double().mean() <= OFTEN:
        return False
    on_grid = (_ties(x) * len(x) > OFTEN).all()
    return not on_grid or bool(_ties(residual).prod() * len(x) < OFTEN)


def _ties(x: Tensor) -> Tensor:
    """Return how probably two rows have the same value in a column, ``(dim_x,)``."""
    grid = (x / (1e-4 * column_scale(x))).round()
    counts = [column.unique(return_counts=True)[1].double() for column in grid.T]
    pairs = len(x) * (len(x) - 1)
    return torch.stack([(one * (one - 1)).sum() / pairs for one in counts])


def _near_one(ratio: Tensor) -> bool:
    """Tell whether the mean could be one, for what is known up to a factor."""
    mean = ratio.mean().clamp(min=1e-12)
    error = (ratio.std() / len(ratio) ** 0.5 / mean).item()
    return abs(mean.log().item()) < ABOUT + 2 * error


def simulator_noise(theta: Tensor, x: Tensor) -> Tensor:
    """Estimate the variance of x given theta, shape ``(dim_x,)``.

    Args:
        theta: Parameters, shape ``(n, dim_theta)``; or several that x may have come from,
            ``(draws, n, dim_theta)``.
        x: Simulations at them, shape ``(n, dim_x)``.
    """
    if len(x) == 1:  # shows no noise
        return torch.zeros_like(x)
    theta = theta if theta.ndim == 3 else theta[None]
    rows = np.tile(np.arange(len(x)), len(theta))
    model = make_pipeline(
        StandardScaler(),
        PolynomialFeatures(2 if theta.shape[2] <= MOST_CURVED else 1),
        RidgeCV(np.logspace(-3, 3, 7)),
    )
    inputs = theta.double().flatten(end_dim=1).cpu().numpy()
    outputs = x.double().cpu().numpy()[rows]
    folds = GroupKFold(min(5, len(x)))
    predicted = cross_val_predict(model, inputs, outputs, cv=folds, groups=rows)
    predicted = predicted.reshape(outputs.shape)
    return torch.from_numpy(((outputs - predicted) ** 2).mean(axis=0)).to(x)


def _num_means(codes: Tensor) -> int:
    """Return how many means are subtracted: of each context, if most of them repeat."""
    count = codes.bincount()
    return len(count) if (count > 1).sum() * 2 >= len(count) else 1


def _centre(x: Tensor, codes: Tensor) -> Tensor:
    """Subtract the mean of each context; of all rows, if contexts do not repeat."""
    if _num_means(codes) == 1:
        return x - x.mean(dim=0)
    count = codes.bincount()
    total = x.new_zeros(len(count), x.shape[1]).index_add_(0, codes, x)
    return x - (total / count[:, None])[codes]
