"""The method on one page: find a receiver from its distances to two beacons.

A receiver somewhere in a square measures its distances to two beacons. A posterior is
trained on simulations in which both beacons work. In reality they sometimes do not, and a
log describes when.
"""

from __future__ import annotations

import textwrap
import warnings
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from typing import NamedTuple

import torch
from matplotlib.figure import Figure
from torch import Tensor
from torch.distributions import Distribution, Independent, Uniform

from ma_sbi.choosing import Why, fit_corrector
from ma_sbi.metrics import GapClosed, c2st_batch, gap_closed
from ma_sbi.posterior import CorrectedPosterior
from ma_sbi.posteriors import fit_flow
from ma_sbi.randomness import generator
from ma_sbi.simulation import sample_prior

__all__ = [
    "COMPARED",
    "NOTES",
    "Beacons",
    "DemoResult",
    "Measurements",
    "plot_posteriors",
    "run_demo",
]

COMPARED = ("NPE", "MA-SBI", "Oracle")
COLOURS = {"NPE": "#d62728", "MA-SBI": "#1f77b4", "Oracle": "#2ca02c"}
REFERENCE = "0.75"
NOTES: Mapping[str, tuple[float, float]] = {
    "Both beacons were tested at noon, nothing to report.": (0.0, 0.0),
    "Beacon A was replaced; its clock runs late.": (0.3, 0.0),
    "Echo from the new hangar on the path to beacon B.": (0.0, 0.3),
    "Frost on both antennas, the gain was turned up.": (-0.25, -0.25),
}
"""What the log says, and the error of the two distances that it implies."""


class Measurements(NamedTuple):
    """Measured positions, one per row.

    Attributes:
        theta: True positions, shape ``(n, 2)``.
        x_sim: Distances as simulated, shape ``(n, 2)``.
        x_obs: Distances as measured, shape ``(n, 2)``.
        notes: What the log says of each row.
    """

    theta: Tensor
    x_sim: Tensor
    x_obs: Tensor
    notes: list[str]


class Beacons:
    """Distances from a position in a square to two beacons.

    Attributes:
        beacons: Where the beacons are, east and north, shape ``(2, 2)``.
        noise: Standard deviation of a measured distance.
        cells: Cells per side of the grid on which the exact posterior is evaluated.
    """

    beacons = torch.tensor([[-0.5, -0.2], [0.5, -0.2]])
    noise = 0.05
    cells = 256

    @property
    def prior(self) -> Distribution:
        """Positions, uniform on the square from -1 to 1."""
        return Independent(Uniform(-torch.ones(2), torch.ones(2)), 1)

    def simulate(self, theta: Tensor, *, seed: int) -> Tensor:
        """Measure the distances to the beacons, with noise."""
        noise = torch.randn(len(theta), 2, generator=generator(seed))
        return torch.cdist(theta, self.beacons) + self.noise * noise

    def draw(self, num: int, *, seed: int) -> Measurements:
        """Draw positions, their distances and notes, every note about equally often."""
        theta = sample_prior(self.prior, num, seed=seed)
        x_sim = self.simulate(theta, seed=seed + 1)
        notes = [list(NOTES)[row % len(NOTES)] for row in range(num)]
        return Measurements(theta, x_sim, x_sim + self.shift(notes), notes)

    def shift(self, notes: list[str]) -> Tensor:
        """Return the error of the distances under each note."""
        return torch.tensor([NOTES[note] for note in notes])

    def reference(self, x: Tensor, num_draws: int, *, seed: int) -> Tensor:
        """Draw from the exact posterior, shape ``(num_draws, len(x), 2)``.

        A cell of the grid is drawn by the density at its centre, then a point within it
        uniformly; a cell is a sixth of the noise wide.
        """
        width = 2 / self.cells
        centres = (torch.arange(self.cells) + 0.5) * width - 1
        grid = torch.cartesian_prod(centres, centres)
        error = x[:, None] - torch.cdist(grid, self.beacons)
        log_density = -error.square().sum(dim=-1) / (2 * self.noise**2)
        rng = generator(seed)
        cell = torch.multinomial(
            log_density.softmax(dim=1), num_draws, replacement=True, generator=rng
        ).T
        within = torch.rand(*cell.shape, 2, generator=rng) - 0.5
        return grid[cell] + width * within


@dataclass(frozen=True)
class DemoResult:
    """What the demo found.

    Attributes:
        draws: Posterior draws per method, and of the exact ``"reference"``, each of shape
            ``(num_draws, num_notes, num_observations, 2)``.
        c2st: C2ST per method, shape ``(num_notes, num_observations)``.
        shift_error: Relative error of the shifts that were learned from the notes.
        why: What the corrector was chosen from, and why.
    """

    draws: dict[str, Tensor]
    c2st: dict[str, Tensor]
    shift_error: float
    why: Why

    def gap_closed(self, note: int | None = None) -> GapClosed:
        """Give the share of the NPE-to-Oracle gap closed under one note, or all."""
        values = [
            (score if note is None else score[note]).flatten().numpy()
            for score in (self.c2st[name] for name in COMPARED)
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
    """Train a posterior, learn the departures from notes, and compare.

    Args:
        num_simulations: Simulations to train the posterior on.
        num_calibration: Triples of note, observation and simulation.
        num_observations: Test observations, each of them seen under every note.
        num_draws: Posterior draws per observation.
        max_epochs: Most epochs of training.
        seed: Seed of everything.
        stage: Called with a few words before each stage.
    """
    world, notes = Beacons(), list(NOTES)
    stage(f"Simulating {num_simulations:,} data sets")
    train = world.draw(num_simulations, seed=seed)

    stage("Training a neural spline flow on them (most of the time goes here)")
    with warnings.catch_warnings():
        # A demonstration stops early on purpose.
        warnings.filterwarnings("ignore", message="training stopped at max_epochs")
        posterior = fit_flow(
            world.prior, train.theta, train.x_sim, max_epochs=max_epochs, seed=seed
        )

    stage(f"Learning the departures from {num_calibration} notes and data pairs")
    calibration = world.draw(num_calibration, seed=seed + 2)
    # Judged by x_sim, so that a posterior that was trained briefly has no say in it.
    corrector = fit_corrector(
        calibration.notes, calibration.x_obs, calibration.x_sim, seed=seed
    )

    stage("Sampling every posterior")
    x_sim = world.draw(num_observations, seed=seed + 4).x_sim.repeat(len(notes), 1)
    log = [note for note in notes for _ in range(num_observations)]
    shifts = world.shift(log)
    x_obs = x_sim + shifts
    learned = x_obs - corrector.correct(x_obs, log)
    corrected = CorrectedPosterior(posterior, corrector)
    draws = {
        "reference": world.reference(x_sim, num_draws, seed=seed),
        "NPE": posterior.sample(num_draws, x_obs, seed=seed),
        "MA-SBI": corrected.sample(num_draws, x_obs, log, seed=seed),
        "Oracle": posterior.sample(num_draws, x_sim, seed=seed),
    }

    stage("Comparing with the exact posterior (C2ST)")
    judged = torch.cat([draws[name] for name in COMPARED], dim=1)
    truth = draws["reference"].repeat(1, len(COMPARED), 1)
    scores = c2st_batch(judged, truth, recipe="fast").chunk(len(COMPARED))
    shape = (len(notes), num_observations)
    return DemoResult(
        draws={name: values.unflatten(1, shape) for name, values in draws.items()},
        c2st={n: s.reshape(shape) for n, s in zip(COMPARED, scores, strict=True)},
        shift_error=((learned - shifts).norm() / shifts.norm()).item(),
        why=corrector.why,
    )


def plot_posteriors(
    draws: Mapping[str, Tensor],
    regimes: Sequence[str],
    *,
    limits: tuple[float, float],
    names: tuple[str, str] = (r"$\theta_1$", r"$\theta_2$"),
) -> Figure:
    """Plot draws over the exact posterior: a row per method, a column per regime.

    Args:
        draws: Draws of each method and of ``"reference"``, which is plotted beneath them,
            each of shape ``(num_draws, num_regimes, 2)``.
        regimes: Titles of the columns.
        limits: Range of both axes.
        names: Names of the two parameters.

    Returns:
        The figure; ``figure.savefig(path)`` writes it.
    """
    reference = draws["reference"]
    methods = [name for name in draws if name != "reference"]
    size = (2.9 * len(regimes), 2.7 * len(methods) + 0.7)
    figure = Figure(figsize=size, layout="constrained")
    axes = figure.subplots(
        len(methods), len(regimes), sharex=True, sharey=True, squeeze=False
    )
    for row, method in enumerate(methods):
        for column, regime in enumerate(regimes):
            axis = axes[row, column]
            axis.scatter(
                *reference[:, column].T, s=5, c=REFERENCE, linewidths=0, label="exact"
            )
            colour = COLOURS.get(method, "black")
            axis.scatter(
                *draws[method][:, column].T,
                s=5,
                c=colour,
                alpha=0.6,
                linewidths=0,
                label=method,
            )
            axis.set(xlim=limits, ylim=limits, aspect="equal")
            if row == 0:
                axis.set_title(textwrap.fill(regime, 34), fontsize=8)
            if row == len(methods) - 1:
                axis.set_xlabel(names[0])
            if column == 0:
                axis.set_ylabel(names[1])
                axis.legend(loc="lower left", fontsize=8, markerscale=2.5)
    return figure
