"""Equivalence of two methods, up to a margin."""

from __future__ import annotations

from dataclasses import dataclass

import torch
from scipy import stats

from ma_sbi.protocols import ArrayLike
from ma_sbi.validation import as_matrix

__all__ = ["Equivalence", "tost_paired"]


@dataclass(frozen=True)
class Equivalence:
    """Outcome of two one-sided paired t-tests.

    Attributes:
        difference: Mean of ``a - b``.
        std: Standard deviation of the paired differences.
        low: Lower end of the 95 % interval of the difference.
        high: Upper end.
        p_value: The larger of the two one-sided p-values.
        margin: Smallest difference that counts.
        num_pairs: Number of pairs.
    """

    difference: float
    std: float
    low: float
    high: float
    p_value: float
    margin: float
    num_pairs: int

    @property
    def equivalent(self) -> bool:
        """Whether the difference lies within the margin, at the 5 % level."""
        return self.p_value < 0.05

    def __str__(self) -> str:
        verdict = "equivalent" if self.equivalent else "not shown equivalent"
        return (
            f"{verdict} within {self.margin:g}: difference {self.difference:.4f} "
            f"[{self.low:.4f}, {self.high:.4f}], p = {self.p_value:.2g}"
        )


def tost_paired(a: ArrayLike, b: ArrayLike, *, margin: float) -> Equivalence:
    r"""Test that the mean of ``a - b`` lies strictly within plus or minus a margin.

    .. math:: H_0: |E[a - b]| \geq m \qquad p = P(T_{n-1} > (m - |\bar d|) / s_{\bar d})

    The larger of the two one-sided p-values is always the one of the nearer bound.
    A large p-value does not show a difference: there may be too few pairs.

    Args:
        a: One value per pair, shape ``(num_pairs,)``.
        b: The values they are paired with, shape ``(num_pairs,)``.
        margin: Smallest difference that counts; to be chosen before seeing the data.

    Raises:
        ValueError: If the vectors are not paired, hold fewer than two pairs or are not
            finite, or if the margin is not positive.

    Example:
        >>> print(tost_paired([0.71, 0.69, 0.70], [0.70, 0.69, 0.71], margin=0.05))
        equivalent within 0.05: difference 0.0000 [-0.0248, 0.0248], p = 0.0065
    """
    if not 0 < margin < float("inf"):
        raise ValueError(f"margin must be a positive number, got {margin!r}")
    first = as_matrix(a, "a", dim=1, dtype=torch.float64).cpu()
    second = as_matrix(b, "b", dim=1, dtype=torch.float64).cpu()
    if len(first) != len(second):
        raise ValueError(
            f"a and b must be paired, got {len(first)} and {len(second)} values"
        )
    num_pairs = len(first)
    if num_pairs < 2:
        raise ValueError("at least two pairs are needed to estimate a spread, got 1")
    differences = (first - second).flatten()
    difference, std = differences.mean().item(), differences.std().item()
    standard_error, slack = std / num_pairs**0.5, margin - abs(difference)
    if standard_error > 0:
        p_value = float(stats.t.sf(slack / standard_error, num_pairs - 1))
    else:  # all differences are equal: the mean is known
        p_value = 0.0 if slack > 0 else 1.0
    half_width = float(stats.t.ppf(0.975, num_pairs - 1)) * standard_error
    return Equivalence(
        difference=difference,
        std=std,
        low=difference - half_width,
        high=difference + half_width,
        p_value=p_value,
        margin=float(margin),
        num_pairs=num_pairs,
    )
