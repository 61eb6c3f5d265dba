"""An epidemic whose counts are reported late."""

from __future__ import annotations

import math
from collections.abc import Sequence
from dataclasses import dataclass
from functools import cache
from typing import Literal, TypeAlias, get_args

import torch
from torch import Tensor
from torch.distributions import Independent, LogNormal

from ma_sbi.tasks.base import Setting, Task
from ma_sbi.tasks.count_noise import BinomialNoise, PoissonNoise
from ma_sbi.tasks.epidemic import solve_sir
from ma_sbi.tasks.grid_sampler import sample_on_turned_grid
from ma_sbi.tasks.reporting import ReportingRegime, reporting_regimes
from ma_sbi.validation import as_count

__all__ = ["Layout", "SIRDelay", "Scale"]

Layout = Literal["daily", "surveys"]
"""New cases of every day, or sbibm's ten surveys of who is infected."""

Scale = Literal["log", "counts"]
"""Whether x is the logarithm of one plus the counts, or the counts themselves."""

# sbibm's prior: medians and standard deviations of log beta and log gamma.
LOG_MEDIAN = (math.log(0.4), math.log(0.125))
LOG_SCALE = (0.5, 0.2)
# sbibm tests a thousand people out of a million; the daily counts see as many.
SAMPLE_SIZE = 1000
DAYS_BETWEEN_SURVEYS = 17
NUM_SURVEYS = 10
# The whole weeks that span sbibm's surveys, days 0 to 153.
WEEKS = 22
LAG = 3
# How far log theta is searched, in standard deviations of the prior: far enough for data
# that another pattern delayed, read at face value.
REACH = 8.0
# A first look, shared by all rows, at where a posterior is. Spaced closely enough for the
# likelihood at the point nearest to the peak to be within LOOK_DEPTH nats of it.
LOOK_CELLS = (256, 128)
LOOK_DEPTH = 60.0
# Leaves about 1e-5 of the mass misplaced on average over the prior, 1e-3 at worst.
STEPS = 16
# Parameters whose likelihood is computed together: bounds the memory.
POINTS_AT_ONCE = 2**15
# Float32 logarithms of counts are this exact.
ROUNDING = 0.01


class SIRDelay(Task):
    r"""Infer the rates of an epidemic from counts that may be reported late.

    .. math:: \dot s = -\beta s i, \quad \dot i = \beta s i - \gamma i, \quad
        \log\beta \sim N(\log 0.4, 0.5^2), \quad \log\gamma \sim N(\log 0.125, 0.2^2)

    with one infected in a million at first. In the layout ``"daily"`` x holds the new
    cases of every day over whole weeks, Poisson counts of a thousandth of them; in
    ``"surveys"`` it holds sbibm's data, how many of 1000 people are infected on days
    0, 17, ..., 153. Day 0 is a Monday.

    A regime delays the release of counts: not at all, week-ends to Monday, all by
    ``lag`` days, or all to the next Friday. A count appears in the first report on or
    after its release, added to what else appears there; what would be released after the
    last report is lost. So the departure is linear in the counts and depends on x.

    ``reference`` accepts counts that are not whole, within the possible range; where two
    surveys are added up it rounds them. It looks for the posterior within eight standard
    deviations of the prior.

    Args:
        layout: ``"daily"`` or ``"surveys"``. Week-ends and Fridays mean what they say only
            in daily counts, so these are the default.
        scale: ``"log"``, x is ``log1p`` of the counts, or ``"counts"``.
        weeks: Number of weeks of daily counts; has no meaning for surveys.
        lag: Days of the uniform lag.
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
        setting: Setting = "informative",
    ) -> None:
        for value, kind, name in ((layout, Layout, "layout"), (scale, Scale, "scale")):
            if value not in get_args(kind):
                raise ValueError(
                    f"{name} must be one of {', '.join(get_args(kind))}, got {value!r}"
                )
        prior = LogNormal(torch.tensor(LOG_MEDIAN), torch.tensor(LOG_SCALE))
        daily = _DailyCounts(7 * as_count(weeks, "weeks"))
        self._counting: _Counting = daily if layout == "daily" else _Surveys()
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
        in_time = torch.zeros(len(x), dtype=torch.long)
        return self._reference_in(x, in_time, num_samples, source)

    def _reference_in(
        self, x: Tensor, regime: Tensor, num_samples: int, source: torch.Generator | None
    ) -> Tensor:
        posterior = _LogPosterior(
            self._counting,
            self._counts(x).clamp(min=0.0),
            [(regime == k, self.regimes[k].delivery) for k in regime.unique().tolist()],
        )
        log_theta = sample_on_turned_grid(
            posterior,
            *posterior.box(),
            num_samples,
            cells=self._counting.cells,
            steps=STEPS,
            generator=source,
        )
        return log_theta.exp()

    def _counts(self, x: Tensor) -> Tensor:
        return torch.expm1(x) if self.scale == "log" else x

    def _scaled(self, counts: Tensor) -> Tensor:
        return torch.log1p(counts) if self.scale == "log" else counts


@dataclass(frozen=True)
class _DailyCounts:
    """A thousandth of the newly infected, every day."""

    num_days: int
    noise = PoissonNoise(SAMPLE_SIZE)
    cells = (48, 48)

    @property
    def days(self) -> range:
        return range(self.num_days)

    def shares(self, theta: Tensor) -> Tensor:
        """Map theta ``(n, 2)`` to shares of the population, one column per day."""
        return solve_sir(theta, self.num_days).new


@dataclass(frozen=True)
class _Surveys:
    """The infected among a thousand people, every 17 days."""

    days = range(0, NUM_SURVEYS * DAYS_BETWEEN_SURVEYS, DAYS_BETWEEN_SURVEYS)
    noise = BinomialNoise(SAMPLE_SIZE)
    # Finer: a fast epidemic may have had its peak before a survey or after it, two modes.
    cells = (96, 96)

    def shares(self, theta: Tensor) -> Tensor:
        """Map theta ``(n, 2)`` to shares of the population, one column per survey."""
        return solve_sir(theta, self.days[-1]).infected[:, self.days]


_Counting: TypeAlias = _DailyCounts | _Surveys


@dataclass(frozen=True)
class _LogPosterior:
    """Unnormalised log density of log theta given reports, one density per row.

    Attributes:
        counting: What was counted.
        reports: Reported counts, shape ``(B, num_reports)``.
        deliveries: Masks of rows ``(B,)``, each with the delivery of these rows.
    """

    counting: _Counting
    reports: Tensor
    deliveries: Sequence[tuple[Tensor, Tensor]]

    def __call__(self, log_theta: Tensor) -> Tensor:
        """Evaluate points ``(num, B, 2)``: shape ``(num, B)``."""
        values = []
        for part in log_theta.split(max(1, POINTS_AT_ONCE // len(self.reports))):
            shares = self.counting.shares(part.exp().flatten(0, 1))
            values.append(self._of_shares(shares.unflatten(0, part.shape[:2])))
        return torch.cat(values) + _log_prior(log_theta)

    def box(self) -> tuple[Tensor, Tensor]:
        """Bound where the mass is: lower and upper corners, each ``(B, 2)``."""
        points, shares, size = _first_look(self.counting)
        values = [self._of_shares(part[:, None]) for part in shares.split(2048)]
        value = torch.cat(values) + _log_prior(points)[:, None]
        seen = (value >= value.amax(dim=0) - LOOK_DEPTH)[..., None]
        # Two cells more on each side: the peak may be between two points.
        lower = torch.where(seen, points[:, None], torch.inf).amin(dim=0) - 2 * size
        upper = torch.where(seen, points[:, None], -torch.inf).amax(dim=0) + 2 * size
        return lower, upper

    def _of_shares(self, shares: Tensor) -> Tensor:
        """Evaluate shares ``(num, B, num_counts)``, or ``(num, 1, num_counts)``."""
        result = shares.new_empty(len(shares), len(self.reports))
        for rows, delivery in self.deliveries:
            own = shares if shares.shape[1] == 1 else shares[:, rows]
            noise = self.counting.noise
            result[:, rows] = noise.log_likelihood(own, self.reports[rows], delivery)
        return result


@cache
def _first_look(counting: _Counting) -> tuple[Tensor, Tensor, Tensor]:
    """Solve the epidemic on a grid: log theta ``(num, 2)``, shares, and the spacing."""
    spread = REACH * torch.tensor(LOG_SCALE, dtype=torch.float64)
    axes = [
        middle + reach * torch.linspace(-1, 1, count, dtype=torch.float64)
        for middle, reach, count in zip(LOG_MEDIAN, spread, LOOK_CELLS, strict=True)
    ]
    points = torch.cartesian_prod(*axes)
    size = torch.stack([axis[1] - axis[0] for axis in axes])
    return points, counting.shares(points.exp()), size


def _log_prior(log_theta: Tensor) -> Tensor:
    middle, scale = torch.tensor([LOG_MEDIAN, LOG_SCALE], dtype=torch.float64)
    return -0.5 * ((log_theta - middle) / scale).square().sum(dim=-1)
