"""Matching: learn the departure from unpaired observations and simulations."""

from __future__ import annotations

import warnings
from collections.abc import Callable
from dataclasses import dataclass
from typing import ClassVar, Literal, get_args

import torch
from torch import Tensor

from ma_sbi.correctors.composed import FITTED, Axes, FittableCorrector
from ma_sbi.correctors.departures import Shift
from ma_sbi.correctors.fitting import Fitted, Pools, Triples, need_shift
from ma_sbi.correctors.inference import Point
from ma_sbi.correctors.likelihood import FEWEST_ROWS, ShiftLikelihood
from ma_sbi.correctors.ridge import Ridge
from ma_sbi.protocols import Encoder
from ma_sbi.randomness import generator
from ma_sbi.scaling import column_scale, ranges_apart, spreads_apart
from ma_sbi.storing.forms import stored

__all__ = ["Loss", "Matching", "MatchingAssumption", "MatchingCorrector"]

Loss = Literal["mean", "mmd", "likelihood"]
"""What must agree between the two pools: the means, the distributions, or the observations
with the density of the simulations."""


# Observations compared with the pool at once, to bound memory.
ROWS_AT_ONCE = 256
# Factor between spreads from which observations are of other units than simulations.
MOST_APART = 3.0
# Rows without which spreads are not compared.
FEWEST_COMPARED = 50
# Share of observations that may be less probable than every simulation, when shifted.
MOST_UNLIKE = 0.5


class MatchingAssumption(UserWarning):
    """An assumption that unpaired data cannot check."""


@stored(*FITTED)
class MatchingCorrector(FittableCorrector):
    r"""Shift the observations of each context until they look like simulations.

    For observations without a simulation at the same inputs: all that is needed is a pool
    of simulations from the prior (the paper's Appendix "Distribution-matching training
    variant").

    .. math:: \hat\delta(z) = \arg\min_\delta D\big(\{x_{obs,i} - \delta : z_i = z\},\
        \{x_{sim,j}\}\big)

    **Assumption.** Every difference between observations and simulations is taken for the
    departure. If theta is distributed differently in one regime than in another, or than
    in the prior, that true difference becomes part of the departure and is removed from
    the posterior. Instructions that change a participant's response threshold are such a
    case. The data cannot tell the two apart; every fit gives a
    :class:`MatchingAssumption` warning.

    Args:
        encoder: Context to vectors; any scikit-learn transformer.
        loss: ``"mean"`` makes the conditional means agree, which is a regression on the
            context in closed form, for contexts of any kind. ``"mmd"`` makes the
            distributions agree in maximum mean discrepancy; it compares observations that
            share a context, and is robust to outliers. ``"likelihood"`` makes the
            observations of each context as probable as possible under the simulations'
            density. It is the most precise where that density has edges, peaks or several
            modes; it needs ``density`` and contexts that repeat.
        density: Log density of the simulations, ``(n, dim_x) -> (n,)``, such as
            :func:`~ma_sbi.fit_density` gives; for ``loss="likelihood"``. For many fits
            with the same simulations pass ``ShiftLikelihood.of(density, simulations)``,
            which does what they share once.

    Example:
        >>> import torch, warnings
        >>> from ma_sbi import HashEncoder, MatchingCorrector
        >>> rng = torch.Generator().manual_seed(0)
        >>> pool = torch.randn(5000, 1, generator=rng)
        >>> notes = ["The sensor reads high.", "All is well."] * 500
        >>> high = torch.tensor([[2.0], [0.0]]).repeat(500, 1)
        >>> x_obs = torch.randn(1000, 1, generator=rng) + high
        >>> with warnings.catch_warnings():
        ...     warnings.simplefilter("ignore")
        ...     corrector = MatchingCorrector(HashEncoder()).fit(
        ...         notes, x_obs, simulations=pool
        ...     )
        >>> bool((corrector.shift(["The sensor reads high."]) - 2.0).abs() < 0.2)
        True
    """

    def __init__(
        self,
        encoder: Encoder,
        loss: Loss = "mean",
        density: Callable[[Tensor], Tensor] | ShiftLikelihood | None = None,
    ) -> None:
        self.encoder = encoder
        self.loss = loss
        self.density = density

    def axes(self) -> Axes:
        """Name the departure, the fit and the inference."""
        return Axes(Shift(), Matching(self.loss, self.density), Point())


@stored()
@dataclass(frozen=True)
class Matching:
    """The fit of a :class:`MatchingCorrector`.

    Attributes:
        loss: What must agree.
        density: Log density of the simulations, for ``loss="likelihood"``.
        widths: Widths of the Gaussian kernels of the discrepancy, which are added up, in
            units of the median distance of simulations.
        max_simulations: Most simulations that observations are compared with one by one;
            from a larger pool, as many are chosen at random.
    """

    paired: ClassVar[Literal[False]] = False

    loss: Loss = "mean"
    density: Callable[[Tensor], Tensor] | ShiftLikelihood | None = None
    widths: tuple[float, ...] = (0.25, 0.5, 1.0, 2.0, 4.0)
    max_simulations: int = 2000

    def __post_init__(self) -> None:
        if self.loss not in get_args(Loss):
            raise ValueError(
                f"loss must be one of {', '.join(get_args(Loss))}, got {self.loss!r}"
            )
        if self.loss != "likelihood" and self.density is not None:
            raise ValueError(f'density is for loss="likelihood", and loss is {self.loss!r}')
        known = callable(self.density) or isinstance(self.density, ShiftLikelihood)
        if self.loss == "likelihood" and not known:
            raise ValueError(
                'loss="likelihood" needs density=, the log density of the simulations, '
                f"such as fit_density(simulations) returns; got {self.density!r}"
            )

    def fit(self, pools: Pools, *, seed: int | None = None) -> Fitted:
        """Match the pools; the seed chooses simulations where there are too many."""
        need_shift(pools.basis, "Matching")
        if len(pools.simulations) < 2:
            raise ValueError("simulations must be a pool of at least 2, got 1")
        if self.loss == "mean":
            # Conditional means agree where the regression of x_obs on the context does.
            delta = pools.x_obs - pools.simulations.mean(dim=0)
        elif self.loss == "mmd":
            delta = self._match_distributions(pools, seed)
        else:
            delta = self._maximise_likelihood(pools, seed)
        warnings.warn(
            "matching takes every difference between observations and simulations for "
            "the departure: if theta is distributed differently between contexts, or "
            "than in the prior, that difference is removed from the posterior as well, "
            "and the data cannot show it",
            MatchingAssumption,
            stacklevel=3,
        )
        unlike = about_units(pools.x_obs, pools.codes, pools.simulations)
        if unlike:
            warnings.warn(unlike, MatchingAssumption, stacklevel=3)
        triples = Triples(pools.encoding, pools.codes, pools.basis, delta)
        return Ridge().fit(triples, seed=seed)

    def _maximise_likelihood(self, pools: Pools, seed: int | None) -> Tensor:
        """Find the shift of each context, with the noise of each row, ``(n, dim_x)``."""
        fewest = int(pools.codes.bincount().min())
        if fewest < FEWEST_ROWS:
            raise ValueError(
                f'loss="likelihood" needs at least {FEWEST_ROWS} observations of each '
                f'context, and one has {fewest}; use loss="mean", by which contexts '
                "share what they have, or fewer contexts"
            )
        assert self.density is not None  # noqa: S101 (checked when it was made)
        likelihood = self.density
        if not isinstance(likelihood, ShiftLikelihood):
            likelihood = ShiftLikelihood.of(likelihood, pools.simulations)
        found = likelihood.shifts(pools.x_obs, pools.codes, seed=seed)
        apart = found.unlike > MOST_UNLIKE
        if apart.any():
            raise ValueError(
                "observations and simulations do not overlap, however the observations "
                f"are shifted: under {int(apart.sum())} of {len(apart)} contexts, up to "
                f"{found.unlike.max().item():.0%} of them stay less probable than every "
                "simulation; are units or columns mixed up, or is the density that of "
                "other simulations?"
            )
        return found.shift[pools.codes] + found.influence

    def _match_distributions(self, pools: Pools, seed: int | None) -> Tensor:
        """Find the shift of each context, with the noise of each row, ``(n, dim_x)``."""
        counts = pools.codes.bincount()
        if counts.max() == 1:
            raise ValueError(
                'loss="mmd" compares observations that share a context, and no two '
                'here do; use loss="mean", or contexts that repeat'
            )
        rng = generator(0 if seed is None else seed, pools.x_obs.device)
        order = torch.randperm(
            len(pools.simulations), generator=rng, device=pools.x_obs.device
        )
        simulations = pools.simulations[order[: self.max_simulations]]
        scale = column_scale(simulations)
        simulations = simulations / scale
        unit = torch.pdist(simulations).median().clamp(min=1e-12)
        precisions = 1 / (unit * torch.tensor(self.widths).to(unit)).square()
        shifts = [
            _closest_shift(
                pools.x_obs[pools.codes == code] / scale, simulations, precisions
            )
            for code in range(len(counts))
        ]
        shift = (torch.stack(shifts) * scale)[pools.codes]
        # The regression needs the noise of each row: what is left after the shift is
        # removed. An outlier counts as much as the farthest simulation.
        noise = (pools.x_obs - shift).clamp(
            pools.simulations.amin(dim=0), pools.simulations.amax(dim=0)
        )
        total = torch.zeros_like(shift).index_add_(0, pools.codes, noise)
        return shift + noise - (total[: len(counts)] / counts[:, None])[pools.codes]


def _closest_shift(
    observed: Tensor, simulations: Tensor, precisions: Tensor, max_steps: int = 500
) -> Tensor:
    """Minimise the discrepancy over shifts of the observations.

    A shift changes only the cross term of the discrepancy, a sum of Gaussian bumps at the
    differences of the two pools. Mean-shift steps climb it without a step size.
    """
    shift = observed.median(dim=0).values - simulations.median(dim=0).values
    for _ in range(max_steps):
        total, moved = torch.zeros_like(shift[0]), torch.zeros_like(shift)
        for rows in observed.split(ROWS_AT_ONCE):
            difference = rows[:, None] - simulations
            squared = (difference - shift).square().sum(dim=-1)
            bumps = torch.exp(-0.5 * squared[..., None] * precisions)
            weight = (bumps * precisions).sum(dim=-1)
            total += weight.sum()
            moved += torch.einsum("ij,ijd->d", weight, difference)
        if total == 0:  # so far from every simulation that all kernels are zero
            break
        step = (moved / total - shift).abs().max()
        shift = moved / total
        if step < 1e-7:
            return shift
    warnings.warn(
        "the shift of a context was not found to full precision; its observations are far "
        "from every simulation",
        stacklevel=2,
    )
    return shift


def about_units(x_obs: Tensor, codes: Tensor, simulations: Tensor) -> str:
    """Say that observations lie, or spread, unlike simulations; nothing if they do not.

    Args:
        x_obs: Observations, shape ``(n, dim_x)``.
        codes: Context of each, shape ``(n,)``.
        simulations: Simulations from the prior, shape ``(num_simulations, dim_x)``.
    """
    count = codes.bincount()
    total = x_obs.new_zeros(len(count), x_obs.shape[1]).index_add_(0, codes, x_obs)
    within = x_obs - (total / count.clamp(min=1)[:, None])[codes]
    columns = spreads_apart(within, simulations, MOST_APART)
    if columns and len(x_obs) >= FEWEST_COMPARED:
        return (
            "within a context, observations spread far more or less than simulations "
            f"(column {columns[0]}), which no shift explains; are units or columns mixed "
            "up?"
        )
    columns = ranges_apart(x_obs, simulations)
    if not columns:
        return ""
    ours, theirs = (part[:, columns[0]].aminmax() for part in (x_obs, simulations))
    return (
        f"observations and simulations do not overlap: in column {columns[0]} observations "
        f"lie between {ours.min:g} and {ours.max:g}, simulations between {theirs.min:g} "
        f"and {theirs.max:g}, and all of that is taken for a departure; are units or "
        "columns mixed up?"
    )
