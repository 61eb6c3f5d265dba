"""What is counted of an epidemic, and when."""

from __future__ import annotations

from dataclasses import dataclass
from typing import TypeAlias

from torch import Tensor

from ma_sbi_bench.tasks.count_noise import BinomialNoise, PoissonNoise
from ma_sbi_bench.tasks.epidemic import solve_sir

__all__ = ["POPULATION", "SAMPLE_SIZE", "Counting", "DailyCounts", "Surveys"]

POPULATION = 1_000_000
"""People, as in sbibm."""
SAMPLE_SIZE = 1000
"""How many of them sbibm tests; daily counts may see as many, or more."""
DAYS_BETWEEN_SURVEYS = 17
NUM_SURVEYS = 10


@dataclass(frozen=True)
class DailyCounts:
    """The newly infected among some people, every day.

    Attributes:
        num_days: Number of days.
        exposure: How many people are seen.
    """

    num_days: int
    exposure: int = SAMPLE_SIZE

    @property
    def cells(self) -> tuple[int, int]:
        """Cells of a posterior; more where it may be a ridge that is narrow and curved."""
        return (48, 48) if self.exposure <= SAMPLE_SIZE else (96, 96)

    @property
    def noise(self) -> PoissonNoise:
        """The noise of the counts."""
        return PoissonNoise(self.exposure)

    @property
    def sharpness(self) -> float:
        """How many times as deep a likelihood falls as that of a thousand people."""
        return max(1.0, self.exposure / SAMPLE_SIZE)

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
    sharpness = 1.0
    # Finer: a fast epidemic may have had its peak before a survey or after it, two modes.
    cells = (96, 96)

    def shares(self, theta: Tensor) -> Tensor:
        """Map theta ``(n, 2)`` to shares of the population, one column per survey."""
        return solve_sir(theta, self.days[-1]).infected[:, self.days]


Counting: TypeAlias = DailyCounts | Surveys
