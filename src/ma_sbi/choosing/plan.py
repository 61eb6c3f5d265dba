"""What was chosen, before it is fitted: it can be fitted to some rows as to all."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass, field, replace
from typing import Any

import numpy as np
import torch
from sklearn.base import clone
from torch import Tensor

from ma_sbi.choosing.calibration import Calibration
from ma_sbi.choosing.choice import Choice
from ma_sbi.choosing.chosen import ChosenCorrector, Part
from ma_sbi.choosing.encodings import EncodingTable
from ma_sbi.choosing.held_out import HeldOut
from ma_sbi.choosing.outliers import Outliers
from ma_sbi.choosing.pairing import Pairing
from ma_sbi.choosing.proposals import NOTHING, BaseProposal, NothingDeparts
from ma_sbi.choosing.targets import Target
from ma_sbi.choosing.why import Why
from ma_sbi.correctors.unseen import SeenContexts
from ma_sbi.protocols import Encoder

__all__ = ["Plan", "Weighing"]

# Rows whose candidates are counted, to tell a point.
MOST_SHOWN = 100


@dataclass(frozen=True)
class Weighing:
    """Weights by held-out scores, and what gives them.

    Attributes:
        choice: The weights.
        held_out: Scores of every proposal on rows that it was not fitted to.
        choose: Scores to weights.
        targets: What the scores are of.
        table: Every context as it is encoded, by number.
    """

    choice: Choice
    held_out: HeldOut
    choose: Callable[[HeldOut], Choice]
    targets: list[Target]
    table: EncodingTable


@dataclass(frozen=True, eq=False)
class Plan:
    """How to correct, chosen from calibration rows.

    Attributes:
        data: The rows that are not gross outliers.
        why: What was chosen, what was rejected, and why.
        kept: Positions of ``data`` among the rows that were given.
        encoder: Context to vectors, not fitted.
        tried: Every proposal by name.
        weighing: How they are weighted; None if there are too few rows for any.
        log_density: Density of the simulations that weighs candidates; None without.
        outliers: What gross outliers may have been, if there were some.
        pairing: How rows of x_obs and x_sim belong together; None if that was not asked.
        pool: Simulations from the prior, if some were given or took the place of pairs.
        seed: Of every fit.
    """

    data: Calibration
    why: Why
    kept: np.ndarray
    encoder: Encoder | None = None
    tried: dict[str, BaseProposal] = field(default_factory=dict)
    weighing: Weighing | None = None
    log_density: Callable[[Tensor], Tensor] | None = None
    outliers: Outliers | None = None
    pairing: Pairing | None = None
    pool: Tensor | None = None
    seed: int | None = None

    def fit(self) -> ChosenCorrector:
        """Fit it to all rows."""
        weighing = self.weighing
        choice = None if weighing is None else weighing.choice
        chosen, told = self._fit(self.encoder, self.data, choice)
        chosen.why = replace(chosen.why, reasons=(*self.why.reasons, *told))
        some = slice(MOST_SHOWN)
        if choice is None:
            return chosen
        if (
            len(chosen.corrections(self.data.x_obs[some], self.data.entries.iloc[some]).x)
            == 1
        ):
            chosen.why = replace(chosen.why, inference="point")
        return chosen

    def fit_without(self, rows: np.ndarray, train: np.ndarray) -> ChosenCorrector:
        """Weigh proposals by other rows than some, and fit them to yet other ones.

        The corrector takes numbers of contexts, ``data.codes``, in place of contexts.

        Args:
            rows: Positions of rows whose scores do not count.
            train: Positions of the rows to fit to.
        """
        weighing = self.weighing
        if weighing is None:
            return self._fit(None, self.data, None)[0]
        others = ~torch.isin(weighing.held_out.rows, torch.from_numpy(rows))
        choice = weighing.choose(weighing.held_out.at(others))
        return self._fit(weighing.table, self.data.by_number().take(train), choice)[0]

    def _fit(
        self, encoder: Any, data: Calibration, choice: Choice | None
    ) -> tuple[ChosenCorrector, list[str]]:
        reader = None if encoder is None else clone(encoder).fit(data.entries)
        contexts = SeenContexts(data.entries, reader)
        dim_x = data.x_obs.shape[1]
        if choice is None:
            parts = [Part(NOTHING, NothingDeparts(), 1.0, 1.0)]
            return ChosenCorrector(parts, contexts, dim_x, self.why), []
        parts, told = [], []
        weights = zip(choice.seen.tolist(), choice.unseen.tolist(), strict=True)
        for (name, proposal), (seen, unseen) in zip(
            self.tried.items(), weights, strict=True
        ):
            if max(seen, unseen) > 0:
                fitted = proposal.fit(encoder, data, self.seed)
                parts.append(Part(name, fitted, seen, unseen, bool(proposal.is_forward)))
                told += [f"{name}: {said}" for said in proposal.tell(fitted)]
        if max(choice.left_alone) > 0:
            parts.append(
                Part(NOTHING, NothingDeparts(), *choice.left_alone, is_forward=False)
            )
        log_density = self.log_density if choice.use_evidence else None
        chosen = ChosenCorrector(
            parts, contexts, dim_x, self.why, log_density, self.outliers
        )
        return chosen, told
