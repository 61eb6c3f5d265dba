"""Experiments on real data: a loss of every case under every method, without any oracle."""

from __future__ import annotations

from abc import abstractmethod
from collections.abc import Mapping, Sequence
from typing import Any, ClassVar

import numpy as np
import pandas as pd
from matplotlib.figure import Figure

from ma_sbi.metrics import PairedGain, paired_gain
from ma_sbi_bench.engine.cell import Backbone, Cell
from ma_sbi_bench.engine.experiment import Experiment
from ma_sbi_bench.plots.parts import plot_parts
from ma_sbi_bench.real.parts import Part, preflight_lines
from ma_sbi_bench.real.worlds import backbone_of
from ma_sbi_bench.tables.comparing import Compared, Line

__all__ = ["BASELINE", "PREFLIGHT", "RealExperiment"]

BASELINE = "NPE"
PREFLIGHT = "preflight"
"""The cell that looks at the residuals, before any correction."""


class RealExperiment(Experiment):
    """An experiment whose cells have a ``"loss"`` for each case of a data set.

    Attributes:
        names: What the tables call each task of a cell.
        head: Head of the column of these names.
        methods: Methods in the order of the tables.
        parts: Parts of the correction, each the gain of a method over another.
        about: What the baseline's cell says of the cases, one whole number each.
        group: The one of these whose neighbours are alike.
        block: How many neighbours a bootstrap draws together.
        unit: Unit of the loss.
        digits: Decimals of a loss.
    """

    names: ClassVar[Mapping[str, str]]
    head: ClassVar[str]
    methods: ClassVar[Sequence[str]]
    parts: ClassVar[Sequence[Part]]
    about: ClassVar[Sequence[str]]
    group: ClassVar[str]
    block: ClassVar[int] = 1
    unit: ClassVar[str]
    digits: ClassVar[int]

    def backbones(self, cell: Cell) -> Sequence[Backbone]:
        """Name the posterior of a case."""
        return (backbone_of(cell),)

    def losses(self, rows: pd.DataFrame) -> dict[str, pd.DataFrame]:
        """Gather the losses of each task: cases by methods, a mean over seeds."""
        tables = {}
        for task, part in rows.groupby("task", sort=False):
            baseline = part[part["method"] == BASELINE].drop_duplicates("metric")
            if baseline.empty:
                continue
            said = baseline.set_index("metric")["values"]
            found = {
                str(method): np.mean(np.stack(group["values"].tolist()), axis=0)
                for method, group in part[part["metric"] == "loss"].groupby("method")
            }
            tables[str(task)] = pd.DataFrame(
                {name: said[name].astype(int) for name in self.about}
                | {name: found[name] for name in self.methods if name in found}
            )
        return tables

    def gain(self, losses: pd.DataFrame, over: str, method: str) -> PairedGain:
        """Compare two methods on the same cases."""
        return self._paired(losses, losses[over], losses[method])

    def _paired(self, losses: pd.DataFrame, over: Any, method: Any) -> PairedGain:
        return paired_gain(over, method, time=losses[self.group], block=self.block)

    @abstractmethod
    def loss_note(self, task: str, method: str, losses: pd.DataFrame) -> str:
        """Say what a mean loss is of."""

    def loss_lines(self, rows: pd.DataFrame) -> list[Line]:
        """Show the mean loss of every method."""
        lines = []
        for task, losses in self.losses(rows).items():
            for method in [one for one in self.methods if one in losses]:
                # The interval of a mean is that of its gain over a loss of zero.
                mean = self._paired(losses, losses[method], np.zeros(len(losses)))
                lines.append(
                    Line(
                        "Losses",
                        {self.head: self.names[task], "method": method},
                        raw=Compared(mean.gain, mean.low, mean.high, digits=self.digits),
                        metric=self.unit,
                        note=self.loss_note(task, method, losses),
                    )
                )
        return lines

    def part_gains(self, rows: pd.DataFrame) -> dict[str, dict[Part, PairedGain]]:
        """Compute what each part takes off the loss, on each task that has them all."""
        return {
            task: {part: self.gain(losses, part.over, part.method) for part in self.parts}
            for task, losses in self.losses(rows).items()
            if all({part.over, part.method} <= set(losses) for part in self.parts)
        }

    def part_lines(self, rows: pd.DataFrame) -> list[Line]:
        """Show what each part takes off the loss."""
        return [
            Line(
                "What each part takes off the loss",
                {
                    self.head: self.names[task],
                    "variant": part.variant,
                    "part": part.label,
                },
                raw=Compared(gain.gain, gain.low, gain.high, digits=self.digits),
                metric=self.unit,
            )
            for task, gains in self.part_gains(rows).items()
            for part, gain in gains.items()
        ]

    def part_figure(self, rows: pd.DataFrame) -> Figure | None:
        """Draw what each part takes off the loss; None if nothing has them all."""
        gains = {self.names[task]: found for task, found in self.part_gains(rows).items()}
        return plot_parts(gains, unit=self.unit) if gains else None

    def name_of_residuals(self, task: str) -> str:
        """Name what residuals belong to."""
        return self.names[task]

    def residual_lines(self, rows: pd.DataFrame) -> list[Line]:
        """Tell what the residuals say before a corrector is chosen."""
        before = rows[rows["method"] == PREFLIGHT]
        return [
            line
            for task, part in before.groupby("task", sort=False)
            for line in preflight_lines(
                part, {self.head: self.name_of_residuals(str(task))}
            )
        ]
