"""How precisely a shift is found without pairs: by means, distributions or likelihood.

A cell is a method in a world at a number of observations. It holds many replicates, which
all methods share.
"""

from __future__ import annotations

import math
import warnings
from collections.abc import Callable, Iterator, Sequence
from dataclasses import replace
from typing import Any

import numpy as np
import pandas as pd
import torch
from torch import Tensor

from ma_sbi import HashEncoder, MatchingCorrector, fit_density
from ma_sbi.correctors import MatchingAssumption, ShiftLikelihood
from ma_sbi.randomness import derive
from ma_sbi_bench.engine.budget import Budget
from ma_sbi_bench.engine.cell import Backbone, Cell, Measurement
from ma_sbi_bench.engine.experiment import Experiment
from ma_sbi_bench.engine.models import Models
from ma_sbi_bench.paper.comparing import Compared, Line, estimate
from ma_sbi_bench.paper.words import named
from ma_sbi_bench.tasks import ShiftTask, get_task
from ma_sbi_bench.tasks.gaussian_mixture import GaussianMixture
from ma_sbi_bench.trials.tabulated import Tabulated

__all__ = ["BARS", "EXACT", "LEARNED", "WORLDS", "Unpaired", "lines", "ratio"]

MIXTURE = GaussianMixture.name
WORLDS = {
    "gaussian_linear": "Gaussian linear",
    "two_moons": "Two Moons",
    MIXTURE: "Two clusters",
    "slcp": "SLCP",
}
NUM_OBSERVED = (200, 800)
LEARNED, EXACT = "likelihood, learned density", "likelihood, exact density"
METHODS = ("mean", "mmd", LEARNED, EXACT)
# Its exact density takes milliseconds a row.
WITHOUT_EXACT = ("slcp",)
# With more observations each replicate takes a quarter of a minute.
MOST_FOR_MMD = 200

BARS: dict[str, tuple[str, float]] = {
    "gaussian_linear": (EXACT, 1.2),
    "two_moons": (EXACT, 1.2),
    MIXTURE: ("mean", 0.5),
}
"""What the learned density is compared with in each world, and the largest ratio."""
RATIO = "Mean squared error of the shift, learned density, and the bar"

# Two Moons has edges as narrow as 0.01. They take a flow of more parts and, above all, many
# simulations: a quarter of them leaves 1.7 times the divergence, also with three flows.
TRAINING: dict[str, dict[str, Any]] = {
    "two_moons": {"num_transforms": 4, "batch_size": 4096, "patience": 20}
}
NUM_SIMULATIONS = {"two_moons": 400_000}


class Unpaired(Experiment):
    """Matching of unpaired pools by every loss."""

    name, title, place, note = named("unpaired").values()

    def cells(self, budget: Budget) -> Sequence[Cell]:
        """List every loss in every world, with few and many observations."""
        return [
            self._cell(budget, world, num, method, seed)
            for seed in budget.seeds_of()
            for world in WORLDS
            for num in ((40,) if budget.quick else NUM_OBSERVED)
            for method in METHODS
            if not (method == EXACT and world in WITHOUT_EXACT)
            if not (method == "mmd" and num > MOST_FOR_MMD)
        ]

    def _cell(self, budget: Budget, world: str, num: int, method: str, seed: int) -> Cell:
        quick = {"replicates": 3, "simulations": 2_000, "spacing": 0.02}
        full = {
            "replicates": 100,
            "simulations": NUM_SIMULATIONS.get(world, 20_000),
            "spacing": 0.0025,
        }
        training = {"max_epochs": 5} if budget.quick else TRAINING.get(world, {})
        return self.cell(
            method,
            task=world,
            seed=seed,
            num_calibration=num,
            settings=(quick if budget.quick else full) | {"training": training},
        )

    def backbones(self, cell: Cell) -> Sequence[Backbone]:
        """Name the density that is learned, where the engine can train it."""
        if cell.method != LEARNED or cell.task == MIXTURE:
            return ()
        return (density_of(cell),)

    def cost(self, cell: Cell) -> float:
        """Guess seconds: by the number of observations, and mmd is slow."""
        return (cell.num_calibration or 0) * (3.0 if cell.method == "mmd" else 1.0)

    def run(self, cell: Cell, models: Models) -> Sequence[Measurement]:
        """Fit every replicate, and measure the error of the shifts of its regimes."""
        task = world_of(cell.task)
        pool = task.draw(cell.settings["simulations"], seed=cell.seed).x_sim
        loss, likelihood = cell.method, None
        if cell.method in (LEARNED, EXACT):
            loss, likelihood = "likelihood", _likelihood(cell, task, pool, models)
        matching: Any = MatchingCorrector(HashEncoder(), loss, likelihood)  # type: ignore[arg-type]
        known = torch.arange(len(task.regimes))
        errors = []
        for number in range(cell.settings["replicates"]):
            seed = replicate_seed(cell.seed, number)
            rows = task.draw(len(known) * (cell.num_calibration or 0), seed=seed)
            with warnings.catch_warnings():
                warnings.simplefilter("ignore", MatchingAssumption)
                matching.fit(rows.context, rows.x_obs, simulations=pool, seed=seed)
            error = matching.shift(task.contexts(known)) - task.shift(known)
            errors.append(error.square().sum(dim=1).mean().item())
        return [Measurement("squared_error", tuple(errors))]


def replicate_seed(seed: int, number: int) -> int:
    """Return the seed of a replicate, which no other table uses."""
    derived = derive(derive(seed, "unpaired"), f"replicate {number}")
    assert derived is not None  # noqa: S101 (it is None for None alone)
    return derived


def world_of(name: str) -> ShiftTask:
    """Make a world by its name."""
    task = GaussianMixture() if name == MIXTURE else get_task(name)
    assert isinstance(task, ShiftTask)  # noqa: S101 (all worlds here are)
    return task


def density_of(cell: Cell) -> Backbone:
    """Name the density of the pool of a cell."""
    num, options = cell.settings["simulations"], cell.settings["training"]
    return Backbone(cell.task, "density", cell.seed, num, options=options)


def exact_density(task: ShiftTask, pool: Tensor, spacing: float) -> Callable[..., Tensor]:
    """Return the exact log density of simulations, fast enough to be maximised."""
    if task.name != "two_moons":
        return task.log_evidence
    margin = 0.25
    ends = pool.amin(dim=0) - margin, pool.amax(dim=0) + margin
    return Tabulated(task.log_evidence, *ends, spacing)


def _likelihood(
    cell: Cell, task: ShiftTask, pool: Tensor, models: Models
) -> ShiftLikelihood:
    if cell.method == EXACT:
        exact = exact_density(task, pool, cell.settings["spacing"])
        known = ShiftLikelihood.of(exact, pool.double())
        # The exact density has no bias that would have to be removed.
        return replace(known, origin=torch.zeros_like(known.origin))
    if cell.task == MIXTURE:
        learned = fit_density(pool, seed=cell.seed, **cell.settings["training"])
    else:
        learned = models.posterior(density_of(cell))
    return ShiftLikelihood.of(learned, pool.double())


def ratio(errors: np.ndarray, others: np.ndarray) -> Compared:
    """Divide mean squared errors of the same replicates, with an interval.

    Args:
        errors: One for each replicate, shape ``(n,)``.
        others: Those of what they are compared with.
    """
    value = errors.mean() / others.mean()
    # To first order the ratio varies as this difference does.
    spread = (errors - value * others).std(ddof=1) / others.mean()
    half = 1.96 * spread / math.sqrt(len(errors))
    return Compared(value, value - half, value + half, better="lower")


Found = dict[tuple[str, int], dict[str, np.ndarray]]
"""Squared errors by world and number of observations, then by method."""


def lines(rows: pd.DataFrame) -> list[Line]:
    """Make a line for each bar, and one for each method in each world."""
    found: Found = {}
    for _, row in rows.sort_values("seed", kind="stable").iterrows():
        known = found.setdefault((row["task"], int(row["num_calibration"])), {})
        parts = [known[row["method"]]] if row["method"] in known else []
        known[row["method"]] = np.concatenate([*parts, row["values"]])
    return [*_bars(found), *_methods(found)]


def _bars(found: Found) -> Iterator[Line]:
    for (world, num), known in found.items():
        against, bar = BARS.get(world, ("", math.inf))
        if not {LEARNED, against} <= known.keys():
            continue
        value = ratio(known[LEARNED], known[against])
        labels: dict[str, str | int | float] = {
            "world": WORLDS[world],
            "observations": num,
            "compared with": against,
            "at most": bar,
        }
        note = "reached" if value.value <= bar else "missed"
        yield Line(RATIO, labels, value, metric="ratio", note=note)


def _methods(found: Found) -> Iterator[Line]:
    for (world, num), known in found.items():
        for method, errors in known.items():
            labels: dict[str, str | int | float] = {"observations": num, "method": method}
            for other in (EXACT, "mean"):
                if other in known:
                    labels[f"ratio to {other}"] = _written(ratio(errors, known[other]))
            value = estimate(num * errors, better="lower")
            yield Line(WORLDS[world], labels, value, metric="observations x squared error")


def _written(value: Compared) -> str:
    return f"{value.value:.2f} ± {(value.high - value.low) / 2:.2f}"
