"""What simulations from the prior are like: from draws of them, or their density."""

from __future__ import annotations

import warnings
from collections.abc import Callable
from dataclasses import dataclass
from functools import cached_property
from typing import TypeAlias

import numpy as np
import torch
from sklearn.mixture import GaussianMixture
from torch import Tensor

from ma_sbi.one_at_a_time import local_filters
from ma_sbi.posteriors.training_range import TrainingRange
from ma_sbi.scaling import column_scale

__all__ = ["AnyReference", "DensityReference", "LogDensity", "Reference", "whitener_of"]


LogDensity: TypeAlias = Callable[[Tensor], Tensor]
"""Log density of simulations, ``(n, dim_x) -> (n,)``."""

# Mixtures of Gaussians: most columns, sizes, and the rows they are fitted to.
MOST_COLUMNS, SIZES = 20, (1, 2, 4, 8)
FEWEST_FITTED, MOST_FITTED = 100, 2_000
# Rows for each of their numbers, at least.
ROWS_FOR_EACH = 4
# Variance that is added, in units of the simulations.
LEAST_VARIANCE = 1e-4


class _Mixture:
    """About the density of simulations: the best mixture of Gaussians by BIC.

    It is fitted when it is first asked, to rows at random: simulations may be in order.

    Args:
        x: Simulations, shape ``(n, dim_x)``.
    """

    def __init__(self, x: Tensor) -> None:
        order = torch.randperm(len(x), generator=torch.Generator().manual_seed(0))
        self.x = x[order[:MOST_FITTED]]

    def __call__(self, x: Tensor) -> Tensor:
        return torch.from_numpy(self._fitted.score_samples(self._in_units(x)))

    @cached_property
    def _fitted(self) -> GaussianMixture:
        x = self._in_units(self.x)
        numbers = (x.shape[1] + 1) * (x.shape[1] + 2) / 2  # of one Gaussian
        most = max(1.0, len(x) / ROWS_FOR_EACH / numbers)
        with local_filters():
            # That one has not converged is no matter: another may be better.
            warnings.simplefilter("ignore")
            tried = [
                GaussianMixture(size, reg_covar=LEAST_VARIANCE, random_state=0).fit(x)
                for size in SIZES
                if size <= most
            ]
        return min(tried, key=lambda one: float(one.bic(x)))

    def _in_units(self, x: Tensor) -> np.ndarray:
        centred = x.cpu().double() - self.x.mean(dim=0)
        return (centred / column_scale(self.x)).numpy()


@dataclass(frozen=True)
class Reference:
    """What simulations from the prior are like.

    Attributes:
        centre: Their mean, shape ``(dim_x,)``.
        whitener: Matrix that makes their covariance the identity, ``(dim_x, dim_x)``;
            None if correlations are not known.
        scale: Their standard deviations, shape ``(dim_x,)``, if they are known.
        num: Their number, if it is known.
        log_density: Of simulations, given or about; None if it is not known.
    """

    centre: Tensor
    whitener: Tensor | None = None
    scale: Tensor | None = None
    num: float = torch.inf
    log_density: LogDensity | None = None

    @classmethod
    def of(cls, x: Tensor, log_density: LogDensity | None = None) -> Reference:
        """Describe simulations x, shape ``(n, dim_x)``, by their density if it is given."""
        x = x.cpu().double()
        scale = column_scale(x)
        whitener = whitener_of((x - x.mean(dim=0)) / scale) / scale[:, None]
        if log_density is None and x.shape[1] <= MOST_COLUMNS and len(x) >= FEWEST_FITTED:
            log_density = _Mixture(x)
        return cls(x.mean(dim=0), whitener, scale, len(x), log_density)

    @classmethod
    def within(
        cls, trained: TrainingRange, log_density: LogDensity | None = None
    ) -> Reference:
        """Describe the simulations that a posterior was trained on."""
        whitener = trained.whitener.cpu().double()
        # A diagonal matrix is made of deviations alone; of a constant column it is 0.
        if whitener.count_nonzero() == len(whitener):
            scale = 1 / whitener.diag().abs()
            scale = scale.where(scale > 0, 1.0)
            return cls(trained.center, scale=scale, log_density=log_density)

        def gaussian(x: Tensor) -> Tensor:
            centred = x.cpu().double() - trained.center.cpu().double()
            return -(centred @ whitener).square().sum(dim=1) / 2

        scale = torch.linalg.pinv(whitener).norm(dim=0)
        return cls(trained.center, whitener, scale, log_density=log_density or gaussian)

    def deviations(self, x: Tensor) -> tuple[Tensor, Tensor | None]:
        """Return what has a mean of zero in simulations, and its whitener if known."""
        return x - self.centre.cpu().double(), self.whitener

    def moments(self, x: Tensor) -> Tensor | None:
        """Return deviations of x ``(n, dim_x)``, and squares less one; None if unknown.

        In columns, and in uncorrelated directions where these are known.
        """
        if self.scale is None:
            return None
        centred = x.cpu().double() - self.centre.cpu().double()
        unit = centred / self.scale.cpu().double()
        parts = [unit, unit.square() - 1]
        if self.whitener is not None:
            white = centred @ self.whitener.cpu().double()
            parts += [white, white.square() - 1]
        return torch.cat(parts, dim=1)

    def away(self, x_sim: Tensor, x_obs: Tensor) -> float:  # noqa: ARG002
        """Return deviations by which the mean of x_sim is away, in the farthest column."""
        if self.scale is None:
            return 0.0
        centred = x_sim.cpu().double().mean(dim=0) - self.centre.cpu().double()
        return (centred / self.scale.cpu().double()).abs().max().item()


@dataclass(frozen=True)
class DensityReference:
    r"""What simulations are like, told by their log density and its gradient.

    By Stein's identity, which needs no draws. It holds unless the density ends in a jump.

    .. math:: E[\nabla \log p(x)] = 0, \qquad E[x_i \, \partial_i \log p(x)] = -1

    Attributes:
        log_density: Of simulations, ``(n, dim_x) -> (n,)``.
        centre: Any point near the simulations, shape ``(dim_x,)``.
        axes: Orthogonal directions along which x is looked at, ``(dim_x, dim_x)``.
        scale: Any scale of each column, shape ``(dim_x,)``.
    """

    log_density: LogDensity
    centre: Tensor
    axes: Tensor
    scale: Tensor
    num = torch.inf

    @classmethod
    def of(cls, log_density: LogDensity, x: Tensor) -> DensityReference | None:
        """Look at a log density near x ``(n, dim_x)``; None if torch has no gradient."""
        x = x.cpu().double()
        axes = torch.linalg.eigh(x.T.cov().reshape(x.shape[1], -1))[1]
        found = cls(log_density, x.mean(dim=0), axes, column_scale(x))
        try:
            found._gradient(x[:1])
        except (RuntimeError, TypeError, ValueError, AttributeError):
            # Torch did not compute it. What else may be wrong is told where it is used.
            return None
        return found

    def deviations(self, x: Tensor) -> tuple[Tensor, Tensor | None]:
        """Return gradients, whose mean in simulations is zero; no whitener is known."""
        return -self._gradient(x) * self.scale, None

    def moments(self, x: Tensor) -> Tensor:
        """Return gradients at x ``(n, dim_x)``, and their products with x plus one.

        In columns, and along the axes.
        """
        gradient, centred = self._gradient(x), x.cpu().double() - self.centre
        along = (centred @ self.axes) * (gradient @ self.axes)
        products = torch.cat([centred * gradient, along], dim=1)
        return torch.cat([-gradient * self.scale, products + 1], dim=1)

    def away(self, x_sim: Tensor, x_obs: Tensor) -> float:
        """Return deviations of a Gaussian that is less dense at x_sim by so much."""
        simulated, observed = (
            self.log_density(x.cpu().float()).double().clamp(-1e6, 1e6).nan_to_num(-1e6)
            for x in (x_sim, x_obs)
        )
        more = observed.mean() - simulated.mean()
        return (2 * more).clamp(min=0.0).sqrt().item()

    def _gradient(self, x: Tensor) -> Tensor:
        with torch.enable_grad():
            at = x.float().detach().requires_grad_()
            (found,) = torch.autograd.grad(self.log_density(at).sum(), at)
        return found.cpu().double().nan_to_num(0.0, 0.0, 0.0)


AnyReference: TypeAlias = Reference | DensityReference
"""What simulations from the prior are like, by draws of them or by their density."""


def whitener_of(centred: Tensor, freedom: int | None = None) -> Tensor:
    """Return the matrix that makes rows ``(n, dim)`` with mean zero uncorrelated.

    Args:
        centred: The rows.
        freedom: What their products are divided by; n if None.

    Returns:
        Shape ``(dim, dim)``; directions with hardly any spread are not blown up.
    """
    values, vectors = torch.linalg.eigh(centred.T @ centred / (freedom or len(centred)))
    return vectors / values.clamp(min=max(1e-6 * values[-1].item(), 1e-300)).sqrt()
