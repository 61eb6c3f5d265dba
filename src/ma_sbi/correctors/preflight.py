"""Whether departures vary too much within a regime for a point corrector."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Literal

import torch
from torch import Tensor

__all__ = ["OUTLYING", "ROUNDING", "Preflight"]

ROUNDING = 1e-5
"""Residuals smaller than this share of the largest are rounding, not departures."""
OUTLYING = 3.0
"""The paper's pre-flight signal."""


@dataclass(frozen=True)
class Preflight:
    """Whether departures vary too much within a regime for a point corrector.

    Attributes:
        ratio: Length of each residual over the median length of its regime, shape ``(n,)``;
            contexts that occur once are left out.
        share: Share of residuals with a ratio above three, the paper's signal.
        within: Share of the residuals' variance that lies within regimes.
        recommendation: ``"stochastic"`` if any residual gives the signal, else ``"point"``.
    """

    ratio: Tensor
    share: float
    within: float
    recommendation: Literal["point", "stochastic"]

    @classmethod
    def of(cls, residuals: Tensor, codes: Tensor) -> Preflight:
        """Compare residuals ``(n, dim_x)`` within regimes ``codes``, shape ``(n,)``."""
        if codes.bincount().max() < 2:
            raise ValueError(
                "preflight compares residuals within a regime, and no two observations "
                "share a context; fit to regimes (labels), or see in width_ how far "
                "similar contexts share residuals"
            )
        repeated = codes.bincount()[codes] > 1
        residuals, codes = residuals[repeated], codes[repeated]
        length = residuals.norm(dim=1)
        length = torch.where(length > ROUNDING * length.max(), length, 0.0)
        ratio = torch.ones_like(length)
        inside = torch.zeros_like(residuals)
        for code in codes.unique():
            rows = codes == code
            ratio[rows] = length[rows] / length[rows].quantile(0.5)
            inside[rows] = residuals[rows] - residuals[rows].mean(dim=0)
        ratio = ratio.nan_to_num(nan=1.0, posinf=torch.inf)
        total = (residuals - residuals.mean(dim=0)).square().sum()
        within = (inside.square().sum() / total).item() if total > 0 else 0.0
        share = (ratio > OUTLYING).double().mean().item()
        return cls(ratio, share, within, "stochastic" if share > 0 else "point")

    def __str__(self) -> str:
        return (
            f"{self.recommendation}: {self.share:.1%} of {len(self.ratio)} residuals are "
            f"more than {OUTLYING:g} times as long as their regime's median (largest "
            f"{self.ratio.max():.1f}); {self.within:.0%} of their variance lies within "
            "regimes"
        )
