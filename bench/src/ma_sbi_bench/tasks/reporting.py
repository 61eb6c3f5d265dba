"""When counts are reported: delays that move counts between reports, or out of the data."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass

import torch
from torch import Tensor

from ma_sbi.validation import as_count
from ma_sbi_bench.tasks.regimes import Regime

__all__ = ["ReportingRegime", "delivery", "reporting_regimes"]

Release = Callable[[int], int]
"""From the day a count was made to the day it is released. Day 0 is a Monday."""

MONDAY, FRIDAY, SATURDAY, WEEK = 0, 4, 5, 7


@dataclass(frozen=True, eq=False)
class ReportingRegime(Regime):
    """A regime that delays counts.

    Attributes:
        delivery: Which count appears in which report, ones and zeros of shape
            ``(num_reports, num_counts)``. Counts that appear together are added up; an
            empty column is a count that comes too late for the last report.
    """

    delivery: Tensor


def delivery(days: Sequence[int], release: Release) -> Tensor:
    """Tell which count appears in which report.

    A count made on one of the days appears in the first report on or after the day of its
    release; one that is released after the last report does not appear.

    Args:
        days: Days on which counts are made and reports appear, in order.
        release: From the day of a count to the day of its release.

    Returns:
        Ones and zeros of shape ``(num_days, num_days)``, float64.

    Example:
        >>> delivery([0, 2, 4], lambda day: day + 1)
        tensor([[0., 0., 0.],
                [1., 0., 0.],
                [0., 1., 0.]], dtype=torch.float64)
    """
    made = torch.tensor(days)
    released = torch.tensor([release(day) for day in days])
    report = torch.searchsorted(made, released)
    return (torch.arange(len(made))[:, None] == report).double()


def reporting_regimes(days: Sequence[int], lag: int) -> tuple[ReportingRegime, ...]:
    """Make the four reporting patterns: no delay, week-end batch, uniform lag, Friday dump.

    Args:
        days: Days on which counts are made and reports appear; day 0 is a Monday.
        lag: Days by which the uniform lag delays.

    Returns:
        The regimes, each with its text.

    Example:
        >>> [regime.name for regime in reporting_regimes(range(7), lag=3)]
        ['no_delay', 'weekend_batch', 'uniform_lag', 'friday_dump']
    """
    lag = as_count(lag, "lag")
    late = "one day" if lag == 1 else f"{lag} days"
    patterns: list[tuple[str, str, Release]] = [
        ("no_delay", "Counts were reported on the day they were made.", lambda day: day),
        (
            "weekend_batch",
            "Nobody reported on week-ends; those counts were added to Monday's.",
            lambda day: _next(MONDAY, day) if day % WEEK >= SATURDAY else day,
        ),
        ("uniform_lag", f"Every count was reported {late} late.", lambda day: day + lag),
        (
            "friday_dump",
            "All counts since the last report were released together on Friday.",
            lambda day: _next(FRIDAY, day),
        ),
    ]
    return tuple(
        ReportingRegime(name, text, delivery(days, release))
        for name, text, release in patterns
    )


def _next(weekday: int, day: int) -> int:
    """Return the first such weekday on or after a day."""
    return day + (weekday - day) % WEEK
