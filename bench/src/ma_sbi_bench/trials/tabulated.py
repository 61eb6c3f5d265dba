"""A density of two columns that is slow to evaluate, from a table of it."""

from __future__ import annotations

from collections.abc import Callable

import numpy as np
import torch
from scipy.interpolate import RectBivariateSpline
from torch import Tensor

__all__ = ["Tabulated"]

# Nats below the highest log density beyond which it does not matter.
LOWEST = 60.0


class Tabulated:
    """Cubic splines through the log density on a grid.

    Args:
        log_density: Log density, ``(n, 2) -> (n,)``.
        lower: Lower ends of the grid, shape ``(2,)``.
        upper: Upper ends; points beyond an end count as at the end.
        spacing: Of the grid.
    """

    def __init__(
        self,
        log_density: Callable[[Tensor], Tensor],
        lower: Tensor,
        upper: Tensor,
        spacing: float,
    ) -> None:
        first, second = (
            np.arange(low, high + spacing, spacing)
            for low, high in zip(lower.tolist(), upper.tolist(), strict=True)
        )
        nodes = torch.cartesian_prod(torch.from_numpy(first), torch.from_numpy(second))
        values = log_density(nodes).double().reshape(len(first), len(second)).numpy()
        values = np.fmax(values, np.nanmax(values) - LOWEST)
        self.spline = RectBivariateSpline(first, second, values)

    def __call__(self, x: Tensor) -> Tensor:
        """Evaluate rows of x."""
        return torch.from_numpy(self.spline.ev(*x.double().numpy().T)).to(x)

    def log_prob_and_gradient(self, x: Tensor) -> tuple[Tensor, Tensor]:
        """Evaluate rows of x, with the gradient."""
        first, second = x.double().numpy().T
        gradient = [self.spline.ev(first, second, dx=i, dy=1 - i) for i in (1, 0)]
        return self(x), torch.from_numpy(np.stack(gradient, axis=1)).to(x)
