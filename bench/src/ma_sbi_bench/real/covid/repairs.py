"""What reporting does to daily counts: corrections that look negative, and dumps."""

from __future__ import annotations

import numpy as np

from ma_sbi.validation import as_count

__all__ = ["find_dumps", "spread_corrections"]


def spread_corrections(counts: np.ndarray, lookback: int = 14) -> np.ndarray:
    """Take each negative count off the days before it, in proportion to their counts.

    A negative day says that earlier days were counted too high. It becomes zero, and what
    it takes away is shared by the ``lookback`` days before it; if they hold too little, by
    twice as many, and so on. Counts stay whole, the total is kept, and no day after the
    correction is used or changed.

    Args:
        counts: Daily counts of one place in order, whole numbers, shape ``(days,)``.
        lookback: Number of days that share a correction.

    Returns:
        Counts without negative ones, shape ``(days,)``, int64.

    Raises:
        ValueError: If a correction is larger than everything before it.

    Example:
        >>> spread_corrections(np.array([2, 6, 4, -3, 5])).tolist()
        [1, 5, 3, 0, 5]
    """
    repaired = np.array(counts, dtype=np.int64)
    lookback = as_count(lookback, "lookback")
    for day in map(int, (repaired < 0).nonzero()[0]):
        excess = -int(repaired[day])
        reach = min(lookback, day)
        while repaired[day - reach : day].sum() < excess:
            if reach == day:
                raise ValueError(
                    f"the count of {-excess} on day {day} takes away more than the "
                    f"{repaired[:day].sum()} counted before it"
                )
            reach = min(2 * reach, day)
        earlier = repaired[day - reach : day]
        earlier -= _share(excess, earlier)
        repaired[day] = 0
    return repaired


def find_dumps(counts: np.ndarray, factor: float = 3.0, smallest: int = 100) -> np.ndarray:
    """Tell which days report much that belongs to other days.

    A dump is a count of at least ``smallest`` that is more than ``factor`` times the
    median of the busiest days of the two weeks before and the two weeks after it.
    Comparing busiest days leaves weekly reporting alone, where one day holds the week.

    Args:
        counts: Daily counts of one place in order, shape ``(days,)``.
        factor: How many times the usual busiest day a dump is.
        smallest: Counts below it are too small to tell.

    Returns:
        Whether a day is a dump, shape ``(days,)``; False where fewer than two whole weeks
        are there to compare with.
    """
    counts = np.asarray(counts)
    dump = np.zeros(len(counts), dtype=bool)
    for day in (counts >= smallest).nonzero()[0]:
        starts = [day - 14, day - 7, day + 1, day + 8]
        weeks = [counts[i : i + 7] for i in starts if i >= 0 and i + 7 <= len(counts)]
        if len(weeks) >= 2:
            usual = np.median([week.max() for week in weeks])
            dump[day] = counts[day] > factor * usual
    return dump


def _share(amount: int, weights: np.ndarray) -> np.ndarray:
    # Whole parts first; what is left goes to the largest remainders. A part never exceeds
    # its weight as long as the amount does not exceed their sum.
    exact = amount * weights
    parts, remainders = np.divmod(exact, weights.sum())
    left = amount - int(parts.sum())
    parts[np.argsort(-remainders, kind="stable")[:left]] += 1
    return parts
