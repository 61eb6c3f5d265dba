"""Inference: how candidate corrections of an observation are weighted."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass
from typing import Protocol

import torch
from torch import Tensor

from ma_sbi.nan import no_density, tell
from ma_sbi.protocols import Corrections
from ma_sbi.storing.forms import stored

__all__ = ["Evidence", "Inference", "Mixture", "Point", "weigh_by_evidence"]

# Weight of candidates without a density that is worth a warning.
LEAST_LOST = 0.05


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
        return weigh_by_evidence(candidates, self.log_density)


def weigh_by_evidence(
    candidates: Corrections,
    log_density: Callable[[Tensor], Tensor],
    among: Tensor | None = None,
) -> Corrections:
    """Weigh candidates by how well they explain the observation.

    Where no candidate has a density, the context alone decides.

    Args:
        candidates: K candidates for each observation.
        log_density: Log density of the simulations, ``(n, dim_x) -> (n,)``. A candidate at
            which it is no number is given none.
        among: Candidates that are weighed, shape ``(K,)``; all of them together keep their
            share. All if None.

    Raises:
        ValueError: If the density does not give a number for each candidate.
    """
    x, prior, log_abs_det, _ = candidates
    possible = prior > -torch.inf
    if among is not None:
        possible = possible & among[:, None]
    if not possible.any():
        return candidates
    density = torch.full_like(prior, -torch.inf)
    density[possible] = _evaluate(log_density, x[possible]).to(prior)
    failed = no_density(density[None].flatten(1)).unflatten(0, prior.shape)
    lost = (failed * prior.exp()).sum(dim=0) > LEAST_LOST
    tell(lost, "log densities", of="the density")
    evidence = prior + density.masked_fill(failed, -torch.inf) + log_abs_det
    share = prior.masked_fill(~possible, -torch.inf).logsumexp(dim=0)
    total = evidence.logsumexp(dim=0)
    updated = torch.where(possible, evidence - total + share, prior)
    return candidates._replace(log_weight=torch.where(total.isfinite(), updated, prior))


def _evaluate(log_density: Callable[[Tensor], Tensor], x: Tensor) -> Tensor:
    found = log_density(x)
    if not isinstance(found, Tensor) or found.shape != x.shape[:1]:
        raise ValueError(
            f"the density must give a tensor with one number for each of {len(x)} "
            f"candidates, got a {type(found).__name__} of shape "
            f"{tuple(getattr(found, 'shape', ()))}"
        )
    return found
