r"""When, and where, a diffusion leaves an interval: exact draws and densities.

A path of unit diffusion starts in the middle of the interval :math:`(0, a)` and drifts
with velocity :math:`v`. By symmetry the time of its exit does not depend on the boundary
through which it leaves. On a unit interval with drift :math:`k = |v| a` (time in units of
:math:`a^2`) it has the density

.. math:: (1 + e^{-k})\, g_k(t)\, h(t), \qquad
    g_k(t) = \frac{e^{-(1/2 - k t)^2 / 2t}}{2 \sqrt{2 \pi t^3}}, \qquad
    h(t) = \prod_{n \ge 1} (1 - e^{-n / t})^3,

where :math:`g_k` is the inverse Gaussian density of reaching the boundary ahead when there
is none behind, and :math:`h` the probability that such a path never crossed the one behind.
"""

from __future__ import annotations

import math
from typing import Any, NamedTuple

import torch
from torch import Tensor

__all__ = [
    "FirstPassage",
    "first_passage_log_density",
    "sample_exit_time",
    "sample_first_passage",
]

# Where the expansions for short and for long times converge equally fast.
CROSSOVER = 1 / (2 * math.pi)


class FirstPassage(NamedTuple):
    """Exits of paths, all of one shape.

    Attributes:
        time: When the path left, float64.
        upper: Whether it left through the upper boundary.
    """

    time: Tensor
    upper: Tensor


def sample_first_passage(
    v: Any, a: Any, *, source: torch.Generator | None = None
) -> FirstPassage:
    """Draw one exit for each entry of the parameters.

    Args:
        v: Drift.
        a: Distance of the boundaries; broadcasts with v.
        source: Generator of the draws; torch's global one if None.

    Example:
        >>> v = torch.tensor([[0.0], [2.0]]).expand(2, 10_000)
        >>> exits = sample_first_passage(v, 1.0, source=torch.Generator().manual_seed(0))
        >>> exits.upper.double().mean(dim=1).round(decimals=1).tolist()
        [0.5, 0.9]
    """
    v, a = _as_parameters(v, a)
    time = sample_exit_time(v, a, source=source)
    chance = torch.rand(time.shape, dtype=time.dtype, generator=source)
    return FirstPassage(time, chance < torch.sigmoid(v * a))


def sample_exit_time(v: Any, a: Any, *, source: torch.Generator | None = None) -> Tensor:
    r"""Draw when paths exit, without saying where.

    Exact, by rejection: a draw of the inverse Gaussian :math:`g_k` is kept with probability
    :math:`h(t)`, which happens in a share :math:`1 / (1 + e^{-k}) \ge 1/2` of cases.

    Args:
        v: Drift.
        a: Distance of the boundaries; broadcasts with v.
        source: Generator of the draws; torch's global one if None.

    Returns:
        Times in float64, in the common shape of v and a.

    Raises:
        ValueError: If a parameter is not finite, or ``a`` is not positive.
    """
    v, a = _as_parameters(v, a)
    drift = (v.abs() * a).flatten()
    time = torch.empty_like(drift)
    pending = torch.arange(len(drift))
    while len(pending):
        proposal = _sample_inverse_gaussian(drift, source)
        chance = torch.rand(len(drift), dtype=drift.dtype, generator=source)
        kept = chance < _log_never_behind(proposal).exp()
        time[pending[kept]] = proposal[kept]
        pending, drift = pending[~kept], drift[~kept]
    return time.view(v.shape) * a.square()


def first_passage_log_density(time: Any, upper: Any, v: Any, a: Any) -> Tensor:
    r"""Evaluate the joint density of when and where a path exits.

    Integrated over time it gives the probability :math:`1 / (1 + e^{-va})` of the upper
    boundary, and the rest for the lower one. Every argument broadcasts.

    Args:
        time: Time of the exit.
        upper: Whether it was through the upper boundary.
        v: Drift.
        a: Distance of the boundaries.

    Returns:
        Log densities in float64, ``-inf`` where ``time`` is not positive and finite.

    Example:
        >>> first_passage_log_density([0.0, 0.1, 1.0], True, v=1.0, a=1.0)
        tensor([   -inf,  1.0417, -3.7901], dtype=torch.float64)
    """
    v, a = _as_parameters(v, a)
    time, v, a = torch.broadcast_tensors(_double(time), v, a)
    towards = torch.where(torch.as_tensor(upper, dtype=torch.bool), v, -v)
    possible = (time > 0) & (time < torch.inf)
    time = torch.where(possible, time, 1.0)
    unit_time = time / a.square()
    log_density = (
        (towards * a - v.square() * time) / 2
        - 1 / (8 * unit_time)
        - 1.5 * unit_time.log()
        - math.log(8 * math.pi) / 2
        - 2 * a.log()
        + _log_never_behind(unit_time)
    )
    return torch.where(possible, log_density, -torch.inf)


def _sample_inverse_gaussian(drift: Tensor, source: torch.Generator | None) -> Tensor:
    """Draw when a path first gets 1/2 ahead of its start (Michael, Schucany, Haas 1976)."""
    square = torch.randn(len(drift), dtype=drift.dtype, generator=source).square()
    # The smaller root of (1/2 - drift t)^2 = square t, written without a difference so
    # that it holds down to drift zero.
    early = 0.5 / (drift + square + (square * (square + 2 * drift)).sqrt())
    late = 0.25 / (drift.square() * early)
    chance = torch.rand(len(drift), dtype=drift.dtype, generator=source)
    return torch.where(chance * (1 + 2 * drift * early) <= 1, early, late)


def _log_never_behind(time: Tensor) -> Tensor:
    """Evaluate the logarithm of ``h``, without cancellation at any time."""
    short, long = time.clamp(max=CROSSOVER), time.clamp(min=CROSSOVER)
    log_short = _log_product(torch.exp(-1 / short))
    log_long = (
        1.5 * (2 * math.pi * long).log()
        + 1 / (8 * long)
        - math.pi**2 * long / 2
        + _log_product(torch.exp(-4 * math.pi**2 * long))
    )
    return torch.where(time < CROSSOVER, log_short, log_long)


def _log_product(q: Tensor) -> Tensor:
    """Evaluate log of prod (1 - q^n)^3 for q up to exp(-2 pi).

    By Jacobi's identity the product is 1 - 3 q + 5 q^3 - 7 q^6 + ...; the fourth term is
    below float64's resolution.
    """
    return torch.log1p(q * (5 * q.square() - 3))


def _as_parameters(v: Any, a: Any) -> tuple[Tensor, Tensor]:
    v, a = torch.broadcast_tensors(_double(v), _double(a))
    if not (torch.isfinite(v).all() and torch.isfinite(a).all() and (a > 0).all()):
        raise ValueError("v must be finite, and a finite and positive")
    return v, a


def _double(values: Any) -> Tensor:
    return torch.as_tensor(values, dtype=torch.float64)
