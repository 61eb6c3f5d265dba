"""SLCP with a departure that grows with a number the log mentions."""

from __future__ import annotations

from typing import Any

import torch
from torch import Tensor

from ma_sbi_bench.tasks.base import Setting, per_row
from ma_sbi_bench.tasks.regimes import as_length, random_directions
from ma_sbi_bench.tasks.slcp import SLCP

__all__ = ["ContinuousSLCP"]

# The paper prints this length.
MAX_LENGTH = 3.0


class ContinuousSLCP(SLCP):
    r"""Infer the parameters of :class:`SLCP` under a departure of varying intensity.

    .. math:: x_{obs} = x_{sim} + z\, \delta_{max}\, v, \quad z \sim U(0, 1)

    with a fixed random unit vector :math:`v`. The log mentions z to two digits. What
    other tasks call the regime of a row is its intensity z here.

    Args:
        setting: What the context tells.
        shift_length: Length of the shift at z = 1.
    """

    name = "slcp_continuous"

    def __init__(
        self, *, setting: Setting = "informative", shift_length: float = MAX_LENGTH
    ) -> None:
        super().__init__(setting=setting)
        self.regimes = ()
        self.largest_shift = as_length(shift_length) * random_directions(1, self.dim_x)[0]

    def _draw_regimes(self, n: int, source: torch.Generator | None) -> Tensor:
        return torch.rand(n, generator=source)

    def _text(self, regime: float) -> str:
        return f"The regime intensity is approximately {regime:.2f}."

    def _shift(self, regime: Tensor) -> Tensor:
        return regime[:, None] * self.largest_shift

    def _as_regime(self, regime: Any, rows: int | None = None) -> Tensor:
        intensity = torch.as_tensor(regime, dtype=torch.float32, device="cpu")
        if intensity.ndim > 1 or not ((intensity >= 0) & (intensity <= 1)).all():
            raise ValueError(
                "regime must be one intensity between 0 and 1 per row, got "
                f"shape {tuple(intensity.shape)} with values from "
                f"{intensity.min():g} to {intensity.max():g}"
            )
        return per_row(intensity, rows)
