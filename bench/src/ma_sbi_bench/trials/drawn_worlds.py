"""Worlds of many kinds, drawn at random, in which the best correction is known by scoring.

The distribution is the one that the advice of ``ma_sbi.check`` is judged by. It was written
down before the rule of the check was final, and is not tuned.
"""

from __future__ import annotations

from dataclasses import dataclass, replace
from typing import Any, Literal

import numpy as np
import torch
from torch import Tensor

from ma_sbi.randomness import derive, seeded
from ma_sbi_bench.trials.drawn_contexts import FORMS, Contexts, Form, draw_contexts
from ma_sbi_bench.trials.drawn_departures import Departure, draw_departure
from ma_sbi_bench.trials.exact_simulators import FAMILIES, ExactSimulator, draw_simulator

__all__ = ["KINDS", "DrawnWorld", "Given", "Kind", "Rows", "draw_world"]

Told = Literal["the regime", "nothing", "the regime, sometimes", "theta"]
Source = Literal[
    "same noise",
    "own noise",
    "several",
    "one setting",
    "predicted",
    "expected value",
    "other",
    "shuffled",
]
Mishap = Literal["", "swapped", "columns", "units", "offset"]

FAMILY_SHARES = (0.4, 0.15, 0.1, 0.1, 0.1, 0.15)
FORM_SHARES = dict(zip(FORMS, (0.4, 0.25, 0.2, 0.15), strict=True))
LARGEST_SIZE = 4.0
POOL = 2000
# Simulations behind an expected value.
MANY = 400
# Deviations of x by which an offset of units moves it, at least and at most.
OFFSETS = 5.0, 100.0


@dataclass(frozen=True)
class Kind:
    """What all worlds of a kind have in common; the rest is drawn.

    Attributes:
        words: What it is.
        departures: Names of departures, of which one is drawn.
        forms: Forms of the context, of which one is drawn.
        told: What the context tells.
        source: Where x_sim comes from.
        mishap: What goes wrong when rows are handed over.
        rows: Fewest and most calibration rows.
        dims: Fewest and most columns of x.
        families: Families of simulators, of which one is drawn.
        groups: Whether rows come in groups.
        elsewhere: Whether theta comes from another population than the prior.
        posterior: Whether the check is given the posterior; by chance if None.
        theta: Whether it is given the true parameters; by chance if None.
    """

    words: str
    departures: tuple[str, ...] = ("shift",)
    forms: tuple[Form, ...] = FORMS
    told: Told = "the regime"
    source: Source = "same noise"
    mishap: Mishap = ""
    rows: tuple[int, int] = (30, 2000)
    dims: tuple[int, int] = (1, 8)
    families: tuple[str, ...] = FAMILIES
    groups: bool = False
    elsewhere: bool = False
    posterior: bool | None = None
    theta: bool | None = None


ANY = ("none", "shift", "gain", "noise")
PERHAPS = ("none", "shift")
REGIMES: tuple[Form, ...] = ("labels", "sentences", "wordings")
KINDS: dict[str, Kind] = {
    "nothing": Kind("nothing departs", ("none",)),
    "own noise": Kind(
        "nothing departs, x_sim has its own noise", ("none",), source="own noise"
    ),
    "constant": Kind("the same shift in all rows", ("constant",)),
    "label": Kind("a shift for each label", forms=("labels",)),
    "number": Kind("a shift that grows with a number", forms=("number",)),
    "sentences": Kind("a shift for each of a few sentences", forms=("sentences",)),
    "wordings": Kind("a shift for each regime, in many wordings", forms=("wordings",)),
    "wrong contexts": Kind(
        "contexts that are wrong at times", told="the regime, sometimes"
    ),
    "filler": Kind(
        "regimes that the context does not tell, in two clusters",
        ("hidden",),
        told="nothing",
        families=("clusters",),
    ),
    "one row of ten": Kind("a shift in one row of ten", ("rare",), told="nothing"),
    "outliers": Kind("one row of twenty is far off", ("outliers",)),
    "noise inflation": Kind("more noise, by context", ("noise",)),
    "gain": Kind("a gain, by context", ("gain",)),
    "gain, own noise": Kind(
        "a gain, and x_sim has its own noise", ("gain",), source="own noise"
    ),
    "shift, own noise": Kind("a shift, and x_sim has its own noise", source="own noise"),
    "several": Kind("several simulations for each row", PERHAPS, source="several"),
    "control run": Kind("all rows at one setting", PERHAPS, source="one setting"),
    "predicted": Kind("x_sim is predicted by the posterior", PERHAPS, source="predicted"),
    "saturation": Kind("large values saturate", ("saturation",)),
    "lag": Kind("columns lag behind", ("lag",), dims=(3, 8)),
    "leak": Kind("the context depends on theta, nothing departs", ("none",), told="theta"),
    "leak and shift": Kind("the context depends on theta, and x departs", told="theta"),
    "leak, no pairs": Kind(
        "the context depends on theta, and rows are no pairs",
        PERHAPS,
        told="theta",
        source="other",
    ),
    "population": Kind("theta from another population", PERHAPS, elsewhere=True),
    "few rows": Kind("few rows", ANY, rows=(30, 60)),
    "groups": Kind("rows in groups that depart together", PERHAPS, groups=True),
    "true theta": Kind("true parameters are given", ANY, posterior=True, theta=True),
    "no posterior": Kind("there is no posterior", ANY, posterior=False, theta=False),
    "shuffled": Kind("rows of x_sim in another order", PERHAPS, source="shuffled"),
    "other parameters": Kind("x_sim at other parameters", PERHAPS, source="other"),
    "swapped": Kind("x_obs and x_sim have changed places", mishap="swapped"),
    "columns": Kind(
        "columns of x_sim in another order", PERHAPS, mishap="columns", dims=(2, 8)
    ),
    "units": Kind("x_sim in other units", PERHAPS, mishap="units"),
    "swapped gain": Kind(
        "a gain or more noise, and x_obs and x_sim have changed places",
        ("gain", "noise"),
        mishap="swapped",
    ),
    "offset": Kind("x_sim in other units with an offset", PERHAPS, mishap="offset"),
    "expected value": Kind(
        "x_sim is the mean of many simulations", PERHAPS, source="expected value"
    ),
}
"""Every kind of world by name."""


@dataclass(frozen=True)
class Given:
    """What the check is given besides rows and context."""

    posterior: bool
    theta: bool
    density: bool
    simulations: bool


@dataclass(frozen=True)
class Rows:
    """Rows of a world.

    Attributes:
        theta: True parameters, shape ``(n, dim_theta)``.
        latent: What the simulator would have given instead of x_obs, shape ``(n, dim_x)``.
        x_obs: Observations.
        x_sim: Simulations, ``(n, dim_x)``, or several of each, ``(n, num, dim_x)``.
        context: One entry for each.
        groups: Number of the group of each; None if there are none.
    """

    theta: Tensor
    latent: Tensor
    x_obs: Tensor
    x_sim: Tensor
    context: list[Any]
    groups: np.ndarray | None = None


@dataclass(frozen=True)
class DrawnWorld:
    """A world: a simulator, how reality departs from it, and what a context tells.

    Attributes:
        name: Its kind.
        kind: What worlds of that kind have in common.
        simulator: The simulator.
        pool: Simulations from the prior, shape ``(2000, dim_x)``.
        contexts: What contexts are like.
        departure: How observations depart.
        num_rows: Number of calibration rows.
        given: What the check is given.
        right: Probability that a context is right, where it is wrong at times.
        leak: How strongly the context depends on theta, where it does.
        num_simulations: Simulations of each row, where there are several.
        per_group: Rows of a group, where there are groups.
        group_size: Posterior deviations by which groups differ.
        same_theta: Whether rows of a group share theta.
        centre: Mean of theta in the population.
        spread: Standard deviation of theta in the population.
        setting: Parameters of a control run.
        order: Order of the columns of x_sim, where it is another one.
        factor: Factor of the units of each column of x_sim.
        seed: Seed of its rows.
    """

    name: str
    kind: Kind
    simulator: ExactSimulator
    pool: Tensor
    contexts: Contexts
    departure: Departure
    num_rows: int
    given: Given
    right: float
    leak: float
    num_simulations: int
    per_group: int
    group_size: float
    same_theta: bool
    centre: Tensor
    spread: float
    setting: Tensor
    order: np.ndarray
    factor: Tensor
    seed: int | None

    @property
    def are_pairs(self) -> bool:
        """Whether a row of x_sim belongs to the same row of x_obs."""
        return self.kind.source not in ("other", "shuffled")

    def calibration(self) -> Rows:
        """Draw the rows that the check is given, with what goes wrong."""
        rng = np.random.default_rng(derive(self.seed, "calibration"))
        rows = self._draw(self.num_rows, rng, at_setting=self.kind.source == "one setting")
        rows = replace(rows, x_sim=self._simulations(rows, rng))
        if self.kind.mishap == "swapped":
            return replace(rows, x_obs=rows.x_sim, x_sim=rows.x_obs)
        if self.kind.mishap == "columns":
            return replace(rows, x_sim=rows.x_sim[:, torch.from_numpy(self.order)])
        if self.kind.mishap == "units":
            return replace(rows, x_sim=rows.x_sim * self.factor)
        if self.kind.mishap == "offset":
            return replace(rows, x_sim=self._with_offset(rows.x_sim))
        return rows

    def fresh(self, num_rows: int) -> Rows:
        """Draw rows that a correction will meet; x_sim is the simulation behind x_obs."""
        rng = np.random.default_rng(derive(self.seed, "fresh"))
        return self._draw(num_rows, rng)

    def _draw(
        self, num: int, rng: np.random.Generator, *, at_setting: bool = False
    ) -> Rows:
        groups = None
        if self.kind.groups:
            groups = np.arange(num) // self.per_group
        theta = self.centre + self.spread * self.simulator.prior_draws(num, rng)
        if groups is not None and self.same_theta:
            theta = theta[torch.from_numpy(groups * self.per_group)]
        if at_setting:
            theta = self.setting.expand(num, -1)
        leaking = theta[:, 0].numpy() if self.kind.told == "theta" else None
        drawn = self.contexts.draw(num, rng, leaking, self.leak)
        if groups is not None:
            drawn = drawn[groups * self.per_group]
        latent = self.simulator.simulate(theta, rng)
        x_obs = self.departure(latent, self.contexts.design(drawn), rng)
        if groups is not None:
            x_obs = x_obs + self._group_shifts(groups, rng)
        told = self._told(drawn, rng)
        context = self.contexts.entries(told, rng)
        return Rows(theta, latent, x_obs, latent, context, groups)

    def _told(self, drawn: np.ndarray, rng: np.random.Generator) -> np.ndarray:
        """Replace what the context tells where it tells nothing, or is wrong."""
        other = self.contexts.draw(len(drawn), rng)
        if self.kind.told == "nothing":
            return other
        if self.kind.told == "the regime, sometimes":
            return np.where(rng.random(len(drawn)) < self.right, drawn, other)
        return drawn

    def _with_offset(self, x: Tensor) -> Tensor:
        """Turn units into others, as Celsius into Fahrenheit, by draws of their own."""
        rng = np.random.default_rng(derive(self.seed, "offset"))
        factor = float(np.exp(rng.uniform(-np.log(2), np.log(2))))
        size = np.exp(rng.uniform(*np.log(OFFSETS))) * rng.choice([-1.0, 1.0])
        return factor * x + float(size) * self.pool.std(dim=0)

    def _group_shifts(self, groups: np.ndarray, rng: np.random.Generator) -> Tensor:
        shifts = torch.from_numpy(
            rng.standard_normal((groups.max() + 1, self.simulator.dim_x))
        )
        size = self.simulator.displacement(shifts).square().mean().sqrt()
        return (self.group_size * shifts / size)[torch.from_numpy(groups)]

    def _simulations(self, rows: Rows, rng: np.random.Generator) -> Tensor:
        source, simulate = self.kind.source, self.simulator.simulate
        if source in ("own noise", "one setting"):
            return simulate(rows.theta, rng)
        if source == "several":
            every = [simulate(rows.theta, rng) for _ in range(self.num_simulations)]
            return torch.stack(every, dim=1)
        if source == "expected value":
            every = [simulate(rows.theta, rng) for _ in range(MANY)]
            return torch.stack(every).mean(dim=0)
        if source == "predicted":
            with seeded(derive(self.seed, "predicted")):
                theta = self.simulator.posterior_draws(1, rows.x_obs)[0]
            return simulate(theta, rng)
        if source == "other":
            return simulate(self.simulator.prior_draws(len(rows.theta), rng), rng)
        if source == "shuffled":
            return rows.latent[torch.from_numpy(rng.permutation(len(rows.latent)))]
        return rows.latent


def draw_world(name: str, number: int, *, seed: int) -> DrawnWorld:
    """Draw a world.

    Args:
        name: Its kind.
        number: Which world of that kind.
        seed: Seed of all worlds.
    """
    kind = KINDS[name]
    own = derive(derive(seed, "drawn worlds"), f"{name}, {number}")
    rng = np.random.default_rng(derive(own, "world"))
    shares = np.array([FAMILY_SHARES[FAMILIES.index(one)] for one in kind.families])
    simulator = draw_simulator(
        kind.families[rng.choice(len(shares), p=shares / shares.sum())], rng, kind.dims
    )
    dim_x, dim_theta = simulator.dim_x, simulator.dim_theta
    pool = simulator.simulate(simulator.prior_draws(POOL, rng), rng)
    shares = np.array([FORM_SHARES[one] for one in kind.forms])
    contexts = draw_contexts(
        kind.forms[rng.choice(len(shares), p=shares / shares.sum())], rng
    )
    departure = draw_departure(
        kind.departures[rng.integers(len(kind.departures))],
        simulator,
        pool,
        contexts.num_columns,
        rng.uniform(0.0, LARGEST_SIZE),
        rng,
    )
    low, high = np.log(kind.rows)
    has_posterior = rng.random() < 0.7
    if kind.posterior is not None:
        has_posterior = kind.posterior
    has_theta = has_posterior and rng.random() < 0.1
    if kind.theta is not None:
        has_theta = kind.theta
    centre, spread = np.zeros(dim_theta), 1.0
    if kind.elsewhere:
        centre = rng.uniform(0.5, 1.5, dim_theta) * rng.choice([-1.0, 1.0], dim_theta)
        spread = float(rng.uniform(0.4, 0.8))
    return DrawnWorld(
        name=name,
        kind=kind,
        simulator=simulator,
        pool=pool,
        contexts=contexts,
        departure=departure,
        num_rows=round(float(np.exp(rng.uniform(low, high)))),
        given=Given(
            has_posterior,
            has_theta,
            density=rng.random() < 0.2,
            simulations=rng.random() < 0.3,
        ),
        right=rng.uniform(0.5, 0.95),
        leak=rng.uniform(0.2, 1.0),
        num_simulations=int(rng.integers(2, 6)),
        per_group=int(rng.integers(3, 13)),
        group_size=rng.uniform(0.0, 1.0),
        same_theta=bool(rng.random() < 0.5),
        centre=torch.from_numpy(centre),
        spread=spread,
        setting=simulator.prior_draws(1, rng)[0],
        order=_derangement(dim_x, rng),
        factor=_factors(dim_x, rng),
        seed=own,
    )


def _derangement(dim: int, rng: np.random.Generator) -> np.ndarray:
    """Draw an order in which some columns have changed places."""
    order = np.arange(dim)
    moved = rng.permutation(dim)[: max(min(dim, 2), int(rng.integers(dim + 1)))]
    order[moved] = np.roll(moved, 1)
    return order


def _factors(dim: int, rng: np.random.Generator) -> Tensor:
    """Draw a factor of 10 to 1000, or its inverse, of all columns or of one."""
    factor = 10.0 ** (rng.uniform(1.0, 3.0) * rng.choice([-1.0, 1.0]))
    where = np.arange(dim) == rng.integers(dim)
    if rng.random() < 0.5:
        where[:] = True
    return torch.from_numpy(np.where(where, factor, 1.0))
