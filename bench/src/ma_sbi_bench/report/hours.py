"""Where the hours go: the experiments of the paper, those beyond it, and training."""

from __future__ import annotations

from collections.abc import Sequence
from typing import NamedTuple

import pandas as pd

from ma_sbi_bench.report.provenance import seconds_of_cells, seconds_of_parts
from ma_sbi_bench.report.tables import Column, Entry, Table, words
from ma_sbi_bench.tables.training import TRAINING_SECONDS
from ma_sbi_bench.trials.run import CELL_PARTS

__all__ = ["NOTE", "Spent", "hours_table"]

NOTE = (
    "Hours of the processor, on one thread. Cells that were run before these were kept "
    "count with the time of the clock, which is longer on a busy machine; how much of the "
    "hours that is stands beside them. Cells that experiments share count in the first."
)
PAPER, BEYOND, TRAINING = "the paper", "beyond the paper", "training"
SUMS = {
    "All of the paper": {PAPER},
    "All of the paper, and training": {PAPER, TRAINING},
    "All beyond the paper": {BEYOND},
}


class Spent(NamedTuple):
    """An experiment with those of its rows that no experiment before it has.

    Attributes:
        title: Its title.
        place: Where the paper has it; empty if it is ours.
        rows: The rows.
    """

    title: str
    place: str
    rows: pd.DataFrame

    @property
    def kind(self) -> str:
        """Whether the paper has it; training is of both."""
        if (self.rows["metric"] == TRAINING_SECONDS).any():
            return TRAINING
        return PAPER if self.place else BEYOND


def hours_table(experiments: Sequence[Spent]) -> Table:
    """Show the hours of each experiment, those of the paper first, and their sums."""
    order = [PAPER, TRAINING, BEYOND]
    ordered = sorted(experiments, key=lambda one: order.index(one.kind))
    rows = [_row(one.title, [one]) for one in ordered]
    for title, kinds in SUMS.items():
        some = [one for one in experiments if one.kind in kinds]
        if some:
            rows.append(_row(title, some))
    heads = ["cells", "hours", "of them by the clock", *CELL_PARTS]
    columns = [Column("experiment"), *(Column(head, numeric=True) for head in heads)]
    return Table("Where the hours go", columns, rows)


def _row(title: str, experiments: Sequence[Spent]) -> tuple[Entry, ...]:
    """Add up experiments."""
    rows = pd.concat([one.rows for one in experiments])
    took = seconds_of_cells(rows) / 3600
    training = rows.loc[rows["metric"] == TRAINING_SECONDS, "value"].sum() / 3600
    by_clock = float(took["clock"].sum())
    hours = by_clock + float(took["processor"].sum()) + float(training)
    parts = seconds_of_parts(rows)
    whole = sum(parts.values())
    shares = [100 * one / whole for one in parts.values()] if whole else []
    return (
        words(title),
        Entry(f"{len(took):,}", len(took)),
        Entry(f"{hours:.2f}", hours),
        Entry(f"{by_clock:.2f}" if by_clock else "", by_clock),
        *(Entry(f"{one:.0f} %", one) for one in shares),
        *(Entry() for _ in CELL_PARTS[len(shares) :]),
    )
