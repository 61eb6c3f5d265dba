"""Conditions of calibration and test: how often the context is right, and what goes wrong.

A calibration set with its test rows is one draw of a world. The same number of a set gives
the same parameters, noise and regimes in every condition, as far as the condition does not
say otherwise.
"""

from __future__ import annotations

from dataclasses import asdict, dataclass
from typing import Any

import numpy as np
import torch
from torch import Tensor
from torch.distributions import constraints

from ma_sbi.randomness import derive, generator
from ma_sbi.scaling import column_scale
from ma_sbi.simulation import sample_prior
from ma_sbi_bench.tasks import Draws, Task
from ma_sbi_bench.trials.world import World, blurred, regime_weights

__all__ = ["CONDITIONS", "START", "Condition", "draw_world"]

# How far an outlier is moved in every column, in standard deviations of the simulations.
OUTLYING = 20.0
# One prior draw in so many belongs to the other population.
ONE_IN = 10


@dataclass(frozen=True)
class Condition:
    """What a calibration set and its test rows are like.

    Attributes:
        num_calibration: Number of calibration triples.
        right: Probability that a context is right; else it is picked at random.
        right_at_test: The same for test rows; as in calibration if None.
        own_noise: Whether ``x_sim`` of a triple has noise of its own, which ``x_obs`` does
            not share.
        outliers: Share of calibration rows whose ``x_obs`` is a gross outlier.
        frequencies: How often regimes occur, relative to each other; which regime is the
            first is drawn for each set.
        never_seen: Whether one regime, drawn for each set, occurs in the test alone.
        other_population: Whether parameters come from a tenth of the prior, in calibration
            and test.
    """

    num_calibration: int = 100
    right: float = 0.75
    right_at_test: float | None = None
    own_noise: bool = False
    outliers: float = 0.0
    frequencies: tuple[int, ...] = (1, 1, 1, 1)
    never_seen: bool = False
    other_population: bool = False

    @property
    def settings(self) -> dict[str, Any]:
        """What differs from the start, as JSON can hold it."""
        usual = asdict(Condition())
        return {
            name: list(value) if isinstance(value, tuple) else value
            for name, value in asdict(self).items()
            if value != usual[name]
        }

    @property
    def needs_regimes(self) -> bool:
        """Whether it has no meaning where departures vary continuously."""
        return self.never_seen or len(set(self.frequencies)) > 1


START = "start"
CONDITIONS: dict[str, Condition] = {
    START: Condition(),
    "right 0 %": Condition(right=0.0),
    "right 25 %": Condition(right=0.25),
    "right 50 %": Condition(right=0.5),
    "right 100 %": Condition(right=1.0),
    "random at test": Condition(right=1.0, right_at_test=0.0),
    "20 triples": Condition(num_calibration=20),
    "500 triples": Condition(num_calibration=500),
    "x_sim has own noise": Condition(own_noise=True),
    "5 % outliers": Condition(outliers=0.05),
    "regimes 17:1:1:1": Condition(frequencies=(17, 1, 1, 1)),
    "a regime never seen": Condition(never_seen=True),
    "other population": Condition(other_population=True),
}
"""The start, and what differs from it in one respect, by name."""


def draw_world(task: Task, condition: Condition, num_test: int, *, seed: int) -> World:
    """Draw a calibration set and its test rows.

    Args:
        task: The task.
        condition: What they are like.
        num_test: Number of test rows.
        seed: Seed of the set; the same in every condition.

    Returns:
        A world without reference draws. Its regime weights know how often contexts are
        right at test, and how often regimes occur; None without regimes.
    """
    order = torch.randperm(
        len(task.regimes), generator=generator(derive(seed, "order of regimes"))
    )
    counts = torch.tensor(condition.frequencies)[: len(task.regimes)]
    seen = counts.clone()
    if condition.never_seen:
        seen[-1] = 0
    right, right_at_test = condition.right, condition.right_at_test
    calibration = _draw(
        task,
        condition,
        condition.num_calibration,
        order.repeat_interleave(seen),
        right,
        derive(seed, "calibration"),
    )
    right_at_test = right if right_at_test is None else right_at_test
    test = _draw(
        task,
        condition,
        num_test,
        order.repeat_interleave(counts),
        right_at_test,
        derive(seed, "test"),
    )
    weights = None
    if task.regimes:
        share = torch.zeros(len(task.regimes))
        share[order] = counts / counts.sum()
        weights = regime_weights(task, test, right_at_test, share)
    calibration = _disturbed(task, condition, calibration, derive(seed, "disturbance"))
    return World(task, calibration, test, None, weights)


def _draw(
    task: Task,
    condition: Condition,
    num: int,
    pattern: Tensor,
    right: float,
    seed: int | None,
) -> Draws:
    """Draw rows whose regimes repeat a pattern, in random order."""
    population = _other_population if condition.other_population else _prior
    theta = population(task, num, derive(seed, "prior"))
    source = generator(derive(seed, "regimes"))
    if task.regimes:
        regime = pattern[torch.randperm(num, generator=source) % len(pattern)]
    else:
        regime = torch.rand(num, generator=source)
    x_sim, x_obs = task.observe(theta, regime, seed=seed)
    rng = np.random.default_rng(derive(seed, "contexts"))
    # Texts of regimes that occur, or of intensities as the text can tell them apart.
    others = pattern.unique() if task.regimes else torch.linspace(0, 1, 101)
    context = blurred(task.contexts(regime), task.contexts(others), right, rng)
    return Draws(theta, x_sim, x_obs, regime, context)


def _prior(task: Task, num: int, seed: int | None) -> Tensor:
    return sample_prior(task.prior, num, seed=seed)


def _other_population(task: Task, num: int, seed: int | None) -> Tensor:
    """Draw from the tenth of the prior in which all parameters together are largest."""
    theta = sample_prior(task.prior, ONE_IN * num, seed=seed)
    support = task.prior.support
    positive = getattr(support, "base_constraint", support) is constraints.positive
    size = theta.log() if positive else theta
    score = ((size - size.mean(dim=0)) / size.std(dim=0)).sum(dim=1)
    return theta[score.topk(num).indices.sort().values]


def _disturbed(task: Task, condition: Condition, rows: Draws, seed: int | None) -> Draws:
    """Give calibration rows simulations with noise of their own, and outliers."""
    scale = column_scale(rows.x_sim)
    if condition.own_noise:
        x_sim = task.simulate(rows.theta, seed=derive(seed, "own noise"))
        rows = rows._replace(x_sim=x_sim)
    num = round(condition.outliers * len(rows.theta))
    if num:
        source = generator(derive(seed, "outliers"))
        index = torch.randperm(len(rows.theta), generator=source)[:num]
        sign = 2 * torch.randint(2, (num, task.dim_x), generator=source) - 1
        x_obs = rows.x_obs.clone()
        x_obs[index] += OUTLYING * scale * sign
        rows = rows._replace(x_obs=x_obs)
    return rows
