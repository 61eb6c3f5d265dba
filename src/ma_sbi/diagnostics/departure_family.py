r"""Whether reality shifts the simulations or also stretches and mixes them.

An affine correction fits better than a shift even where the departure is a shift plus
noise: the best prediction of x_sim from a noisy x_obs shrinks it, and a posterior that is
given shrunken observations shrinks twice. So the regression is also run the other way.
Noise in x_obs tilts the regression of :math:`\delta` on x_obs upwards and leaves that on
x_sim flat; noise in x_sim tilts that on x_sim downwards and leaves the other flat. Only a
departure that depends on x shows in both with the same sign. It is missed where the squared
noise of either is larger than what the departure adds to the variance of x.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any, Literal

import numpy as np
import torch
from torch import Tensor

from ma_sbi.context import distinct
from ma_sbi.correctors.composed import ComposedCorrector
from ma_sbi.correctors.departures import Affine, Shift
from ma_sbi.correctors.inference import Point
from ma_sbi.correctors.ridge import Ridge
from ma_sbi.diagnostics.diagnostic import Diagnostic, Findings, Picture
from ma_sbi.diagnostics.held_out import Gain, HeldOut, hold_out
from ma_sbi.diagnostics.thresholds import THRESHOLDS
from ma_sbi.display.grouping import MISSING, most_frequent
from ma_sbi.labels import match_rows
from ma_sbi.protocols import ArrayLike, Context, Encoder
from ma_sbi.randomness import derive, generator
from ma_sbi.reading import read_context
from ma_sbi.scaling import column_scale
from ma_sbi.validation import as_pairs

if TYPE_CHECKING:
    from ma_sbi.diagnostics.subject import Subject

__all__ = ["DIAGNOSTIC", "DepartureFamily", "departure_family"]

# With more columns or contexts, only some rows are used.
MANY_COLUMNS = 20
MANY_CONTEXTS = 50
MOST_ROWS = 500
# What the picture shows.
COLUMNS_SHOWN = 4
CONTEXTS_SHOWN = 8


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

    shift: Gain
    affine: Gain
    on_x_obs: Gain
    on_x_sim: Gain
    agree: bool

    @property
    def family(self) -> Literal["shift", "affine"]:
        """``"affine"`` if both kinds of slopes help and agree."""
        helps = all(
            one.low > 0 and one.value > THRESHOLDS.slopes
            for one in (self.on_x_obs, self.on_x_sim)
        )
        return "affine" if helps and self.agree else "shift"

    def __str__(self) -> str:
        if self.family == "affine":
            gains = f"slopes add {self.on_x_obs} to {self.shift} of a shift"
            return f"no, it depends on x: {gains}"
        yes = "yes" if self.shift.low > 0 else "slopes are not needed"
        return (
            f"{yes}: a shift removes {self.shift}; slopes on x_obs add {self.on_x_obs}, on "
            f"x_sim {self.on_x_sim}"
        )


def departure_family(
    context: Context,
    x_obs: ArrayLike,
    x_sim: ArrayLike,
    *,
    encoder: Encoder | None = None,
    folds: int = 5,
    groups: ArrayLike | Sequence[Any] | None = None,
    seed: int | None = None,
) -> DepartureFamily:
    """Compare a shift with a departure that grows linearly with x, by cross-validation.

    Of observations with more than 20 columns, or more than 50 different contexts, 500 rows
    are used: an affine departure has a slope for every two columns and every regime, which
    is slow.

    Args:
        context: One entry per observation.
        x_obs: Observations, shape ``(n, dim_x)``.
        x_sim: Simulations at the same inputs, shape ``(n, dim_x)``.
        encoder: Context to vectors; one that suits the context if None.
        folds: Number of folds.
        groups: One label per row; rows that share one are held out together.
        seed: Makes the folds, which all fits share, repeatable.
    """
    x_obs, x_sim, context, groups = match_rows(
        x_obs=x_obs, x_sim=x_sim, context=context, groups=groups
    )
    observed, simulated = (one.cpu() for one in as_pairs(x_obs, x_sim))
    reading = read_context(context, len(observed), encoder)
    entries: Any = reading.entries
    encoder = reading.suitable_encoder() if encoder is None else encoder
    groups = None if groups is None else np.asarray(groups)
    many = observed.shape[1] > MANY_COLUMNS or len(distinct(entries)[0]) > MANY_CONTEXTS
    if many and len(observed) > MOST_ROWS:
        order = torch.randperm(len(observed), generator=generator(derive(seed, "rows")))
        rows = order[:MOST_ROWS].numpy()
        observed, simulated, entries = observed[rows], simulated[rows], entries.iloc[rows]
        groups = None if groups is None else groups[rows]
    scale = column_scale(simulated)
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
        shift=shift.gain(none, plain),
        affine=backward.gain(none, left[0]),
        on_x_obs=backward.gain(plain, left[0]),
        on_x_sim=forward.gain(plain, left[1]),
        agree=bool((slopes[0] * slopes[1]).sum() > 0),
    )


def _run(subject: Subject) -> DepartureFamily:
    assert subject.x_sim is not None
    reading = subject.by_regime
    return departure_family(
        reading.entries,
        subject.x_obs,
        subject.x_sim,
        encoder=reading.encoder,
        groups=subject.groups,
        seed=derive(subject.seed, "family"),
    )


def _draw(check: Findings) -> Picture | None:
    """Draw the departures of each context, in standard deviations, column by column."""
    from ma_sbi.display.departures import draw_along, draw_by_context
    from ma_sbi.display.drawing import side_by_side

    rows = check.rows
    if rows.x_sim is None:
        return None
    delta = (rows.x_obs - rows.x_sim) / column_scale(torch.from_numpy(rows.x_sim)).numpy()
    largest = np.argsort(-np.square(delta).mean(axis=0), kind="stable")
    columns = np.sort(largest[:COLUMNS_SHOWN])
    delta = delta[:, columns]
    if rows.is_number:
        figure, axes = side_by_side(2.8, len(columns), sharey=True)
        numbers = np.where(rows.context == MISSING, np.nan, rows.context).astype(float)
        draw_along(axes, delta, numbers)
        axes[0].set_ylabel("x_obs - x_sim (sd)")
        figure.supxlabel("context", fontsize="medium")
        title = "The departure along the context"
        caption = (
            "In standard deviations of x_sim, with means of rows whose numbers are near. A "
            "trend is what the context explains. A square is rows without a number."
        )
    else:
        groups = most_frequent(rows.context, CONTEXTS_SHOWN)
        height = max(2.0, 1.0 + 0.35 * len(groups))
        figure, axes = side_by_side(height, len(columns), sharex=True, sharey=True)
        draw_by_context(axes, delta, groups, most_letters=22)
        units = "x_obs - x_sim, in standard deviations of x_sim"
        figure.supxlabel(units, fontsize="medium")
        title = "The departure in each context"
        caption = (
            "Mean with its 95 % interval (thick), and nine tenths of the rows (thin), for "
            "the columns that depart most. A pure shift is a point in each context; if it "
            "is the same in all, no context is needed."
        )
    for ax, column in zip(axes, columns, strict=True):
        ax.set_title(f"x[{column}]")
    return Picture(title, caption, figure)


DIAGNOSTIC = Diagnostic(
    "family",
    "Is the departure a shift?",
    _run,
    needs=("x_sim",),
    draw=_draw,
)
