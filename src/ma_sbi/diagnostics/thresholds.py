"""Every threshold on which the verdict of a check depends, each with its reason."""

from __future__ import annotations

from dataclasses import dataclass

__all__ = ["THRESHOLDS", "Thresholds"]


@dataclass(frozen=True)
class Thresholds:
    """Levels of tests, and sizes below which an effect does not count.

    They were fixed on other seeds than those of ``bench/benchmarks/check.py``, which
    compares verdicts with answers that were written down beforehand.

    Attributes:
        leak_found: Level at which a dependence of simulations or theta on the context is a
            leak. Strict, because a leak forbids the correction.
        leak_suspected: Level at which it is suspected to be one, which asks for care.
        leak_that_matters: Share of the variance of one column that a leak must explain to
            matter: the paper's threshold.
        leak_power: Probability of finding such a leak, below which finding none says
            little. The usual value.
        exchange: Level at which observations are no further simulations of their rows.
            Strict, because evening out noise looks like a gain.
        exchange_judged_by_x_sim: The same where x_sim itself judges, and may have noise of
            its own, which its score does not allow for: the finest level of the test.
        exchange_with_one: The same for one of several simulations, where all together say
            that something departs: less strict, since one tells less.
        dependence: Level of tests whose result alone forbids nothing.
        unusual: Level at which observations differ from simulations, or from what the
            posterior predicts. Stricter than usual, because all diagnostics use the same
            rows.
        mmd_worse: Squared distance from the simulations, or from those of their rows, by
            which corrected observations must exceed twice that of the uncorrected to count
            as less like them.
        outside_range: Share of corrected observations that may lie far outside the
            training range of the posterior.
        slopes: Share of the departure that slopes must add to a shift to be worth their
            coefficients.
        coverage_slack: How far regions may fall short of their level.
        means_move: Level at which posterior means depend on the context.
        means_share: Share of the means' variance that the context must explain as well:
            with many rows every dependence is seen.
    """

    leak_found: float = 0.001
    leak_suspected: float = 0.01
    leak_that_matters: float = 0.10
    leak_power: float = 0.8
    exchange: float = 0.002
    exchange_judged_by_x_sim: float = 0.001
    exchange_with_one: float = 0.01
    dependence: float = 0.05
    unusual: float = 0.01
    mmd_worse: float = 0.1
    outside_range: float = 0.01
    slopes: float = 0.02
    coverage_slack: float = 0.05
    means_move: float = 0.01
    means_share: float = 0.05


THRESHOLDS = Thresholds()
