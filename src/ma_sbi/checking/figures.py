"""What the diagnostics of a check find, beyond those of ``ma_sbi.diagnostics``."""

from __future__ import annotations

from dataclasses import dataclass

from ma_sbi.diagnostics.coverage import Coverage
from ma_sbi.diagnostics.dependence import Dependence
from ma_sbi.diagnostics.held_out import Estimate

__all__ = ["AffineGain", "BeforeAfter", "LeakPower", "Means", "Outside"]

# Regions may fall so far short of what they promise.
COVERAGE_SLACK = 0.05
# Posterior means move if a dependence is as sure, and their variance explained as this.
MEANS_MOVE = 0.01
STILL = 0.05


@dataclass(frozen=True)
class LeakPower:
    """How likely the test would have found a leak of the size that matters.

    A leak that explains 10 % of the variance of one column, the paper's threshold, by the
    noncentral chi-squared law of a test at 1 %. Rough: against the share found in 100
    planted leaks each, it was 0.01 to 0.21 too low in four settings of 2 to 4 columns,
    and 0.09 and 0.12 too high in two of 8 columns.

    Attributes:
        power: That probability.
        num_rows: Rows that the test could permute.
        num_needed: Rows for a probability of 80 %.
    """

    power: float
    num_rows: int
    num_needed: int

    def __str__(self) -> str:
        return (
            f"with {self.num_rows} rows a context that explains 10 % of one column would "
            f"be found with probability {self.power:.0%} ({self.num_needed} rows for 80 %)"
        )


@dataclass(frozen=True)
class AffineGain:
    """Held-out gains of an affine corrector, as shares of the departure.

    Attributes:
        marginal: Without the context.
        conditional: What the context adds.
        total: With the context.
    """

    marginal: Estimate
    conditional: Estimate
    total: Estimate

    def __str__(self) -> str:
        return (
            f"an affine corrector takes away {self.marginal} without the context, which "
            f"adds {self.conditional}"
        )


@dataclass(frozen=True)
class Outside:
    """Share of observations far outside the posterior's training range.

    Attributes:
        before: As they are.
        after: Corrected; None without a correction.
    """

    before: float
    after: float | None

    def __str__(self) -> str:
        after = "" if self.after is None else f", {self.after:.1%} after correction"
        return (
            f"{self.before:.1%} of observations lie far outside the training range{after}"
        )


@dataclass(frozen=True)
class Means:
    """Whether posterior means move with the context.

    Attributes:
        before: Test of dependence, observations as they are.
        after: Corrected; None without a correction.
        share_before: Held-out share of the means' variance that the context explains.
        share_after: The same, corrected.
    """

    before: Dependence
    after: Dependence | None
    share_before: float
    share_after: float | None

    @property
    def still_move(self) -> bool:
        """Whether the last of them depend on the context, and by more than a trifle."""
        test = self.before if self.after is None else self.after
        share = self.share_before if self.share_after is None else self.share_after
        return test.p_value <= MEANS_MOVE and share > STILL

    def __str__(self) -> str:
        text = (
            f"the context explains {max(self.share_before, 0):.0%} of the variance of "
            f"posterior means (p = {self.before.p_value:.2g})"
        )
        if self.after is not None and self.share_after is not None:
            text += (
                f", {max(self.share_after, 0):.0%} after correction "
                f"(p = {self.after.p_value:.2g})"
            )
        return text


@dataclass(frozen=True)
class BeforeAfter:
    """Coverage of the posterior at the observations, corrected, and at the simulations.

    Attributes:
        before: At the observations as they are.
        after: At the corrected observations; None without a correction.
        simulated: At the paired simulations: the posterior's own; None without them.
    """

    before: Coverage
    after: Coverage | None
    simulated: Coverage | None

    @property
    def fine(self) -> bool:
        """Whether regions hold the truth at most 5 points less often than they say."""
        last = self.before if self.after is None else self.after
        return all(one.high >= one.level - COVERAGE_SLACK for one in last.expected)

    def __str__(self) -> str:
        said = {"before": self.before, "after": self.after, "at x_sim": self.simulated}
        shares = [
            f"{name} {one.share:.0%}"
            for name, found in said.items()
            if found is not None
            for one in found.expected
            if one.level == 0.8
        ]
        return "80 % regions hold the truth: " + ", ".join(shares)
