"""Fitting with the paper's network and optimiser."""

from __future__ import annotations

from dataclasses import dataclass
from typing import ClassVar, Literal

import torch
from torch import Tensor, nn
from torch.nn.functional import gelu, linear

from ma_sbi.correctors.fitting import Hypotheses, Triples
from ma_sbi.networks import perceptron
from ma_sbi.randomness import seeded
from ma_sbi.storing.forms import stored

__all__ = ["Network", "NetworkFit"]


@stored()
@dataclass(frozen=True)
class Network:
    """A multilayer perceptron trained with Adam: the recipe ``"paper"``.

    The defaults are those of the paper's appendix. At n_cal = 100 they make 30 optimiser
    steps, which is far from convergence.

    Attributes:
        layers: Number of linear layers.
        hidden: Width of the layers between.
        learning_rate: Step size of Adam.
        batch_size: Rows per step.
        epochs: Passes through the triples.
        weight_decay: Weight decay of Adam.
    """

    paired: ClassVar[Literal[True]] = True

    layers: int = 3
    hidden: int = 128
    learning_rate: float = 1e-3
    batch_size: int = 256
    epochs: int = 30
    weight_decay: float = 0.0

    def __post_init__(self) -> None:
        for name in ("layers", "hidden", "batch_size", "epochs"):
            if getattr(self, name) < 1:
                raise ValueError(f"{name} must be at least 1, got {getattr(self, name)}")

    def fit(self, triples: Triples, *, seed: int | None = None) -> NetworkFit:
        """Train the network."""
        device = triples.delta.device
        encoding = triples.encoding.nan_to_num().float()
        basis, delta = triples.basis.float(), triples.delta.float()
        shape = (basis.shape[1], delta.shape[1])
        with torch.enable_grad(), seeded(seed, device):
            network = perceptron(
                encoding.shape[1],
                shape[0] * shape[1],
                layers=self.layers,
                hidden=self.hidden,
            ).to(device)
            optimiser = torch.optim.Adam(
                network.parameters(),
                lr=self.learning_rate,
                weight_decay=self.weight_decay,
            )
            for _ in range(self.epochs):
                order = torch.randperm(len(triples), device=device)
                for rows in order.split(self.batch_size):
                    coefficients = network(encoding[triples.codes[rows]])
                    predicted = torch.einsum(
                        "nq,nqd->nd", basis[rows], coefficients.unflatten(1, shape)
                    )
                    loss = (delta[rows] - predicted).square().sum(dim=1).mean()
                    optimiser.zero_grad()
                    loss.backward()
                    optimiser.step()
        layers = [layer for layer in network if isinstance(layer, nn.Linear)]
        return NetworkFit(
            tuple(layer.weight.detach() for layer in layers),
            tuple(layer.bias.detach() for layer in layers),
            shape,
        )


@stored()
@dataclass(frozen=True)
class NetworkFit:
    """What :class:`Network` fitted.

    Attributes:
        weights: Of each layer.
        biases: Of each layer.
        shape: Of the coefficients, ``(num_basis, dim_x)``.
    """

    weights: tuple[Tensor, ...]
    biases: tuple[Tensor, ...]
    shape: tuple[int, int]

    def __call__(self, encoding: Tensor) -> Hypotheses:
        """Map contexts ``(n, dim_z)`` to one hypothesis each."""
        found = encoding.nan_to_num().to(self.weights[0])
        for place, (weight, bias) in enumerate(zip(self.weights, self.biases, strict=True)):
            found = linear(found if place == 0 else gelu(found), weight, bias)
        return Hypotheses.single(found.unflatten(1, self.shape))
