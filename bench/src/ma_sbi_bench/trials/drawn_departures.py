"""Departures of drawn worlds: how observations come from simulations, given the context."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass

import numpy as np
import torch
from torch import Tensor

from ma_sbi_bench.trials.exact_simulators import ExactSimulator

__all__ = ["DEPARTURES", "Departure", "draw_departure"]

RARE, GROSS = 0.1, 0.05
# Standard deviations of x by which gross outliers are off, at least and at most.
GROSS_SIZE = 10.0, 50.0
# Part of a shift's direction that parameters may not explain.
ASIDE = 0.5


@dataclass(frozen=True)
class Departure:
    """What is done to simulations.

    Attributes:
        name: Its kind, of ``DEPARTURES``.
        size: Size of the effect, in posterior deviations.
        shifts: Shift of each column of the design, shape ``(num_columns, dim_x)``.
        strength: How strong it is for each column, in [-1, 1], shape ``(num_columns,)``.
        noise: The simulator's noise, shape ``(dim_x,)``.
        scale: Standard deviation of simulations, shape ``(dim_x,)``.
        typical: Posterior deviations that x as a whole is worth.
        jitter: Measurement noise of x_obs, in units of the simulator's.
    """

    name: str
    size: float
    shifts: Tensor
    strength: Tensor
    noise: Tensor
    scale: Tensor
    typical: float
    jitter: float

    def __call__(self, x: Tensor, design: Tensor, rng: np.random.Generator) -> Tensor:
        """Turn simulations ``(n, dim_x)`` into observations, given the design."""
        x = DEPARTURES[self.name](self, x, design, rng)
        return x + self.jitter * self.noise * _normal(x, rng)


def _none(one: Departure, x: Tensor, design: Tensor, rng: np.random.Generator) -> Tensor:
    return x


def _constant(
    one: Departure, x: Tensor, design: Tensor, rng: np.random.Generator
) -> Tensor:
    return x + one.shifts[0]


def _shift(one: Departure, x: Tensor, design: Tensor, rng: np.random.Generator) -> Tensor:
    return x + design @ one.shifts


def _hidden(one: Departure, x: Tensor, design: Tensor, rng: np.random.Generator) -> Tensor:
    return x + one.shifts[torch.from_numpy(rng.integers(len(one.shifts), size=len(x)))]


def _rare(one: Departure, x: Tensor, design: Tensor, rng: np.random.Generator) -> Tensor:
    rare = torch.from_numpy(rng.random((len(x), 1)) < RARE)
    return torch.where(rare, x + one.shifts[0], x)


def _outliers(
    one: Departure, x: Tensor, design: Tensor, rng: np.random.Generator
) -> Tensor:
    gross = torch.from_numpy(rng.random((len(x), 1)) < GROSS)
    away = torch.from_numpy(rng.uniform(*GROSS_SIZE, size=(len(x), 1)))
    direction = torch.nn.functional.normalize(_normal(x, rng), dim=1)
    return torch.where(gross, x + away * one.scale * direction, x + design @ one.shifts)


def _more_noise(
    one: Departure, x: Tensor, design: Tensor, rng: np.random.Generator
) -> Tensor:
    amount = one.size * (design @ one.strength).abs()[:, None]
    return x + amount * one.noise * _normal(x, rng)


def _gain(one: Departure, x: Tensor, design: Tensor, rng: np.random.Generator) -> Tensor:
    return x * (np.log1p(one.size / one.typical) * (design @ one.strength))[:, None].exp()


def _saturation(
    one: Departure, x: Tensor, design: Tensor, rng: np.random.Generator
) -> Tensor:
    amount = one.size * (design @ one.strength).abs()[:, None]
    most = 4.0 * one.scale / (0.3 + amount)
    return most * (x / most).tanh()


def _lag(one: Departure, x: Tensor, design: Tensor, rng: np.random.Generator) -> Tensor:
    amount = 0.2 * one.size * (design @ one.strength).abs().clamp(max=1.0)[:, None]
    before = torch.cat([x[:, :1], x[:, :-1]], dim=1)
    return (1 - amount) * x + amount * before


DEPARTURES: dict[
    str, Callable[[Departure, Tensor, Tensor, np.random.Generator], Tensor]
] = {
    "none": _none,
    "constant": _constant,
    "shift": _shift,
    "hidden": _hidden,
    "rare": _rare,
    "outliers": _outliers,
    "noise": _more_noise,
    "gain": _gain,
    "saturation": _saturation,
    "lag": _lag,
}
"""Every departure by name."""


def draw_departure(
    name: str,
    simulator: ExactSimulator,
    pool: Tensor,
    num_columns: int,
    size: float,
    rng: np.random.Generator,
) -> Departure:
    """Draw a departure.

    Args:
        name: Its kind.
        simulator: What departs.
        pool: Simulations from the prior.
        num_columns: Columns of the design of contexts.
        size: Size of the effect, in posterior deviations.
        rng: Source of chance.
    """
    strength = rng.uniform(0.5, 1.0, num_columns) * rng.choice([-1.0, 1.0], num_columns)
    if rng.random() < 0.5:
        # In one regime all is well, or no part is the same at all numbers.
        strength[-1] = 0.0
    theta = rng.standard_normal((num_columns, simulator.dim_theta))
    seen = torch.from_numpy(theta) @ simulator.matrix.T
    aside = torch.from_numpy(rng.standard_normal(seen.shape))
    unit = torch.nn.functional.normalize
    direction = unit(seen, dim=1) + ASIDE * unit(aside, dim=1)
    direction = direction / simulator.displacement(direction)[:, None]
    jitter = rng.uniform(0.05, 0.3) * (rng.random() < 0.5)
    return Departure(
        name,
        size,
        size * torch.from_numpy(strength)[:, None] * direction,
        torch.from_numpy(strength),
        simulator.noise,
        pool.std(dim=0),
        simulator.displacement(pool).median().item(),
        0.0 if name == "none" else float(jitter),
    )


def _normal(like: Tensor, rng: np.random.Generator) -> Tensor:
    return torch.from_numpy(rng.standard_normal(tuple(like.shape)))
