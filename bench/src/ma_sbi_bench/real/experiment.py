"""Experiments on real data: a loss of every case under every method.

Real data have no oracle, so there is no gap to close: a part of a correction is judged by
how much it lowers the loss of the posterior that nothing corrects.
"""

from __future__ import annotations

import json
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, field
from functools import lru_cache
from typing import Any, NamedTuple

import numpy as np
import pandas as pd
from torch import Tensor

from ma_sbi.metrics import PairedGain, paired_gain
from ma_sbi.protocols import Corrections
from ma_sbi_bench.engine.budget import Budget
from ma_sbi_bench.engine.cell import Backbone, Cell, Measurement
from ma_sbi_bench.engine.experiment import Experiment
from ma_sbi_bench.engine.models import Models
from ma_sbi_bench.paper.comparing import Compared, Line
from ma_sbi_bench.plots import Figures
from ma_sbi_bench.real.backbones import backbone_of
from ma_sbi_bench.real.preflight import PREFLIGHT, measure_preflight
from ma_sbi_bench.real.source import missing_file

__all__ = [
    "BASELINE",
    "PRIOR",
    "Part",
    "RealExperiment",
    "conditional_part",
    "loss",
    "usual_parts",
]

BASELINE = "NPE"
PRIOR = "prior"


class Part(NamedTuple):
    """A part of a correction: what a method gains over another.

    Attributes:
        label: What the difference between the two is.
        over: The method without it.
        method: The method with it.
        variant: ``"point"`` or ``"stochastic"``.
    """

    label: str
    over: str
    method: str
    variant: str


def usual_parts(point: str, pooled: str, whole: str = "stochastic") -> tuple[Part, ...]:
    """List the parts of a point correction, and of a stochastic one.

    Args:
        point: The method that shifts every case.
        pooled: The method that draws from all residuals, and ignores the context.
        whole: The method that draws from the residuals of the context.
    """
    return (
        Part("marginal", BASELINE, "marginal-only", "point"),
        Part("conditional", BASELINE, "conditional-only", "point"),
        Part("both", BASELINE, point, "point"),
        Part("breadth, no context", BASELINE, pooled, "stochastic"),
        Part("what context adds", pooled, whole, "stochastic"),
        Part("breadth and context", BASELINE, whole, "stochastic"),
    )


def loss(losses: np.ndarray, cell: Cell) -> Measurement:
    """Keep the loss of each case."""
    return Measurement("loss", tuple(losses.tolist()), num_draws=cell.settings["draws"])


def conditional_part(x: Tensor, whole: Corrections, marginal: Corrections) -> Corrections:
    """Shift x by the whole shift less the marginal one.

    Args:
        x: Observations, shape ``(n, dim_x)``.
        whole: The correction of a point corrector.
        marginal: The correction of one that ignores the context.
    """
    return whole._replace(x=x + whole.x - marginal.x)


@dataclass(frozen=True, kw_only=True, eq=False)
class RealExperiment(Experiment):
    """An experiment whose cells have a ``"loss"`` for each case of a data set.

    A study, which all methods share, holds the cases: ``x``, ``predicted``, ``regime``,
    ``held_out_together`` and ``prior_losses()``.

    Attributes:
        names: What the tables call each task of a cell.
        head: Head of the column of these names.
        quick: Tasks of a quick run; all if empty.
        methods: Methods in the order of the tables.
        parts: Parts of the correction.
        about: What the baseline's cell says of the cases, one whole number each.
        group: The one of these whose neighbours are correlated.
        block: How many neighbours a bootstrap draws together.
        unit: Unit of the loss.
        digits: Decimals of a loss.
        file: Names the file of a task's data.
        settings: Gives the settings of a budget, task, method and seed; None if the method
            is not tried.
        world: Chooses what decides the study of a cell, apart from its method.
        prepare: Makes the study of a world.
        measure: Scores a method on every case.
        describe: Computes ``about``.
        of_data: What is computed of every case from the data alone, by the name of its cell
            and metric.
    """

    name: str
    title: str
    place: str = "Section on real-data validation"
    note: str
    version: int = 1
    names: Mapping[str, str]
    head: str
    quick: Sequence[str] = ()
    methods: Sequence[str]
    parts: Sequence[Part]
    about: Sequence[str]
    group: str
    block: int = 1
    unit: str
    digits: int
    file: Callable[[str], str]
    settings: Callable[[Budget, str, str, int], dict[str, Any] | None]
    world: Callable[[Cell], dict[str, Any]]
    prepare: Callable[[Mapping[str, Any], int, Models], Any]
    measure: Callable[[Any, Cell], list[Measurement]]
    describe: Callable[[Any, Cell], dict[str, list[int]]]
    of_data: Mapping[str, Callable[[Cell], Sequence[float]]] = field(default_factory=dict)

    def cells(self, budget: Budget) -> Sequence[Cell]:
        """List every method, and the residuals, on every task."""
        tasks = self.quick if budget.quick and self.quick else self.names
        return [
            self.cell(method, task=task, backbone="maf", seed=seed, settings=settings)
            for seed in budget.seeds_of()
            for task in tasks
            for method in (*self.methods, PREFLIGHT, *self.of_data)
            if (settings := self.settings(budget, task, method, seed)) is not None
        ]

    def missing(self, cell: Cell) -> str:
        """Say where the data should be."""
        return missing_file(self.file(cell.task))

    def backbones(self, cell: Cell) -> Sequence[Backbone]:
        """Name the posterior of a case."""
        return () if cell.method in self.of_data else (backbone_of(cell),)

    def run(self, cell: Cell, models: Models) -> Sequence[Measurement]:
        """Score a method on every case, or measure the residuals."""
        if cell.method in self.of_data:
            return [Measurement(cell.method, tuple(self.of_data[cell.method](cell)))]
        world = json.dumps(self.world(cell), sort_keys=True)
        study = _prepared(self.prepare, world, cell.seed, str(models.folder))
        if cell.method == PREFLIGHT:
            groups = study.held_out_together
            return measure_preflight(
                study.regime, study.x, study.predicted, groups, cell.seed
            )
        if cell.method == PRIOR:
            return [loss(study.prior_losses(), cell)]
        measured = self.measure(study, cell)
        if cell.method == BASELINE:
            about = self.describe(study, cell)
            measured += [Measurement(name, tuple(about[name])) for name in about]
        return measured

    def losses(self, rows: pd.DataFrame) -> dict[str, pd.DataFrame]:
        """Gather the losses of each task: cases by methods, a mean over seeds."""
        tables = {}
        for task, part in rows.groupby("task", sort=False):
            baseline = part[part["method"] == BASELINE].drop_duplicates("metric")
            if baseline.empty:
                continue
            about = baseline.set_index("metric")["values"]
            found = {
                str(method): np.mean(np.stack(group["values"].tolist()), axis=0)
                for method, group in part[part["metric"] == "loss"].groupby("method")
            }
            tables[str(task)] = pd.DataFrame(
                {name: about[name].astype(int) for name in self.about}
                | {name: found[name] for name in self.methods if name in found}
            )
        return tables

    def means_of_data(self, rows: pd.DataFrame, name: str) -> dict[str, np.ndarray]:
        """Give what ``of_data`` computed of every case, by task; a mean over seeds."""
        return {
            str(task): np.mean(np.stack(part["values"].tolist()), axis=0)
            for task, part in rows[rows["metric"] == name].groupby("task", sort=False)
        }

    def gain(
        self, losses: pd.DataFrame, over: str | None, method: str | None
    ) -> PairedGain:
        """Compare two methods on the same cases; None has a loss of zero."""
        zero = np.zeros(len(losses))
        first, second = (zero if one is None else losses[one] for one in (over, method))
        return paired_gain(first, second, time=losses[self.group], block=self.block)

    def gains(self, losses: pd.DataFrame, over: str) -> dict[str, PairedGain]:
        """Compare every other method with one; none if it has no losses yet."""
        others = [one for one in self.methods if one in losses and one != over]
        return {one: self.gain(losses, over, one) for one in others if over in losses}

    def loss_lines(
        self, rows: pd.DataFrame, note: Callable[[str, str, pd.DataFrame], str]
    ) -> list[Line]:
        """Show the mean loss of every method.

        Args:
            rows: Finished rows.
            note: Says what a mean loss is of, by task, method and table of losses.
        """
        return [
            self._line(
                "Losses",
                task,
                {"method": method},
                # The interval of a mean is that of its gain over a loss of zero.
                self.gain(losses, method, None),
                note(task, method, losses),
            )
            for task, losses in self.losses(rows).items()
            for method in self.methods
            if method in losses
        ]

    def part_gains(self, rows: pd.DataFrame) -> dict[str, dict[Part, PairedGain]]:
        """Compute how much each part lowers the loss, on each task that has them all."""
        return {
            task: {part: self.gain(losses, part.over, part.method) for part in self.parts}
            for task, losses in self.losses(rows).items()
            if all({part.over, part.method} <= set(losses) for part in self.parts)
        }

    def part_lines(self, rows: pd.DataFrame) -> list[Line]:
        """Show how much each part lowers the loss."""
        return [
            self._line(
                "What each part takes off the loss",
                task,
                {"variant": part.variant, "part": part.label},
                gain,
            )
            for task, gains in self.part_gains(rows).items()
            for part, gain in gains.items()
        ]

    def part_figure(self, name: str, rows: pd.DataFrame) -> Figures:
        """Draw how much each part lowers the loss; nothing if no task has them all."""
        from ma_sbi_bench.plots.gains import plot_parts

        gains = {self.names[task]: found for task, found in self.part_gains(rows).items()}
        return {name: plot_parts(gains, unit=self.unit)} if gains else {}

    def _line(
        self,
        table: str,
        task: str,
        labels: dict[str, str],
        gain: PairedGain,
        note: str = "",
    ) -> Line:
        return Line(
            table,
            {self.head: self.names[task], **labels},
            raw=Compared(gain.gain, gain.low, gain.high, digits=self.digits),
            metric=self.unit,
            note=note,
        )


@lru_cache(maxsize=2)
def _prepared(prepare: Callable[..., Any], world: str, seed: int, folder: str) -> Any:
    return prepare(json.loads(world), seed, Models(folder))
