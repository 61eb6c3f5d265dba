r"""Whether regions of a posterior contain the true parameters as often as they should.

Three tests on the same draws, all of ranks that are uniform for a calibrated posterior:
simulation-based calibration (Talts et al. 2018) one parameter at a time, TARP (Lemos et
al. 2023) by distances from random points, expected coverage (Deistler et al. 2022) by
density. sbi has them as well. Here all rows are sampled in one call, and the p-values are
exact: sbi 0.27 compares integer ranks with a continuous law, which rejects calibrated
posteriors once there are many more rows than draws, and its ``check_tarp`` takes points of
the coverage curve for a sample, which rejects almost nothing.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import TYPE_CHECKING, Any, NamedTuple

import torch
from scipy import stats
from torch import Tensor

from ma_sbi.diagnostics.diagnostic import Diagnostic, Findings, Picture
from ma_sbi.diagnostics.thresholds import THRESHOLDS
from ma_sbi.labels import in_columns, match_rows
from ma_sbi.metrics.coverage import acauc
from ma_sbi.metrics.draws import with_truth
from ma_sbi.protocols import ArrayLike, Context, has_density
from ma_sbi.randomness import derive, generator
from ma_sbi.validation import as_count, as_matrix

if TYPE_CHECKING:
    from ma_sbi.diagnostics.subject import Subject

__all__ = ["DIAGNOSTIC", "Coverage", "CoverageOfCorrection", "CoveredShare", "coverage"]

FEWEST_PAIRS = 20
# Levels of the regions in a check.
LEVELS = (0.1, 0.2, 0.3, 0.4, 0.5, 0.6, 0.7, 0.8, 0.9, 0.95)


class CoveredShare(NamedTuple):
    """How often regions of one level cover the truth.

    Attributes:
        level: Probability of the region.
        share: Share of rows in which it contains the truth.
        low: Lower end of the 95 % interval (Clopper-Pearson).
        high: Upper end.
    """

    level: float
    share: float
    low: float
    high: float


@dataclass(frozen=True)
class Coverage:
    """Outcome of :func:`coverage`.

    Attributes:
        sbc_p_values: Kolmogorov-Smirnov p-value of the ranks of each parameter, shape
            ``(dim_theta,)``; not corrected for their number.
        tarp_atc: Area between TARP's coverage curve and the diagonal, above level 0.5;
            negative if the posterior is too narrow or biased, positive if too wide.
        tarp_p_value: Kolmogorov-Smirnov p-value of TARP's ranks.
        expected: Coverage of regions of highest density; of central intervals, averaged
            over parameters, if the posterior has no density. One entry per level.
        expected_p_value: Kolmogorov-Smirnov p-value of the density's ranks; None without
            density.
        acauc: Mean of :func:`~ma_sbi.metrics.acauc`; positive if overconfident.
        sbc_ranks: Number of draws below the truth, shape ``(n, dim_theta)``.
        num_samples: Draws per row.
    """

    sbc_p_values: Tensor
    tarp_atc: float
    tarp_p_value: float
    expected: tuple[CoveredShare, ...]
    expected_p_value: float | None
    acauc: float
    sbc_ranks: Tensor
    num_samples: int

    @property
    def sbc_p_value(self) -> float:
        """The smallest p-value of a parameter, times their number (Bonferroni)."""
        return min(1.0, len(self.sbc_p_values) * self.sbc_p_values.min().item())

    @property
    def p_value(self) -> float:
        """The smallest p-value of the tests, times their number (Bonferroni)."""
        tests = [self.sbc_p_value, self.tarp_p_value]
        if self.expected_p_value is not None:
            tests.append(self.expected_p_value)
        return min(1.0, len(tests) * min(tests))

    def __str__(self) -> str:
        calibrated = self.p_value >= 0.05
        verdict = "no sign of miscalibration" if calibrated else "not calibrated"
        if not calibrated:
            verdict += ", too sure or biased" if self.acauc > 0 else ", too wide"
        density = (
            ""
            if self.expected_p_value is None
            else f", expected coverage p = {self.expected_p_value:.2g}"
        )
        levels = "; ".join(
            f"{one.level:.0%} regions cover {one.share:.0%} [{one.low:.0%}, {one.high:.0%}]"
            for one in self.expected
        )
        return (
            f"{verdict} over {len(self.sbc_ranks)} rows: SBC p = {self.sbc_p_value:.2g}, "
            f"TARP p = {self.tarp_p_value:.2g} (ATC {self.tarp_atc:+.3f}){density}\n"
            f"{levels}"
        )


@torch.no_grad()
def coverage(
    posterior: Any,
    theta: ArrayLike,
    x_obs: ArrayLike,
    context: Context | None = None,
    *,
    num_samples: int = 300,
    levels: tuple[float, ...] = (0.5, 0.8, 0.95),
    with_density: bool = True,
    seed: int | None = None,
) -> Coverage:
    """Test a posterior on observations whose parameters are known.

    The rows must not have been used to fit the corrector; or correct them through
    :func:`~ma_sbi.cross_fit`. All three tests hold on average over the rows. They do not
    see a posterior that ignores x (the prior passes), nor one that is too wide in one
    regime and too narrow in another, unless the regimes are tested apart.

    Args:
        posterior: A ``CorrectedPosterior``, a fitted method, or any posterior with
            ``sample(num_samples, x)``.
        theta: True parameters, shape ``(n, dim_theta)``.
        x_obs: Observations, shape ``(n, dim_x)``.
        context: One entry per observation; passed on only if given.
        num_samples: Draws per row; ranks are spread at random between neighbouring draws,
            so that the tests are exact for any number.
        levels: Levels of the regions whose coverage is reported.
        with_density: Whether to use the posterior's density where it has one; some are
            slow.
        seed: Makes the result repeatable.

    Raises:
        ValueError: If rows do not pair up or are too few.
    """
    x_obs, theta, context = match_rows(
        x_obs=in_columns(getattr(posterior, "columns_", None), x_obs, 1),
        theta=theta,
        context=context,
    )
    truth = as_matrix(theta, "theta", column=True)
    x = as_matrix(x_obs, "x_obs", column=True)
    if len(truth) != len(x):
        raise ValueError(
            f"theta and x_obs must be paired row by row, got {len(truth)} and {len(x)} rows"
        )
    if len(x) < FEWEST_PAIRS:
        raise ValueError(
            f"coverage needs at least {FEWEST_PAIRS} rows with known theta, got {len(x)}"
        )
    if not all(0 < level < 1 for level in levels):
        raise ValueError(f"levels must lie between 0 and 1, got {levels!r}")
    given = (x,) if context is None else (x, context)
    samples = posterior.sample(
        as_count(num_samples, "num_samples"), *given, seed=derive(seed, "draws")
    )
    draws, truth = with_truth(samples, truth)
    rng = generator(derive(seed, "ranks"))
    ranks, position = _ranks(draws, truth, rng)
    tarp = _tarp_ranks(draws, truth, rng)
    if not (with_density and has_density(posterior)):
        expected_p_value = None
        covered = [(2 * position - 1).abs() <= level for level in levels]
    else:
        # The region of level a contains the truth if less than a of the draws are denser.
        of_draws, of_truth = (
            -posterior.log_prob(one, *given) for one in (draws, truth[None])
        )
        _, depth = _ranks(of_draws[..., None], of_truth[0, :, None], rng)
        expected_p_value = _uniformity(depth[:, 0])
        covered = [depth <= level for level in levels]
    return Coverage(
        sbc_p_values=torch.tensor([_uniformity(column) for column in position.T]),
        tarp_atc=_area(tarp),
        tarp_p_value=_uniformity(tarp),
        expected=tuple(
            _share(level, inside) for level, inside in zip(levels, covered, strict=True)
        ),
        expected_p_value=expected_p_value,
        acauc=acauc(draws, truth).mean().item(),
        sbc_ranks=ranks,
        num_samples=len(draws),
    )


def _ranks(
    draws: Tensor, truth: Tensor, rng: torch.Generator | None
) -> tuple[Tensor, Tensor]:
    """Rank the truth ``(n, d)`` among draws ``(S, n, d)``.

    Returns:
        How many are below, and a position in (0, 1) that is exactly uniform if the truth
        is exchangeable with the draws: at random between its neighbours and among ties.
    """
    below = (draws < truth).sum(dim=0)
    ties = (draws == truth).sum(dim=0)
    place = torch.rand(truth.shape, generator=rng, dtype=torch.float64).to(truth.device)
    return below, (below + place * (ties + 1)) / (len(draws) + 1)


def _tarp_ranks(draws: Tensor, truth: Tensor, rng: torch.Generator | None) -> Tensor:
    """Rank the truth's distance from random points among those of the draws."""
    low, width = _box(draws, truth, rng)
    place = torch.rand(truth.shape, generator=rng).to(truth)
    reference = low + width * place

    def distance(points: Tensor) -> Tensor:
        return ((points - reference) / width).norm(dim=-1, keepdim=True)

    return _ranks(distance(draws), distance(truth), rng)[1][:, 0]


def _box(
    draws: Tensor, truth: Tensor, rng: torch.Generator | None
) -> tuple[Tensor, Tensor]:
    """Find the corner and the widths of where the random points lie.

    The box holds one of the draws and the truth of each row. The truths alone would be
    inside more often than the draws, and nearer: at 20 rows of ten parameters that rejects
    13 % of calibrated posteriors.
    """
    pick = torch.randint(len(draws) + 1, (len(truth),), generator=rng).to(truth.device)
    each = torch.arange(len(truth), device=truth.device)
    some = torch.cat([draws, truth[None]])[pick, each]
    low, high = some.min(dim=0).values, some.max(dim=0).values
    return low, torch.where(high > low, high - low, torch.ones_like(high))


def _area(tarp: Tensor) -> float:
    """Integrate coverage less level from 0.5 to 1, without a grid of levels."""
    return (1 - tarp.clamp(min=0.5)).mean().item() - 0.375


def _uniformity(values: Tensor) -> float:
    return float(stats.kstest(values.cpu().numpy(), "uniform").pvalue)


def _share(level: float, inside: Tensor) -> CoveredShare:
    """Count rows; several columns of a row are no independent trials, but one."""
    share = inside.double().mean().item()
    n = len(inside)
    test = stats.binomtest(round(share * n), n).proportion_ci(0.95)
    return CoveredShare(level, share, float(test.low), float(test.high))


@dataclass(frozen=True)
class CoverageOfCorrection:
    """Coverage of a posterior at the observations, corrected, and at the simulations.

    Attributes:
        before: At the observations as they are.
        after: At the corrected observations; None without a correction.
        simulated: At the paired simulations: the posterior's own; None without them.
    """

    before: Coverage
    after: Coverage | None
    simulated: Coverage | None

    @property
    def is_enough(self) -> bool:
        """Whether regions, after the correction if there is one, cover nearly enough."""
        last = self.before if self.after is None else self.after
        slack = THRESHOLDS.coverage_slack
        return all(one.high >= one.level - slack for one in last.expected)

    @property
    def curves(self) -> dict[str, tuple[CoveredShare, ...]]:
        """What there is to draw, by name."""
        each = {
            "at x_sim": self.simulated,
            "before correction": self.before,
            "after correction": self.after,
        }
        return {name: one.expected for name, one in each.items() if one is not None}

    def __str__(self) -> str:
        each = {"before": self.before, "after": self.after, "at x_sim": self.simulated}
        shares = [
            f"{name} {one.share:.0%}"
            for name, found in each.items()
            if found is not None
            for one in found.expected
            if one.level == 0.8
        ]
        return "80 % regions contain the truth: " + ", ".join(shares)


def _run(subject: Subject) -> CoverageOfCorrection:
    positions, rows, _ = subject.some(subject.budget.coverage, "coverage")
    corrected = subject.corrected_posterior
    theta = rows.theta
    assert theta is not None

    def at(
        x: Tensor, posterior: Any = subject.quick_posterior, where: Any = None
    ) -> Coverage:
        return coverage(
            posterior,
            theta,
            x.float(),
            where,
            num_samples=subject.budget.draws,
            levels=LEVELS,
            with_density=not subject.expensive_density,
            seed=derive(rows.seed, "coverage"),
        )

    return CoverageOfCorrection(
        at(rows.x_obs),
        None if corrected is None else at(rows.x_obs, corrected, positions),
        None if rows.x_sim is None else at(rows.x_sim),
    )


def _draw(check: Findings) -> Picture | None:
    """Draw how often regions contain the truth, against their level."""
    from ma_sbi.display.coverage import draw_coverage
    from ma_sbi.display.drawing import side_by_side

    found = check.found("coverage")
    if found is None:
        return None
    figure, (ax,) = side_by_side(3.8)
    draw_coverage(ax, found.curves)
    return Picture(
        "Coverage of the true theta",
        "Below the diagonal the posterior is too sure. Bands are 95 % intervals.",
        figure,
    )


DIAGNOSTIC = Diagnostic(
    "coverage",
    "Does the posterior cover the truth?",
    _run,
    needs=("posterior", "theta"),
    draw=_draw,
)
