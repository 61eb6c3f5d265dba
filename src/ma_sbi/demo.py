"""The method on one page: two moons, four regimes, one text each."""

from __future__ import annotations

import warnings
from collections.abc import Callable
from dataclasses import dataclass

import torch
from torch import Tensor

from ma_sbi.backbones import fit_flow
from ma_sbi.correctors import ShiftCorrector
from ma_sbi.encoders import HashEncoder
from ma_sbi.metrics import GapClosed, c2st_batch, gap_closed
from ma_sbi.posterior import CorrectedPosterior
from ma_sbi.tasks import Task, TwoMoons

__all__ = ["METHODS", "DemoResult", "run_demo"]

METHODS = ("NPE", "MA-SBI", "Oracle")


@dataclass(frozen=True)
class DemoResult:
    """What the demo found.

    Attributes:
        task: The world it took place in.
        draws: Posterior draws per method, and of the exact ``"reference"``, each of shape
            ``(num_draws, num_regimes, num_observations, dim_theta)``.
        c2st: C2ST per method, shape ``(num_regimes, num_observations)``.
        shift_error: Relative error of the shifts that were learned from the texts.
    """

    task: Task
    draws: dict[str, Tensor]
    c2st: dict[str, Tensor]
    shift_error: float

    def gap_closed(self, regime: int | None = None) -> GapClosed:
        """Give the share of the NPE-to-Oracle gap closed in one regime, or in all."""
        values = [
            (score if regime is None else score[regime]).flatten().numpy()
            for score in (self.c2st[name] for name in METHODS)
        ]
        return gap_closed(*values)


def run_demo(
    *,
    num_simulations: int = 10_000,
    num_calibration: int = 100,
    num_observations: int = 3,
    num_draws: int = 500,
    max_epochs: int = 40,
    seed: int = 0,
    stage: Callable[[str], None] = lambda text: None,
) -> DemoResult:
    """Train a posterior, learn the departures from texts, and compare.

    Args:
        num_simulations: Simulations to train the posterior on.
        num_calibration: Triples of text, observation and simulation.
        num_observations: Test observations, each of them seen in every regime.
        num_draws: Posterior draws per observation.
        max_epochs: Most epochs of training.
        seed: Seed of everything.
        stage: Called with a few words before each stage.
    """
    task = TwoMoons()
    stage(f"Simulating {num_simulations:,} data sets")
    train = task.draw(num_simulations, seed=seed)

    stage("Training a neural spline flow on them (most of the time goes here)")
    with warnings.catch_warnings():
        # A demonstration stops early on purpose.
        warnings.filterwarnings("ignore", message="training stopped at max_epochs")
        posterior = fit_flow(
            task.prior, train.theta, train.x_sim, max_epochs=max_epochs, seed=seed
        )

    stage(f"Learning the departures from {num_calibration} texts and data pairs")
    calibration = task.draw(num_calibration, seed=seed + 1)
    corrector = ShiftCorrector(HashEncoder())
    corrector.fit(calibration.context, calibration.x_obs, calibration.x_sim, seed=seed)
    texts = [regime.text for regime in task.regimes]
    shifts = task.shift(torch.arange(len(texts)))
    shift_error = (corrector.shift(texts) - shifts).norm() / shifts.norm()

    stage("Sampling every posterior")
    x_sim = task.draw(num_observations, seed=seed + 2).x_sim.repeat(len(texts), 1)
    regime = torch.arange(len(texts)).repeat_interleave(num_observations)
    x_obs, notes = task.depart(x_sim, regime), task.contexts(regime)
    corrected = CorrectedPosterior(posterior, corrector)
    draws = {
        "reference": task.reference(x_sim, num_draws, seed=seed),
        "NPE": posterior.sample(num_draws, x_obs, seed=seed),
        "MA-SBI": corrected.sample(num_draws, x_obs, notes, seed=seed),
        "Oracle": posterior.sample(num_draws, x_sim, seed=seed),
    }

    stage("Comparing with the exact posterior (C2ST)")
    judged = torch.cat([draws[name] for name in METHODS], dim=1)
    truth = draws["reference"].repeat(1, len(METHODS), 1)
    scores = c2st_batch(judged, truth, recipe="fast").chunk(len(METHODS))
    shape = (len(texts), num_observations)
    return DemoResult(
        task=task,
        draws={name: values.unflatten(1, shape) for name, values in draws.items()},
        c2st={n: s.reshape(shape) for n, s in zip(METHODS, scores, strict=True)},
        shift_error=shift_error.item(),
    )
