"""How much of the gap between no correction and the oracle a method closes."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any

import numpy as np
import torch
from numpy.typing import NDArray

from ma_sbi.protocols import ArrayLike
from ma_sbi.validation import as_count, as_matrix

__all__ = ["GapClosed", "gap_closed"]

Array = NDArray[np.float64]


@dataclass(frozen=True)
class GapClosed:
    """Fraction of the NPE-to-oracle gap that a method closes.

    Attributes:
        value: Median over seeds; 1 is the oracle, 0 is NPE, NaN is blank.
        low: Lower end of the bootstrap interval of ``value``; NaN if blank.
        high: Upper end.
        per_seed: One fraction per seed, NaN for a seed in which NPE is no worse than
            the oracle. Given even if ``value`` is blank.
        gap: Mean of ``npe - oracle`` over seeds and cases.
        gap_low: Lower end of the bootstrap interval of ``gap``.
        gap_high: Upper end.
        confidence: Level of both intervals.
        reason: Why the value is blank, in words; empty if it is not.
    """

    value: float
    low: float
    high: float
    per_seed: tuple[float, ...]
    gap: float
    gap_low: float
    gap_high: float
    confidence: float
    reason: str = ""

    @property
    def blank(self) -> bool:
        """Whether there is no value, because there is no clear gap."""
        return bool(self.reason)

    def __str__(self) -> str:
        if self.blank:
            return f"– ({self.reason})"
        low, high = 100 * self.low, 100 * self.high
        return f"{100 * self.value:.1f} % [{low:.0f}, {high:.0f}]"


def gap_closed(
    npe: ArrayLike,
    method: ArrayLike,
    oracle: ArrayLike,
    *,
    confidence: float = 0.95,
    num_bootstrap: int = 2000,
    seed: int = 0,
) -> GapClosed:
    r"""Compare a method with NPE and the oracle on the same cases.

    .. math:: \frac{\overline{npe} - \overline{method}}
                   {\overline{npe} - \overline{oracle}}

    The means are taken over the cases of one seed; the median of the fraction over
    seeds is the summary. The bootstrap draws cases with replacement, and seeds when
    there are several, the same ones for all three. A case is taken to be the same
    case in every seed; if it is not, the interval is too wide rather than too narrow.

    Without a gap there is no fraction: the value is blank where the interval of the mean
    of ``npe - oracle`` includes zero.

    Args:
        npe: Metric of the uncorrected posterior, lower is better, shape
            ``(num_cases,)`` or ``(num_seeds, num_cases)``.
        method: Metric of the method, same shape.
        oracle: Metric of the posterior at the well-specified data, same shape.
        confidence: Level of the intervals.
        num_bootstrap: Number of bootstrap draws.
        seed: Seed of the bootstrap.

    Raises:
        ValueError: If the shapes differ, values are not finite, or there is only one
            value, so that its noise is unknown.

    Example:
        >>> npe, oracle = [0.80, 0.90, 0.85, 0.95], [0.70, 0.72, 0.71, 0.73]
        >>> print(gap_closed(npe, [0.72, 0.74, 0.73, 0.75], oracle))
        87.5 % [83, 90]
        >>> print(gap_closed(npe, npe, [0.81, 0.89, 0.84, 0.95]))
        – (gap 0.0025 within noise)
    """
    if not 0 < confidence < 1:
        raise ValueError(f"confidence must lie between 0 and 1, got {confidence!r}")
    num_bootstrap = as_count(num_bootstrap, "num_bootstrap")
    values = _stack(npe=npe, method=method, oracle=oracle)
    levels = [(1 - confidence) / 2, (1 + confidence) / 2]
    means = _resampled_means(values, num_bootstrap, seed)

    gap = float((values[0] - values[2]).mean())
    gap_low, gap_high = np.quantile((means[0] - means[2]).mean(axis=0), levels)
    per_seed = _fraction(values.mean(axis=2))
    reason = ""
    value = low = high = float("nan")
    if gap <= 0:
        reason = f"no gap: npe - oracle is {gap:.2g}"
    elif gap_low <= 0:
        reason = f"gap {gap:.2g} within noise"
    else:
        value = float(np.nanmedian(per_seed))
        fractions = _fraction(means)
        some = ~np.isnan(fractions).all(axis=0)
        low, high = np.quantile(np.nanmedian(fractions[:, some], axis=0), levels)
    return GapClosed(
        value=value,
        low=float(low),
        high=float(high),
        per_seed=tuple(per_seed.tolist()),
        gap=gap,
        gap_low=float(gap_low),
        gap_high=float(gap_high),
        confidence=confidence,
        reason=reason,
    )


def _stack(**metrics: Any) -> Array:
    """Check the three metrics and stack them, shape ``(3, num_seeds, num_cases)``."""
    matrices = {
        name: as_matrix(values, name, dtype=torch.float64).cpu().numpy()
        for name, values in metrics.items()
    }
    shapes = {name: matrix.shape for name, matrix in matrices.items()}
    if len(set(shapes.values())) > 1:
        raise ValueError(f"npe, method and oracle must be paired, got shapes {shapes}")
    stacked = np.stack(list(matrices.values()))
    if stacked[0].size < 2:
        raise ValueError("at least two cases or two seeds are needed, got one value")
    return stacked


def _resampled_means(values: Array, num_bootstrap: int, seed: int) -> Array:
    """Draw seeds and cases; average over cases, ``(3, num_seeds, num_bootstrap)``."""
    _, num_seeds, num_cases = values.shape
    rng = np.random.default_rng(seed)
    counts = rng.multinomial(num_cases, [1 / num_cases] * num_cases, num_bootstrap)
    seeds = rng.integers(num_seeds, size=(num_seeds, num_bootstrap))
    means = values @ (counts.T / num_cases)
    return means[:, seeds, np.arange(num_bootstrap)]


def _fraction(means: Array) -> Array:
    """Divide what the method gained by the gap, NaN where there is none."""
    npe, method, oracle = means
    gap = np.where(npe > oracle, npe - oracle, np.nan)
    return (npe - method) / gap
