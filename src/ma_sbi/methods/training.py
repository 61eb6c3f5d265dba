"""Training a posterior inside a method: which backbone, and the context as numbers."""

from __future__ import annotations

from collections.abc import Callable
from functools import partial
from typing import Any, Literal

import torch
from sklearn.base import clone
from torch import Tensor
from torch.distributions import Distribution

from ma_sbi.backbones import fit_ddpm, fit_flow
from ma_sbi.context import Entries, distinct
from ma_sbi.correctors.composed import encode
from ma_sbi.encoders import HashEncoder
from ma_sbi.protocols import AmortizedPosterior, Encoder

__all__ = ["BACKBONES", "Backbone", "ContextCode", "train"]

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
    **options: Any,
) -> AmortizedPosterior:
    """Train the backbone on parameters and what they gave.

    Raises:
        ValueError: If there is no backbone of that name.
    """
    if isinstance(backbone, str):
        if backbone not in BACKBONES:
            raise ValueError(
                f"backbone must be one of {', '.join(BACKBONES)}, or a function like "
                f"fit_flow, got {backbone!r}"
            )
        backbone = BACKBONES[backbone]
    return backbone(prior, theta, x, seed=seed, **options)


class ContextCode:
    """A fitted encoder whose silent rows are zero: no context, no code.

    Args:
        encoder: Context to vectors; the paper's hashed text if None.
        context: Contexts to fit it on.
    """

    def __init__(self, encoder: Encoder | None, context: Entries) -> None:
        self.encoder: Encoder = clone(encoder or HashEncoder()).fit(context)
        self.dim = self(context.iloc[:1]).shape[1]

    def __call__(self, context: Entries) -> Tensor:
        """Encode, shape ``(n, dim)``, float32."""
        uniques, codes = distinct(context)
        encoding = encode(self.encoder, uniques).nan_to_num().float()
        return encoding[torch.as_tensor(codes)]
