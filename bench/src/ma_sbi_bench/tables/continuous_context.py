"""SLCP under a departure that grows with a number in the log: continuous context."""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from functools import lru_cache
from typing import Any

import numpy as np
import pandas as pd
import torch
from matplotlib.figure import Figure
from torch import Tensor

from ma_sbi.correctors import ShiftCorrector, decompose
from ma_sbi.encoders import HashEncoder, NumberEncoder
from ma_sbi.metrics import c2st_batch, log_score
from ma_sbi.posterior import CorrectedPosterior
from ma_sbi.randomness import derive
from ma_sbi_bench.engine.budget import Budget
from ma_sbi_bench.engine.cell import Backbone, Cell, Measurement
from ma_sbi_bench.engine.experiment import Experiment
from ma_sbi_bench.engine.models import Laboratory
from ma_sbi_bench.tables.comparing import Line, estimate
from ma_sbi_bench.tasks import Draws, get_task
from ma_sbi_bench.trials.lines import Published, trial_lines

__all__ = ["ContinuousContext"]

PAPER_CLOSED, PAPER_ERROR = 96.8, 12.3
# Below, NPE and Oracle are less than 0.03 apart in the paper, which leaves them out.
SMALLEST_Z = 0.3
BACKBONES = ("ddpm", "maf")
TASK = "slcp_continuous"
RECIPE = "fast"
# Smaller errors (in %) are drawn here.
FLOOR = 0.01
# Label, colour, line and marker; the same in both panels.
STYLE = {
    "npe": ("NPE", "#d62728", "-", "o"),
    "ma_sbi": ("MA-SBI", "#1f77b4", "-", "o"),
    "ma_sbi_unseen": ("MA-SBI, unseen texts", "#17becf", "--", "v"),
    "ma_sbi_paper": ("MA-SBI, paper's recipe", "#ff7f0e", "-", "s"),
    "ma_sbi_number": ("MA-SBI, number", "#9467bd", "--", "D"),
    "ma_sbi_shuffled": ("shuffled context", "0.35", ":", "x"),
    "ma_sbi_marginal": ("marginal only", "0.6", "--", "+"),
    "oracle": ("Oracle", "#2ca02c", "-", "^"),
}
METHODS = ("prior", *STYLE, "exact")


class ContinuousContext(Experiment):
    """Every form of MA-SBI over a grid of intensities."""

    name = "continuous_context"
    title = "Continuous context"
    place = "Appendix on continuous context"
    note = (
        f"Means over intensities z >= {SMALLEST_Z}, as in the paper; intervals are over "
        "observations, or over seeds where there are several; those of the error of the "
        "shift are over ten calibration sets. The text gives z with two digits, so 2000 "
        "calibration rows hold nearly all of the 101 texts; `ma_sbi_unseen` leaves out "
        "those of the grid, `ma_sbi_number` reads the number itself. The paper's figures "
        "are of its diffusion model and stand beside `ma_sbi_paper`, which trains the "
        "paper's network. Its share may be a mean over z of shares; ours is a share of "
        "means. With the diffusion model a mean shift alone (`ma_sbi_marginal`) closes "
        "most of the gap, so that the share says little of what was learned about z; the "
        "error of the shift does. Three observations, as the paper's: intervals are wide."
    )

    def cells(self, budget: Budget) -> Sequence[Cell]:
        """List every method with both backbones."""
        sizes = {"observations": 3, "intensities": 20, "draws": 500}
        if budget.quick:
            sizes = {"observations": 2, "intensities": 4, "draws": 100}
        num_sets = 3 if budget.quick else 10
        return [
            self.cell(
                method,
                task=TASK,
                backbone=backbone,
                seed=seed,
                num_calibration=500 if budget.quick else 2000,
                settings={
                    **sizes,
                    # No posterior has a part in the shift: one backbone is enough.
                    "calibration_sets": num_sets if backbone == BACKBONES[0] else 1,
                    "simulations": budget.simulations("slcp"),
                    "training": budget.training.get(backbone, {}),
                },
            )
            for seed in budget.seeds_of()
            for backbone in BACKBONES
            for method in METHODS
        ]

    def backbones(self, cell: Cell) -> Sequence[Backbone]:
        """Name the posterior, which is that of SLCP: the simulator is the same."""
        if cell.method in ("prior", "exact"):
            return ()
        number, training = cell.settings["simulations"], cell.settings["training"]
        return (Backbone("slcp", cell.backbone, cell.seed, number, {}, training),)

    def run(self, cell: Cell, laboratory: Laboratory) -> Sequence[Measurement]:
        """Score a method on every observation at every intensity."""
        sizes = (cell.settings[name] for name in ("observations", "intensities", "draws"))
        world = _world(*sizes)
        measured: list[Measurement] = []
        if cell.method == "prior":
            draws, score = world.prior(cell.seed)
        elif cell.method == "exact":
            draws, score = world.exact(cell.seed)
        else:
            posterior = laboratory.posterior(self.backbones(cell)[0])
            x = world.rows.x_sim if cell.method == "oracle" else world.rows.x_obs
            context: Any = None
            if cell.method not in ("npe", "oracle"):
                corrector, context = _fit(cell, world)
                posterior = CorrectedPosterior(posterior, corrector)
                measured += _shift_errors(cell, world)
            told = () if context is None else (context,)
            draws = posterior.sample(world.num_draws, x, *told, seed=cell.seed)
            score = log_score(posterior, world.rows.theta, x, context=context)
        values = c2st_batch(draws, world.reference, recipe=RECIPE)
        return [
            Measurement("c2st", tuple(values.tolist()), RECIPE, world.num_draws),
            Measurement("log_score", tuple(score.tolist())),
            *measured,
        ]

    def lines(self, rows: pd.DataFrame) -> Sequence[Line]:
        """Put means over large intensities beside the paper's."""
        return [
            *trial_lines(
                _large_only(rows),
                f"Continuous context, z >= {SMALLEST_Z}",
                published=_published,
                order=METHODS,
            ),
            *_error_lines(rows),
        ]

    def figures(self, rows: pd.DataFrame) -> Mapping[str, Figure]:
        """Draw C2ST and the error of the shift over z, of the paper's backbone."""
        shown = rows[rows["backbone"] == BACKBONES[0]]
        return {} if shown.empty else {"continuous_context": _draw(shown)}

    def captions(self) -> Mapping[str, str]:
        """Say what the figure shows."""
        return {
            "continuous_context": "C2ST (left) and error of the recovered shift (right) "
            "over the intensity z; the paper's means leave out what is shaded."
        }


@dataclass(frozen=True)
class _World:
    """Test rows: every observation at every intensity, observation after observation.

    Attributes:
        task: The task.
        rows: The rows; ``regime`` is the intensity.
        reference: Exact draws, shape ``(num_draws, num_rows, dim_theta)``.
        num_intensities: Number of intensities of each observation.
    """

    task: Any
    rows: Draws
    reference: Tensor
    num_intensities: int

    @property
    def num_draws(self) -> int:
        return len(self.reference)

    def prior(self, seed: int) -> tuple[Tensor, Tensor]:
        """Draw and score without any data."""
        theta = self.rows.theta
        draws = self.task.draw(self.num_draws * len(theta), seed=derive(seed, "prior rows"))
        return (
            draws.theta.unflatten(0, (self.num_draws, len(theta))),
            self.task.prior.log_prob(theta),
        )

    def exact(self, seed: int) -> tuple[Tensor, Tensor]:
        """Draw and score by Bayes' rule with x and z, which tell what was simulated."""
        once = self.rows.x_sim[:: self.num_intensities]
        many = self.num_draws * self.num_intensities
        draws = self.task.reference(once, many, seed=derive(seed, "exact"))
        by_intensity = draws.unflatten(0, (self.num_draws, self.num_intensities))
        score = self.task.reference_log_prob(self.rows.theta[:: self.num_intensities], once)
        return (
            by_intensity.transpose(1, 2).flatten(1, 2),
            score.repeat_interleave(self.num_intensities),
        )


@lru_cache(maxsize=2)
def _world(observations: int, intensities: int, num_draws: int) -> _World:
    """Draw the test rows, the same for every seed."""
    task = get_task(TASK)
    once = task.draw(observations, seed=derive(0, "test"))
    index = torch.arange(observations).repeat_interleave(intensities)
    z = torch.linspace(0, 1, intensities).repeat(observations)
    x_sim = once.x_sim[index]
    rows = Draws(once.theta[index], x_sim, task.depart(x_sim, z), z, task.contexts(z))
    reference = task.reference(once.x_sim, num_draws, seed=derive(0, "reference"))
    return _World(task, rows, reference[:, index], intensities)


def _fit(cell: Cell, world: _World, number: int = 0) -> tuple[Any, Any]:
    """Fit the corrector of a method; return it with the contexts of the test rows.

    Args:
        cell: Which method.
        world: The test rows.
        number: Which of several calibration sets; the first is what posteriors are
            corrected by.
    """
    purpose = f"calibration {number}" if number else "calibration"
    calibration = world.task.draw(cell.num_calibration, seed=derive(cell.seed, purpose))
    context: Any = calibration.context
    x_obs, x_sim = calibration.x_obs, calibration.x_sim
    test: Any = world.rows.context
    recipe: Any = "paper" if cell.method == "ma_sbi_paper" else "converged"
    encoder: Any = HashEncoder()
    if cell.method == "ma_sbi_number":
        encoder = NumberEncoder()
        context, test = calibration.regime.tolist(), world.rows.regime.tolist()
    elif cell.method == "ma_sbi_shuffled":
        rng = np.random.default_rng(derive(cell.seed, "contexts"))
        context = rng.permutation(context).tolist()
    elif cell.method == "ma_sbi_unseen":
        unseen = [row for row, text in enumerate(context) if text not in set(test)]
        context = [context[row] for row in unseen]
        x_obs, x_sim = x_obs[unseen], x_sim[unseen]
    corrector: Any = ShiftCorrector(encoder, recipe)
    corrector.fit(context, x_obs, x_sim, seed=cell.seed)
    if cell.method == "ma_sbi_marginal":
        corrector = decompose(corrector, context).marginal
    return corrector, test


def _shift_errors(cell: Cell, world: _World) -> list[Measurement]:
    """Compare shifts with the true ones at each z above 0, in per cent of their length.

    Returns:
        The errors of the first calibration set at each z, and the mean over large z of
        every set.
    """
    grid = slice(1, world.num_intensities)
    z = world.rows.regime[grid]
    true = world.task.depart(torch.zeros(len(z), world.task.dim_x), z)
    errors = []
    for number in range(cell.settings["calibration_sets"]):
        corrector, context = _fit(cell, world, number)
        wrong = (corrector.shift(context[grid]) - true).norm(dim=1)
        errors.append(100 * wrong / true.norm(dim=1))
    means = [one[z >= SMALLEST_Z].mean().item() for one in errors]
    return [
        Measurement("shift_error", tuple(errors[0].tolist())),
        Measurement("shift_error_of_set", tuple(means)),
    ]


def _grid(row: pd.Series) -> np.ndarray:
    return np.linspace(0, 1, row["settings"]["intensities"])


def _large_only(rows: pd.DataFrame) -> pd.DataFrame:
    """Average the values of large intensities, observation by observation."""

    def mean(row: pd.Series) -> np.ndarray:
        by_observation = row["values"].reshape(row["settings"]["observations"], -1)
        return by_observation[:, _grid(row) >= SMALLEST_Z].mean(axis=1)

    rows = rows[rows["metric"].isin(("c2st", "log_score"))]
    values = pd.Series([mean(row) for _, row in rows.iterrows()], rows.index, dtype=object)
    return rows.assign(values=values)


def _published(row: pd.Series) -> Published:
    asked = row["backbone"] == "ddpm" and row["method"] == "ma_sbi_paper"
    return Published(closed=PAPER_CLOSED) if asked else Published()


def _error_lines(rows: pd.DataFrame) -> list[Line]:
    """Average the error of the shift over calibration sets."""
    found = rows[
        (rows["metric"] == "shift_error_of_set") & (rows["backbone"] == BACKBONES[0])
    ]
    return [
        Line(
            f"Error of the recovered shift, z >= {SMALLEST_Z}",
            {"method": method},
            raw=estimate(
                np.concatenate(part["values"].tolist()),
                paper=PAPER_ERROR if method == "ma_sbi_paper" else None,
                better="lower",
                digits=1,
            ),
            metric="error, %",
        )
        for method in METHODS
        if len(part := found[found["method"] == method])
    ]


def _draw(rows: pd.DataFrame) -> Figure:
    """Draw C2ST and the relative error of the shift over z."""
    figure = Figure(figsize=(11, 4.8), layout="constrained")
    left, right = figure.subplots(1, 2)
    observations = rows.iloc[0]["settings"]["observations"]

    def over_intensities(values: np.ndarray) -> np.ndarray:
        return values.reshape(observations, -1).mean(axis=0)

    def at_least(values: np.ndarray) -> np.ndarray:
        return np.maximum(values, FLOOR)

    z = _grid(rows.iloc[0])
    _plot(left, rows[rows["metric"] == "c2st"], z, over_intensities)
    _plot(right, rows[rows["metric"] == "shift_error"], z[1:], at_least)
    left.set_ylabel(f"C2ST, mean over {observations} observations")
    left.set_title("(a) Distance to the exact posterior", loc="left", fontsize=10)
    right.hlines(PAPER_ERROR, SMALLEST_Z, 1, color="black", lw=1)
    right.text(1, PAPER_ERROR, "paper, mean", ha="right", va="bottom", fontsize=8)
    right.set_yscale("log")
    right.yaxis.set_major_formatter("{x:g}")
    right.set_ylabel(
        rf"$\|\hat\delta - \delta\| \,/\, \|\delta\|$ in %, at least {FLOOR:g}"
    )
    right.set_title("(b) Error of the recovered shift", loc="left", fontsize=10)
    handles, labels = left.get_legend_handles_labels()
    figure.legend(
        handles, labels, loc="outside lower center", ncols=4, frameon=False, fontsize=9
    )
    return figure


def _plot(
    axis: Any,
    rows: pd.DataFrame,
    z: np.ndarray,
    prepare: Callable[[np.ndarray], np.ndarray],
) -> None:
    axis.axvspan(0, SMALLEST_Z, color="0.94", zorder=0, lw=0)
    for method, (label, colour, line, marker) in STYLE.items():
        part = rows[rows["method"] == method]
        if part.empty:
            continue
        value = prepare(np.mean(np.stack(part["values"].tolist()), axis=0))
        axis.plot(z, value, line, color=colour, marker=marker, ms=4, lw=1.4, label=label)
    axis.set(xlabel="intensity z", xlim=(-0.02, 1.02))
    axis.spines[["top", "right"]].set_visible(False)
    axis.grid(axis="y", color="0.9", lw=0.6)
    axis.set_axisbelow(True)
