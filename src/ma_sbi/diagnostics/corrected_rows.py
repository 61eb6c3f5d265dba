"""Rows of a check, each corrected by a fit to other rows."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass

import numpy as np
import torch
from torch import Tensor

from ma_sbi.correctors.composed import BaseCorrector
from ma_sbi.protocols import ArrayLike, Context, Corrections
from ma_sbi.randomness import generator

__all__ = ["CorrectedRows"]


@dataclass(frozen=True)
class CorrectedRows(BaseCorrector):
    """Corrects rows by fits to other rows; the context of a row is its position.

    Attributes:
        rows: Positions of the rows that it can correct, in order.
        candidates: Their corrections.
    """

    rows: np.ndarray
    candidates: Corrections

    def corrections(self, x: ArrayLike, context: Context) -> Corrections:
        """Return the candidates of the rows at these positions."""
        place = np.searchsorted(self.rows, np.asarray(context, dtype=int).reshape(-1))
        return Corrections(
            self.candidates.x[:, place].float(),
            self.candidates.log_weight[:, place].float(),
            self.candidates.log_abs_det[:, place].float(),
        )

    @classmethod
    def joined(
        cls, rows: Sequence[np.ndarray], parts: Sequence[Corrections]
    ) -> CorrectedRows:
        """Join corrections of different rows, of which each has its own candidates."""
        most = max(len(one.x) for one in parts)
        x, log_weight, log_abs_det = [], [], []
        for one in parts:
            missing = most - len(one.x)
            x.append(torch.cat([one.x, one.x[:1].expand(missing, -1, -1)]).double().cpu())
            gap = one.log_weight.new_full((missing, one.x.shape[1]), -torch.inf)
            log_weight.append(torch.cat([one.log_weight, gap]).double().cpu())
            log_abs_det.append(torch.cat([one.log_abs_det, 0 * gap.exp()]).double().cpu())
        order = np.argsort(np.concatenate(rows), kind="stable")
        parts_in_order = [
            torch.cat(each, dim=1)[:, order] for each in (x, log_weight, log_abs_det)
        ]
        joined = Corrections(parts_in_order[0], parts_in_order[1], parts_in_order[2])
        return cls(np.concatenate(rows)[order], joined)

    def draw(self, seed: int | None) -> Tensor:
        """Draw one candidate of each row, shape ``(num_rows, dim_x)``."""
        return self.candidates.draw(generator(seed))
