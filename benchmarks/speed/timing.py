"""Two ways to do the same, timed in turns; and what is written down of it."""

from __future__ import annotations

import csv
import math
import statistics
import time
from collections.abc import Callable, Iterator
from dataclasses import asdict, dataclass, fields
from pathlib import Path

import torch

MOST_TURNS = 15
# Seconds of a call that is timed once where sizes grow.
LONG = 5.0
# Seconds that one call may take; larger sizes are not timed.
LONGEST = 100.0


@dataclass(frozen=True)
class Row:
    """One comparison.

    Attributes:
        part: Table it belongs to.
        what: What was timed.
        size: What grows from row to row; 0 if nothing does.
        against: What it is compared with, in the same run.
        seconds: Median over turns.
        against_seconds: That of the other; NaN if there is none.
        low: Lower quartile of the ratios of single turns.
        high: Upper quartile.
        turns: How often both were timed.
        reached: What it reached: a held-out loss, or a C2ST; NaN if nothing.
        against_reached: What the other did.
    """

    part: str
    what: str
    size: int
    against: str
    seconds: float
    against_seconds: float = math.nan
    low: float = math.nan
    high: float = math.nan
    turns: int = 1
    reached: float = math.nan
    against_reached: float = math.nan

    @property
    def ratio(self) -> float:
        """Ratio of the medians."""
        return self.seconds / self.against_seconds

    @property
    def name(self) -> tuple[str, str, int, str]:
        """What tells it from other rows."""
        return self.part, self.what, self.size, self.against


@dataclass(frozen=True)
class Effort:
    """How long to measure.

    Attributes:
        quick: Whether sizes are small, and turns few.
        device: Where networks run.
    """

    quick: bool = False
    device: str = "cpu"

    @property
    def seconds(self) -> float:
        """Seconds after which no turn of a comparison starts, if there were three."""
        return 0.5 if self.quick else 2.0

    def time(self, function: Callable[[], object]) -> float:
        """Time a call: the processor's seconds, or the clock's if another device works."""
        if self.device == "cpu":
            start = time.process_time()
            function()
            return time.process_time() - start
        torch.cuda.synchronize()
        start = time.perf_counter()
        function()
        torch.cuda.synchronize()
        return time.perf_counter() - start

    def turns_of(
        self, *functions: Callable[[], object], least: int = 3
    ) -> list[list[float]]:
        """Time functions in turns, so that a busy moment of the machine hits all alike.

        Args:
            functions: What is timed.
            least: Fewest turns, however long they take.

        Returns:
            Seconds, one row per turn and one column per function.
        """
        turns: list[list[float]] = []
        spent = 0.0
        while len(turns) < least or (spent < self.seconds and len(turns) < MOST_TURNS):
            # The order is reversed every other time: what runs first warms what follows.
            order = range(len(functions))[:: -1 if len(turns) % 2 else 1]
            seconds = {place: self.time(functions[place]) for place in order}
            turns.append([seconds[place] for place in range(len(functions))])
            spent += sum(turns[-1])
        return turns

    def compare(
        self,
        part: str,
        what: str,
        ours: Callable[[], object],
        against: str,
        theirs: Callable[[], object],
        *,
        size: int = 0,
        least: int = 3,
        warm: bool = True,
        reached: float = math.nan,
        against_reached: float = math.nan,
    ) -> Row:
        """Time two functions in turns, after each was called once if ``warm``."""
        if warm:
            ours(), theirs()
        turns = self.turns_of(ours, theirs, least=least)
        return row_of(part, what, size, against, turns, reached, against_reached)

    def growth(
        self,
        part: str,
        what: str,
        sizes: list[int],
        prepare: Callable[[int], Callable[[], object]],
    ) -> Iterator[Row]:
        """Time the same at growing sizes, each against the size before it.

        Args:
            part: Table.
            what: What is timed.
            sizes: Rising sizes.
            prepare: Gives what is timed at a size.
        """
        before, last, once = None, 0, 0.0
        for size in sizes:
            # If it grows linearly; the page shows a blank for what is not timed.
            if last and once * size / last > (10 if self.quick else LONGEST):
                return
            now = prepare(size)
            once = self.time(now)  # warms as well
            if before is None:
                turns = self.turns_of(now)
                seconds = statistics.median(one for (one,) in turns)
                yield Row(part, what, size, "", seconds, turns=len(turns))
            else:
                # What takes long is timed once; beside tenfold growth its spread is small.
                if once > LONG:
                    turns = [[once, self.time(before)]]
                else:
                    turns = self.turns_of(now, before)
                yield row_of(part, what, size, f"at {last:,}", turns)
            before, last = now, size


def row_of(
    part: str,
    what: str,
    size: int,
    against: str,
    turns: list[list[float]],
    reached: float = math.nan,
    against_reached: float = math.nan,
) -> Row:
    """Make a row of the seconds of turns, two columns."""
    ours, theirs = (statistics.median(one) for one in zip(*turns, strict=True))
    ratios = sorted(ours / max(theirs, 1e-9) for ours, theirs in turns)
    if len(ratios) > 1:
        low, _, high = statistics.quantiles(ratios, n=4, method="inclusive")
    else:
        low = high = ratios[0]
    return Row(
        part,
        what,
        size,
        against,
        ours,
        theirs,
        low,
        high,
        len(turns),
        reached,
        against_reached,
    )


def read_rows(path: Path) -> list[Row]:
    """Read rows; none if there is no file."""
    if not path.exists():
        return []
    kinds = {"str": str, "int": int, "float": float}
    with path.open(newline="", encoding="utf-8") as file:
        return [
            Row(**{one.name: kinds[str(one.type)](line[one.name]) for one in fields(Row)})
            for line in csv.DictReader(file)
        ]


def write_rows(path: Path, rows: list[Row]) -> None:
    """Write rows, with as many digits as mean something."""
    path.parent.mkdir(parents=True, exist_ok=True)
    with path.open("w", newline="", encoding="utf-8") as file:
        names = [one.name for one in fields(Row)]
        writer = csv.DictWriter(file, names, lineterminator="\n")
        writer.writeheader()
        for row in rows:
            cells = asdict(row).items()
            writer.writerow(
                {k: f"{v:.4g}" if isinstance(v, float) else v for k, v in cells}
            )
