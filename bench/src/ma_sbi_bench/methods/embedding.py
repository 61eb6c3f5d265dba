"""The embedding of x in a posterior, and a second one for real observations."""

from __future__ import annotations

import copy
from typing import Any

import torch
from torch import Tensor, nn
from tqdm.auto import tqdm

from ma_sbi.networks import Standardise, perceptron
from ma_sbi.randomness import derive, seeded
from ma_sbi.validation import as_count
from ma_sbi_bench.methods.materials import Materials
from ma_sbi_bench.methods.training import BestSoFar

__all__ = [
    "device_of",
    "embedding_of",
    "fine_tune",
    "simulated_embedding",
    "trainable_copy",
]


def embedding_of(
    materials: Materials, given: nn.Module | None = None, *, seed: int | None = None
) -> nn.Module:
    """Return h, the embedding through which the trained posterior sees x.

    That of a flow, ours or sbi's: standardisation, then the user's embedding net. For
    any other posterior, standardisation by the moments of simulations.

    Args:
        materials: With a posterior and a simulator, or simulations.
        given: The h to take instead; it is copied.
        seed: For the simulations, if they have to be drawn.

    Returns:
        A module from ``(n, dim_x)`` to ``(n, dim)``, without gradients of its own.
    """
    if given is not None:
        return _freeze(copy.deepcopy(given).to(device=device_of(materials)))
    posterior: Any = materials.take("posterior")
    estimator: Any = getattr(posterior, "estimator", None)
    wrapped = getattr(posterior, "posterior", None)  # by from_sbi
    estimator = getattr(wrapped, "posterior_estimator", estimator)
    network = getattr(estimator, "embedding_net", None)
    if isinstance(network, nn.Module):
        network = copy.deepcopy(network)
        if len(estimator.condition_shape) > 1:
            network = nn.Sequential(nn.Unflatten(1, estimator.condition_shape), network)
    else:
        known = materials.simulations
        x = (known or materials.draw_prior(2_000, seed=derive(seed, "moments"))).x
        network = Standardise.of(x)
        network.to(device=device_of(materials))
    return _freeze(nn.Sequential(network, nn.Flatten()))


def device_of(materials: Materials) -> torch.device | None:
    """Return the device of the posterior, if it has one."""
    return getattr(materials.take("posterior"), "device", None)


def simulated_embedding(
    embedding: nn.Module,
    materials: Materials,
    *,
    num_simulations: int = 1,
    seed: int | None = None,
) -> Tensor:
    r"""Average :math:`h(S(\theta^*, \epsilon))` over simulations at the calibration theta.

    Args:
        embedding: h.
        materials: With a simulator and theta*.
        num_simulations: Simulations per theta; RoPE's authors use one.
        seed: Makes the simulations repeatable.

    Returns:
        Where real observations should be embedded, shape ``(n, dim)``.
    """
    num_simulations = as_count(num_simulations, "num_simulations")
    theta = materials.take("theta*").repeat(num_simulations, 1)
    x = materials.simulate(theta, seed=seed).to(device=device_of(materials))
    with torch.no_grad():
        return embedding(x).unflatten(0, (num_simulations, -1)).mean(dim=0)


def trainable_copy(
    embedding: nn.Module, x: Tensor, *, hidden: int = 64, seed: int | None = None
) -> nn.Module:
    """Return g, which equals h as long as it is not trained.

    A copy if h has parameters. A standardisation has none; then g is h plus a perceptron
    whose last layer starts at zero.

    Args:
        embedding: h.
        x: An observation or more, from which widths are taken, shape ``(n, dim_x)``.
        hidden: Width of the perceptron, if there is one.
        seed: For its first weights.
    """
    trainable = copy.deepcopy(embedding)
    if next(trainable.parameters(), None) is None:
        with seeded(seed, x.device):
            trainable = _Residual(trainable, trainable(x[:1]).shape[1], hidden).to(x.device)
    # Still in evaluation mode: dropout and batch norm of h stay as the posterior has them.
    return trainable.requires_grad_(requires_grad=True).eval()


def fine_tune(
    embedding: nn.Module,
    x: Tensor,
    target: Tensor,
    *,
    squared: bool = False,
    learning_rate: float = 1e-3,
    num_steps: int = 2_000,
    patience: int = 200,
    seed: int | None = None,
    show_progress: bool = False,
) -> nn.Module:
    r"""Train g so that real observations are embedded where simulations at their theta are.

    .. math:: \min_g \sum_c \| g(x_c) - \mathrm{E}_\epsilon\, h(S(\theta_c, \epsilon)) \|_2

    Adam on all pairs at once. A fifth of them is held out, and the g that did best on
    them is kept; that may be the one it started with.

    Args:
        embedding: g before training, from :func:`trainable_copy`; not changed.
        x: Calibration observations, shape ``(n, dim_x)``.
        target: Where they should be embedded, shape ``(n, dim)``.
        squared: Whether to minimise the squared norm instead of the norm.
        learning_rate: Step size.
        num_steps: Most steps.
        patience: Steps without improvement on the held-out pairs before it stops.
        seed: Decides which pairs are held out.
        show_progress: Whether to show a progress bar.

    Raises:
        ValueError: If there are fewer than five pairs.
    """
    if len(x) < 5:
        raise ValueError(f"fine-tuning needs at least 5 calibration pairs, got {len(x)}")
    with seeded(seed, x.device):
        held_out, kept = torch.randperm(len(x), device=x.device).tensor_split([len(x) // 5])

    def loss(rows: Tensor) -> Tensor:
        distance = (trained(x[rows]) - target[rows]).norm(dim=1)
        return (distance.square() if squared else distance).mean()

    trained = copy.deepcopy(embedding)
    optimiser = torch.optim.Adam(trained.parameters(), lr=learning_rate, fused=True)
    best = BestSoFar(trained)
    steps = range(as_count(num_steps, "num_steps"))
    for _ in tqdm(steps, "Fine-tuning", disable=not show_progress):
        with torch.no_grad():
            best.update(loss(held_out).item())
        if best.since > patience:
            break
        optimiser.zero_grad()
        loss(kept).backward()
        optimiser.step()
    best.restore()
    return _freeze(trained)


class _Residual(nn.Module):
    """An embedding plus a perceptron of it that starts at zero."""

    def __init__(self, embedding: nn.Module, dim: int, hidden: int) -> None:
        super().__init__()
        self.embedding = embedding
        self.layers = perceptron(dim, dim, layers=3, hidden=hidden)
        for parameter in self.layers[-1].parameters():
            nn.init.zeros_(parameter)

    def forward(self, x: Tensor) -> Tensor:
        embedded = self.embedding(x)
        return embedded + self.layers(embedded)


def _freeze(network: nn.Module) -> nn.Module:
    return network.eval().requires_grad_(requires_grad=False)
