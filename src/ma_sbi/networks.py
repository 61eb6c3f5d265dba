"""Building blocks of several networks."""

from __future__ import annotations

from torch import Tensor, nn
from typing_extensions import Self

from ma_sbi.scaling import column_scale

__all__ = ["Standardise", "perceptron"]


def perceptron(dim_in: int, dim_out: int, *, layers: int, hidden: int) -> nn.Sequential:
    """Build a multilayer perceptron with GELU between its linear layers."""
    widths = [dim_in, *[hidden] * (layers - 1), dim_out]
    modules: list[nn.Module] = []
    for width_in, width_out in zip(widths, widths[1:], strict=False):
        modules += [nn.Linear(width_in, width_out), nn.GELU()]
    return nn.Sequential(*modules[:-1])


class Standardise(nn.Module):
    """Subtract the mean and divide by the standard deviation, column by column.

    Args:
        mean: Shape ``(dim,)``.
        scale: Standard deviations, shape ``(dim,)``.
    """

    mean: Tensor
    scale: Tensor

    def __init__(self, mean: Tensor, scale: Tensor) -> None:
        super().__init__()
        self.register_buffer("mean", mean)
        self.register_buffer("scale", scale)

    @classmethod
    def of(cls, values: Tensor) -> Self:
        """Take mean and scale of values, shape ``(n, dim)``."""
        return cls(values.mean(dim=0), column_scale(values))

    def forward(self, values: Tensor) -> Tensor:
        """Standardise values, shape ``(..., dim)``."""
        return (values - self.mean.to(values)) / self.scale.to(values)

    def invert(self, values: Tensor) -> Tensor:
        """Undo the standardisation."""
        return values * self.scale.to(values) + self.mean.to(values)
