"""Where numbers come from: commits, versions, sample counts, time."""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass
from typing import Any

import pandas as pd

from ma_sbi_bench.engine.store import PROCESSOR_SECONDS
from ma_sbi_bench.paper.printed import printed
from ma_sbi_bench.trials.run import CELL_PARTS, SECONDS

__all__ = [
    "Provenance",
    "counts_in_words",
    "duration",
    "sample_counts",
    "seconds_of_cells",
    "seconds_of_parts",
    "trace",
]


@dataclass(frozen=True)
class Provenance:
    """Where the numbers of a report come from.

    Attributes:
        commits: Commits of the source that computed them; a plus means that it had been
            changed since.
        versions: Versions of each package; several if cells differ.
        sample_counts: Seeds, simulations, draws and others; all values that occur.
        seconds: Time of all cells, one thread each, without the training of posteriors; as
            :func:`seconds_of_cells` has it.
        num_finished: Number of finished cells; one that experiments share counts once.
        num_cells: Number of cells.
    """

    commits: tuple[str, ...]
    versions: dict[str, tuple[str, ...]]
    sample_counts: dict[str, tuple[int, ...]]
    seconds: float
    num_finished: int
    num_cells: int

    @property
    def facts(self) -> dict[str, str]:
        """All of it in words."""
        return {
            "Cells finished": f"{self.num_finished} of {self.num_cells}",
            "Time of all cells": f"{duration(self.seconds)}, without training posteriors"
            + _hours_of_paper(),
            "Commits (+: changed since)": ", ".join(self.commits) or "unknown",
            "Versions": "; ".join(
                f"{name} {' and '.join(some)}" for name, some in self.versions.items()
            ),
            "Settings": counts_in_words(self.sample_counts),
        }


def trace(frames: Sequence[pd.DataFrame], num_cells: int) -> Provenance:
    """Find where rows come from.

    Args:
        frames: Rows of each experiment.
        num_cells: Number of cells, finished or not.
    """
    # Frames without rows have columns without types, which pandas warns about.
    filled = [frame for frame in frames if len(frame)]
    if not filled:
        return Provenance((), {}, {}, 0.0, 0, num_cells)
    every = pd.concat(filled)
    rows = every.drop_duplicates("key")
    return Provenance(
        commits=tuple(sorted({one for one in rows["commit"] if one})),
        versions=_values_by_name(rows["versions"]),
        sample_counts=sample_counts(rows),
        seconds=round(float(seconds_of_cells(every).sum().sum()), 1),
        num_finished=len(rows),
        num_cells=num_cells,
    )


def sample_counts(rows: pd.DataFrame) -> dict[str, tuple[int, ...]]:
    """List every count that the cells of these rows were run with."""
    if rows.empty:
        return {}
    calibration = (
        {"calibration rows": int(one)} for one in rows["num_calibration"].dropna()
    )
    settings = (
        {name: value for name, value in one.items() if type(value) is int and value > 1}
        for one in rows["settings"]
    )
    seeds = {"seeds": (int(rows["seed"].nunique()),)}
    # By name: the order of settings differs between files of cells and committed rows.
    others = sorted(_values_by_name(settings).items())
    return seeds | _values_by_name(calibration) | dict(others)


def seconds_of_cells(rows: pd.DataFrame) -> pd.DataFrame:
    """Return what each cell took, in columns ``processor`` and ``clock``, by its key.

    Trials say the processor's seconds of each part; cells that were run before these were
    kept have those of the clock, which are more on a busy machine.
    """
    cells = rows.drop_duplicates("key").set_index("key")
    known = cells["versions"].map(lambda one: PROCESSOR_SECONDS.items() <= one.items())
    parts = rows[_has_parts(rows)].drop_duplicates("key").set_index("key")["values"]
    seconds = parts.map(sum).reindex(cells.index)
    by_clock = ~known.astype(bool) & seconds.isna()
    seconds = seconds.fillna(cells["seconds"]).astype(float)
    return pd.DataFrame(
        {"processor": seconds.where(~by_clock, 0), "clock": seconds.where(by_clock, 0)}
    )


def seconds_of_parts(rows: pd.DataFrame) -> dict[str, float]:
    """Add up the processor's seconds of each part, over the trials that say so."""
    timed = rows[_has_parts(rows)]
    return {
        part: sum(one[i] for one in timed["values"]) for i, part in enumerate(CELL_PARTS)
    }


def _has_parts(rows: pd.DataFrame) -> pd.Series[bool]:
    return (rows["metric"] == SECONDS) & (rows["recipe"] == ", ".join(CELL_PARTS))


def counts_in_words(counts: Mapping[str, Sequence[int]], most: int = 6) -> str:
    """Describe counts in a line, many values as a range."""
    said = []
    for name, values in counts.items():
        text = ", ".join(f"{value:,}" for value in values)
        if len(values) > most:
            text = f"{values[0]:,} to {values[-1]:,}"
        said.append(f"{name.replace('_', ' ')} {text}")
    return "; ".join(said)


def _hours_of_paper() -> str:
    hours = printed("compute", "cpu_hours", method="all")
    return f"; the paper's whole project took about {hours.value:.0f} h" if hours else ""


def duration(seconds: float) -> str:
    """Describe a time in the unit that suits it."""
    if seconds < 1:
        return "less than 1 s"
    if seconds < 90:
        return f"{seconds:.0f} s"
    if seconds < 5400:
        return f"{seconds / 60:.0f} min"
    return f"{seconds / 3600:.1f} h"


def _values_by_name(mappings: Iterable[Mapping[str, Any]]) -> dict[str, tuple[Any, ...]]:
    """Collect all values that each name has."""
    found: dict[str, set[Any]] = {}
    for one in mappings:
        for name, value in one.items():
            found.setdefault(name, set()).add(value)
    return {name: tuple(sorted(values)) for name, values in found.items()}
