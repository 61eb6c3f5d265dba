"""Posteriors that experiments on real data share, so that each is trained once.

A cell keeps the definition of its posterior in its settings, since they hold everything
that decides its numbers.
"""

from __future__ import annotations

from typing import Any, Protocol

from torch import Tensor
from torch.distributions import Distribution

from ma_sbi.predictive import predictive_mean
from ma_sbi.protocols import AmortizedPosterior
from ma_sbi.randomness import derive
from ma_sbi_bench.engine.budget import Budget
from ma_sbi_bench.engine.cell import Backbone, Cell

__all__ = ["Simulator", "backbone_of", "flow_backbone", "predict"]

TRAINING = {"num_transforms": 5, "learning_rate": 1e-3}
NUM_QUICK = 2_000
QUICK_EPOCHS = 30


class Simulator(Protocol):
    """What data are explained by."""

    @property
    def prior(self) -> Distribution:
        """Distribution of the parameters."""

    def simulate(self, theta: Any, *, seed: int | None = None) -> Tensor:
        """Simulate summaries, shape ``(n, dim_x)``."""


def flow_backbone(
    budget: Budget, world: str, seed: int, num_simulations: int, options: dict[str, Any]
) -> Backbone:
    """Define the flow that is the posterior of a simulator with some options."""
    training = TRAINING | ({"max_epochs": QUICK_EPOCHS} if budget.quick else {})
    number = NUM_QUICK if budget.quick else num_simulations
    return Backbone(world, "maf", seed, number, options, training)


def backbone_of(cell: Cell) -> Backbone:
    """Read the definition of a posterior from a cell's settings."""
    return Backbone(**cell.settings["posterior"])


def predict(
    posterior: AmortizedPosterior, simulator: Simulator, x: Tensor, seed: int
) -> Tensor:
    """Average simulations from the posterior of each observation, ``(n, dim_x)``."""
    own = derive(seed, "predict")
    return predictive_mean(
        posterior, lambda theta: simulator.simulate(theta, seed=own), x, seed=own
    )
