"""Paired comparison of two methods on the same cases."""

from __future__ import annotations

import math
from collections.abc import Sequence
from dataclasses import dataclass
from typing import Any

import numpy as np
from scipy import stats

from ma_sbi.protocols import ArrayLike
from ma_sbi.validation import as_count

__all__ = ["PairedGain", "paired_gain"]


@dataclass(frozen=True)
class PairedGain:
    """How much lower the losses of a method are than those of a baseline.

    Attributes:
        gain: Mean of ``baseline - method``; positive is better.
        low: Lower end of the 95 % interval, from a bootstrap over blocks of time.
        high: Upper end.
        relative: The gain as a fraction of the baseline's mean, whatever its sign.
        p_value: Two-sided Wilcoxon signed-rank test, which assumes independent cases;
            cases close in time are not, so trust the interval more.
        num_cases: Number of cases.
        relative_low: Lower end of the 95 % interval of ``relative``, from the same
            bootstrap. Without meaning where the baseline's mean may be zero.
        relative_high: Upper end.
    """

    gain: float
    low: float
    high: float
    relative: float
    p_value: float
    num_cases: int
    relative_low: float = math.nan
    relative_high: float = math.nan

    def __str__(self) -> str:
        return (
            f"{self.gain:+.2f} [{self.low:+.2f}, {self.high:+.2f}] "
            f"({self.relative:+.1%}, p = {self.p_value:.1g}, n = {self.num_cases})"
        )


def paired_gain(
    baseline: ArrayLike,
    method: ArrayLike,
    *,
    time: ArrayLike | Sequence[Any] | None = None,
    block: int = 6,
    num_resamples: int = 4000,
    seed: int = 0,
) -> PairedGain:
    """Compare the losses of two methods on the same cases.

    Args:
        baseline: Losses, shape ``(n,)``.
        method: Losses of the same cases, shape ``(n,)``.
        time: Time index of each case. Cases close in time are correlated, so the
            bootstrap draws blocks of consecutive times, with all cases in them; without
            times every case is its own block.
        block: Number of consecutive distinct times in a block.
        num_resamples: Number of bootstrap samples.
        seed: Seed of the bootstrap.

    Returns:
        The gain with its interval.

    Raises:
        ValueError: If the losses do not pair up or are not finite.

    Example:
        >>> gain = paired_gain([3.0, 4.0, 5.0, 6.0], [1.0, 2.0, 3.0, 5.0])
        >>> gain.gain
        1.75
    """
    first, second = (np.asarray(values, dtype=np.float64) for values in (baseline, method))
    if first.shape != second.shape or first.ndim != 1 or len(first) == 0:
        raise ValueError(
            "baseline and method must be two vectors of paired losses, got shapes "
            f"{first.shape} and {second.shape}"
        )
    difference = first - second
    if not np.isfinite(difference).all():
        raise ValueError(
            f"losses must be finite, got {(~np.isfinite(difference)).sum()} pairs that are "
            "not"
        )
    when = np.arange(len(first)) if time is None else np.asarray(time)
    if when.shape != first.shape:
        raise ValueError(f"time must have one entry per case, got shape {when.shape}")
    length = 1 if time is None else as_count(block, "block")
    num_resamples = as_count(num_resamples, "num_resamples")
    means, baselines = (
        _block_bootstrap(values, when, length, num_resamples, seed)
        for values in (difference, first)
    )
    low, high = np.quantile(means, [0.025, 0.975])
    relative_low = relative_high = math.nan
    if baselines.all():
        relative_low, relative_high = np.quantile(means / abs(baselines), [0.025, 0.975])
    # The test is not defined if all differences are zero.
    equal = not difference.any()
    return PairedGain(
        gain=float(difference.mean()),
        low=float(low),
        high=float(high),
        relative=float(difference.mean() / abs(first.mean())) if first.mean() else math.nan,
        p_value=1.0 if equal else float(stats.wilcoxon(difference).pvalue),
        num_cases=len(first),
        relative_low=float(relative_low),
        relative_high=float(relative_high),
    )


def _block_bootstrap(
    values: np.ndarray, when: np.ndarray, block: int, num_resamples: int, seed: int
) -> np.ndarray:
    """Resample circular blocks of consecutive times: means, ``(num_resamples,)``."""
    times, position = np.unique(when, return_inverse=True)
    count = np.bincount(position).astype(np.float64)
    total = np.bincount(position, weights=values)
    block = min(block, len(times))
    rng = np.random.default_rng(seed)
    num_blocks = math.ceil(len(times) / block)
    start = rng.integers(len(times), size=(num_resamples, num_blocks, 1))
    index = (start + np.arange(block)).reshape(num_resamples, -1)[:, : len(times)]
    index %= len(times)
    return total[index].sum(axis=1) / count[index].sum(axis=1)
