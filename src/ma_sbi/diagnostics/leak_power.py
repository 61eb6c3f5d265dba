"""Whether there are enough rows to find a leak of theta, if there is one."""

from __future__ import annotations

from dataclasses import dataclass, replace
from typing import TYPE_CHECKING

import numpy as np
from scipy import stats

from ma_sbi.diagnostics.dependence import MOST_CONTEXT_FEATURES, NUM_COSINES
from ma_sbi.diagnostics.diagnostic import CannotRun, Diagnostic
from ma_sbi.diagnostics.thresholds import THRESHOLDS
from ma_sbi.reading import ContextReading, read_context

if TYPE_CHECKING:
    from ma_sbi.diagnostics.subject import Subject

__all__ = ["DIAGNOSTIC", "LeakPower", "leak_power"]


@dataclass(frozen=True)
class LeakPower:
    """How likely the exclusion test is to find a leak of the size that matters.

    Attributes:
        power: That probability.
        num_rows: Rows that the test can permute.
        num_learned: Other rows, from which regimes behind texts were learned.
        num_needed: Rows for a probability of 80 %; None if more than 5,000.
    """

    power: float
    num_rows: int
    num_needed: int | None
    num_learned: int = 0

    def __str__(self) -> str:
        likely = "yes" if self.power >= THRESHOLDS.leak_power else "perhaps not"
        return f"{likely}: {self.figures}"

    @property
    def figures(self) -> str:
        """The probability, and what it takes, in words."""
        learned = ""
        if self.num_learned:
            learned = f", beside {self.num_learned} from which regimes were learned,"
        needed = "more than 5000" if self.num_needed is None else self.num_needed
        return (
            f"with {self.num_rows} rows{learned} a context that explains "
            f"{THRESHOLDS.leak_that_matters:.0%} of one column would be found with "
            f"probability {self.power:.0%} ({needed} rows for "
            f"{THRESHOLDS.leak_power:.0%})"
        )


def leak_power(
    reading: ContextReading, num_rows: int, num_columns: int, num_tests: int = 1
) -> LeakPower:
    """Compute the power for a leak that explains 10 % of the variance of one column.

    By the noncentral chi-squared distribution of a test at 1 %. Rough: against the share
    found in 100 planted leaks each, it was 0.01 to 0.21 too low in four settings of 2 to 4
    columns, and 0.09 and 0.12 too high in two of 8 columns.

    Args:
        reading: The context.
        num_rows: Rows that can be permuted.
        num_columns: Columns of what is tested.
        num_tests: Tests that share the level.
    """
    # The test uses level, spread and two finer features of each column of x.
    freedom = NUM_COSINES * _num_context_features(reading)
    # It tests each coordinate and each principal axis.
    level = THRESHOLDS.leak_suspected / (2 * num_columns * num_tests)
    share = THRESHOLDS.leak_that_matters
    per_row = share / (1 - share)
    cut = stats.chi2.isf(level, freedom)
    power = float(stats.ncx2.sf(cut, freedom, max(num_rows * per_row, 1e-9)))
    sizes = np.arange(20, 5_000)
    powers = np.asarray(stats.ncx2.sf(cut, freedom, sizes * per_row))
    enough = powers >= THRESHOLDS.leak_power
    needed = int(sizes[enough.argmax()]) if enough.any() else None
    return LeakPower(power, num_rows, needed)


def _num_context_features(reading: ContextReading) -> int:
    """Count the features of the context in the test: a contrast for each further label."""
    if reading.labels is not None:
        return max(1, int(reading.labels.max()))
    known = reading.values[~reading.missing]
    is_wide = (np.ptp(known, axis=0) > 0).sum() > 1
    return MOST_CONTEXT_FEATURES if is_wide else NUM_COSINES


def _run(subject: Subject) -> LeakPower:
    if subject.found("exclusion") is None:
        raise CannotRun("The context was not tested for a leak.")
    rows = subject.permutable
    reading, groups, num_tests = rows.reading, rows.groups, 1
    if rows.blind is not None:
        num_tests = 2
    if rows.blind is not None and rows.blind.context is not None:
        reading = read_context(rows.blind.context)
        groups = None if groups is None else groups[rows.blind.rows]
    num_rows = len(reading)
    if groups is not None:
        num_rows = int(reading.changes_within(groups).sum())
    tested = rows.theta if rows.x_sim is None else rows.x_sim
    assert tested is not None
    found = leak_power(reading, num_rows, tested.shape[1], num_tests)
    return replace(found, num_learned=len(rows.x_obs) - len(reading))


DIAGNOSTIC = Diagnostic("leak_power", "Would a leak have been found?", _run)
