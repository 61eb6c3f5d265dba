"""The exact posterior of an epidemic's rates, given counts that were reported late."""

from __future__ import annotations

import itertools
import math
from collections.abc import Sequence
from dataclasses import dataclass
from functools import cache
from typing import NamedTuple

import torch
from torch import Tensor

from ma_sbi_bench.tasks.grid_sampler import integrate_on_turned_grid, sample_on_turned_grid
from ma_sbi_bench.tasks.surveillance import Counting

__all__ = [
    "LOG_MEDIAN",
    "LOG_SCALE",
    "LogPosterior",
    "draw_log_theta",
    "integrate_over_log_theta",
]

# sbibm's prior: medians and standard deviations of log beta and log gamma.
LOG_MEDIAN = (math.log(0.4), math.log(0.125))
LOG_SCALE = (0.5, 0.2)
# How far log theta is searched, in standard deviations of the prior: far enough for data
# that another pattern delayed, read at face value.
REACH = 8.0
# A first look, shared by all rows, at where a posterior is. Spaced closely enough for the
# likelihood at the point nearest to the peak to be within LOOK_DEPTH nats of it, where a
# thousand people are seen; where more are, it falls as many times as deep.
LOOK_CELLS = (256, 128)
LOOK_DEPTH = 60.0
# Leaves about 1e-5 of the mass misplaced on average over the prior, 1e-3 at worst.
STEPS = 16
# Parameters whose likelihood is computed together: bounds the memory.
POINTS_AT_ONCE = 2**15


@dataclass(frozen=True)
class LogPosterior:
    """Unnormalised log density of log theta given reports, one density per row.

    Attributes:
        counting: What was counted.
        reports: Reported counts, shape ``(B, num_reports)``.
        deliveries: Masks of rows ``(B,)``, each with the delivery of these rows.
        limits: Between which log beta is allowed, shape ``(B, 2)``; anywhere if None.
    """

    counting: Counting
    reports: Tensor
    deliveries: Sequence[tuple[Tensor, Tensor]]
    limits: Tensor | None = None

    def __call__(self, log_theta: Tensor) -> Tensor:
        """Evaluate points ``(num, B, 2)``: shape ``(num, B)``."""
        deviation = _deviation(log_theta)
        beyond = (deviation.abs() > REACH).any(dim=-1)
        if self.limits is not None:
            log_beta = log_theta[..., 0]
            beyond |= (log_beta < self.limits[:, 0]) | (log_beta > self.limits[:, 1])
        # There the epidemic may be faster than floats; any point keeps it finite.
        safe = log_theta.masked_fill(beyond[..., None], 0.0)
        values = []
        for part in safe.split(max(1, POINTS_AT_ONCE // len(self.reports))):
            shares = self.counting.shares(part.exp().flatten(0, 1))
            values.append(self._of_shares(shares.unflatten(0, part.shape[:2])))
        result = torch.cat(values) - 0.5 * deviation.square().sum(dim=-1)
        return result.masked_fill(beyond, -torch.inf)

    def rows(self, rows: Tensor, limits: Tensor | None = None) -> LogPosterior:
        """Select rows by their indices ``(P,)``, each within its limits ``(P, 2)``."""
        chosen = [(mask[rows], delivery) for mask, delivery in self.deliveries]
        deliveries = [(mask, delivery) for mask, delivery in chosen if mask.any()]
        return LogPosterior(self.counting, self.reports[rows], deliveries, limits)

    def log_constant(self) -> Tensor:
        """Return what normalises prior and likelihood in each row, shape ``(B,)``."""
        result = self.reports.new_empty(len(self.reports))
        for rows, delivery in self.deliveries:
            noise = self.counting.noise
            result[rows] = noise.log_constant(self.reports[rows], delivery)
        return result - math.log(2 * math.pi * math.prod(LOG_SCALE))

    def seen(self) -> Tensor:
        """Tell where a first look sees mass, shape ``(*LOOK_CELLS, B)``."""
        points, shares, _ = _first_look(self.counting)
        values = [self._of_shares(part[:, None]) for part in shares.split(2048)]
        log_prior = -0.5 * _deviation(points).square().sum(dim=-1)
        value = torch.cat(values) + log_prior[:, None]
        depth = LOOK_DEPTH * self.counting.sharpness
        return (value >= value.amax(dim=0) - depth).unflatten(0, LOOK_CELLS)

    def _of_shares(self, shares: Tensor) -> Tensor:
        """Evaluate shares ``(num, B, num_counts)``, or ``(num, 1, num_counts)``."""
        result = shares.new_empty(len(shares), len(self.reports))
        for rows, delivery in self.deliveries:
            own = shares if shares.shape[1] == 1 else shares[:, rows]
            noise = self.counting.noise
            result[:, rows] = noise.log_likelihood(own, self.reports[rows], delivery)
        return result


class _Pieces(NamedTuple):
    """Where the posteriors are: intervals of log beta that may hold a mode each.

    Attributes:
        row: Row of each piece, ascending, shape ``(P,)``.
        lower: Lower corners of boxes around the mass, shape ``(P, 2)``.
        upper: Upper corners, shape ``(P, 2)``.
        limits: Bounds of log beta that divide a row among its pieces, shape ``(P, 2)``.
    """

    row: Tensor
    lower: Tensor
    upper: Tensor
    limits: Tensor

    @classmethod
    def of(cls, posterior: LogPosterior) -> _Pieces:
        points, _, size = _first_look(posterior.counting)
        points = points.unflatten(0, LOOK_CELLS)
        log_beta, log_gamma = points[:, 0, 0], points[0, :, 1]
        pieces = []
        for row, seen in enumerate(posterior.seen().unbind(dim=-1)):
            runs = _runs(seen.any(dim=1))
            cuts = [
                (log_beta[last] + log_beta[first]) / 2
                for (_, last), (first, _) in itertools.pairwise(runs)
            ]
            ends = [-math.inf, *cuts, math.inf]
            for (first, last), limits in zip(runs, itertools.pairwise(ends), strict=True):
                gamma = log_gamma[seen[first : last + 1].any(dim=0)]
                lower = torch.stack([log_beta[first], gamma[0]])
                upper = torch.stack([log_beta[last], gamma[-1]])
                # Two cells more on each side: the peak may be between two points.
                pieces.append((row, lower - 2 * size, upper + 2 * size, limits))
        rows, lowers, uppers, limits_of_all = zip(*pieces, strict=True)
        return cls(
            torch.tensor(rows),
            torch.stack(lowers),
            torch.stack(uppers),
            torch.tensor(limits_of_all, dtype=torch.float64),
        )


def draw_log_theta(
    posterior: LogPosterior, num_samples: int, source: torch.Generator | None
) -> Tensor:
    """Draw log theta, shape ``(num_samples, B, 2)``.

    A broad mode and a narrow one need grids of their own; each piece is drawn from by
    itself, and rows of several pieces take each as often as its integral says.
    """
    pieces, counting = _Pieces.of(posterior), posterior.counting
    parts = posterior.rows(pieces.row, pieces.limits)
    draws = sample_on_turned_grid(
        parts,
        pieces.lower,
        pieces.upper,
        num_samples,
        cells=counting.cells,
        steps=STEPS,
        sharpness=counting.sharpness,
        generator=source,
    )
    first = torch.searchsorted(pieces.row, torch.arange(len(posterior.reports)))
    result = draws[:, first]
    shared = (pieces.row.bincount() > 1)[pieces.row].nonzero().flatten()
    if not len(shared):
        return result
    log_mass = integrate_on_turned_grid(
        posterior.rows(pieces.row[shared], pieces.limits[shared]),
        pieces.lower[shared],
        pieces.upper[shared],
        cells=counting.cells,
        sharpness=counting.sharpness,
    )
    for row in pieces.row[shared].unique().tolist():
        own = pieces.row[shared] == row
        choice = torch.multinomial(
            log_mass[own].softmax(dim=0), num_samples, replacement=True, generator=source
        )
        result[:, row] = draws[torch.arange(num_samples), shared[own][choice]]
    return result


def integrate_over_log_theta(posterior: LogPosterior) -> Tensor:
    """Return the logarithm of the integral of each density, shape ``(B,)``."""
    pieces = _Pieces.of(posterior)
    log_mass = integrate_on_turned_grid(
        posterior.rows(pieces.row, pieces.limits),
        pieces.lower,
        pieces.upper,
        cells=posterior.counting.cells,
        sharpness=posterior.counting.sharpness,
    )
    own = pieces.row == torch.arange(len(posterior.reports))[:, None]
    return log_mass.masked_fill(~own, -torch.inf).logsumexp(dim=1)


def _runs(flags: Tensor) -> list[tuple[int, int]]:
    """List first and last index of each run of true flags."""
    edges = torch.nn.functional.pad(flags.int(), (1, 1)).diff()
    firsts, ends = (edges == 1).nonzero().flatten(), (edges == -1).nonzero().flatten()
    return list(zip(firsts.tolist(), (ends - 1).tolist(), strict=True))


@cache
def _first_look(counting: Counting) -> tuple[Tensor, Tensor, Tensor]:
    """Solve the epidemic on a grid: log theta ``(num, 2)``, shares, and the spacing."""
    spread = REACH * torch.tensor(LOG_SCALE, dtype=torch.float64)
    axes = [
        middle + reach * torch.linspace(-1, 1, count, dtype=torch.float64)
        for middle, reach, count in zip(LOG_MEDIAN, spread, LOOK_CELLS, strict=True)
    ]
    points = torch.cartesian_prod(*axes)
    size = torch.stack([axis[1] - axis[0] for axis in axes])
    return points, counting.shares(points.exp()), size


def _deviation(log_theta: Tensor) -> Tensor:
    """Return the distance from the prior's medians in its standard deviations."""
    middle, scale = torch.tensor([LOG_MEDIAN, LOG_SCALE], dtype=torch.float64)
    return (log_theta - middle) / scale
