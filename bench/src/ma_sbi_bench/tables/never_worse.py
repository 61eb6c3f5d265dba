"""Whether the default is ever worse than no correction, or than simpler ones.

A cell is a method in a world under a condition. It holds several calibration sets, each
with test rows of its own, which all methods share.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator, Sequence
from dataclasses import replace
from functools import partial
from typing import Any

import torch
from torch import Tensor

from ma_sbi import BootstrapCorrector, HashEncoder, from_callable
from ma_sbi.metrics import log_score
from ma_sbi.protocols import AmortizedPosterior
from ma_sbi.randomness import derive
from ma_sbi_bench.engine.budget import Budget
from ma_sbi_bench.engine.cell import Backbone, Cell, Measurement
from ma_sbi_bench.engine.experiment import Experiment
from ma_sbi_bench.engine.models import Models
from ma_sbi_bench.methods import (
    MASBI,
    NPE,
    Calibration,
    DefaultMASBI,
    Materials,
    Method,
    Oracle,
)
from ma_sbi_bench.paper.words import named
from ma_sbi_bench.tasks import Task, get_task
from ma_sbi_bench.trials.conditions import CONDITIONS, Condition, draw_world
from ma_sbi_bench.trials.run import SIMULATORS, backbone_of, density_of, exact_log_score
from ma_sbi_bench.trials.world import World

__all__ = ["DEFAULT", "LEVELS", "WITHOUT_DENSITY", "WORLDS", "NeverWorse", "coverage"]

WORLDS = (
    "gaussian_linear",
    "slcp",
    "two_moons",
    "sir_delay",
    "ddm",
    "ddm_trials",
    "slcp_continuous",
)
DEFAULT = "ma_sbi_default"
WITHOUT_DENSITY = "ma_sbi_default, no density"
METHODS: dict[str, Callable[[], Method]] = {
    "npe": NPE,
    "ma_sbi": MASBI,
    "stochastic": partial(MASBI, BootstrapCorrector(HashEncoder())),
    DEFAULT: DefaultMASBI,
    WITHOUT_DENSITY: partial(DefaultMASBI, density=None),
    "oracle": Oracle,
}
"""Methods that correct the world's posterior."""
# In place of a backbone: the posterior and the density of simulations are known.
EXACT_PARTS = "exact parts"
EXACT_WORLDS = ("gaussian_linear",)
# Bayes' rule takes seconds a row in the other worlds, for every regime that is possible.
FAST_EXACT = ("gaussian_linear", "two_moons")
EXACT_IF_CERTAIN = ("slcp", "sir_delay")

LEVELS = (0.5, 0.8, 0.9, 0.95)
"""Levels of the central intervals whose coverage is measured."""
MOST_SIMULATIONS = 20_000
# A quick run has the condition with the fastest fits.
QUICK_CONDITIONS = ("20 triples",)
# Candidates of so many rows are scored together, to bound the memory: on SIR each candidate
# of a row may be a matrix of 154 x 154.
ROWS_AT_ONCE = 20
# What a triple costs in a cell of the default, where it is more than a second.
SECONDS_PER_TRIPLE = {"sir_delay": 3.0, "ddm_trials": 2.0}


class NeverWorse(Experiment):
    """The default beside NPE, point and stochastic corrections, in many conditions."""

    name, title, place, note = named("never_worse").values()

    def cells(self, budget: Budget) -> Sequence[Cell]:
        """List every method in every world and condition that it has a meaning in."""
        return [
            self._cell(budget, world, condition, method, seed)
            for seed in budget.seeds_of()
            for world in WORLDS
            for condition in (QUICK_CONDITIONS if budget.quick else CONDITIONS)
            for method in (*METHODS, "nnpe", "exact")
            if _has_meaning(world, CONDITIONS[condition], method)
        ]

    def _cell(
        self, budget: Budget, world: str, condition: str, method: str, seed: int
    ) -> Cell:
        sizes = {"sets": 10, "rows": 400, "covered": 100, "draws": 200}
        if budget.quick:
            sizes = {"sets": 2, "rows": 20, "covered": 10, "draws": 50}
        what = CONDITIONS[condition]
        return self.cell(
            method,
            task=world,
            backbone=EXACT_PARTS if world in EXACT_WORLDS else "maf",
            seed=seed,
            num_calibration=what.num_calibration,
            settings=sizes
            | {
                "condition": condition,
                "differs": what.settings,
                "simulations": budget.simulations(SIMULATORS.get(world, world)),
                "training": budget.training.get("maf", {}),
            },
        )

    def backbones(self, cell: Cell) -> Sequence[Backbone]:
        """Name the posterior, and the density that the default is given."""
        if cell.method == "exact":
            return ()
        if cell.method == "nnpe":
            return (nnpe_of(cell),)
        if cell.backbone == EXACT_PARTS:
            return ()
        known = backbone_of(cell)
        if cell.method != DEFAULT:
            return (known,)
        return known, density_of(cell, MOST_SIMULATIONS)

    def cost(self, cell: Cell) -> float:
        """Guess seconds: Bayes' rule is slow, then what is fitted to many columns."""
        if cell.method == "exact":
            return 300.0 if cell.task in EXACT_IF_CERTAIN else 5.0
        if cell.method not in ("stochastic", DEFAULT, WITHOUT_DENSITY):
            return 10.0
        return (cell.num_calibration or 1) * SECONDS_PER_TRIPLE.get(cell.task, 1.0)

    def run(self, cell: Cell, models: Models) -> Sequence[Measurement]:
        """Score the method on every calibration set."""
        task = get_task(cell.task)
        seeds = [set_seed(cell.seed, number) for number in range(cell.settings["sets"])]
        condition = CONDITIONS[cell.settings["condition"]]
        worlds = [
            draw_world(task, condition, cell.settings["rows"], seed=one) for one in seeds
        ]
        if cell.method == "exact":
            scores = [exact_log_score(world).mean().item() for world in worlds]
            return [Measurement("log_score", tuple(scores))]
        fitted = _fits(cell, task, models)
        scores, covered = [], []
        for world, seed in zip(worlds, seeds, strict=True):
            method = fitted(world, seed)
            scores.append(_score(method, world).mean().item())
            covered.append(_cover(method, world, cell, seed))
        shares = torch.stack(covered, dim=1).flatten().tolist()
        return [
            Measurement("log_score", tuple(scores)),
            Measurement(
                "coverage", tuple(shares), "central", num_draws=cell.settings["draws"]
            ),
        ]


def set_seed(seed: int, number: int) -> int:
    """Return the seed of a calibration set, which no other table uses."""
    derived = derive(derive(seed, "never worse"), f"set {number}")
    assert derived is not None  # noqa: S101 (it is None for None alone)
    return derived


def nnpe_of(cell: Cell) -> Backbone:
    """Name NNPE's posterior, which depends on the simulations alone."""
    known = backbone_of(cell)
    num = min(known.num_simulations, MOST_SIMULATIONS)
    return replace(known, kind="nnpe", num_simulations=num)


def coverage(draws: Tensor, theta: Tensor) -> Tensor:
    """Tell how often central intervals of single parameters hold the truth.

    Args:
        draws: Posterior draws, shape ``(num_draws, num_rows, dim_theta)``.
        theta: The truth, shape ``(num_rows, dim_theta)``.

    Returns:
        A share for each of ``LEVELS``.
    """
    below = (draws < theta).float().mean(dim=0) + (draws == theta).float().mean(dim=0) / 2
    outside = (2 * below - 1).abs()
    return torch.stack([(outside <= level).float().mean() for level in LEVELS])


def exact_posterior(task: Task) -> AmortizedPosterior:
    """Give the exact posterior of a simulation the interface of a trained one."""

    def log_prob(theta: Tensor, x: Tensor) -> Tensor:
        rows = x.expand(len(theta), -1, -1).flatten(end_dim=1)
        return task.reference_log_prob(theta.flatten(end_dim=1), rows).unflatten(
            0, theta.shape[:2]
        )

    def sample(num_samples: int, x: Tensor) -> Tensor:
        return task.reference(x, num_samples)

    return from_callable(sample, log_prob, batched=True, prior=task.prior)


class ExactDensity:
    """The exact density of simulations, with the interface of a trained one."""

    def __init__(self, task: Task) -> None:
        self.task = task

    def __call__(self, x: Tensor) -> Tensor:
        """Evaluate rows of x."""
        return self.task.log_evidence(x).to(x)

    def sample(self, num_samples: int, *, seed: int | None = None) -> Tensor:
        """Simulate at parameters of the prior."""
        return self.task.draw(num_samples, seed=seed).x_sim


def _has_meaning(world: str, condition: Condition, method: str) -> bool:
    """Tell whether there is such a cell."""
    if condition.needs_regimes and not get_task(world).regimes:
        return False
    if method != "exact":
        return True
    if condition.other_population:  # of which Bayes' rule would have to know
        return False
    certain = condition.right == 1 and condition.right_at_test is None
    return world in FAST_EXACT or (world in EXACT_IF_CERTAIN and certain)


def _fits(cell: Cell, task: Task, models: Models) -> Callable[[World, int], Method]:
    """Return the function that fits the method of a cell to a calibration set."""
    if cell.method == "nnpe":
        trained = models.posterior(nnpe_of(cell))
        return lambda world, seed: trained
    exact = cell.backbone == EXACT_PARTS
    posterior = exact_posterior(task) if exact else models.posterior(backbone_of(cell))
    options: dict[str, Any] = {}
    if cell.method in (DEFAULT, WITHOUT_DENSITY) and not task.regimes:
        # As the other methods; which one is chosen depends on what is installed.
        options["encoder"] = HashEncoder()
    if cell.method == DEFAULT:
        options["density"] = (
            ExactDensity(task)
            if exact
            else models.posterior(density_of(cell, MOST_SIMULATIONS))
        )

    def fit(world: World, seed: int) -> Method:
        rows = world.calibration
        given = Materials(
            prior=task.prior,
            posterior=posterior,
            calibration=Calibration(rows.x_obs, rows.context, rows.x_sim),
        )
        method = METHODS[cell.method](**options)
        return method.fit(given, seed=derive(seed, "fit"))

    return fit


def _score(method: Method, world: World) -> Tensor:
    """Evaluate the true parameters of all test rows, some rows at a time."""
    theta = world.test.theta
    scores = [
        log_score(method, theta[rows], x, context=context)
        for rows, x, context in _blocks(method, world, len(theta))
    ]
    return torch.cat(scores)


def _cover(method: Method, world: World, cell: Cell, seed: int) -> Tensor:
    """Measure the coverage of the first rows, some rows at a time."""
    num_rows, num_draws = cell.settings["covered"], cell.settings["draws"]
    draws = [
        method.sample(num_draws, x, context, seed=derive(seed, f"draws {rows.start}"))
        for rows, x, context in _blocks(method, world, num_rows)
    ]
    return coverage(torch.cat(draws, dim=1), world.test.theta[:num_rows])


def _blocks(
    method: Method, world: World, num_rows: int
) -> Iterator[tuple[slice, Tensor, list[str]]]:
    """Give what a method reads of the first test rows, block by block."""
    x = world.test.x_sim if method.reads == "x_sim" else world.test.x_obs
    for start in range(0, num_rows, ROWS_AT_ONCE):
        rows = slice(start, min(start + ROWS_AT_ONCE, num_rows))
        yield rows, x[rows], world.test.context[rows]
