"""What the mean shift removes and what the context adds: the three-way decomposition."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from typing import Any

import torch
from scipy import stats
from torch import Tensor

from ma_sbi.correctors.composed import FittableCorrector
from ma_sbi.diagnostics.held_out import Gain, HeldOut, hold_out
from ma_sbi.labels import match_rows
from ma_sbi.metrics.equivalence import Equivalence, tost_paired
from ma_sbi.metrics.gap import GapClosed, gap_closed
from ma_sbi.protocols import AmortizedPosterior, ArrayLike, Context
from ma_sbi.randomness import derive, generator
from ma_sbi.validation import as_count, as_matrix, check_positive

__all__ = ["GapByPart", "ThreeWay", "three_way"]


@dataclass(frozen=True)
class GapByPart:
    """The gap from the posterior to the oracle that each part closes.

    Attributes:
        marginal: By the mean shift alone.
        conditional: By what the context adds to it, alone.
        total: By both.
        to_oracle: Test of whether ``total`` and the oracle are equivalent; None where
            there is no gap.
    """

    marginal: GapClosed
    conditional: GapClosed
    total: GapClosed
    to_oracle: Equivalence | None


@dataclass(frozen=True)
class ThreeWay:
    """Shares of the departure that each part of a corrector removes.

    Held out, in units of the simulations' standard deviation. The parts add up to the
    total where the mean is free of error; for posteriors they need not (``gap``).

    Attributes:
        marginal: By the mean shift alone.
        conditional: By what the context adds to it, alone.
        total: By both.
        context_adds_nothing: Test of whether total and marginal are equivalent.
        gap: The same for a posterior; None without one.
        margin: Share below which a difference counts as none.
    """

    marginal: Gain
    conditional: Gain
    total: Gain
    context_adds_nothing: Equivalence
    gap: GapByPart | None
    margin: float

    def __str__(self) -> str:
        parts = ("marginal", "conditional", "total")
        lines = [f"{'part':<12} {'of the departure':<22} of the posterior's gap"]
        for part in parts:
            closed = "" if self.gap is None else str(getattr(self.gap, part))
            lines.append(f"{part:<12} {getattr(self, part)!s:<22} {closed}".rstrip())
        lines.append(f"with and without context: {self.context_adds_nothing}")
        if self.gap is not None and self.gap.to_oracle is not None:
            lines.append(f"with context and oracle: {self.gap.to_oracle}")
        return "\n".join(lines)


def three_way(
    context: Context,
    x_obs: ArrayLike,
    x_sim: ArrayLike,
    *,
    corrector: FittableCorrector | None = None,
    posterior: AmortizedPosterior | None = None,
    theta: ArrayLike | None = None,
    margin: float = 0.05,
    num_samples: int = 200,
    max_rows: int = 500,
    folds: int | None = None,
    groups: ArrayLike | Sequence[Any] | None = None,
    held: HeldOut | None = None,
    seed: int | None = None,
) -> ThreeWay:
    r"""Report what the marginal and the conditional part of a corrector do.

    .. math:: \hat\delta(z) = E_z[\hat\delta(z)] + (\hat\delta(z) - E_z[\hat\delta(z)])

    Each row is corrected by a fit to others. With a posterior, the gap runs from the
    posterior at x_obs to the oracle, the posterior at x_sim. It is measured by the squared
    error of the posterior mean: from the true theta if given, else from the oracle's mean,
    in units of the oracle's standard deviation.

    Args:
        context: One entry per observation.
        x_obs: Observations, shape ``(n, dim_x)``.
        x_sim: Simulations at the same inputs, shape ``(n, dim_x)``.
        corrector: An unfitted corrector; a closed-form shift if None.
        posterior: The trained posterior, for the gap.
        theta: True parameters, shape ``(n, dim_theta)``.
        margin: Share, of the departure and of the gap, below which a difference counts as
            none in the two one-sided tests. Choose it before looking.
        num_samples: Draws per observation behind a posterior mean.
        max_rows: Most rows that the posterior is evaluated at, chosen at random.
        folds: Number of folds; 10, and 5 beyond 2000 rows, if None.
        groups: One label per row; rows that share one are held out together.
        held: What ``hold_out`` gave for these rows, if that is known already.
        seed: Makes the result repeatable.
    """
    check_positive(margin, "margin")
    x_obs, x_sim, context, groups, theta = match_rows(
        x_obs=x_obs, x_sim=x_sim, context=context, groups=groups, theta=theta
    )
    if held is None:
        held = hold_out(
            context,
            x_obs,
            x_sim,
            corrector=corrector,
            folds=folds,
            groups=groups,
            seed=seed,
        )
    shifts = {
        "none": torch.zeros_like(held.delta),
        "marginal": held.common,
        "conditional": held.predicted - held.common,
        "total": held.predicted,
        "oracle": held.delta,
    }
    losses = {name: held.loss(shift) for name, shift in shifts.items()}
    marginal, conditional, total = (
        held.gain(losses["none"], losses[part])
        for part in ("marginal", "conditional", "total")
    )
    gap = None
    if posterior is not None:
        chosen = torch.randperm(len(held.delta), generator=generator(derive(seed, "rows")))[
            : as_count(max_rows, "max_rows")
        ]
        observed = as_matrix(x_obs, "x_obs", column=True, dtype=torch.float64).cpu()
        shown = {
            name: (observed - shift * held.scale)[chosen] for name, shift in shifts.items()
        }
        truth = None
        if theta is not None:
            truth = as_matrix(theta, "theta", column=True).cpu()
            if len(truth) != len(observed):
                raise ValueError(
                    f"theta must have one row per observation: expected {len(observed)}, "
                    f"got {len(truth)}"
                )
            truth = truth[chosen]
        codes = held.groups[chosen].unique(return_inverse=True)[1]
        gap = _gap(posterior, shown, truth, codes, margin, num_samples, seed)
    return ThreeWay(
        marginal=marginal,
        conditional=conditional,
        total=total,
        context_adds_nothing=_equivalence(
            held.gain(losses["marginal"], losses["total"]),
            int(held.groups.max()) + 1,
            margin,
        ),
        gap=gap,
        margin=margin,
    )


def _equivalence(gain: Gain, num_groups: int, margin: float) -> Equivalence:
    """Make two one-sided tests of a gain, with the error behind its interval.

    The plain paired test would treat rows of a group, and the errors of folds that share
    most of their rows, as independent.
    """
    error = (gain.high - gain.value) / float(stats.t.ppf(0.975, num_groups - 1))
    slack = margin - abs(gain.value)
    if error > 0:
        p_value = float(stats.t.sf(slack / error, num_groups - 1))
    else:  # there is no departure, or it is the same everywhere
        p_value = 0.0 if slack > 0 else 1.0
    return Equivalence(
        difference=gain.value,
        std=error * num_groups**0.5,
        low=gain.low,
        high=gain.high,
        p_value=p_value,
        margin=margin,
        num_pairs=num_groups,
    )


def _by_group(values: Tensor, groups: Tensor) -> Tensor:
    """Add up the values of each group, in units that keep their mean."""
    num_groups = int(groups.max()) + 1
    sums = torch.zeros(num_groups, dtype=values.dtype).index_add_(0, groups, values)
    return sums * num_groups / len(values)


def _gap(
    posterior: AmortizedPosterior,
    shown: dict[str, Tensor],
    theta: Tensor | None,
    groups: Tensor,
    margin: float,
    num_samples: int,
    seed: int | None,
) -> GapByPart:
    """Measure the posterior at each version of the observations."""
    # The same random numbers for every version: differences are of x alone.
    draws = {
        name: posterior.sample(num_samples, x.float(), seed=derive(seed, "draws")).cpu()
        for name, x in shown.items()
    }
    means = {name: values.double().mean(dim=0) for name, values in draws.items()}
    spread = draws["oracle"].double().var(dim=0).mean(dim=0).sqrt()
    scale = torch.where(spread > 0, spread, torch.ones_like(spread))
    truth = means["oracle"] if theta is None else theta.double()
    error = {
        name: _by_group(((mean - truth) / scale).square().mean(dim=1), groups)
        for name, mean in means.items()
    }
    closed = {
        part: gap_closed(error["none"], error[part], error["oracle"])
        for part in ("marginal", "conditional", "total")
    }
    width = closed["total"].gap
    to_oracle = None
    if not closed["total"].blank:
        to_oracle = tost_paired(
            error["total"] / width, error["oracle"] / width, margin=margin
        )
    return GapByPart(**closed, to_oracle=to_oracle)
