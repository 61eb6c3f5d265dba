"""Training a posterior inside a method: which backbone, and the context as numbers."""

from __future__ import annotations

import copy
from collections.abc import Callable
from functools import partial
from typing import Literal

import torch
from sklearn.base import clone
from torch import Tensor, nn
from torch.distributions import Distribution

from ma_sbi.context import Entries, distinct
from ma_sbi.correctors.composed import encode
from ma_sbi.encoders import HashEncoder
from ma_sbi.posteriors import fit_ddpm, fit_flow
from ma_sbi.protocols import AmortizedPosterior, Encoder

__all__ = ["BACKBONES", "Backbone", "BestSoFar", "ContextCode", "find_backbone", "train"]

Backbone = Literal["nsf", "maf", "ddpm"] | Callable[..., AmortizedPosterior]
"""How a method trains a posterior: a name, or ``fit(prior, theta, x, seed=seed)``."""

BACKBONES: dict[str, Callable[..., AmortizedPosterior]] = {
    "nsf": partial(fit_flow, flow="nsf"),
    "maf": partial(fit_flow, flow="maf"),
    "ddpm": fit_ddpm,
}


def train(
    backbone: Backbone,
    prior: Distribution,
    theta: Tensor,
    x: Tensor,
    *,
    seed: int | None = None,
) -> AmortizedPosterior:
    """Train the backbone on parameters and what they gave.

    Raises:
        ValueError: If there is no backbone of that name.
    """
    return find_backbone(backbone)(prior, theta, x, seed=seed)


def find_backbone(backbone: Backbone) -> Callable[..., AmortizedPosterior]:
    """Return the function that trains a backbone.

    Raises:
        ValueError: If there is none of that name.
    """
    if callable(backbone):
        return backbone
    if backbone not in BACKBONES:
        raise ValueError(
            f"backbone must be one of {', '.join(BACKBONES)}, or a function like "
            f"fit_flow, got {backbone!r}"
        )
    return BACKBONES[backbone]


class BestSoFar:
    """The weights of a network when its loss on held-out rows was lowest.

    Args:
        network: What is trained.

    Attributes:
        since: Updates since the lowest loss.
    """

    def __init__(self, network: nn.Module) -> None:
        self.network = network
        self.loss = float("inf")
        self.since = 0
        self.state = copy.deepcopy(network.state_dict())

    def update(self, loss: float) -> None:
        """Compare the network's loss as it is now."""
        self.since += 1
        if loss < self.loss:
            self.loss, self.since = loss, 0
            self.state = copy.deepcopy(self.network.state_dict())

    def restore(self) -> None:
        """Give the network its best weights back."""
        self.network.load_state_dict(self.state)


class ContextCode:
    """A fitted encoder that maps a missing context to zero.

    Args:
        encoder: Context to vectors; the paper's hashed text if None.
        context: Contexts to fit it on.
    """

    def __init__(self, encoder: Encoder | None, context: Entries) -> None:
        self.encoder: Encoder = clone(encoder or HashEncoder()).fit(context)
        # Buckets that no context falls into would only be noise for a network.
        self.used = self._encode(context).any(dim=0).nonzero().flatten()
        self.dim = len(self.used)
        if self.dim == 0:
            raise ValueError("the context is empty: every entry is missing")

    def __call__(self, context: Entries) -> Tensor:
        """Encode, shape ``(n, dim)``, float32."""
        return self._encode(context)[:, self.used]

    def _encode(self, context: Entries) -> Tensor:
        uniques, codes = distinct(context)
        encoding = encode(self.encoder, uniques).nan_to_num().float()
        return encoding[torch.as_tensor(codes)]

    def beside(self, x: Tensor, context: Entries | None = None) -> Tensor:
        """Put the code beside x; shape ``(n, dim_x + dim)``. Without context it is zero."""
        silence = x.new_zeros(len(x), self.dim)
        code = silence if context is None else self(context).to(x)
        return torch.cat([x, code], dim=1)
