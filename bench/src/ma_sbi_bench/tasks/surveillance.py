"""What is counted of an epidemic, and when."""

from __future__ import annotations

from dataclasses import dataclass
from typing import TypeAlias

from torch import Tensor

from ma_sbi_bench.tasks.count_noise import BinomialNoise, PoissonNoise
from ma_sbi_bench.tasks.epidemic import solve_sir

__all__ = ["Counting", "DailyCounts", "Surveys"]

# sbibm tests a thousand people out of a million; the daily counts see as many.
SAMPLE_SIZE = 1000
DAYS_BETWEEN_SURVEYS = 17
NUM_SURVEYS = 10


@dataclass(frozen=True)
class DailyCounts:
    """A thousandth of the newly infected, every day."""

    num_days: int
    noise = PoissonNoise(SAMPLE_SIZE)
    cells = (48, 48)

    @property
    def days(self) -> range:
        """Days of the counts."""
        return range(self.num_days)

    def shares(self, theta: Tensor) -> Tensor:
        """Map theta ``(n, 2)`` to shares of the population, one column per day."""
        return solve_sir(theta, self.num_days).new


@dataclass(frozen=True)
class Surveys:
    """The infected among a thousand people, every 17 days."""

    days = range(0, NUM_SURVEYS * DAYS_BETWEEN_SURVEYS, DAYS_BETWEEN_SURVEYS)
    noise = BinomialNoise(SAMPLE_SIZE)
    # Finer: a fast epidemic may have had its peak before a survey or after it, two modes.
    cells = (96, 96)

    def shares(self, theta: Tensor) -> Tensor:
        """Map theta ``(n, 2)`` to shares of the population, one column per survey."""
        return solve_sir(theta, self.days[-1]).infected[:, self.days]


Counting: TypeAlias = DailyCounts | Surveys
