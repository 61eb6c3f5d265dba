"""Departures of highest likelihood, as if observations had been paired."""

from __future__ import annotations

import torch
from torch import Tensor

from ma_sbi.correctors.likelihood import FEWEST_ROWS, ShiftLikelihood

__all__ = ["likeliest_departures"]

# Nats per row that the error of a shift may cost before it is worth a mixture.
NEGLIGIBLE = 1e-3


def likeliest_departures(
    likelihood: ShiftLikelihood, x_obs: Tensor, codes: Tensor, seed: int | None = None
) -> Tensor:
    """Give each row the likeliest shift of its context, and the row's part in its error.

    The mean over a context is its shift; the spread over a context, divided by the root of
    the number of rows, is the error of the shift. So what regresses or averages departures
    of pairs can do the same with these. A context with too few rows gets one step from the
    shift of all rows. Where rows are so many that the error does not matter, it is left
    out, and the context has one departure.

    Args:
        likelihood: Of shifts.
        x_obs: Observations, shape ``(n, dim_x)``.
        codes: Context of each, shape ``(n,)``.
        seed: Of the starts.

    Returns:
        Shape ``(n, dim_x)``.
    """
    counts = codes.bincount()[codes]
    many = counts >= FEWEST_ROWS
    departures = torch.empty_like(x_obs)
    if not many.all():
        same = torch.zeros_like(codes)
        shift, influence, _ = likelihood.shifts(x_obs, same, seed=seed)
        departures = shift + influence
    if many.any():
        own = codes[many].unique(return_inverse=True)[1]
        shift, influence, _ = likelihood.shifts(x_obs[many], own, seed=seed)
        # A point costs half a nat for each column, divided by the number of rows.
        matters = x_obs.shape[1] / 2 / counts[many] > NEGLIGIBLE
        departures[many] = shift[own] + influence * matters[:, None]
    return departures
