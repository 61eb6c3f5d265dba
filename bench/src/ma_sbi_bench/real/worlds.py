"""Posteriors that experiments on real data share, so that each is trained once.

A cell keeps the definition of its posterior in its settings (:func:`as_setting`), since
everything that decides its numbers stands there.
"""

from __future__ import annotations

from dataclasses import asdict
from typing import Any

from ma_sbi_bench.engine.budget import Budget
from ma_sbi_bench.engine.cell import Backbone, Cell
from ma_sbi_bench.real.source import tidy_file

__all__ = [
    "COVID_FILE",
    "EVANS_HAWKINS_FOLDER",
    "KNOWN_DISPERSION",
    "NUM_TRIALS",
    "RESPONSE_TIMES_FILE",
    "as_setting",
    "backbone_of",
    "fortnight_backbone",
    "missing_file",
    "trials_backbone",
]

COVID_FILE = "covid/daily.csv.gz"
RESPONSE_TIMES_FILE = "rt/rt_trials.csv.gz"
EVANS_HAWKINS_FOLDER = "rt/evans_hawkins"

KNOWN_DISPERSION = 10.0
"""Dispersion of daily counts where the simulator is told it."""

NUM_TRIALS = 100
"""Trials of a subject under a regime that the posterior sees."""

TRAINING = {"num_transforms": 5, "learning_rate": 1e-3}
NUM_QUICK = 2_000
QUICK_EPOCHS = 30


def fortnight_backbone(
    budget: Budget, seed: int, *, known_dispersion: bool = False
) -> Backbone:
    """Define the posterior of a fortnight of daily counts."""
    world = {"dispersion": KNOWN_DISPERSION} if known_dispersion else {}
    return _backbone(budget, "fortnight", seed, 100_000, world)


def trials_backbone(budget: Budget, seed: int) -> Backbone:
    """Define the posterior of the response times of a subject under a regime."""
    return _backbone(budget, "ddm", seed, 50_000, {"num_trials": NUM_TRIALS})


def as_setting(backbone: Backbone) -> dict[str, Any]:
    """Write a definition as a cell's setting ``"posterior"`` holds it."""
    return asdict(backbone)


def backbone_of(cell: Cell) -> Backbone:
    """Read the definition of a posterior from a cell's settings."""
    return Backbone(**cell.settings["posterior"])


def missing_file(name: str) -> str:
    """Say why a file of real data is not at hand; empty if it is there."""
    try:
        tidy_file(name)
    except FileNotFoundError as error:
        return str(error)
    return ""


def _backbone(
    budget: Budget, world: str, seed: int, num_simulations: int, options: dict[str, Any]
) -> Backbone:
    training = TRAINING | ({"max_epochs": QUICK_EPOCHS} if budget.quick else {})
    number = NUM_QUICK if budget.quick else num_simulations
    return Backbone(world, "maf", seed, number, options, training)
