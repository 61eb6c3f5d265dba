"""Inference: how candidate corrections of an observation are weighted."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass
from typing import Protocol

import torch
from torch import Tensor

from ma_sbi.protocols import Corrections
from ma_sbi.storing.forms import stored

__all__ = ["Evidence", "Inference", "Mixture", "Point"]


class Inference(Protocol):
    """Weights the candidates that the context suggests."""

    def __call__(self, candidates: Corrections) -> Corrections:
        """Weight the candidates of each observation."""
        ...


@stored()
@dataclass(frozen=True)
class Point:
    """Use only the most probable candidate; K = 1."""

    def __call__(self, candidates: Corrections) -> Corrections:
        """Keep one candidate."""
        best = candidates.log_weight.argmax(dim=0)
        rows = torch.arange(len(best), device=best.device)
        return Corrections.certain(
            candidates.x[best, rows], candidates.log_abs_det[best, rows]
        )


@stored()
@dataclass(frozen=True)
class Mixture:
    """Use all candidates with the weights that the context gives."""

    def __call__(self, candidates: Corrections) -> Corrections:
        """Keep the candidates as they are."""
        return candidates


@stored()
@dataclass(frozen=True)
class Evidence:
    r"""Weight the candidates also by how well they explain the observation.

    .. math:: w_k(x, z) \propto w_k(z)\, p_{sim}(x_k)\, |\partial x_k / \partial x|

    Attributes:
        log_density: Log density of the simulations, ``(n, dim_x) -> (n,)``.
    """

    log_density: Callable[[Tensor], Tensor]

    def __call__(self, candidates: Corrections) -> Corrections:
        """Update the weights."""
        density = self.log_density(candidates.x.flatten(0, 1))
        density = density.unflatten(0, candidates.log_weight.shape)
        weight = candidates.log_weight + density + candidates.log_abs_det
        return candidates._replace(log_weight=weight.log_softmax(dim=0))
