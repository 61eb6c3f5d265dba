"""Simple likelihood, complex posterior: four points from a bivariate normal."""

from __future__ import annotations

import math
from typing import NamedTuple

import torch
from sbi.utils import BoxUniform
from torch import Tensor

from ma_sbi_bench.tasks.base import Setting, ShiftTask
from ma_sbi_bench.tasks.grid_sampler import integrate_on_grid, sample_on_grid
from ma_sbi_bench.tasks.regimes import shift_regimes
from ma_sbi_bench.tasks.truncated_normal import TruncatedNormal

__all__ = ["SLCP"]

# At this length NPE and Oracle stand as far apart as in the paper: C2ST gap 0.044 +- 0.012,
# paper 0.042 (bench/benchmarks/shift_lengths.py, run once, on seeds of its own).
SHIFT_LENGTH = 1.2
BOUND = 3.0
NUM_POINTS = 4
DIM_X = 2 * NUM_POINTS
FLOOR = 1e-6
LOG_MIN, LOG_MAX = -20.0, math.log(BOUND)
# Cells along log|theta3|, log|theta4|, theta5 and the level of theta1.
CELLS = (32, 32, 24, 8)
# Leaves about 1e-5 of the mass misplaced on average over the prior, 1e-3 at worst.
STEPS = 64
# Nodes along log|theta3| and theta5, and for each of these along log|theta4| and the level:
# a narrow ridge between the scales is followed. Leaves an error of 3e-4 nats on average
# over the prior, a few 1e-3 at worst; more for x that the prior does not produce.
OUTER_NODES, INNER_NODES = (24, 16), (24, 6)
# Below it a scale is drowned by the floor of the variance, and its logarithm a long tail.
FLOOR_SCALE = FLOOR**0.25
LOG_PRIOR = -5 * math.log(2 * BOUND)


class SLCP(ShiftTask):
    r"""Infer mean and covariance of a bivariate normal from four points.

    .. math:: x_i \sim N\left((\theta_1, \theta_2), \begin{pmatrix}
        s_1^2 + 10^{-6} & \rho s_1 s_2 \\ \rho s_1 s_2 & s_2^2 + 10^{-6}
        \end{pmatrix}\right), \quad s_1 = \theta_3^2,\ s_2 = \theta_4^2,\
        \rho = \tanh \theta_5

    The prior is uniform on :math:`[-3, 3]^5`; x holds the points one after the other.
    The posterior has four modes of equal mass, the signs of :math:`\theta_3` and
    :math:`\theta_4`.

    Args:
        setting: What the context tells.
        shift_length: Length of every regime's shift.
    """

    name = "slcp"
    _rows_at_once = 4

    def __init__(
        self,
        *,
        setting: Setting = "informative",
        shift_length: float = SHIFT_LENGTH,
    ) -> None:
        corner = BOUND * torch.ones(5)
        regimes = shift_regimes(DIM_X, shift_length)
        super().__init__(BoxUniform(-corner, corner), DIM_X, regimes, setting)

    def _simulate(self, theta: Tensor, source: torch.Generator | None) -> Tensor:
        theta1, theta2, theta3, theta4, theta5 = theta.unbind(dim=1)
        cov = _Covariance.of(theta3, theta4, theta5)
        noise1, noise2 = torch.randn(
            2, NUM_POINTS, len(theta), dtype=theta.dtype, generator=source
        )
        first = cov.v11.sqrt() * noise1
        second = cov.slope * first + cov.residual.sqrt() * noise2
        points = torch.stack([theta1 + first, theta2 + second], dim=-1)
        return points.transpose(0, 1).flatten(1)

    def _reference(
        self, x: Tensor, num_samples: int, source: torch.Generator | None
    ) -> Tensor:
        posterior, swap = _posterior_of(x)
        point = sample_on_grid(
            posterior.log_density,
            *posterior.box(),
            num_samples,
            cells=CELLS,
            steps=STEPS,
            generator=source,
        )
        shape = point.shape[:2]
        level = torch.rand(shape, dtype=x.dtype, generator=source)
        means = posterior.means(point, level)
        sign = 2 * torch.randint(2, (*shape, 2), generator=source) - 1
        scales = sign * point[..., :2].exp()
        pairs = [_swapped(pair, swap) for pair in (means, scales)]
        return torch.cat([*pairs, point[..., 2:3]], dim=-1)

    def _log_joint(self, theta: Tensor, x: Tensor) -> Tensor:
        theta1, theta2, theta3, theta4, theta5 = theta[:, None].unbind(dim=2)
        cov = _Covariance.of(theta3, theta4, theta5)
        first, second = x[:, 0::2] - theta1, x[:, 1::2] - theta2
        second = second - cov.slope * first
        square = first.square() / cov.v11 + second.square() / cov.residual
        log_density = -(square + cov.det.log()) / 2 - math.log(2 * math.pi)
        return LOG_PRIOR + log_density.sum(dim=1)

    def _log_evidence(self, x: Tensor) -> Tensor:
        # The likelihood has four factors 1 / (2 pi). One is lost with the means, whose
        # integral leaves a fourth; the four signs make up for that.
        log_integral = _posterior_of(x)[0].log_integral()
        return LOG_PRIOR - (NUM_POINTS - 1) * math.log(2 * math.pi) + log_integral


def _posterior_of(x: Tensor) -> tuple[_Posterior, Tensor]:
    """Return the posteriors of rows ``(B, DIM_X)``, and whose axes were exchanged."""
    points = x.unflatten(1, (NUM_POINTS, 2)).transpose(0, 1)
    # The axis further out goes first: drawn second, theta1 would have to guess at how
    # the box cuts it off.
    first, second = points.mean(dim=0).abs().unbind(dim=1)
    swap = second > first
    return _Posterior.given(_swapped(points, swap)), swap


def _swapped(pair: Tensor, swap: Tensor) -> Tensor:
    """Exchange the two axes of ``(..., B, 2)`` in the rows that ``swap`` names."""
    return torch.where(swap[:, None], pair.flip(-1), pair)


def _raised(point: Tensor) -> Tensor:
    """Replace log scales in coordinates ``(B, 4)`` by ``log(scale + FLOOR_SCALE)``."""
    raised = (point[:, :2].exp() + FLOOR_SCALE).log()
    return torch.cat([raised, point[:, 2:]], dim=1)


class _Covariance(NamedTuple):
    """A bivariate covariance, and the regression of its second axis on its first."""

    v11: Tensor
    v12: Tensor
    v22: Tensor
    det: Tensor

    @classmethod
    def of(cls, theta3: Tensor, theta4: Tensor, theta5: Tensor) -> _Covariance:
        v1, v2, rho = theta3**4, theta4**4, theta5.tanh()
        # A sum of positive terms: the plain determinant cancels where rho is near one.
        det = v1 * v2 * (1 - rho**2) + FLOOR * (v1 + v2) + FLOOR**2
        return cls(v1 + FLOOR, rho * (v1 * v2).sqrt(), v2 + FLOOR, det)

    @property
    def slope(self) -> Tensor:
        return self.v12 / self.v11

    @property
    def residual(self) -> Tensor:
        return self.det / self.v11


class _Posterior(NamedTuple):
    r"""The posterior with :math:`\theta_2` integrated out and signs left aside.

    Coordinates are :math:`(\log|\theta_3|, \log|\theta_4|, \theta_5)` and the level of
    :math:`\theta_1` in its normal law given these, truncated to the prior: its density
    is then flat in the level unless the box cuts off :math:`\theta_2`.

    Attributes:
        mean: Mean of the four points, shape ``(B, 2)``.
        s11: Sum of squares of the first axis around its mean, shape ``(B,)``.
        s12: Sum of products.
        s22: Sum of squares of the second axis.
    """

    mean: Tensor
    s11: Tensor
    s12: Tensor
    s22: Tensor

    @classmethod
    def given(cls, points: Tensor) -> _Posterior:
        """Summarise points of shape ``(NUM_POINTS, B, 2)``."""
        mean = points.mean(dim=0)
        first, second = (points - mean).unbind(dim=2)
        return cls(
            mean,
            (first * first).sum(dim=0),
            (first * second).sum(dim=0),
            (second * second).sum(dim=0),
        )

    def box(self) -> tuple[Tensor, Tensor]:
        """Limits of the coordinates, each of shape ``(B, 4)``.

        The exponent is at least ``s11 / (2 v11)``: a variance below ``s11 / 200``
        costs 100 nats, so smaller ones may be left out. What is lost below
        ``LOG_MIN`` is less than one part in ten million.
        """
        scatter = torch.stack([self.s11, self.s22], dim=1)
        smallest = (scatter / 200 - FLOOR).clamp(min=0.0).log() / 4
        # Where even the prior's largest variance is too small, its edge is enough.
        smallest = smallest.clamp(LOG_MIN, LOG_MAX - 0.5)
        rest = torch.tensor([[-BOUND, 0.0], [BOUND, 1.0]], dtype=smallest.dtype)
        low, high = rest[:, None].expand(2, len(smallest), 2)
        largest = torch.full_like(smallest, LOG_MAX)
        return torch.cat([smallest, low], dim=1), torch.cat([largest, high], dim=1)

    def log_density(self, point: Tensor) -> Tensor:
        """Evaluate coordinates ``(num, B, 4)``, up to a constant for each row."""
        log_a, log_b, theta5, level = point.unbind(dim=-1)
        cov = _Covariance.of(log_a.exp(), log_b.exp(), theta5)
        trace = cov.v22 * self.s11 - 2 * cov.v12 * self.s12 + cov.v11 * self.s22
        first = self._first(cov)
        second = self._second(cov, first.quantile(level))
        log_likelihood = -1.5 * cov.det.log() - trace / (2 * cov.det)
        log_jacobian = log_a + log_b
        return log_likelihood + log_jacobian + first.log_mass() + second.log_mass()

    def log_integral(self) -> Tensor:
        """Integrate :meth:`log_density`, shape ``(B,)``."""
        lower, upper = (_raised(corner) for corner in self.box())

        def log_marginal(outer: Tensor) -> Tensor:
            rows = torch.arange(len(self.mean)).repeat(len(outer))
            each = _Posterior(*(summary[rows] for summary in self))
            scale1, theta5 = outer.flatten(0, 1).unbind(dim=1)

            def log_conditional(inner: Tensor) -> Tensor:
                scale2, level = inner.unbind(dim=-1)
                known = (scale1.expand_as(level), scale2, theta5.expand_as(level), level)
                return each._log_density_of_raised(torch.stack(known, dim=-1))

            inside = lower[rows][:, [1, 3]], upper[rows][:, [1, 3]]
            log_mass = integrate_on_grid(log_conditional, *inside, cells=INNER_NODES)
            return log_mass.unflatten(0, outer.shape[:2])

        outside = lower[:, [0, 2]], upper[:, [0, 2]]
        return integrate_on_grid(log_marginal, *outside, cells=OUTER_NODES)

    def _log_density_of_raised(self, raised: Tensor) -> Tensor:
        """Evaluate coordinates with ``log(scale + FLOOR_SCALE)`` for the log scales."""
        scale = (raised[..., :2].exp() - FLOOR_SCALE).clamp(min=math.exp(LOG_MIN))
        point = torch.cat([scale.log(), raised[..., 2:]], dim=-1)
        return self.log_density(point) + (raised - point).sum(dim=-1)

    def means(self, point: Tensor, level: Tensor) -> Tensor:
        """Complete the coordinates by theta1 and theta2, shape ``(num, B, 2)``."""
        log_a, log_b, theta5, level1 = point.unbind(dim=-1)
        cov = _Covariance.of(log_a.exp(), log_b.exp(), theta5)
        theta1 = self._first(cov).quantile(level1)
        return torch.stack([theta1, self._second(cov, theta1).quantile(level)], dim=-1)

    def _first(self, cov: _Covariance) -> TruncatedNormal:
        scale = (cov.v11 / NUM_POINTS).sqrt()
        return TruncatedNormal(self.mean[:, 0], scale, -BOUND, BOUND)

    def _second(self, cov: _Covariance, theta1: Tensor) -> TruncatedNormal:
        mean = self.mean[:, 1] + cov.slope * (theta1 - self.mean[:, 0])
        scale = (cov.residual / NUM_POINTS).sqrt()
        return TruncatedNormal(mean, scale, -BOUND, BOUND)
