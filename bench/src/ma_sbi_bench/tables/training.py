"""What training the posteriors costs, which cells share and do not count."""

from __future__ import annotations

from collections.abc import Sequence

import pandas as pd

from ma_sbi_bench.engine.budget import Budget
from ma_sbi_bench.engine.cell import Backbone, Cell, Measurement
from ma_sbi_bench.engine.experiment import Experiment
from ma_sbi_bench.engine.models import Models
from ma_sbi_bench.paper.comparing import Compared, Line
from ma_sbi_bench.paper.words import named

__all__ = ["TRAINING_SECONDS", "Training", "lines"]

TRAINING_SECONDS = "training seconds"


class Training(Experiment):
    """Every posterior that the cells of other experiments share.

    Args:
        others: These experiments.
    """

    name, title, place, note = named("training").values()

    def __init__(self, others: Sequence[Experiment]) -> None:
        self.others = others

    def cells(self, budget: Budget) -> Sequence[Cell]:
        """List every posterior once."""
        every = {
            posterior.key: posterior
            for other in self.others
            for cell in other.cells(budget)
            for posterior in other.backbones(cell)
        }
        return [self._cell(one) for one in every.values()]

    def _cell(self, posterior: Backbone) -> Cell:
        return self.cell(
            "training",
            task=posterior.world,
            backbone=posterior.kind,
            seed=posterior.seed,
            settings={
                "simulations": posterior.num_simulations,
                "world": posterior.world_options,
                "options": posterior.options,
            },
        )

    def backbones(self, cell: Cell) -> Sequence[Backbone]:
        """Name the posterior."""
        about = cell.settings
        return [
            Backbone(
                cell.task,
                cell.backbone,
                cell.seed,
                about["simulations"],
                about["world"],
                about["options"],
            )
        ]

    def run(self, cell: Cell, models: Models) -> Sequence[Measurement]:
        """Read how long its training took."""
        (posterior,) = self.backbones(cell)
        took = models.training(posterior)
        if not took:
            raise ValueError(
                "this posterior was trained before times were kept: remove "
                f"{posterior.key}.posterior from the folder backbones to train it again"
            )
        # On a GPU the processor waits: the clock counts there.
        seconds = took["cpu_seconds" if took["device"] == "cpu" else "seconds"]
        return [Measurement(TRAINING_SECONDS, (seconds,), took["device"])]


def lines(rows: pd.DataFrame) -> Sequence[Line]:
    """Show the mean seconds of each kind of posterior of each world."""
    made = []
    simulations = rows["settings"].map(lambda one: one["simulations"])
    keys = [rows["task"], rows["backbone"], simulations.rename("simulations")]
    for (task, backbone, num), some in rows.groupby(keys, sort=False):
        labels: dict[str, str | int | float] = {
            "task": str(task),
            "posterior": str(backbone),
            "simulations": f"{num:,}",
            "trained": len(some),
            "minutes in all": round(float(some["value"].sum()) / 60, 1),
        }
        mean = Compared(float(some["value"].mean()), digits=1)
        made.append(Line("Training", labels, mean, metric="seconds"))
    return made
