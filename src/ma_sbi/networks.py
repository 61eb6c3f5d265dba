"""The one network shape that the paper uses."""

from __future__ import annotations

from torch import nn

__all__ = ["perceptron"]


def perceptron(dim_in: int, dim_out: int, *, layers: int, hidden: int) -> nn.Sequential:
    """Build a multilayer perceptron with GELU between its linear layers."""
    widths = [dim_in, *[hidden] * (layers - 1), dim_out]
    modules: list[nn.Module] = []
    for width_in, width_out in zip(widths, widths[1:], strict=False):
        modules += [nn.Linear(width_in, width_out), nn.GELU()]
    return nn.Sequential(*modules[:-1])
