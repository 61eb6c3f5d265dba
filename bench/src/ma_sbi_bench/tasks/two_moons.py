"""Two moons: a crescent of noise around a folded parameter plane."""

from __future__ import annotations

import math

import torch
from sbi.utils import BoxUniform
from torch import Tensor

from ma_sbi_bench.tasks.base import Setting, ShiftTask
from ma_sbi_bench.tasks.grid_sampler import integrate_on_grid, sample_on_grid
from ma_sbi_bench.tasks.regimes import shift_regimes
from ma_sbi_bench.tasks.truncated_normal import TruncatedNormal

__all__ = ["TwoMoons"]

# At this length NPE and Oracle stand as far apart as in the paper: C2ST gap 0.205 +- 0.020,
# paper 0.208 (bench/benchmarks/shift_lengths.py, run once, on seeds of its own).
SHIFT_LENGTH = 0.12
RADIUS = 0.1
RADIUS_SCALE = 0.01
CENTRE = 0.25
ROOT2 = math.sqrt(2)
# Fine enough for the density to be nearly constant in a cell: few steps suffice.
CELLS, STEPS = 1024, 16
# Enough for the mass at each angle, which is smooth between the corners of the box.
NODES = 96
LOG_PRIOR = -math.log(4)


class TwoMoons(ShiftTask):
    r"""Infer where a crescent was moved to, up to a reflection.

    .. math:: x = (r \cos a + 0.25,\ r \sin a) + \left(-|\theta_1 + \theta_2|,\
        \theta_2 - \theta_1\right) / \sqrt 2, \quad a \sim U(-\pi/2, \pi/2),\
        r \sim N(0.1, 0.01^2)

    The prior is uniform on :math:`[-1, 1]^2`. The posterior is symmetric under
    :math:`(\theta_1, \theta_2) \to (-\theta_2, -\theta_1)`: two moons of equal mass.

    Args:
        setting: What the context tells.
        shift_length: Length of every regime's shift.
    """

    name = "two_moons"
    _rows_at_once = 128

    def __init__(
        self,
        *,
        setting: Setting = "informative",
        shift_length: float = SHIFT_LENGTH,
    ) -> None:
        prior = BoxUniform(-torch.ones(2), torch.ones(2))
        super().__init__(prior, 2, shift_regimes(2, shift_length), setting)

    def _simulate(self, theta: Tensor, source: torch.Generator | None) -> Tensor:
        theta1, theta2 = theta.unbind(dim=1)
        level, noise = torch.empty(2, len(theta), dtype=theta.dtype)
        angle = math.pi * (level.uniform_(generator=source) - 0.5)
        radius = RADIUS + RADIUS_SCALE * noise.normal_(generator=source)
        first = radius * angle.cos() + CENTRE - (theta1 + theta2).abs() / ROOT2
        second = radius * angle.sin() + (theta2 - theta1) / ROOT2
        return torch.stack([first, second], dim=1)

    def _reference(
        self, x: Tensor, num_samples: int, source: torch.Generator | None
    ) -> Tensor:
        # Between theta and the noise there is, for each sign, a rotation: the posterior
        # is the law of (angle, radius) restricted to what leads back into the box.
        angle = sample_on_grid(
            lambda point: _radius_law(_wrapped(point[..., 0]), x).log_mass(),
            *_angle_range(x),
            num_samples,
            cells=(CELLS,),
            steps=STEPS,
            generator=source,
        )
        angle = _wrapped(angle[..., 0])
        level = torch.rand(angle.shape, dtype=x.dtype, generator=source)
        radius = _radius_law(angle, x).quantile(level)
        sign = 2 * torch.randint(2, angle.shape, generator=source) - 1
        total = sign * (radius * angle.cos() + CENTRE - x[:, 0])
        difference = x[:, 1] - radius * angle.sin()
        return torch.stack([total - difference, total + difference], dim=-1) / ROOT2

    def _log_joint(self, theta: Tensor, x: Tensor) -> Tensor:
        theta1, theta2 = theta.unbind(dim=1)
        first = x[:, 0] - CENTRE + (theta1 + theta2).abs() / ROOT2
        second = x[:, 1] - (theta2 - theta1) / ROOT2
        distance = torch.hypot(first, second)
        # What lies behind the centre has a negative radius.
        radius = torch.where(first < 0, -distance, distance)
        log_noise = -((radius - RADIUS) / RADIUS_SCALE).square() / 2
        log_noise = log_noise - math.log(RADIUS_SCALE * math.sqrt(2 * math.pi) * math.pi)
        return LOG_PRIOR + log_noise - distance.log()

    def _log_evidence(self, x: Tensor) -> Tensor:
        # From either moon the noise leads back to theta by a rotation, so the evidence is
        # the probability of noise that leads into the box.
        lower, upper = _angle_pieces(x)
        num_pieces = lower.shape[1]
        repeated = x.repeat_interleave(num_pieces, dim=0)
        log_mass = integrate_on_grid(
            lambda point: _radius_law(point[..., 0], repeated).log_mass(),
            lower.flatten()[:, None],
            upper.flatten()[:, None],
            cells=(NODES,),
        )
        log_share = log_mass.unflatten(0, (-1, num_pieces)).logsumexp(dim=1)
        return LOG_PRIOR + math.log(2) + log_share - math.log(math.pi)


def _angle_range(x: Tensor) -> tuple[Tensor, Tensor]:
    """Bound the angles under which some theta in the box can be seen.

    The box, folded and turned, is a triangle; seen from the centre of the crescent it
    spans an interval of angles, or all of them if the centre is inside. No x is
    impossible: the radius is normal, so any distance has a density, and what lies
    behind the centre has a negative radius.

    Returns:
        Lower and upper angles, each of shape ``(B, 1)``.
    """
    corners = _corners(x)
    middle = torch.atan2(corners[..., 1].mean(dim=1), corners[..., 0].mean(dim=1))
    turn = torch.atan2(corners[..., 1], corners[..., 0]) - middle[:, None]
    turn = turn - 2 * math.pi * (turn / (2 * math.pi)).round()
    inside = (_slack(x) >= 0).all(dim=-1)
    lower = torch.where(inside, -math.pi / 2, middle + turn.amin(dim=1))
    upper = torch.where(inside, math.pi / 2, middle + turn.amax(dim=1))
    return lower[:, None], upper[:, None]


def _angle_pieces(x: Tensor) -> tuple[Tensor, Tensor]:
    """Cut the simulator's angles where a corner of the box is seen, before or behind.

    In between, the same edges of the box limit the radius.

    Returns:
        Lower and upper angles, each of shape ``(B, 4)``.
    """
    corners = _corners(x)
    seen = _wrapped(torch.atan2(corners[..., 1], corners[..., 0]))
    ends = torch.nn.functional.pad(seen.sort(dim=1).values, (1, 1), value=math.pi / 2)
    ends[:, 0] = -math.pi / 2
    return ends[:, :-1], ends[:, 1:]


def _corners(x: Tensor) -> Tensor:
    """Place the corners of the folded box around the crescent: ``(B, 3, 2)``."""
    corner = x - torch.tensor([CENTRE, 0.0], dtype=x.dtype)
    offsets = [[0.0, -ROOT2], [0.0, ROOT2], [ROOT2, 0.0]]
    return corner[:, None] + torch.tensor(offsets, dtype=x.dtype)


def _radius_law(angle: Tensor, x: Tensor) -> TruncatedNormal:
    """Restrict the radius, given the angle, to what leads back into the box."""
    cos, sin = angle.cos(), angle.sin()
    slope = torch.stack([-cos, cos - sin, cos + sin], dim=-1)
    limit = _slack(x) / slope
    lower = torch.where(slope < 0, limit, -torch.inf).amax(dim=-1)
    upper = torch.where(slope > 0, limit, torch.inf).amin(dim=-1)
    return TruncatedNormal(RADIUS, RADIUS_SCALE, lower, upper)


def _slack(x: Tensor) -> Tensor:
    """Right-hand sides of the three edges, ``slope * radius <= slack``."""
    reach = ROOT2 - CENTRE + x[:, 0]
    return torch.stack([CENTRE - x[:, 0], reach - x[:, 1], reach + x[:, 1]], dim=-1)


def _wrapped(angle: Tensor) -> Tensor:
    """Turn by half turns into [-pi/2, pi/2], where the simulator draws its angles."""
    return angle - math.pi * (angle / math.pi).round()
