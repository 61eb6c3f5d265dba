"""How the posteriors of the experiments are trained: kinds of them, and worlds."""

from __future__ import annotations

import warnings
from collections.abc import Callable
from functools import partial
from pathlib import Path
from typing import Any, NamedTuple

import torch
from torch import Tensor
from torch.distributions import Distribution

from ma_sbi.networks import perceptron
from ma_sbi.posteriors import fit_ddpm, fit_flow, load_ddpm, load_flow
from ma_sbi.randomness import derive, seeded
from ma_sbi.saving import read
from ma_sbi_bench.engine.cell import Backbone
from ma_sbi_bench.tasks import TASKS, get_task
from ma_sbi_bench.tasks.fortnight import FortnightSimulator

__all__ = ["KINDS", "fit_backbone", "load_trained", "train"]


class _World(NamedTuple):
    prior: Distribution
    draw: Callable[[int, int], tuple[Tensor, Tensor]]


def _embedding_net(dim_x: int, dim_theta: int) -> torch.nn.Module:
    """Make a network to three summaries per parameter, as many as RoPE's authors take."""
    return perceptron(dim_x, 3 * dim_theta, layers=4, hidden=64)


def _fit_embedded(prior: Distribution, theta: Tensor, x: Tensor, **options: Any) -> Any:
    net = _embedding_net(x.shape[1], theta.shape[1])
    return _fit_maf(prior, theta, x, embedding_net=net, **options)


def _load_embedded(path: Path, prior: Distribution) -> Any:
    settings, _ = read(path, "flow")
    net = _embedding_net(settings["dim_x"], settings["dim_theta"])
    return load_flow(path, prior, embedding_net=net)


_fit_maf = partial(fit_flow, flow="maf", batch_size=1000)

KINDS: dict[str, tuple[Callable[..., Any], Callable[..., Any]]] = {
    "ddpm": (fit_ddpm, load_ddpm),
    "maf": (_fit_maf, load_flow),
    "embedded": (_fit_embedded, _load_embedded),
}
"""How each kind of posterior is trained, and read back."""


def fit_backbone(kind: str, **options: Any) -> Callable[..., Any]:
    """Return the function that trains a kind of posterior with these options."""
    if kind not in KINDS:
        raise ValueError(f"there is no posterior {kind!r}; known are {', '.join(KINDS)}")
    return partial(KINDS[kind][0], **options)


def train(backbone: Backbone) -> Any:
    """Train a posterior by its definition."""
    world = _world(backbone)
    theta, x = world.draw(backbone.num_simulations, backbone.seed)
    fit = fit_backbone(backbone.kind, **backbone.options)
    with warnings.catch_warnings():
        # A quick run stops early on purpose.
        warnings.filterwarnings("ignore", message="training stopped at max_epochs")
        return fit(world.prior, theta, x, seed=backbone.seed)


def load_trained(backbone: Backbone, file: Path) -> Any:
    """Read a posterior that was trained by this definition."""
    return KINDS[backbone.kind][1](file, _world(backbone).prior)


def _world(backbone: Backbone) -> _World:
    """Find the prior and the simulator that a posterior is trained on."""
    if backbone.world in TASKS:
        task = get_task(backbone.world, **backbone.world_options)

        def draw_task(num: int, seed: int) -> tuple[Tensor, Tensor]:
            draws = task.draw(num, seed=seed)
            return draws.theta, draws.x_sim

        return _World(task.prior, draw_task)
    if backbone.world != "fortnight":
        raise ValueError(f"there is no world {backbone.world!r} to train a posterior on")
    simulator = FortnightSimulator(**backbone.world_options)

    def draw_fortnight(num: int, seed: int) -> tuple[Tensor, Tensor]:
        with seeded(derive(seed, "prior")):
            theta = simulator.prior.sample((num,))
        return theta, simulator.simulate(theta, seed=seed)

    return _World(simulator.prior, draw_fortnight)
