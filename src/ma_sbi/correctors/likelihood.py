"""The shift after which observations are most probable under the simulator."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass, replace
from typing import NamedTuple

import torch
from torch import Tensor

from ma_sbi.nan import no_density, refuse, tell
from ma_sbi.protocols import MAX_ROWS, ArrayLike
from ma_sbi.randomness import generator
from ma_sbi.scaling import column_scale
from ma_sbi.storing.forms import stored
from ma_sbi.telling import untold
from ma_sbi.validation import as_matrix

__all__ = ["FEWEST_ROWS", "BoundedDensity", "LikeliestShifts", "ShiftLikelihood"]

FEWEST_ROWS = 5
"""A context with fewer observations has no shift of its own."""

# Nats below the least probable simulation that is known. A density that was learned is
# arbitrary there, and no observation may count for more.
FAR_LESS = 15.0
# Starts around means and medians whose likelihood is compared, and those that are kept.
NUM_TRIED, NUM_KEPT = 32, 2
# Standard errors of the mean by which starts lie apart.
APART = 2.0
# Step of a difference quotient, in standard deviations of the simulations.
SMALL = 1e-3
# Part of its standard error that a shift is found to.
PRECISE = 1e-2
MOST_STEPS = 100
# Simulations that weigh in the curvature of a context, besides its own rows.
BORROWED = 20.0
MOST_SIMULATIONS = 50_000
# Simulations that the curvature is measured at.
MOST_CURVED = 5000
# Step over which the curvature is measured, in standard errors of a single row.
RIPPLE = 0.1
# Shift of the simulations themselves, in standard deviations, that no bias explains.
MOST_AWAY = 1.0
# Part of the information that the mean gradient may be: without a shift it is zero, and
# from ten standard deviations on, all gradients point one way. Told by so many simulations
# of each column.
MOST_ONE_WAY = 0.99
FEWEST_PER_COLUMN = 10
# Least curvature, in units of the information: it must be positive.
LEAST_CURVATURE = 0.1


@stored(step="dim_x")
@dataclass(frozen=True)
class BoundedDensity:
    """A log density with its gradient, which tells nothing apart far from simulations.

    Attributes:
        density: Log density, ``(n, dim_x) -> (n,)``, of float32. Its own gradient is used
            if it offers ``log_prob_and_gradient``, else difference quotients.
        least: What every log density is raised to, smoothly.
        step: Step of difference quotients, shape ``(dim_x,)``.
    """

    density: Callable[[Tensor], Tensor]
    least: float
    step: Tensor

    @classmethod
    def around(
        cls, density: Callable[[Tensor], Tensor], simulations: Tensor
    ) -> BoundedDensity:
        """Learn the bound from simulations ``(num_simulations, dim_x)``."""
        try:
            known = density(simulations.float())
        except (ValueError, RuntimeError) as error:
            raise ValueError(
                f"density cannot be evaluated at simulations: {error}"
            ) from error
        if not isinstance(known, Tensor) or known.shape != simulations.shape[:1]:
            raise ValueError(
                "density must give a tensor with one number for each of "
                f"{len(simulations)} simulations, got a {type(known).__name__} of shape "
                f"{tuple(getattr(known, 'shape', ()))}"
            )
        if not known.isfinite().any():
            raise ValueError(
                "density must be finite at simulations, and is at none of them"
            )
        failed = no_density(known[None])
        refuse(failed, "log densities", of="the density", at="simulations", few=True)
        least = known[known.isfinite()].min().item() - FAR_LESS
        return cls(density, least, SMALL * column_scale(simulations))

    def log_prob(self, x: Tensor) -> Tensor:
        """Evaluate x ``(n, dim_x)``: shape ``(n,)``; what is no number is the least."""
        parts = [self.density(some).to(x) for some in x.float().split(MAX_ROWS)]
        value = torch.cat(parts) if len(parts) > 1 else parts[0]
        tell(no_density(value[None]), "log densities", of="the density", at="points")
        return self._bound(value)

    __call__ = log_prob

    @untold("no number")
    def log_prob_and_gradient(self, x: Tensor) -> tuple[Tensor, Tensor]:
        """Evaluate x ``(n, dim_x)``: shapes ``(n,)`` and ``(n, dim_x)``."""
        if hasattr(self.density, "log_prob_and_gradient"):
            value, gradient = self.density.log_prob_and_gradient(x)
            # What the bound leaves of the gradient; none, where there is no density.
            share = torch.sigmoid(value - self.least)
            return self._bound(value), (share[:, None] * gradient).nan_to_num(0.0, 0.0, 0.0)
        steps = torch.diag(self.step)[:, None]
        above, below = (
            self.log_prob((x + sign * steps).flatten(0, 1)).unflatten(0, (-1, len(x)))
            for sign in (1, -1)
        )
        return self.log_prob(x), (above - below).T / (2 * self.step)

    def _bound(self, value: Tensor) -> Tensor:
        value = value.masked_fill(no_density(value[None]), -torch.inf)
        return torch.logaddexp(value, value.new_tensor(self.least))


class LikeliestShifts(NamedTuple):
    """The shift of each context, and what each observation contributes to it.

    Attributes:
        shift: Shape ``(num_contexts, dim_x)``.
        influence: Shape ``(n, dim_x)``. Its mean in a context is zero; its covariance
            there, divided by the number of rows, is the covariance of the shift.
        unlike: Share of the observations of each context that are less probable than every
            simulation, also when shifted, shape ``(num_contexts,)``.
    """

    shift: Tensor
    influence: Tensor
    unlike: Tensor


@stored(
    simulations="n dim_x",
    origin="dim_x",
    information="dim_x dim_x",
    curvature="dim_x dim_x",
)
@dataclass(frozen=True)
class ShiftLikelihood:
    r"""Finds the shift after which observations are most probable under the simulator.

    .. math:: \hat\delta(z) = \arg\max_\delta \sum_{i: z_i = z} \log p(x_{obs,i} - \delta)
        - \arg\max_\delta \sum_j \log p(x_{sim,j} - \delta)

    The second term is zero for the true density. For a density that was learned it removes
    the bias: whatever the density, simulations and observations that are the same but for a
    shift have maxima that are that shift apart. What a poor density costs is precision.

    Attributes:
        density: The density of the simulations.
        simulations: Shape ``(num_simulations, dim_x)``.
        origin: The shift of the simulations themselves, shape ``(dim_x,)``.
        information: Mean outer product of gradients, shape ``(dim_x, dim_x)``.
        curvature: Change of the mean gradient with the shift, shape ``(dim_x, dim_x)``.
    """

    density: BoundedDensity
    simulations: Tensor
    origin: Tensor
    information: Tensor
    curvature: Tensor

    @classmethod
    def of(
        cls, density: Callable[[Tensor], Tensor], simulations: ArrayLike
    ) -> ShiftLikelihood:
        """Prepare what does not depend on observations, for any number of fits.

        Args:
            density: Log density of simulations, ``(n, dim_x) -> (n,)``.
            simulations: Shape ``(num_simulations, dim_x)``; of more than 50,000, as many
                are chosen at random.

        Raises:
            ValueError: If the density does not give one number for each simulation, is
                finite at none of them, or is clearly that of others.
        """
        simulations = as_matrix(
            simulations, "simulations", dtype=torch.float64, column=True
        )
        order = torch.randperm(len(simulations), generator=generator(0))
        simulations = simulations[order[:MOST_SIMULATIONS].to(simulations.device)]
        bounded = BoundedDensity.around(density, simulations)
        _, gradient = bounded.log_prob_and_gradient(simulations)
        # A column that hardly matters must not make a step infinite.
        least = torch.diag(1e-6 / column_scale(simulations).square())
        information = gradient.T @ gradient / len(gradient) + least
        # So far away, a climb would stop long before it arrived.
        mean = gradient.mean(dim=0)
        one_way = (mean @ torch.linalg.solve(information, mean)).item()
        if one_way > MOST_ONE_WAY and len(gradient) >= FEWEST_PER_COLUMN * len(mean):
            raise ValueError(
                "density is not that of the simulations: all of them would be more "
                "probable far away, on the same side; are units or columns mixed up?"
            )
        curvature = _curvature(bounded, simulations[:MOST_CURVED], information)
        zero = torch.zeros_like(simulations[:1])
        biased = cls(bounded, simulations, zero[0], information, curvature)
        codes = torch.zeros(len(simulations), dtype=torch.long, device=zero.device)
        origin = biased._climb(simulations, codes, zero)[0][0]
        away = (origin / column_scale(simulations)).abs().max().item()
        if away > MOST_AWAY:
            raise ValueError(
                "density is not that of the simulations: they would be most probable after "
                f"a shift by {away:.1f} standard deviations; are units or columns mixed up?"
            )
        return replace(biased, origin=origin)

    def shifts(
        self, x_obs: ArrayLike, codes: Tensor, *, seed: int | None = None
    ) -> LikeliestShifts:
        """Find the shift of each context.

        Args:
            x_obs: Observations, shape ``(n, dim_x)``.
            codes: Number of the context of each, shape ``(n,)``.
            seed: Of the starts.
        """
        dim = self.simulations.shape[1]
        x_obs = as_matrix(x_obs, "x_obs", dim=dim, dtype=torch.float64)
        starts = self._starts(x_obs, codes, seed)
        found = [self._climb(x_obs, codes, start) for start in starts]
        shifts, values = (torch.stack(each) for each in zip(*found, strict=True))
        shift = _pick(shifts, values.argmax(dim=0))
        value, gradient = self.density.log_prob_and_gradient(x_obs - shift[codes])
        influence = -torch.linalg.solve(self.curvature, gradient.T).T
        influence = influence - _means(influence, codes)[codes]
        unlike = _means((value < self.density.least + FAR_LESS).to(x_obs)[:, None], codes)
        return LikeliestShifts(shift - self.origin, influence, unlike[:, 0])

    @untold("no number")
    def _starts(self, x_obs: Tensor, codes: Tensor, seed: int | None) -> Tensor:
        """Choose starts for each context, shape ``(num_starts, num_contexts, dim_x)``.

        Means and medians agree after the right shift, but for their errors. Other starts
        lie around them, as far as these errors are large; the best are kept.
        """
        counts = codes.bincount()
        medians = torch.stack([rows.median(dim=0).values for rows in _parts(x_obs, codes)])
        centres = torch.stack([_means(x_obs, codes), medians]) - torch.stack(
            [self.simulations.mean(dim=0), self.simulations.median(dim=0).values]
        ).unsqueeze(1)
        error = column_scale(self.simulations) / counts[:, None].sqrt()
        rng = generator(0 if seed is None else seed)
        normal = torch.randn(NUM_TRIED // 2, *centres.shape, generator=rng).to(centres)
        around = (centres + APART * error * normal).flatten(0, 1)
        values = torch.stack(
            [
                _means(self.density.log_prob(x_obs - start[codes])[:, None], codes)[:, 0]
                for start in around
            ]
        )
        best = values.topk(NUM_KEPT, dim=0).indices
        return torch.cat([centres, *(_pick(around, one)[None] for one in best)])

    def _climb(self, x: Tensor, codes: Tensor, start: Tensor) -> tuple[Tensor, Tensor]:
        """Climb from one start for each context, all of them together.

        Steps are those of Fisher scoring, shortened where they do not lead upwards.

        Returns:
            The shifts, shape ``(num_contexts, dim_x)``, and their mean log likelihoods.
        """
        counts = codes.bincount()
        error = (self.information.inverse().diag() / counts[:, None]).sqrt()
        length = torch.ones_like(start[:, 0])
        shift, (value, step) = start, self._evaluate(x, codes, start)
        open_ = torch.ones_like(counts, dtype=torch.bool)
        for _ in range(MOST_STEPS):
            trial = shift + length[:, None] * step
            rows = open_[codes]
            number = open_.cumsum(dim=0)[codes[rows]] - 1
            new_value, new_step = torch.full_like(value, -torch.inf), step.clone()
            new_value[open_], new_step[open_] = self._evaluate(
                x[rows], number, trial[open_]
            )
            moved = ((trial - shift) / error).abs().amax(dim=1)
            higher = new_value > value
            shift = torch.where(higher[:, None], trial, shift)
            step = torch.where(higher[:, None], new_step, step)
            value = torch.where(higher, new_value, value)
            length = torch.where(higher, (2 * length).clamp(max=1.0), length / 4)
            open_ = open_ & (moved > PRECISE)
            if not open_.any():
                break
        return shift, value

    def _evaluate(self, x: Tensor, codes: Tensor, shift: Tensor) -> tuple[Tensor, Tensor]:
        """Give the mean log likelihood of each context, and the step upwards."""
        value, gradient = self.density.log_prob_and_gradient(x - shift[codes])
        counts = codes.bincount()[:, None, None]
        own = torch.stack([rows.T @ rows for rows in _parts(gradient, codes)])
        curvature = (own + BORROWED * self.information) / (counts + BORROWED)
        slope = -_means(gradient, codes)
        return _means(value[:, None], codes)[:, 0], torch.linalg.solve(curvature, slope)


def _curvature(density: BoundedDensity, simulations: Tensor, information: Tensor) -> Tensor:
    """Measure how the mean gradient changes with the shift, shape ``(dim_x, dim_x)``.

    For the true density it is the information. A density that was learned has ripples:
    they add to the products of gradients, and not to this.
    """
    columns = []
    for step in torch.diag(RIPPLE * information.inverse().diag().sqrt()):
        above, below = (
            density.log_prob_and_gradient(simulations + move)[1].mean(dim=0)
            for move in (step, -step)
        )
        columns.append((below - above) / (2 * step.sum()))
    curvature = torch.stack(columns)
    root = torch.linalg.cholesky(information)
    whitened = torch.linalg.solve(root, (curvature + curvature.T) / 2)
    values, vectors = torch.linalg.eigh(torch.linalg.solve(root, whitened.T))
    half = root @ vectors * values.clamp(min=LEAST_CURVATURE).sqrt()
    return half @ half.T


def _means(values: Tensor, codes: Tensor) -> Tensor:
    """Average rows ``(n, m)`` of each context: shape ``(num_contexts, m)``."""
    counts = codes.bincount()
    total = values.new_zeros(len(counts), values.shape[1]).index_add_(0, codes, values)
    return total / counts[:, None]


def _parts(values: Tensor, codes: Tensor) -> Sequence[Tensor]:
    """Split rows ``(n, m)`` by context."""
    parts: tuple[Tensor, ...] = values[codes.argsort()].split(codes.bincount().tolist())
    return parts


def _pick(values: Tensor, index: Tensor) -> Tensor:
    """Pick for each context one of the values ``(k, num_contexts, dim_x)``."""
    return values[index, torch.arange(len(index), device=index.device)]
