r"""Whether reality shifts the simulations or also stretches and mixes them.

An affine correction fits better than a shift even where the departure is a shift plus
noise: whoever predicts x_sim from a noisy x_obs does well to shrink it, and a posterior
that is shown shrunken observations shrinks twice. So the regression is run the other way,
too. Noise in x_obs leaves the regression of :math:`\delta` on x_sim flat; noise that x_obs
and x_sim have each for itself leaves that on their midpoint flat. Only a departure that
depends on x shows in both, with the same sign.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any, Literal

from ma_sbi.context import as_entries
from ma_sbi.correctors.composed import ComposedCorrector
from ma_sbi.correctors.departures import Affine, Shift
from ma_sbi.correctors.inference import Point
from ma_sbi.correctors.ridge import Ridge
from ma_sbi.diagnostics.held_out import Estimate, HeldOut, encoder_for, hold_out
from ma_sbi.protocols import Context, Encoder
from ma_sbi.validation import as_pairs

__all__ = ["DepartureFamily", "departure_family"]

# A gain below this share of the departure is not worth the slopes.
WORTHWHILE = 0.02


@dataclass(frozen=True)
class DepartureFamily:
    """What a departure that depends on x explains beyond a shift, on held-out rows.

    All as shares of the mean squared departure.

    Attributes:
        shift: Gain of a shift given the context.
        affine: Gain of the affine corrector, which reads x_obs.
        on_x_sim: What slopes on x_sim explain beyond the shift.
        on_midpoint: What slopes on the midpoint of x_obs and x_sim explain beyond it.
        agree: Whether the two kinds of slopes point the same way.
    """

    shift: Estimate
    affine: Estimate
    on_x_sim: Estimate
    on_midpoint: Estimate
    agree: bool

    @property
    def family(self) -> Literal["shift", "affine"]:
        """``"affine"`` if both kinds of slopes help and agree."""
        helps = all(
            one.low > 0 and one.value > WORTHWHILE
            for one in (self.on_x_sim, self.on_midpoint)
        )
        return "affine" if helps and self.agree else "shift"

    def __str__(self) -> str:
        return (
            f"{self.family}: a shift takes away {self.shift}, an affine departure "
            f"{self.affine}; slopes on x_sim add {self.on_x_sim}, on the midpoint "
            f"{self.on_midpoint}"
        )


def departure_family(
    context: Context,
    x_obs: Any,
    x_sim: Any,
    *,
    encoder: Encoder | None = None,
    folds: int | None = None,
    groups: Any = None,
    seed: int | None = None,
) -> DepartureFamily:
    """Compare a shift with a departure that grows linearly with x, by cross-validation.

    Args:
        context: One entry per observation.
        x_obs: Observations, shape ``(n, dim_x)``.
        x_sim: Simulations at the same inputs, shape ``(n, dim_x)``.
        encoder: Context to vectors; one that suits the context if None.
        folds: Number of folds; 10, and 5 beyond 2000 rows, if None.
        groups: One label per row; rows that share one are held out together.
        seed: Makes the folds, which all fits share, repeatable.
    """
    observed, simulated = as_pairs(x_obs, x_sim)
    entries = as_entries(context, num_rows=len(observed))
    encoder = encoder_for(entries) if encoder is None else encoder
    delta = observed - simulated
    midpoint = (observed + simulated) / 2

    def held(basis: Any, departure: Affine | Shift) -> HeldOut:
        corrector = ComposedCorrector(encoder, departure, Ridge(), Point())
        # What the departure depends on is what is passed as observed; delta stays.
        return hold_out(
            entries,
            basis,
            basis - delta,
            corrector=corrector,
            folds=folds,
            groups=groups,
            seed=0 if seed is None else seed,
        )

    shift, affine = held(observed, Shift()), held(observed, Affine())
    forward, middle = held(simulated, Affine()), held(midpoint, Affine())
    # Each was measured in the spread of its own basis; x_sim's is the one to compare in.
    scaled = {
        name: (one.predicted * one.scale) / shift.scale
        for name, one in {"affine": affine, "forward": forward, "middle": middle}.items()
    }
    none, plain = shift.loss(0.0), shift.loss(shift.predicted)
    slopes = [scaled[name] - shift.predicted for name in ("forward", "middle")]
    return DepartureFamily(
        shift=shift.share(none, plain),
        affine=shift.share(none, shift.loss(scaled["affine"])),
        on_x_sim=shift.share(plain, shift.loss(scaled["forward"])),
        on_midpoint=shift.share(plain, shift.loss(scaled["middle"])),
        agree=bool((slopes[0] * slopes[1]).sum() > 0),
    )
