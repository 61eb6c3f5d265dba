"""The diffusion model against sbi's NPSE and FMPE: seconds, and the C2ST they reach.

On tasks whose posterior is known exactly, on the same simulations, with batches of one
size. Each is trained with several numbers of epochs, in turns; draws are compared
with the exact posterior's.
"""

from __future__ import annotations

import copy
import statistics
import warnings
from collections.abc import Callable, Iterator
from dataclasses import dataclass
from typing import Any

import torch
from sbi.inference import FMPE, NPSE
from sbi.utils.user_input_checks_utils import move_distribution_to_device

from benchmarks.speed.timing import Effort, Row, row_of
from tests.no_tracker import NoTracker

TABLES = ("diffusion, training", "diffusion, drawing")
NUM_SIMULATIONS, NUM_OBSERVATIONS, NUM_DRAWS = 5_000, 5, 500
BATCH_SIZE = 256
TASKS = ("gaussian_linear", "two_moons")
EPOCHS = (10, 40)
SEEDS = (0, 1, 2)


def of_sbi(kind: Any, sampler: str) -> Callable[..., Callable[[torch.Tensor], Any]]:
    """Give a function that trains a model of sbi, and returns how to draw from it."""

    def fit(task: Any, theta: Any, x: Any, epochs: int, seed: int, device: str) -> Any:
        with torch.random.fork_rng():
            torch.manual_seed(seed)
            prior = move_distribution_to_device(copy.deepcopy(task.prior), device)
            trainer = kind(
                prior, device=device, tracker=NoTracker(), show_progress_bars=False
            )
            trainer.append_simulations(theta, x)
            # It trains one epoch more. Its noisy loss would stop it much earlier.
            trainer.train(
                training_batch_size=BATCH_SIZE,
                max_num_epochs=epochs - 1,
                stop_after_epochs=epochs,
            )
            posterior = trainer.build_posterior(sample_with=sampler)
        return lambda x_obs: posterior.sample_batched(
            (NUM_DRAWS,), x_obs, show_progress_bars=False
        )

    return fit


def of_ours(num_steps: int) -> Callable[..., Callable[[torch.Tensor], Any]]:
    """Give a function that trains our model, and returns how to draw from it."""

    def fit(task: Any, theta: Any, x: Any, epochs: int, seed: int, device: str) -> Any:
        from ma_sbi import fit_ddpm

        model = fit_ddpm(
            task.prior,
            theta,
            x,
            schedule="rescaled",
            decay="cosine",
            batch_size=BATCH_SIZE,
            epochs=epochs,
            seed=seed,
            device=device,
        ).deterministic(num_steps)
        return lambda x_obs: model.sample(NUM_DRAWS, x_obs, seed=seed)

    return fit


MODELS = {
    "fit_ddpm": of_ours(20),
    "NPSE": of_sbi(NPSE, "sde"),
    "FMPE": of_sbi(FMPE, "ode"),
}


@dataclass(frozen=True)
class Tried:
    """One model, trained once.

    Attributes:
        training: Seconds.
        drawing: Seconds.
        c2st: To the exact posterior, averaged over observations.
    """

    training: float
    drawing: float
    c2st: float


def tried(effort: Effort, world: str, name: str, epochs: int, seed: int) -> Tried:
    """Train a model, draw from it, and compare with the exact posterior."""
    from ma_sbi.metrics import c2st_batch
    from ma_sbi_bench.tasks import get_task

    task = get_task(world)
    theta = task.draw(NUM_SIMULATIONS, seed=seed).theta
    x = task.simulate(theta, seed=seed + 10)
    x_obs = task.simulate(theta[:NUM_OBSERVATIONS], seed=seed + 20)
    reference = task.reference(x_obs, NUM_DRAWS, seed=seed)
    found: dict[str, Any] = {}

    def train() -> None:
        found["draw"] = MODELS[name](task, theta, x, epochs, seed, effort.device)

    def draw() -> None:
        found["draws"] = found["draw"](x_obs.to(effort.device))

    seconds = effort.time(train), effort.time(draw)
    draws = found["draws"].reshape(reference.shape).cpu()
    return Tried(*seconds, c2st_batch(draws, reference, recipe="fast").mean().item())


def rows(effort: Effort) -> Iterator[Row]:
    """Try all models; a row's size is its number of epochs."""
    warnings.simplefilter("ignore")
    for world in TASKS:
        for epochs in EPOCHS[:1] if effort.quick else EPOCHS:
            yield from compare(effort, world, epochs)


def compare(effort: Effort, world: str, epochs: int) -> Iterator[Row]:
    """Try all models in turns, on the simulations of every seed."""
    results: dict[str, list[Tried]] = {name: [] for name in MODELS}
    for seed in SEEDS:
        for name in MODELS:
            results[name].append(tried(effort, world, name, epochs, seed))
    ours = results["fit_ddpm"]
    for name, theirs in results.items():
        reached = [statistics.mean(one.c2st for one in some) for some in (theirs, ours)]
        for step in ("training", "drawing"):
            pairs = zip(theirs, ours, strict=True)
            turns = [[getattr(one, step) for one in pair] for pair in pairs]
            what = f"{world}: {name}"
            yield row_of(f"diffusion, {step}", what, epochs, "fit_ddpm", turns, *reached)
