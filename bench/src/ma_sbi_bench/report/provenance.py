"""Where numbers come from: commits, versions, sample counts, time."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any

import pandas as pd

if TYPE_CHECKING:
    from ma_sbi_bench.report.contents import Section

__all__ = ["Provenance", "duration", "sample_counts", "trace"]


@dataclass(frozen=True)
class Provenance:
    """Where the numbers of a report come from.

    Attributes:
        commits: Commits of the source that computed them; a plus means that it had been
            changed since.
        versions: Versions of each package; several if cells differ.
        sample_counts: Seeds, simulations, draws and the like; all values that occur.
        seconds: What all cells took, one thread each, without the training of posteriors.
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
            "Time of all cells": f"{duration(self.seconds)}, without training posteriors",
            "Commits (+: changed since)": ", ".join(self.commits) or "unknown",
            "Versions": "; ".join(
                f"{name} {' and '.join(some)}" for name, some in self.versions.items()
            ),
            "Settings": counts_in_words(self.sample_counts),
        }


def trace(sections: Sequence[Section]) -> Provenance:
    """Find where the numbers of sections come from."""
    keys = {cell.key for section in sections for cell in section.cells}
    # Frames without rows have columns without types, which pandas warns about.
    frames = [section.rows for section in sections if len(section.rows)]
    if not frames:
        return Provenance((), {}, {}, 0.0, 0, len(keys))
    rows = pd.concat(frames).drop_duplicates("key")
    return Provenance(
        commits=tuple(sorted({one for one in rows["commit"] if one})),
        versions=_by_name(rows["versions"]),
        sample_counts=sample_counts(rows),
        seconds=round(float(rows["seconds"].sum()), 1),
        num_finished=len(rows),
        num_cells=len(keys),
    )


def sample_counts(rows: pd.DataFrame) -> dict[str, tuple[int, ...]]:
    """List every count that the cells of these rows were run with."""
    found: dict[str, set[int]] = {}
    if len(rows):
        found["seeds"] = {int(rows["seed"].nunique())}
        calibration = rows["num_calibration"].dropna()
        if len(calibration):
            found["calibration rows"] = {int(one) for one in calibration}
    for settings in rows["settings"]:
        for name, value in settings.items():
            if isinstance(value, int) and not isinstance(value, bool) and value > 1:
                found.setdefault(name, set()).add(value)
    return {name: tuple(sorted(values)) for name, values in found.items()}


def counts_in_words(counts: dict[str, tuple[int, ...]], most: int = 6) -> str:
    """Word counts in a line, many of them as a range."""
    said = []
    for name, values in counts.items():
        shown = ", ".join(f"{value:,}" for value in values)
        if len(values) > most:
            shown = f"{values[0]:,} to {values[-1]:,}"
        said.append(f"{name.replace('_', ' ')} {shown}")
    return "; ".join(said)


def duration(seconds: float) -> str:
    """Word a time as people say it."""
    if seconds < 1:
        return "less than 1 s"
    if seconds < 90:
        return f"{seconds:.0f} s"
    if seconds < 5400:
        return f"{seconds / 60:.0f} min"
    return f"{seconds / 3600:.1f} h"


def _by_name(versions: Any) -> dict[str, tuple[str, ...]]:
    found: dict[str, set[str]] = {}
    for one in versions:
        for name, version in one.items():
            found.setdefault(name, set()).add(version)
    return {name: tuple(sorted(some)) for name, some in found.items()}
