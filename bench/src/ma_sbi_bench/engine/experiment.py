"""What every experiment offers: a grid of cells, and how a cell is run."""

from __future__ import annotations

from abc import ABC, abstractmethod
from collections.abc import Iterable, Sequence
from typing import TYPE_CHECKING, Any

from ma_sbi_bench.engine.cell import Backbone, Cell, Measurement

if TYPE_CHECKING:  # processes that only run cells start without them
    from ma_sbi_bench.engine.budget import Budget
    from ma_sbi_bench.engine.models import Models

__all__ = ["Experiment"]


class Experiment(ABC):
    """One table or figure of the paper.

    Attributes:
        name: Name on the command line, and of its file of results.
        version: Raised when the meaning of its cells changes; older cells are then run
            again.
        title: What it is, in a few words.
        place: Where the paper has it; empty if it is ours.
        note: What a reader of its tables should know.
    """

    name: str
    version: int = 1
    title: str
    place: str = ""
    note: str = ""

    @abstractmethod
    def cells(self, budget: Budget) -> Sequence[Cell]:
        """List all cells."""

    @abstractmethod
    def run(self, cell: Cell, models: Models, /) -> Sequence[Measurement]:
        """Compute the numbers of a cell."""

    def backbones(self, cell: Cell) -> Sequence[Backbone]:
        """Name the posteriors that a cell needs; none here."""
        return ()

    def cost(self, cell: Cell) -> float:
        """Guess how long a cell takes, in any unit; the longest start first."""
        return 0.0

    def missing(self, cell: Cell) -> str:
        """Say what a cell needs that is not on this machine, such as data, or nothing."""
        return ""

    def what_is_missing(self, cells: Iterable[Cell]) -> str:
        """Say everything that these cells need and that is missing, or nothing."""
        return "; ".join(dict.fromkeys(filter(None, map(self.missing, cells))))

    def cell(self, method: str, **known: Any) -> Cell:
        """Make a cell of this experiment."""
        return Cell(self.name, self.version, method, **known)
