"""What each phase costs, in seconds on one thread."""

from __future__ import annotations

import time
from collections.abc import Sequence
from dataclasses import replace

import pandas as pd

from ma_sbi_bench.engine.budget import Budget
from ma_sbi_bench.engine.cell import Backbone, Cell, Measurement
from ma_sbi_bench.engine.experiment import Experiment
from ma_sbi_bench.engine.models import Models, fit_backbone
from ma_sbi_bench.paper.comparing import Compared, Line, beside
from ma_sbi_bench.paper.printed import printed_beside
from ma_sbi_bench.paper.words import named
from ma_sbi_bench.trials.cells import trial_cell
from ma_sbi_bench.trials.run import backbone_of, make_method, materials_of
from ma_sbi_bench.trials.world import World

__all__ = ["Compute", "lines"]

TASK, BACKBONE = "slcp", "ddpm"
TRAINING = "training"
TIMED = ("npe", "rope_emd", "rope_emd_aligned", "ma_sbi_paper", "ma_sbi")
PHASES = {
    "training": "training the base posterior",
    "fit": "calibration fit",
    "one case": "500 draws of one case",
    "twelve cases": "500 draws of twelve cases together",
    "total": "training, fit and twelve cases one by one",
}


class Compute(Experiment):
    """The compute table."""

    name, title, place, note = named("compute").values()

    def cells(self, budget: Budget) -> Sequence[Cell]:
        """List the training, and every method."""
        cells = [trial_cell(budget, TASK, BACKBONE, method) for method in ("npe", *TIMED)]
        cells[0] = replace(cells[0], method=TRAINING)
        # The paper's twelve, however many observations the task is judged on elsewhere.
        return [
            replace(
                one,
                experiment=self.name,
                version=self.version,
                settings={**one.settings, "observations": 12},
            )
            for one in cells
        ]

    def backbones(self, cell: Cell) -> Sequence[Backbone]:
        """Name the posterior that a method starts from; training makes its own."""
        return () if cell.method == TRAINING else (backbone_of(cell),)

    def run(self, cell: Cell, models: Models) -> Sequence[Measurement]:
        """Measure the phases of a method."""
        world = World.of(cell)
        if cell.method == TRAINING:
            draws = world.task.draw(cell.settings["simulations"], seed=cell.seed)
            fit = fit_backbone(BACKBONE, **backbone_of(cell).options)
            start = time.perf_counter()
            fit(world.task.prior, draws.theta, draws.x_sim, seed=cell.seed)
            return [Measurement("training", (time.perf_counter() - start,))]
        method = make_method(cell)
        materials = materials_of(cell, world, method, models)
        start = time.perf_counter()
        method.fit(materials, seed=cell.seed)
        measured = [Measurement("fit", (time.perf_counter() - start,))]
        num_draws = cell.settings["draws"]
        for name, num in (("one case", 1), ("twelve cases", 12)):
            x, context = world.test.x_obs[:num], world.test.context[:num]
            start = time.perf_counter()
            method.sample(num_draws, x, context, seed=cell.seed)
            seconds = time.perf_counter() - start
            measured.append(Measurement(name, (seconds,), num_draws=num_draws))
        return measured


def lines(rows: pd.DataFrame) -> Sequence[Line]:
    """Show seconds beside the paper's."""
    seconds = {(row["method"], row["metric"]): row["value"] for _, row in rows.iterrows()}
    for method in TIMED:
        parts = [(TRAINING, "training"), (method, "fit"), (method, "one case")]
        if all(part in seconds for part in parts):
            training, fit, one_case = (seconds[part] for part in parts)
            seconds[method, "total"] = training + fit + 12 * one_case
    made = []
    for (method, phase), value in seconds.items():
        paper = printed_beside("compute", phase, method=method)
        raw = Compared(value, **beside(paper) | {"digits": 1})
        labels = {"phase": PHASES[phase], "method": method}
        made.append(Line("Seconds", labels, raw, metric="seconds"))
    return made
