"""One trial: a method fitted to a calibration set, judged on test observations.

Where there is an exact posterior, draws are compared with it (C2ST); else the error of the
posterior mean is taken over many rows. Where the context is a number, so is the error of
the shift that a method predicts.
"""

from __future__ import annotations

import time
from collections.abc import Callable, Sequence
from dataclasses import dataclass, replace
from functools import partial
from typing import Any

import torch
from sklearn.base import clone
from torch import Tensor

from ma_sbi.correctors import Network, ShiftCorrector
from ma_sbi.encoders import CategoryEncoder, HashEncoder, NumberEncoder, SentenceEncoder
from ma_sbi.metrics import c2st_batch, log_score, posterior_mean_error
from ma_sbi.protocols import Encoder
from ma_sbi.randomness import derive
from ma_sbi_bench.engine.cell import Backbone, Cell, Measurement
from ma_sbi_bench.engine.hosted import hosted
from ma_sbi_bench.engine.models import Models, fit_backbone
from ma_sbi_bench.methods import (
    MASBI,
    METHODS,
    Calibration,
    ContextToTheta,
    ContextToX,
    Materials,
    Method,
    Simulations,
)
from ma_sbi_bench.methods.method import CorrectingMethod
from ma_sbi_bench.tasks import GaussianLinear, SIRDelay
from ma_sbi_bench.trials.cells import CONTINUOUS, EXACT_MEAN, GUIDED, SMALLEST_Z
from ma_sbi_bench.trials.world import World

__all__ = [
    "CELL_PARTS",
    "FORMS",
    "SECONDS",
    "Clock",
    "backbone_of",
    "density_of",
    "exact_log_score",
    "make_method",
    "materials_of",
    "run_trial",
    "starts_from_posterior",
]

SECONDS = "seconds"
"""Metric that holds the processor's seconds of each of :data:`CELL_PARTS`."""
CELL_PARTS = ("world", "fit", "sampling", "metric")
NUM_UNLABELLED = 2000
# Tasks that share the simulator of another one, and so its posterior.
SIMULATORS = {CONTINUOUS: "slcp", "ddm_trials": "ddm", "ddm_small_shifts": "ddm"}
RECIPE = "fast"
# Of a density in a quick run.
QUICK_EPOCHS = 5
# Most densities of a diffusion model that a log score may take, each an integral.
MOST_DENSITIES = 4_000
ENCODERS: dict[str, Callable[[], Encoder]] = {
    "hash": HashEncoder,
    "paper's hash": partial(HashEncoder, unit_length=False),
    "minilm": SentenceEncoder,
    "index": partial(CategoryEncoder, unseen="zero"),
    "number": NumberEncoder,
}


def _ma_sbi(encoder: str = "hash", part: Any = "whole", **network: Any) -> Method:
    """Make MA-SBI with another encoder, a part of it, or the paper's network."""
    recipe: Any = Network(**network) if network else "converged"
    return MASBI(ShiftCorrector(ENCODERS[encoder](), recipe), part)


FORMS: dict[str, Callable[..., Method]] = METHODS | {
    "context_to_theta_paper": partial(
        ContextToTheta, ENCODERS["paper's hash"](), Network(), spread="none"
    ),
    "context_to_x_paper": partial(ContextToX, ENCODERS["paper's hash"](), Network()),
    "ma_sbi_marginal": partial(_ma_sbi, part="marginal"),
    "ma_sbi_conditional": partial(_ma_sbi, part="conditional"),
    "ma_sbi_paper_marginal": partial(METHODS["ma_sbi_paper"], part="marginal"),
    "ma_sbi_paper_conditional": partial(METHODS["ma_sbi_paper"], part="conditional"),
    "ma_sbi_shuffled": _ma_sbi,
    "ma_sbi_minilm": partial(_ma_sbi, encoder="minilm"),
    "ma_sbi_minilm_paper": partial(_ma_sbi, encoder="minilm", hidden=128),
    "ma_sbi_network": partial(_ma_sbi, encoder="paper's hash", hidden=128),
    "ma_sbi_index": partial(_ma_sbi, encoder="index"),
    "ma_sbi_number": partial(_ma_sbi, encoder="number"),
    "ma_sbi_unseen": _ma_sbi,
}
"""Every method, with the forms that only a table needs."""


def run_trial(cell: Cell, models: Models) -> list[Measurement]:
    """Fit the method, sample all test rows together, and score."""
    if cell.backbone == EXACT_MEAN:
        return [Measurement("closed", (_share_of_departure(cell),))]
    clock = Clock()
    world = World.of(cell)
    clock.lap("world")
    exact = _form(cell) == "exact"
    answer = _exact(cell, world) if exact else _fitted(cell, world, models, clock)
    clock.lap("sampling")
    num_draws = cell.settings["draws"]
    if world.reference is not None:
        values = c2st_batch(
            answer.draws, world.reference, recipe=RECIPE, device=models.device
        )
        measured = [Measurement("c2st", _numbers(values), RECIPE, num_draws)]
    else:
        transform = torch.log if isinstance(world.task, SIRDelay) else None
        if transform is not None:  # an exploding posterior may leave float32
            answer = replace(answer, draws=answer.draws.clamp(1e-30, 1e30))
        values = posterior_mean_error(answer.draws, world.test.theta, transform=transform)
        measured = [Measurement("mse", _numbers(values), "posterior mean", num_draws)]
    clock.lap("metric")
    if answer.log_score is not None:
        measured.append(Measurement("log_score", _numbers(answer.log_score)))
    kept = cell.settings.get("keep_draws")
    if kept is not None:
        measured.append(Measurement("draws", _numbers(answer.draws[:kept].flatten())))
    return [*measured, *answer.shift_errors, clock.measurement]


class Clock:
    """Seconds of the processor for each part of a cell: :data:`CELL_PARTS`."""

    def __init__(self) -> None:
        self.seconds = dict.fromkeys(CELL_PARTS, 0.0)
        self._last = time.process_time()

    def lap(self, part: str) -> None:
        """Count the time since the last lap for a part."""
        now = time.process_time()
        self.seconds[part] += now - self._last
        self._last = now

    @property
    def measurement(self) -> Measurement:
        """All of it, as one more metric."""
        seconds = tuple(round(one, 2) for one in self.seconds.values())
        return Measurement(SECONDS, seconds, ", ".join(CELL_PARTS))


@dataclass(frozen=True)
class _Answer:
    """What a method says of the test rows.

    Attributes:
        draws: Posterior draws, shape ``(num_draws, num_rows, dim_theta)``.
        log_score: Log density of the true parameters, shape ``(num_rows,)``.
        shift_errors: Errors of the shift that it predicts, where they are measured.
    """

    draws: Tensor
    log_score: Tensor | None
    shift_errors: Sequence[Measurement] = ()


def _exact(cell: Cell, world: World) -> _Answer:
    """Give the answer that nobody can improve on: Bayes' rule with x and the context."""
    task, test, num_draws = world.task, world.test, cell.settings["draws"]
    seed = derive(cell.seed, "exact")
    known = _known_regime(world)
    if known is not None:
        draws = task.reference(test.x_obs, num_draws, regime=known, seed=seed)
        return _Answer(draws, exact_log_score(world))
    log_weight = _weigh_regimes(world)
    regimes = range(len(task.regimes))
    generator = torch.Generator().manual_seed(cell.seed)
    pick = torch.multinomial(
        log_weight.exp(), num_draws, replacement=True, generator=generator
    ).T
    draws = test.theta.new_zeros(len(regimes), num_draws, *test.theta.shape)
    for k in regimes:
        possible = log_weight[:, k] > -torch.inf
        x = test.x_obs[possible]
        draws[k][:, possible] = task.reference(x, num_draws, regime=k, seed=seed)
    chosen = torch.gather(draws, 0, pick[None, ..., None].expand(1, *draws.shape[1:]))[0]
    return _Answer(chosen, _log_score_of(world, log_weight))


def exact_log_score(world: World) -> Tensor:
    """Give the log score of Bayes' rule with x and the context, shape ``(num_rows,)``."""
    known = _known_regime(world)
    if known is None:
        return _log_score_of(world, _weigh_regimes(world))
    test = world.test
    return world.task.reference_log_prob(test.theta, test.x_obs, regime=known)


def _known_regime(world: World) -> Tensor | None:
    """Return the regime of each test row, if every context tells it."""
    weights = world.regime_weights
    if weights is None:
        return world.test.regime
    return weights.argmax(dim=1) if bool((weights.amax(dim=1) == 1).all()) else None


def _weigh_regimes(world: World) -> Tensor:
    """Weigh regimes by context and x, log ``(num_rows, num_regimes)``."""
    task, x, weights = world.task, world.test.x_obs, world.regime_weights
    assert weights is not None  # noqa: S101 (then the regime is known)
    evidence = [task.log_evidence(x, regime=one) for one in range(len(task.regimes))]
    return (weights.double().log() + torch.stack(evidence, dim=1)).log_softmax(dim=1)


def _log_score_of(world: World, log_weight: Tensor) -> Tensor:
    """Average the exact densities of regimes."""
    task, test = world.task, world.test
    density = torch.full_like(log_weight, -torch.inf)
    for k in range(len(task.regimes)):
        possible = log_weight[:, k] > -torch.inf
        density[possible, k] = task.reference_log_prob(
            test.theta[possible], test.x_obs[possible], regime=k
        ).double()
    return (log_weight + density).logsumexp(dim=1)


def _fitted(cell: Cell, world: World, models: Models, clock: Clock) -> _Answer:
    """Fit the method and sample it."""
    settings, test = cell.settings, world.test
    method = make_method(cell, models.device)
    if "density" in settings:
        learned = models.posterior(density_of(cell, settings["density"]))
        method.set_params(density=learned)
    materials = materials_of(cell, world, method, models)
    method.fit(materials, seed=cell.seed)
    clock.lap("fit")
    x = test.x_sim if method.reads == "x_sim" else test.x_obs
    batches = [
        (test.theta[rows], x[rows], [test.context[row] for row in rows])
        for rows in torch.arange(len(x)).split(settings.get("together", len(x)))
    ]
    draws = [
        method.sample(settings["draws"], some_x, context, seed=cell.seed)
        for _, some_x, context in batches
    ]
    clock.lap("sampling")
    scored = method.has_density and _affordable(method, x, test.context)
    scores = [
        log_score(method, theta, some_x, context=context)
        for theta, some_x, context in (batches if scored else ())
    ]
    errors: Sequence[Measurement] = ()
    if "calibration_sets" in settings and isinstance(method, MASBI):
        errors = _shift_errors(cell, world, method, materials)
    score = torch.cat(scores) if scores else None
    clock.lap("metric")
    return _Answer(torch.cat(draws, dim=1).cpu(), score, errors)


def _shift_errors(
    cell: Cell, world: World, method: MASBI, materials: Materials
) -> list[Measurement]:
    """Compare shifts with the true ones at each z above 0, in per cent of their length.

    Returns:
        The errors of the first calibration set at each z, and the mean over large z of
        every set.
    """
    grid = slice(1, cell.settings["intensities"])
    z, context = world.test.regime[grid], list(world.test.context[grid])
    true = world.task.depart(torch.zeros(len(z), world.task.dim_x), z)
    errors = []
    for number in range(cell.settings["calibration_sets"]):
        calibration = _calibration(World.of(cell, number))
        fitted = clone(method).fit(
            replace(materials, calibration=calibration), seed=cell.seed
        )
        wrong = (fitted.corrector_.shift(context) - true).norm(dim=1)
        errors.append(100 * wrong / true.norm(dim=1))
    means = [one[z >= SMALLEST_Z].mean().item() for one in errors]
    return [
        Measurement("shift_error", _numbers(errors[0])),
        Measurement("shift_error_of_set", tuple(means)),
    ]


def _share_of_departure(cell: Cell) -> float:
    """Compute the share of the squared departure that a part of the correction undoes."""
    task = GaussianLinear(**cell.settings["task"])
    shift = torch.stack([regime.shift for regime in task.regimes]).double()
    mean = shift.mean(dim=0).expand_as(shift)
    known = shift if task.setting == "informative" else mean
    part = {"ma_sbi_marginal": mean, "ma_sbi_conditional": known - mean, "ma_sbi": known}
    left = (shift - part[cell.method]).square().sum()
    return 1 - (left / shift.square().sum()).item()


def make_method(cell: Cell, device: str = "cpu") -> Method:
    """Make the method of a trial, not fitted yet; what it trains is on the device."""
    settings = cell.settings
    method = FORMS[_form(cell)](**settings.get("options", {}))
    if "backbone" in method.get_params(deep=False):
        fit = fit_backbone(cell.backbone, **settings["training"], device=device)
        method.set_params(backbone=partial(_train, cell, fit))
    return method


def _train(cell: Cell, fit: Callable[..., Any], prior: Any, *data: Any, seed: Any) -> Any:
    """Train the posterior of a method that trains its own."""
    return _as_used(cell, fit(prior, *data, seed=seed), prior)


def _as_used(cell: Cell, posterior: Any, prior: Any) -> Any:
    """Give a posterior the steps that a trial draws in, where its method can use it."""
    steps = cell.settings.get("sampling_steps")
    if steps is not None:
        posterior = posterior.ancestral(steps)
    # What guides a diffusion model calls its network.
    return posterior if _form(cell) in GUIDED else hosted(posterior, prior)


def _affordable(method: Method, x: Tensor, context: Sequence[str]) -> bool:
    """Tell whether the densities of all candidates can be evaluated in reasonable time."""
    if not isinstance(method, CorrectingMethod):
        return True
    if not getattr(method.posterior_, "expensive_density", False):
        return True
    shown = method.corrections(x[:1], list(context[:1])).x.shape[0]
    return shown * len(x) <= MOST_DENSITIES


def materials_of(cell: Cell, world: World, method: Method, models: Models) -> Materials:
    """Gather what the method needs, and nothing that takes long for nothing."""
    settings, task = cell.settings, world.task
    posterior = simulations = unlabelled = None
    if starts_from_posterior(cell):
        trained = models.posterior(backbone_of(cell))
        posterior = _as_used(cell, trained, task.prior)
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
        posterior=posterior,
        simulations=simulations,
        simulator=task.simulate,
        calibration=_calibration(world),
        unlabelled=unlabelled,
    )


def _calibration(world: World) -> Calibration:
    rows = world.calibration
    return Calibration(rows.x_obs, rows.context, rows.x_sim, rows.theta)


def starts_from_posterior(cell: Cell) -> bool:
    """Tell whether the method of a trial needs a trained posterior."""
    form = _form(cell)
    if form == "exact" or cell.backbone == EXACT_MEAN:
        return False
    return not {"posterior", "diffusion"}.isdisjoint(FORMS[form]().needs)


def backbone_of(cell: Cell) -> Backbone:
    """Name the posterior that a trial starts from."""
    # The simulator is the same in every setting of a task: so is its posterior.
    known = cell.settings.get("task", {})
    options = {name: value for name, value in known.items() if name != "setting"}
    return Backbone(
        SIMULATORS.get(cell.task, cell.task),
        cell.backbone,
        cell.seed,
        cell.settings["simulations"],
        options,
        cell.settings["training"],
    )


def density_of(cell: Cell, most_simulations: int) -> Backbone:
    """Name the density of the simulations that the posterior of a cell was trained on."""
    options = {"most_simulations": most_simulations}
    if cell.settings["training"]:
        options["max_epochs"] = QUICK_EPOCHS
    return replace(backbone_of(cell), kind="density", options=options)


def _form(cell: Cell) -> str:
    return cell.settings.get("form", cell.method)


def _numbers(values: Tensor) -> tuple[float, ...]:
    return tuple(values.tolist())
