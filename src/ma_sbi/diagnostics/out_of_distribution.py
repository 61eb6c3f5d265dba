r"""Whether observations look like simulations, before and after they are corrected.

Two tests, after those of sbi (``calc_misspecification_mmd``, ``..._logprob``). They are
written anew because sbi 0.27's are not calibrated. Its MMD compares n observations with
1000 simulations, but for the null n simulations with 1000 - n others; the biased MMD grows
as samples shrink, so that well-specified observations have a mean p-value of 0.70 at
n = 500 and 0.99 at n = 900, and from n = 1000 on p is 1 whatever the observations are. Its
log-prob test takes one row and needs a flow trained first. Both tests here are exact: the
p-value of well-specified observations is uniform, whatever the kernel and however good the
density; those only decide the power.
"""

from __future__ import annotations

import warnings
from collections.abc import Callable
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any

import numpy as np
import torch
from scipy import stats
from sklearn.mixture import GaussianMixture
from torch import Tensor

from ma_sbi.diagnostics.diagnostic import CannotRun, Diagnostic, Findings, Picture
from ma_sbi.diagnostics.thresholds import THRESHOLDS
from ma_sbi.one_at_a_time import local_filters
from ma_sbi.protocols import ArrayLike
from ma_sbi.randomness import derive, generator
from ma_sbi.scaling import column_scale
from ma_sbi.simulation import sample_prior, simulate
from ma_sbi.validation import as_count, as_matrix, as_pools

if TYPE_CHECKING:
    from ma_sbi.diagnostics.subject import Subject

__all__ = ["DIAGNOSTIC", "Likeness", "OutOfDistribution", "out_of_distribution"]

LogDensity = Callable[[Tensor], Any]

# The kernel matrix of so many rows of each kind takes a second.
MOST_ROWS = 1_000
# Components of the mixture that is fitted to the simulations.
COMPONENTS = (1, 2, 4, 8)
FEWEST_SIMULATIONS = 20
# Simulations from the prior, where there are none at the inputs of the observations.
POOL_SIZE = 2_000
# Points in the picture.
ROWS_SHOWN = 600


@dataclass(frozen=True)
class Likeness:
    """How like the simulations some observations are.

    Attributes:
        mmd: Squared maximum mean discrepancy, unbiased, so that it may fall below zero;
            None for a single observation.
        mmd_p_value: Its p-value by permutation; None for a single observation.
        log_prob_p_value: P-value of the observations having less density under the
            simulations than other simulations have.
        row_p_values: The same for each observation alone, shape ``(n,)``.
        outside: Share of observations whose own p-value is below 0.05; 0.05 is expected.
    """

    mmd: float | None
    mmd_p_value: float | None
    log_prob_p_value: float
    row_p_values: Tensor
    outside: float

    @property
    def p_value(self) -> float:
        """The smaller of the two p-values, doubled for having chosen (Bonferroni)."""
        if self.mmd_p_value is None:
            return self.log_prob_p_value
        return min(1.0, 2 * min(self.mmd_p_value, self.log_prob_p_value))

    @property
    def too_many_outside(self) -> bool:
        """Whether three standard errors more rows are outside than are expected.

        What is usual is learned from half as many simulations as there are rows, or more.
        """
        error = (0.05 * 0.95 * 3 / len(self.row_p_values)) ** 0.5
        return self.outside > 0.05 + 3 * error

    def __str__(self) -> str:
        like = "not all" if self.too_many_outside else "yes"
        like = like if self.p_value >= THRESHOLDS.unusual else "no"
        mmd = "" if self.mmd_p_value is None else f"MMD p = {self.mmd_p_value:.2g}, "
        return (
            f"{like} ({mmd}log density p = {self.log_prob_p_value:.2g}, "
            f"{self.outside:.0%} of rows outside where 5% are expected)"
        )


@dataclass(frozen=True)
class OutOfDistribution:
    """Observations against simulations, as they are and corrected.

    Attributes:
        before: The observations as they are.
        after: The corrected observations; None without them.
    """

    before: Likeness
    after: Likeness | None = None

    def __str__(self) -> str:
        text = f"before correction {self.before}"
        return text if self.after is None else f"{text}; after correction {self.after}"


def out_of_distribution(
    x_obs: ArrayLike,
    x_sim: ArrayLike,
    *,
    corrected: ArrayLike | None = None,
    paired: bool = False,
    log_density: LogDensity | None = None,
    num_permutations: int = 999,
    seed: int | None = None,
) -> OutOfDistribution:
    """Test whether observations could be simulations, before and after correction.

    A large p-value does not show that the simulator is right, nor that the posterior is:
    no such test sees a departure that looks like another theta. Observations that were
    corrected by a corrector fitted to them look better than new ones will; correct them
    through :func:`~ma_sbi.cross_fit`.

    Args:
        x_obs: Observations, shape ``(n, dim_x)``; one is enough.
        x_sim: Simulations from the prior, shape ``(m, dim_x)``, or at the inputs of each
            observation if ``paired``.
        corrected: The observations after correction, shape ``(n, dim_x)``.
        paired: Whether row i of ``x_sim`` was simulated at the inputs of row i of
            ``x_obs``. The MMD is then compared with those after exchanging the two in
            random pairs, which sees much smaller departures.
        log_density: Log density of the simulations, ``(n, dim_x) -> (n,)``, fitted to
            others than ``x_sim``; a Gaussian mixture, fitted to half of ``x_sim``, if None.
        num_permutations: Permutations behind the MMD's p-value.
        seed: Makes the result repeatable.

    Raises:
        ValueError: If the columns differ, there are too few simulations, or pairs do not
            pair up.

    Example:
        >>> rng = torch.Generator().manual_seed(0)
        >>> x_sim = torch.randn(500, 2, generator=rng)
        >>> x_obs = torch.randn(100, 2, generator=rng) + 1
        >>> result = out_of_distribution(x_obs, x_sim, corrected=x_obs - 1, seed=0)
        >>> result.before.p_value < 0.01 < result.after.p_value
        True
    """
    observed, simulated = (values.cpu() for values in as_pools(x_obs, x_sim))
    if len(simulated) < FEWEST_SIMULATIONS:
        raise ValueError(
            f"at least {FEWEST_SIMULATIONS} simulations are needed to know what is usual, "
            f"got {len(simulated)}"
        )
    if paired and len(observed) != len(simulated):
        raise ValueError(
            "paired observations and simulations must be as many, got "
            f"{len(observed)} and {len(simulated)}"
        )
    num_permutations = as_count(num_permutations, "num_permutations")
    scale = column_scale(simulated)
    order = torch.randperm(len(simulated), generator=generator(derive(seed, "simulations")))
    if log_density is None:
        order, fitted = order[: len(order) // 2], order[len(order) // 2 :]
        log_density = _mixture_density(simulated[fitted], scale, seed)
    usual = _score(log_density, simulated[order])

    def compare(rows: Tensor) -> Likeness:
        mmd, mmd_p_value = (
            (None, None)
            if len(rows) == 1
            else _mmd_test(
                rows / scale,
                simulated / scale,
                paired=paired,
                num_permutations=num_permutations,
                seed=seed,
            )
        )
        score = _score(log_density, rows)
        row_p_values = _ranks(score, usual)
        p_value = _less(score[order] if paired else score, usual, paired=paired)
        outside = (row_p_values < 0.05).double().mean().item()
        return Likeness(mmd, mmd_p_value, p_value, row_p_values, outside)

    before = compare(observed)
    if corrected is None:
        return OutOfDistribution(before)
    after = as_matrix(corrected, "corrected", dim=observed.shape[1], dtype=torch.float64)
    if len(after) != len(observed):
        raise ValueError(
            f"corrected must have one row per observation: expected {len(observed)}, got "
            f"{len(after)}"
        )
    return OutOfDistribution(before, compare(after.cpu()))


def _mixture_density(simulations: Tensor, scale: Tensor, seed: int | None) -> LogDensity:
    """Fit a Gaussian mixture to simulations, with as many components as BIC asks for."""
    rows = (simulations / scale).numpy()
    shape = "full" if len(rows) >= 5 * rows.shape[1] else "diag"
    state = int(torch.randint(2**31, (), generator=generator(derive(seed, "mixture"))))
    fits = []
    with local_filters():
        warnings.simplefilter(
            "ignore"
        )  # a mixture that has not converged is still a mixture
        for count in COMPONENTS:
            # A component needs rows for its covariance.
            if count == 1 or len(rows) >= 10 * count * rows.shape[1]:
                mixture = GaussianMixture(count, covariance_type=shape, random_state=state)
                fits.append(mixture.fit(rows))
    best = min(fits, key=lambda fit: fit.bic(rows))
    return lambda x: best.score_samples((x / scale).numpy())


def _score(log_density: LogDensity, x: Tensor) -> Tensor:
    score = torch.as_tensor(log_density(x), dtype=torch.float64).detach()
    if score.shape != (len(x),):
        raise ValueError(
            f"log_density must give one number per row, shape ({len(x)},), got "
            f"{tuple(score.shape)}"
        )
    return score


def _ranks(scores: Tensor, usual: Tensor) -> Tensor:
    """Rank each score among the usual ones: a p-value per row, shape ``(n,)``."""
    below = torch.searchsorted(usual.sort().values, scores, right=True)
    return (1 + below).double() / (len(usual) + 1)


def _less(scores: Tensor, usual: Tensor, *, paired: bool) -> float:
    """Test by ranks, so that no single row decides, whether scores are too low."""
    if len(scores) == 1:
        return _ranks(scores, usual).item()
    if not paired:
        test = stats.mannwhitneyu(scores.numpy(), usual.numpy(), alternative="less")
        return float(test.pvalue)
    difference = (scores - usual).numpy()
    if not difference.any():
        return 1.0
    return float(stats.wilcoxon(difference, alternative="less").pvalue)


def _mmd_test(
    first: Tensor, second: Tensor, *, paired: bool, num_permutations: int, seed: int | None
) -> tuple[float, float]:
    """Compare two samples by a Gaussian kernel of median width, with random exchanges."""
    rng = generator(derive(seed, "permutations"))
    first, second = _some(first, second, rng, paired=paired)
    both = torch.cat([first, second]).float()
    squared = torch.cdist(both, both).square()
    width = (
        squared[squared > 0].median() if (squared > 0).any() else squared.new_tensor(1.0)
    )
    kernel = (-squared / width).exp_().fill_diagonal_(0.0)
    n, m = len(first), len(second)
    sign = torch.ones(n + m, num_permutations + 1)
    sign[n:] = -1
    for column in range(1, num_permutations + 1):
        if paired:
            flip = 1 - 2 * torch.randint(2, (n,), generator=rng)
            sign[:, column] *= torch.cat([flip, flip])
        else:
            sign[:, column] = sign[torch.randperm(n + m, generator=rng), 0]
    inside = (sign > 0).float()
    outside = 1 - inside
    own, other = kernel @ inside, kernel @ outside
    mmd = (
        (own * inside).sum(dim=0) / (n * (n - 1))
        + (other * outside).sum(dim=0) / (m * (m - 1))
        - 2 * (own * outside).sum(dim=0) / (n * m)
    ).double()
    # Rounding must not decide between equal values.
    as_large = (mmd[1:] >= mmd[0] - 1e-7).sum().item()
    return mmd[0].item(), (1 + as_large) / (num_permutations + 1)


def _some(
    first: Tensor, second: Tensor, rng: torch.Generator | None, *, paired: bool
) -> tuple[Tensor, Tensor]:
    """Choose rows at random where there are more than the kernel matrix can take."""

    def choose(size: int) -> Tensor:
        return torch.randperm(size, generator=rng)[:MOST_ROWS]

    if paired:
        rows = choose(len(first))
        return first[rows], second[rows]
    return first[choose(len(first))], second[choose(len(second))]


def _run(subject: Subject) -> OutOfDistribution:
    """Compare with the paired simulations, or with ones from the prior."""
    _, rows, corrected = subject.some(len(subject.x_obs), "likeness")
    seed = derive(subject.seed, "out of distribution")
    if rows.x_sim is not None:
        return out_of_distribution(
            rows.x_obs, rows.x_sim, corrected=corrected, paired=True, seed=seed
        )
    prior = getattr(subject.posterior, "prior", None)
    if subject.simulator is None or prior is None:
        raise CannotRun(
            "It needs x_sim, or a simulator and a posterior that knows its prior."
        )
    theta = sample_prior(prior, POOL_SIZE, seed=derive(seed, "prior"))
    pool = simulate(subject.simulator, theta, seed=derive(seed, "noise"))
    return out_of_distribution(rows.x_obs, pool.cpu(), corrected=corrected, seed=seed)


def _draw(check: Findings) -> Picture | None:
    """Draw observations against their simulations, before and after."""
    from ma_sbi.display.drawing import AFTER, BEFORE, INK, side_by_side

    rows = check.rows
    if rows.x_sim is None or rows.corrected is None or rows.corrected_rows is None:
        return None
    scale = column_scale(torch.from_numpy(rows.x_sim)).numpy()
    delta = (rows.x_obs - rows.x_sim) / scale
    column = int(np.square(delta).mean(axis=0).argmax())
    shown = slice(None, None, max(1, len(rows.corrected_rows) // ROWS_SHOWN))
    chosen = rows.corrected_rows[shown]
    simulated = rows.x_sim[chosen, column]
    panels = {
        "before": (rows.x_obs[chosen, column], BEFORE),
        "after": (rows.corrected[shown, column], AFTER),
    }
    figure, axes = side_by_side(3.2, 2)
    values = np.concatenate([simulated, *(observed for observed, _ in panels.values())])
    low, high = np.quantile(values, [0.002, 0.998])
    pad = 0.05 * (high - low) or 1.0
    for ax, (name, (observed, colour)) in zip(axes, panels.items(), strict=True):
        ax.plot([low, high], [low, high], color=INK, lw=0.6, ls=":")
        ax.plot(simulated, observed, ".", color=colour, ms=4, alpha=0.5)
        ax.set(xlim=(low - pad, high + pad), ylim=(low - pad, high + pad))
        ax.set_aspect("equal")
        ax.set_title(f"{name} correction")
        ax.set_xlabel(f"x_sim[{column}]")
    axes[0].set_ylabel(f"x_obs[{column}]")
    return Picture(
        "Observations against simulations",
        "The column that departs most. On the diagonal the observation is what the "
        "simulator gives. Each row was corrected by a fit to other rows.",
        figure,
    )


DIAGNOSTIC = Diagnostic(
    "out_of_distribution",
    "Do the observations look like simulations?",
    _run,
    draw=_draw,
)
