"""Observations of several trials, each of which departs from the simulator."""

from __future__ import annotations

import math
from typing import Any

import numpy as np
import torch
from torch import Tensor

from ma_sbi.context import as_entries
from ma_sbi.correctors.composed import BaseCorrector
from ma_sbi.correctors.unseen import Examples
from ma_sbi.protocols import ArrayLike, Context, Corrections, Corrector
from ma_sbi.storing.forms import stored
from ma_sbi.validation import as_count, as_matrix

__all__ = ["TrialCorrector", "per_trial"]


def per_trial(
    corrector: Corrector, dim_x: int, *, num_candidates: int = 100
) -> TrialCorrector:
    """Correct every trial of an observation, with the observation's context.

    Fit the corrector to single trials: one trial per row of x_obs and x_sim, with the
    context of its observation. A posterior over sets of trials then takes observations of
    shape ``(batch, trials, dim_x)``, of any number of trials.

    Trials are taken to depart independently of each other, given the context. If the
    corrector has several candidates for each trial, those of the observation are
    ``num_candidates`` combinations of them, of equal weight. Where all trials of an
    observation depart by the same unknown amount, this averages it out: fit the corrector
    to whole observations instead, each a row of ``trials * dim_x`` columns.

    Args:
        corrector: A corrector that was fitted to trials.
        dim_x: Columns of one trial.
        num_candidates: Combinations of the candidates of trials.

    Example:
        >>> from ma_sbi import CategoryEncoder, ShiftCorrector
        >>> x_sim = torch.zeros(4, 1)
        >>> x_obs = torch.tensor([[1.0], [1.0], [0.0], [0.0]])
        >>> notes = ["high", "high", "well", "well"]
        >>> corrector = ShiftCorrector(CategoryEncoder()).fit(notes, x_obs, x_sim)
        >>> trials = torch.tensor([[1.0, 2.0, 3.0], [1.0, 2.0, 3.0]])
        >>> per_trial(corrector, dim_x=1).correct(trials, ["high", "well"])
        tensor([[0., 1., 2.],
                [1., 2., 3.]])
    """
    if not callable(getattr(corrector, "corrections", None)):
        raise ValueError(f"corrector must offer corrections(x, context), got {corrector!r}")
    return TrialCorrector(
        corrector, as_count(dim_x, "dim_x"), as_count(num_candidates, "num_candidates")
    )


@stored(dim_x="<1000000", num_candidates="<1000000")
class TrialCorrector(BaseCorrector):
    """What :func:`per_trial` returns."""

    def __init__(self, corrector: Corrector, dim_x: int, num_candidates: int) -> None:
        self.corrector = corrector
        self.dim_x = dim_x
        self.num_candidates = num_candidates

    @property
    def encoder_(self) -> Any:
        """The encoder of the corrector of trials, if it has one."""
        return getattr(self.corrector, "encoder_", None)

    def examples(self) -> Examples:
        """Return a few calibration rows, which are observations of one trial."""
        examples = getattr(self.corrector, "examples", super().examples)
        return examples()

    @property
    def needs_every_row(self) -> bool:
        """Whether rows cannot be corrected in blocks."""
        return bool(getattr(self.corrector, "needs_every_row", False))

    def corrections(self, x: ArrayLike, context: Context) -> Corrections:
        """Return candidates of x ``(batch, trials * dim_x)`` with their weights."""
        if isinstance(x, Tensor) and x.ndim == 3:
            x = x.flatten(1)
        x, context = self.matched(x, context)
        x = as_matrix(x, "x")
        num_trials, rest = divmod(x.shape[1], self.dim_x)
        if rest:
            raise ValueError(
                f"x must have a multiple of {self.dim_x} columns, those of one trial, got "
                f"{x.shape[1]}"
            )
        entries = as_entries(context, num_rows=len(x))
        each = self.corrector.corrections(
            x.reshape(-1, self.dim_x),
            entries.iloc[np.repeat(np.arange(len(x)), num_trials)],
        )
        if num_trials > 1 and len(each.x) > 1:
            each = self._combine(each, num_trials)
        by_trial = each.log_abs_det.reshape(-1, len(x), num_trials)
        return Corrections(
            x=each.x.reshape(-1, *x.shape),
            log_weight=each.log_weight.reshape(-1, len(x), num_trials)[..., 0],
            log_abs_det=by_trial.sum(dim=2),
        )

    def _combine(self, each: Corrections, num_trials: int) -> Corrections:
        """Pick a candidate for every trial, as often as there are combinations."""
        num, rows = self.num_candidates, each.log_weight.shape[1]
        # The same for every observation, whatever others there are; spread evenly over
        # the candidates of each trial.
        rng = torch.Generator().manual_seed(0)
        place = torch.rand(num, num_trials, generator=rng)
        order = torch.rand(num, num_trials, generator=rng).argsort(dim=0)
        level = ((order + place) / num).T.repeat(rows // num_trials, 1).to(each.log_weight)
        share = each.log_weight.exp().cumsum(dim=0).T.contiguous()
        pick = torch.searchsorted(share / share[:, -1:], level.contiguous()).T
        pick = pick.clamp(max=len(each.x) - 1)
        row = torch.arange(rows, device=pick.device)
        return Corrections(
            x=each.x[pick, row],
            log_weight=torch.full_like(pick, -math.log(num), dtype=each.x.dtype),
            log_abs_det=each.log_abs_det[pick, row],
        )
