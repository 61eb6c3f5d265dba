"""Calibration triples with known shifts."""

from typing import NamedTuple

import torch
from torch import Tensor

TEXTS = [
    "The sensor was recalibrated this morning and reads high.",
    "Operators report a slow drift of the baseline since noon.",
    "A filter was replaced; readings are damped.",
    "Night shift: the cooling failed and the detector ran warm.",
]


class World(NamedTuple):
    context: list[str]
    x_obs: Tensor
    x_sim: Tensor
    shifts: Tensor
    regime: Tensor


def shifted_world(n, *, noise=0.0, dim_x=8, seed=0, shares=(1, 1, 1, 1), spread=3.0):
    rng = torch.Generator().manual_seed(seed)
    directions = torch.randn(len(TEXTS), dim_x, generator=rng)
    shifts = torch.nn.functional.normalize(directions, dim=1)
    cycle = torch.arange(len(TEXTS)).repeat_interleave(torch.tensor(shares))
    regime = cycle[torch.arange(n) % len(cycle)]
    x_sim = spread * torch.randn(n, dim_x, generator=rng)
    x_obs = x_sim + shifts[regime] + noise * torch.randn(n, dim_x, generator=rng)
    return World([TEXTS[i] for i in regime], x_obs, x_sim, shifts, regime)
