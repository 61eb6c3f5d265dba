r"""Whether reality shifts the simulations or also stretches and mixes them.

An affine correction fits better than a shift even where the departure is a shift plus
noise: whoever predicts x_sim from a noisy x_obs does well to shrink it, and a posterior
that is shown shrunken observations shrinks twice. So the regression is run the other way,
too. Noise in x_obs tilts the regression of :math:`\delta` on x_obs upwards and leaves that
on x_sim flat; noise in x_sim tilts that on x_sim downwards and leaves the other flat. Only
a departure that depends on x shows in both with the same sign. It goes unseen where the
noise of either, squared, is larger than what the departure adds to the variance of x.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any, Literal

import numpy as np
import torch
from torch import Tensor

from ma_sbi.context import as_entries, distinct
from ma_sbi.correctors.composed import ComposedCorrector
from ma_sbi.correctors.departures import Affine, Shift
from ma_sbi.correctors.inference import Point
from ma_sbi.correctors.ridge import Ridge
from ma_sbi.diagnostics.held_out import (
    Estimate,
    HeldOut,
    encoder_for,
    hold_out,
    spread_of,
)
from ma_sbi.protocols import Context, Encoder
from ma_sbi.randomness import derive, generator
from ma_sbi.validation import as_pairs

__all__ = ["DepartureFamily", "departure_family"]

# A gain below this share of the departure is not worth the slopes.
WORTHWHILE = 0.02
# Columns and contexts beyond which some rows must do.
MANY_COLUMNS = 20
MANY_CONTEXTS = 50
MOST_ROWS = 500


@dataclass(frozen=True)
class DepartureFamily:
    """What a departure that depends on x explains beyond a shift, on held-out rows.

    All as shares of the mean squared departure.

    Attributes:
        shift: Gain of a shift given the context.
        affine: Gain of the affine corrector, which reads x_obs.
        on_x_obs: What its slopes explain beyond the shift.
        on_x_sim: What slopes on x_sim explain beyond it.
        agree: Whether the two kinds of slopes point the same way.
    """

    shift: Estimate
    affine: Estimate
    on_x_obs: Estimate
    on_x_sim: Estimate
    agree: bool

    @property
    def family(self) -> Literal["shift", "affine"]:
        """``"affine"`` if both kinds of slopes help and agree."""
        helps = all(
            one.low > 0 and one.value > WORTHWHILE for one in (self.on_x_obs, self.on_x_sim)
        )
        return "affine" if helps and self.agree else "shift"

    def __str__(self) -> str:
        return (
            f"{self.family}: a shift takes away {self.shift}, an affine departure "
            f"{self.affine}; slopes on x_obs add {self.on_x_obs}, on x_sim {self.on_x_sim}"
        )


def departure_family(
    context: Context,
    x_obs: Any,
    x_sim: Any,
    *,
    encoder: Encoder | None = None,
    folds: int = 5,
    groups: Any = None,
    seed: int | None = None,
) -> DepartureFamily:
    """Compare a shift with a departure that grows linearly with x, by cross-validation.

    Of observations with more than 20 columns, or more than 50 different contexts, 500 rows
    are compared: an affine departure has a slope for every two columns and every regime,
    and takes its time.

    Args:
        context: One entry per observation.
        x_obs: Observations, shape ``(n, dim_x)``.
        x_sim: Simulations at the same inputs, shape ``(n, dim_x)``.
        encoder: Context to vectors; one that suits the context if None.
        folds: Number of folds.
        groups: One label per row; rows that share one are held out together.
        seed: Makes the folds, which all fits share, repeatable.
    """
    observed, simulated = (one.cpu() for one in as_pairs(x_obs, x_sim))
    entries: Any = as_entries(context, num_rows=len(observed))
    encoder = encoder_for(entries) if encoder is None else encoder
    groups = None if groups is None else np.asarray(groups)
    many = observed.shape[1] > MANY_COLUMNS or len(distinct(entries)[0]) > MANY_CONTEXTS
    if many and len(observed) > MOST_ROWS:
        order = torch.randperm(len(observed), generator=generator(derive(seed, "rows")))
        rows = order[:MOST_ROWS].numpy()
        observed, simulated, entries = observed[rows], simulated[rows], entries.iloc[rows]
        groups = None if groups is None else groups[rows]
    scale = spread_of(simulated)
    delta = observed - simulated
    folding = derive(seed, "family")
    if folding is None:
        folding = int(torch.randint(2**31, ()))

    def held(basis: Tensor, departure: Affine | Shift) -> HeldOut:
        # One kernel width for all: regimes need no other, and slopes are many.
        fitting = Ridge(widths=(1.0,))
        # What the departure depends on is what is passed as observed; delta stays.
        return hold_out(
            entries,
            basis,
            basis - delta,
            corrector=ComposedCorrector(encoder, departure, fitting, Point()),
            folds=folds,
            groups=groups,
            scale=scale,
            seed=folding,
        )

    shift = held(observed, Shift())
    backward, forward = held(observed, Affine()), held(simulated, Affine())
    none, plain = shift.loss(0.0), shift.loss(shift.predicted)
    left = [one.loss(one.predicted) for one in (backward, forward)]
    slopes = [one.predicted - shift.predicted for one in (backward, forward)]
    return DepartureFamily(
        shift=shift.share(none, plain),
        affine=backward.share(none, left[0]),
        on_x_obs=backward.share(plain, left[0]),
        on_x_sim=forward.share(plain, left[1]),
        agree=bool((slopes[0] * slopes[1]).sum() > 0),
    )
