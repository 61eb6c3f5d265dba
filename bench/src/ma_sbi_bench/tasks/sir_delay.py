"""An epidemic whose counts are reported late."""

from __future__ import annotations

from typing import Literal, get_args

import torch
from torch import Tensor
from torch.distributions import Independent, LogNormal

from ma_sbi.validation import as_count
from ma_sbi_bench.tasks.base import Setting, Task
from ma_sbi_bench.tasks.reporting import ReportingRegime, reporting_regimes
from ma_sbi_bench.tasks.sir_posterior import (
    LOG_MEDIAN,
    LOG_SCALE,
    LogPosterior,
    draw_log_theta,
    integrate_over_log_theta,
)
from ma_sbi_bench.tasks.surveillance import (
    POPULATION,
    SAMPLE_SIZE,
    Counting,
    DailyCounts,
    Surveys,
)

__all__ = ["Layout", "SIRDelay", "Scale"]

Layout = Literal["daily", "surveys"]
"""New cases of every day, or sbibm's ten surveys of who is infected."""

Scale = Literal["log", "counts"]
"""Whether x is the logarithm of one plus the counts, or the counts themselves."""

# The whole weeks that span sbibm's surveys, days 0 to 153.
WEEKS = 22
LAG = 3
# Float32 logarithms of counts are this exact.
ROUNDING = 0.01


class SIRDelay(Task):
    r"""Infer the rates of an epidemic from counts that may be reported late.

    .. math:: \dot s = -\beta s i, \quad \dot i = \beta s i - \gamma i, \quad
        \log\beta \sim N(\log 0.4, 0.5^2), \quad \log\gamma \sim N(\log 0.125, 0.2^2)

    with one infected in a million at first. In the layout ``"daily"`` x holds the new
    cases of every day over whole weeks, Poisson counts among ``exposure`` people; in
    ``"surveys"`` it holds sbibm's data, how many of 1000 people are infected on days
    0, 17, ..., 153. Day 0 is a Monday.

    A regime delays the release of counts: not at all, week-ends to Monday, all by
    ``lag`` days, or all to the next Friday. A count appears in the first report on or
    after its release, added to what else appears there; what would be released after the
    last report is lost. So the departure is linear in the counts and depends on x.

    ``reference`` accepts counts that are not whole, within the possible range; where two
    surveys are added up it rounds them. It looks for the posterior within eight standard
    deviations of the prior, and so do ``reference_log_prob`` and ``log_evidence``.

    Args:
        layout: ``"daily"`` or ``"surveys"``. Week-ends and Fridays mean what they say only
            in daily counts, so these are the default.
        scale: ``"log"``, x is ``log1p`` of the counts, or ``"counts"``.
        weeks: Number of weeks of daily counts; has no meaning for surveys.
        lag: Days of the uniform lag.
        exposure: How many of the million daily counts see; has no meaning for surveys.
        setting: What the context tells.

    Example:
        >>> task = SIRDelay("surveys", scale="counts")
        >>> x = task.simulate([[0.4, 0.125]], seed=0)
        >>> torch.stack([x[0], task.depart(x, 1)[0]]).long()
        tensor([[  0,   0,  14, 300, 121,  21,   2,   0,   0,   0],
                [  0,   0,   0, 314,   0, 142,   2,   0,   0,   0]])
    """

    name = "sir_delay"
    regimes: tuple[ReportingRegime, ...]
    _rows_at_once = 16

    def __init__(
        self,
        layout: Layout = "daily",
        *,
        scale: Scale = "log",
        weeks: int = WEEKS,
        lag: int = LAG,
        exposure: int = SAMPLE_SIZE,
        setting: Setting = "informative",
    ) -> None:
        for value, kind, name in ((layout, Layout, "layout"), (scale, Scale, "scale")):
            if value not in get_args(kind):
                raise ValueError(
                    f"{name} must be one of {', '.join(get_args(kind))}, got {value!r}"
                )
        prior = LogNormal(torch.tensor(LOG_MEDIAN), torch.tensor(LOG_SCALE))
        if as_count(exposure, "exposure") > POPULATION:
            raise ValueError(
                f"exposure must be at most {POPULATION}, the population, got {exposure}"
            )
        daily = DailyCounts(7 * as_count(weeks, "weeks"), int(exposure))
        self._counting: Counting = daily if layout == "daily" else Surveys()
        regimes = reporting_regimes(self._counting.days, lag)
        super().__init__(Independent(prior, 1), len(regimes[0].delivery), regimes, setting)
        self.layout = layout
        self.scale = scale

    def _simulate(self, theta: Tensor, source: torch.Generator | None) -> Tensor:
        if (theta < 0).any():
            raise ValueError(f"rates must not be negative, got {theta.min():g}")
        counts = self._counting.noise.sample(self._counting.shares(theta), source)
        return self._scaled(counts)

    def _depart(self, x: Tensor, regime: Tensor) -> Tensor:
        x = x.double()
        self._check_possible(x, None)
        counts = self._counts(x)
        reports = torch.empty_like(counts)
        for index in regime.unique().tolist():
            rows = regime == index
            reports[rows] = counts[rows] @ self.regimes[index].delivery.T
        return self._scaled(reports).float()

    def _possible(self, x: Tensor, regime: Tensor | None) -> Tensor:
        counts = self._counts(x)
        largest = torch.stack(
            [self._counting.noise.largest(known.delivery) for known in self.regimes]
        )
        largest = largest[0] if regime is None else largest[regime]
        return ((counts >= -ROUNDING) & (counts <= largest + ROUNDING)).all(dim=1)

    def _reference(
        self, x: Tensor, num_samples: int, source: torch.Generator | None
    ) -> Tensor:
        return self._reference_in(x, _in_time(x), num_samples, source)

    def _reference_in(
        self, x: Tensor, regime: Tensor, num_samples: int, source: torch.Generator | None
    ) -> Tensor:
        posterior = self._log_posterior(x, regime)
        return draw_log_theta(posterior, num_samples, source).exp()

    def _log_joint(self, theta: Tensor, x: Tensor) -> Tensor:
        return self._log_joint_in(theta, x, _in_time(x))

    def _log_joint_in(self, theta: Tensor, x: Tensor, regime: Tensor) -> Tensor:
        posterior = self._log_posterior(x, regime)
        log_theta = theta.log()
        log_density = posterior(log_theta[None])[0] + posterior.log_constant()
        return log_density - log_theta.sum(dim=1)

    def _log_evidence(self, x: Tensor) -> Tensor:
        return self._log_evidence_in(x, _in_time(x))

    def _log_evidence_in(self, x: Tensor, regime: Tensor) -> Tensor:
        posterior = self._log_posterior(x, regime)
        return integrate_over_log_theta(posterior) + posterior.log_constant()

    def _log_posterior(self, x: Tensor, regime: Tensor) -> LogPosterior:
        return LogPosterior(
            self._counting,
            self._counts(x).clamp(min=0.0),
            [(regime == k, self.regimes[k].delivery) for k in regime.unique().tolist()],
        )

    def _counts(self, x: Tensor) -> Tensor:
        return torch.expm1(x) if self.scale == "log" else x

    def _scaled(self, counts: Tensor) -> Tensor:
        return torch.log1p(counts) if self.scale == "log" else counts


def _in_time(x: Tensor) -> Tensor:
    """Return the regime without delay for every row."""
    return torch.zeros(len(x), dtype=torch.long)
