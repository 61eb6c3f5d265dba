"""One trial: a method fitted to a calibration set, judged on test observations.

Test observations are the same for every seed; what varies is the trained posterior, the
calibration set and all noise. Where there is an exact posterior, each of a few observations
is seen in every regime and draws are compared with it (C2ST); else the error of the
posterior mean is taken over many rows.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass, replace
from functools import lru_cache, partial
from typing import Any

import numpy as np
import torch
from torch import Tensor

from ma_sbi.backbones.ddpm import DiffusionPosterior
from ma_sbi.correctors import Network, ShiftCorrector
from ma_sbi.encoders import CategoryEncoder, HashEncoder, SentenceEncoder
from ma_sbi.experiments.cell import Backbone, Cell, Measurement
from ma_sbi.experiments.laboratory import Laboratory, fit_backbone
from ma_sbi.methods import (
    MASBI,
    METHODS,
    Calibration,
    ContextToTheta,
    ContextToX,
    Materials,
    Method,
    Simulations,
)
from ma_sbi.methods.method import CorrectingMethod
from ma_sbi.metrics import c2st_batch, log_score, posterior_mean_error
from ma_sbi.protocols import Encoder
from ma_sbi.randomness import derive
from ma_sbi.tasks import Draws, Task, get_task

__all__ = [
    "BY_MEAN",
    "FORMS",
    "World",
    "backbone_of",
    "make_method",
    "materials_of",
    "run_trial",
    "starts_from_posterior",
]

NUM_UNLABELLED = 2000
RECIPE = "fast"
BY_MEAN = ("sir_delay", "ddm")
"""Tasks that are judged by the posterior mean, as in the paper; others by C2ST."""
# Most densities of a diffusion model that a log score may take, each an integral.
MOST_DENSITIES = 4_000
ENCODERS: dict[str, Callable[[], Encoder]] = {
    "hash": HashEncoder,
    "minilm": SentenceEncoder,
    "index": partial(CategoryEncoder, unseen="zero"),
}


def _ma_sbi(encoder: str = "hash", part: Any = "whole", **network: Any) -> Method:
    """Make MA-SBI with another encoder, a part of it, or the paper's network."""
    recipe: Any = Network(**network) if network else "converged"
    return MASBI(ShiftCorrector(ENCODERS[encoder](), recipe), part)


FORMS: dict[str, Callable[..., Method]] = METHODS | {
    "context_to_theta_paper": partial(ContextToTheta, fitting=Network(), spread="none"),
    "context_to_x_paper": partial(ContextToX, fitting=Network()),
    "ma_sbi_marginal": partial(_ma_sbi, part="marginal"),
    "ma_sbi_conditional": partial(_ma_sbi, part="conditional"),
    "ma_sbi_shuffled": _ma_sbi,
    "ma_sbi_minilm": partial(_ma_sbi, encoder="minilm"),
    "ma_sbi_network": partial(_ma_sbi, hidden=128),
    "ma_sbi_index": partial(_ma_sbi, encoder="index"),
}
"""Every method, with the forms that only an experiment needs."""


def run_trial(cell: Cell, laboratory: Laboratory) -> list[Measurement]:
    """Fit the method, sample all test rows together, and score."""
    world = World.of(cell)
    if cell.settings["form"] == "exact":
        answer = _exact(cell, world)
    else:
        answer = _fitted(cell, world, laboratory)
    num_draws = cell.settings["draws"]
    if world.reference is not None:
        values = c2st_batch(answer.draws, world.reference, recipe=RECIPE)
        measured = [Measurement("c2st", _numbers(values), RECIPE, num_draws)]
    else:
        transform = torch.log if cell.task == "sir_delay" else None
        if transform is not None:  # an exploding posterior may leave float32
            answer = replace(answer, draws=answer.draws.clamp(1e-30, 1e30))
        values = posterior_mean_error(answer.draws, world.test.theta, transform=transform)
        measured = [Measurement("mse", _numbers(values), "posterior mean", num_draws)]
    if answer.log_score is not None:
        measured.append(Measurement("log_score", _numbers(answer.log_score)))
    kept = cell.settings.get("keep_draws")
    if kept is not None:
        measured.append(Measurement("draws", _numbers(answer.draws[:kept].flatten())))
    return measured


@dataclass(frozen=True)
class _Answer:
    """What a method says of the test rows.

    Attributes:
        draws: Posterior draws, shape ``(num_draws, num_rows, dim_theta)``.
        log_score: Log density of the true parameters, shape ``(num_rows,)``.
    """

    draws: Tensor
    log_score: Tensor | None


@dataclass(frozen=True)
class World:
    """A task with its calibration and test rows, all that a seed decides.

    Attributes:
        task: The task.
        calibration: Calibration rows.
        test: Test rows.
        reference: Exact draws, shape ``(num_draws, num_rows, dim_theta)``; None where the
            posterior mean is judged.
        regime_weights: Probability of each regime given the context of each test row.
    """

    task: Task
    calibration: Draws
    test: Draws
    reference: Tensor | None
    regime_weights: Tensor

    @classmethod
    def of(cls, cell: Cell) -> World:
        """Make the world of a trial."""
        settings = cell.settings
        task = get_task(cell.task, **settings["task"])
        rng = np.random.default_rng(derive(cell.seed, "contexts"))
        test = _test_rows(task, cell)
        calibration = _calibration_rows(task, cell)
        reliability = settings.get("reliability", 1.0)
        if reliability < 1.0:
            texts = [regime.text for regime in task.regimes]
            calibration, test = (
                rows._replace(context=_blurred(rows.context, texts, reliability, rng))
                for rows in (calibration, test)
            )
        weights = _regime_weights(task, test, reliability)
        calibration, test = _treated(
            settings.get("context", "true"), calibration, test, rng
        )
        reference = None
        if cell.task not in BY_MEAN:
            reference = _reference(test, cell)
        return cls(task, calibration, test, reference, weights)


def _test_rows(task: Task, cell: Cell) -> Draws:
    """Draw rows, or every observation in every regime; the same for every seed."""
    seed = derive(0, "test")
    if cell.task in BY_MEAN:
        test = task.draw(cell.settings["rows"], seed=seed)
    else:
        once = task.draw(cell.settings["observations"], seed=seed)
        num_regimes = len(task.regimes)
        rows = torch.arange(len(once.theta)).repeat_interleave(num_regimes)
        regime = torch.arange(num_regimes).repeat(len(once.theta))
        x_sim = once.x_sim[rows]
        context = task.contexts(regime, seed=derive(cell.seed, "test contexts"))
        test = Draws(once.theta[rows], x_sim, task.depart(x_sim, regime), regime, context)
    return _select(test, _cases(test, cell))


def _cases(test: Draws, cell: Cell) -> Tensor:
    """Choose test rows: all, those of one observation or regime, or some."""
    rows = torch.arange(len(test.regime))
    num_observations = cell.settings.get("observations", len(rows))
    observation = rows // (len(rows) // num_observations)
    if cell.settings.get("cases") == "some":
        if cell.task in BY_MEAN:
            return rows[: len(rows) // 2]
        return rows[test.regime == observation % (int(test.regime.max()) + 1)]
    if cell.observation is not None:
        rows = rows[observation == cell.observation]
    return rows if cell.regime is None else rows[test.regime[rows] == cell.regime]


def _calibration_rows(task: Task, cell: Cell) -> Draws:
    """Draw calibration rows, without a regime that is left out."""
    num, left_out = cell.num_calibration or 0, cell.settings.get("left_out")
    seed = derive(cell.seed, "calibration")
    if left_out is None:
        return task.draw(num, seed=seed)
    # Regimes are stratified: enough for as many rows of the others.
    draws = task.draw(2 * num, seed=seed)
    kept = (draws.regime != left_out).nonzero().flatten()[:num]
    return _select(draws, kept)


def _select(draws: Draws, rows: Tensor) -> Draws:
    index = torch.arange(len(draws.theta))[rows]
    return Draws(
        draws.theta[index],
        draws.x_sim[index],
        draws.x_obs[index],
        draws.regime[index],
        [draws.context[row] for row in index.tolist()],
    )


def _blurred(
    context: Sequence[str], texts: Sequence[str], reliability: float, rng: Any
) -> list[str]:
    """Replace a share of the contexts by a text picked at random."""
    keep = rng.random(len(context)) < reliability
    other = rng.integers(len(texts), size=len(context))
    rows = zip(context, other, keep, strict=True)
    return [text if kept else texts[index] for text, index, kept in rows]


def _treated(how: str, calibration: Draws, test: Draws, rng: Any) -> tuple[Draws, Draws]:
    """Exchange the contexts: shuffled, or the number of the calibration row."""
    if how == "shuffled":
        shuffled = rng.permutation(calibration.context).tolist()
        return calibration._replace(context=shuffled), test
    if how in ("index", "nearest"):
        index = [f"row {row}" for row in range(len(calibration.context))]
        new = [f"new row {row}" for row in range(len(test.context))]
        if how == "nearest":
            nearest = torch.cdist(test.x_obs, calibration.x_obs).argmin(dim=1)
            new = [index[row] for row in nearest.tolist()]
        return calibration._replace(context=index), test._replace(context=new)
    return calibration, test


def _regime_weights(task: Task, test: Draws, reliability: float) -> Tensor:
    """Give the probability of each regime given what the log says."""
    even = torch.full((len(test.regime), len(task.regimes)), 1 / len(task.regimes))
    if task.setting == "uninformative":
        return even
    texts = [regime.text for regime in task.regimes]
    said = torch.tensor([texts.index(text) for text in test.context])
    certain = torch.nn.functional.one_hot(said, len(texts))
    return reliability * certain + (1 - reliability) * even


def _reference(test: Draws, cell: Cell) -> Tensor:
    """Draw the exact answers, once for each observation."""
    options = tuple(sorted(cell.settings["task"].items()))
    sizes = cell.settings["observations"], cell.settings["draws"]
    once = _reference_once(cell.task, options, *sizes)
    if cell.observation is not None:
        once = once[:, [cell.observation]]
    return once.repeat_interleave(len(test.regime) // once.shape[1], dim=1)


@lru_cache(maxsize=8)
def _reference_once(
    name: str, options: tuple[tuple[str, Any], ...], observations: int, draws: int
) -> Tensor:
    task = get_task(name, **dict(options))
    x_sim = task.draw(observations, seed=derive(0, "test")).x_sim
    return task.reference(x_sim, draws, seed=derive(0, "reference"))


def _exact(cell: Cell, world: World) -> _Answer:
    """Give the answer that nobody can improve on: Bayes' rule with x and the context."""
    task, test, num_draws = world.task, world.test, cell.settings["draws"]
    seed = derive(cell.seed, "exact")
    log_weight = world.regime_weights.double().log()
    if task.setting == "well_specified" or bool((log_weight.max(dim=1).values == 0).all()):
        known = None if task.setting == "well_specified" else log_weight.argmax(dim=1)
        return _Answer(
            task.reference(test.x_obs, num_draws, regime=known, seed=seed),
            task.reference_log_prob(test.theta, test.x_obs, regime=known),
        )
    regimes = range(len(task.regimes))
    evidence = [task.log_evidence(test.x_obs, regime=one) for one in regimes]
    log_weight = (log_weight + torch.stack(evidence, dim=1)).log_softmax(dim=1)
    generator = torch.Generator().manual_seed(cell.seed)
    pick = torch.multinomial(
        log_weight.exp(), num_draws, replacement=True, generator=generator
    ).T
    draws = test.theta.new_zeros(len(regimes), num_draws, *test.theta.shape)
    density = torch.full_like(log_weight, -torch.inf)
    for k in regimes:
        possible = log_weight[:, k] > -torch.inf
        x = test.x_obs[possible]
        draws[k][:, possible] = task.reference(x, num_draws, regime=k, seed=seed)
        density[possible, k] = task.reference_log_prob(
            test.theta[possible], x, regime=k
        ).double()
    chosen = torch.gather(draws, 0, pick[None, ..., None].expand(1, *draws.shape[1:]))[0]
    return _Answer(chosen, (log_weight + density).logsumexp(dim=1))


def _fitted(cell: Cell, world: World, laboratory: Laboratory) -> _Answer:
    """Fit the method and sample it."""
    settings, test = cell.settings, world.test
    method = make_method(cell)
    method.fit(materials_of(cell, world, method, laboratory), seed=cell.seed)
    x = test.x_sim if method.reads == "x_sim" else test.x_obs
    batches = torch.arange(len(x)).split(settings.get("together", len(x)))
    draws = torch.cat(
        [
            method.sample(
                settings["draws"],
                x[rows],
                [test.context[row] for row in rows],
                seed=cell.seed,
            )
            for rows in batches
        ],
        dim=1,
    )
    score = None
    if method.has_density and _affordable(method, x, test.context):
        score = torch.cat(
            [
                log_score(
                    method,
                    test.theta[rows],
                    x[rows],
                    context=[test.context[row] for row in rows],
                )
                for rows in batches
            ]
        )
    return _Answer(draws, score)


def make_method(cell: Cell) -> Method:
    """Make the method of a trial, not fitted yet."""
    settings = cell.settings
    method = FORMS[settings["form"]](**settings["options"])
    if "backbone" in method.get_params(deep=False):
        method.set_params(backbone=fit_backbone(cell.backbone, **settings["training"]))
    return method


def _affordable(method: Method, x: Tensor, context: Sequence[str]) -> bool:
    """Tell whether a density is cheap: a diffusion model's takes an integral per row."""
    if not isinstance(method, CorrectingMethod):
        return True
    if not isinstance(method.posterior_, DiffusionPosterior):
        return True
    shown = method.corrections(x[:1], list(context[:1])).x.shape[0]
    return shown * len(x) <= MOST_DENSITIES


def materials_of(
    cell: Cell, world: World, method: Method, laboratory: Laboratory
) -> Materials:
    """Gather what the method needs, and nothing that takes long for nothing."""
    settings, task, calibration = cell.settings, world.task, world.calibration
    simulations = unlabelled = None
    if "simulations" in method.needs:
        train = task.draw(settings["simulations"], seed=cell.seed)
        most = settings.get("most_simulations")
        simulations = Simulations(train.theta[:most], train.x_sim[:most])
    if settings.get("unlabelled") == "test":
        unlabelled = world.test.x_obs
    elif "unlabelled" in method.needs:
        num = settings.get("unlabelled", NUM_UNLABELLED)
        unlabelled = task.draw(num, seed=derive(cell.seed, "unlabelled")).x_obs
    return Materials(
        prior=task.prior,
        posterior=(
            laboratory.posterior(backbone_of(cell)) if starts_from_posterior(cell) else None
        ),
        simulations=simulations,
        simulator=task.simulate,
        calibration=Calibration(
            calibration.x_obs, calibration.context, calibration.x_sim, calibration.theta
        ),
        unlabelled=unlabelled,
    )


def starts_from_posterior(cell: Cell) -> bool:
    """Tell whether the method of a trial needs a trained posterior."""
    form = cell.settings["form"]
    if form == "exact":
        return False
    return not {"posterior", "diffusion"}.isdisjoint(FORMS[form]().needs)


def backbone_of(cell: Cell) -> Backbone:
    """Name the posterior that a trial starts from."""
    # The simulator is the same in every setting of a task: so is its posterior.
    options = {k: v for k, v in cell.settings["task"].items() if k != "setting"}
    return Backbone(
        cell.task,
        cell.backbone,
        cell.seed,
        cell.settings["simulations"],
        options,
        cell.settings["training"],
    )


def _numbers(values: Tensor) -> tuple[float, ...]:
    return tuple(values.tolist())
