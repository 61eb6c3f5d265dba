"""Fitting proposals without some rows, and scoring them on these."""

from __future__ import annotations

import warnings
from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass, replace
from typing import NamedTuple

import numpy as np
import torch
from torch import Tensor

from ma_sbi.choosing.calibration import Calibration
from ma_sbi.choosing.targets import SimulatedData, Target, robust
from ma_sbi.correctors.composed import BaseCorrector
from ma_sbi.display.progress import say
from ma_sbi.one_at_a_time import local_filters
from ma_sbi.randomness import derive

__all__ = ["HeldOut", "Maker", "Scores", "hold_out"]

NUM_FOLDS = 5
# Rows that are scored: a choice among few does not need more.
MOST_SCORED = 200


@dataclass(frozen=True)
class Scores:
    """Log scores of proposals by one target, on rows that they were not fitted to.

    Attributes:
        plain: Candidates weighted by the context alone, shape
            ``(num_proposals, num_rows, draws)``.
        by_evidence: Candidates weighed by the evidence of x, too; the same shape.
        evidence: Log evidence of each proposal, shape ``(num_proposals, num_rows)``.
    """

    plain: Tensor
    by_evidence: Tensor
    evidence: Tensor

    def of(self, which: Tensor) -> Scores:
        """Select proposals."""
        return Scores(self.plain[which], self.by_evidence[which], self.evidence[which])

    def at(self, rows: Tensor) -> Scores:
        """Select rows."""
        return Scores(
            self.plain[:, rows], self.by_evidence[:, rows], self.evidence[:, rows]
        )

    def sharpest(self) -> Scores:
        """Select the draw, such as a resolution, at which some proposal scores best."""
        number = int(self.plain.mean(dim=1).amax(dim=0).argmax())
        one = slice(number, number + 1)
        return replace(
            self, plain=self.plain[..., one], by_evidence=self.by_evidence[..., one]
        )

    def together(self, weight: Tensor, *, evidence: bool) -> Tensor:
        """Score a mixture of all proposals, shape ``(num_rows, draws)``.

        Args:
            weight: Of each proposal.
            evidence: Whether the evidence of x weighs all candidates together.
        """
        log_weight = weight.log()[:, None, None]
        plain = (log_weight + self.plain).logsumexp(dim=0)
        if not evidence:
            return plain
        weighed = log_weight + self.evidence[..., None]
        total = weighed.logsumexp(dim=0)
        together = (weighed + self.by_evidence).logsumexp(dim=0) - total
        # Where no candidate has a density, the context alone decides.
        return torch.where(total.isfinite(), together, plain)


class HeldOut(NamedTuple):
    """Scores by every target.

    Attributes:
        seen: Whether the context of a row was among those of the fit, ``(num_rows,)``.
        codes: Number of the context of a row, shape ``(num_rows,)``.
        scores: By each target.
        rows: Positions of the rows, shape ``(num_rows,)``.
    """

    seen: Tensor
    codes: Tensor
    scores: list[Scores]
    rows: Tensor

    def at(self, which: Tensor) -> HeldOut:
        """Select rows."""
        scores = [one.at(which) for one in self.scores]
        return HeldOut(self.seen[which], self.codes[which], scores, self.rows[which])


Maker = Callable[[Calibration, "int | None"], BaseCorrector]
"""Fits a proposal to calibration rows."""


def hold_out(
    makers: Sequence[Maker],
    data: Calibration,
    targets: Sequence[Target],
    log_density: Callable[[Tensor], Tensor] | None,
    seed: int | None,
    *,
    rows: bool = True,
) -> HeldOut:
    """Score every proposal on rows, and on contexts, that it was not fitted to.

    Args:
        makers: Fit one proposal each.
        data: Calibration rows.
        targets: What held-out rows are scored by.
        log_density: Density of the simulations, for the evidence of candidates.
        seed: Deals rows to folds.
        rows: Whether rows are left out, too, and not only whole contexts.
    """
    seen, codes, rows_scored, folds = [], [], [], []
    every = list(_folds(data, seed, rows=rows))
    for number, (train, test) in enumerate(every, start=1):
        say(f"Fitting {len(makers)} proposals to other rows, {number} of {len(every)}")
        fold = data.take(train)
        seen.append(torch.from_numpy(np.isin(data.codes[test], data.codes[train])))
        codes.append(torch.from_numpy(data.codes[test]))
        rows_scored.append(torch.from_numpy(test))
        with local_filters():
            warnings.simplefilter("ignore")
            scored = [(one, one.floor(torch.from_numpy(test))) for one in targets]
            each = [
                _score(make(fold, seed), data, test, scored, log_density) for make in makers
            ]
        # From proposals of targets to targets of proposals.
        folds.append([_stacked(some) for some in zip(*each, strict=True)])
    joined = [
        Scores(
            *(torch.cat(parts, dim=1) for parts in zip(*map(_fields, some), strict=True))
        )
        for some in zip(*folds, strict=True)
    ]
    best = [
        scores.sharpest() if isinstance(target, SimulatedData) else scores
        for target, scores in zip(targets, joined, strict=True)
    ]
    return HeldOut(torch.cat(seen), torch.cat(codes), best, torch.cat(rows_scored))


def _fields(scores: Scores) -> tuple[Tensor, Tensor, Tensor]:
    return scores.plain, scores.by_evidence, scores.evidence


def _stacked(each: Sequence[Scores]) -> Scores:
    return Scores(*map(torch.stack, zip(*map(_fields, each), strict=True)))


def _score(
    corrector: BaseCorrector,
    data: Calibration,
    test: np.ndarray,
    targets: Sequence[tuple[Target, Tensor]],
    log_density: Callable[[Tensor], Tensor] | None,
) -> list[Scores]:
    """Score one fitted proposal by every target, of which the floor is known."""
    x, log_weight, log_abs_det, _ = corrector.corrections(
        data.x_obs[test], data.entries.iloc[test]
    )
    x, log_weight = x.to(data.x_obs), log_weight.double().cpu()
    weighed = log_weight
    if log_density is not None:
        density = log_density(x.flatten(0, 1)).unflatten(0, log_weight.shape)
        weighed = log_weight + density.double().cpu() + log_abs_det.double().cpu()
        weighed = weighed.masked_fill(weighed.isnan(), -torch.inf)
    evidence = weighed.logsumexp(dim=0)
    rows = torch.from_numpy(test)
    scored = []
    for target, floor in targets:
        each = target.score(rows, x)
        each = each.masked_fill(each.isnan(), -torch.inf)  # far from all it was trained on
        plain = (each + log_weight).logsumexp(dim=1)
        weighted = (each + weighed).logsumexp(dim=1) - evidence
        by_evidence = torch.where(evidence.isfinite(), weighted, plain)
        scored.append(
            Scores(robust(plain, floor).T, robust(by_evidence, floor).T, evidence)
        )
    return scored


def _folds(
    data: Calibration, seed: int | None, *, rows: bool
) -> Iterator[tuple[np.ndarray, np.ndarray]]:
    """Leave out groups of rows, then whole contexts."""
    rng = np.random.default_rng(derive(seed, "folds"))
    everything = np.arange(len(data))
    first = np.unique(data.groups, return_index=True)[1]
    by_group = _parts(data.codes[first], rng) if rows else []
    for part in by_group:
        test = everything[part[data.groups]]
        train = everything[~part[data.groups]]
        yield train, _some(test, MOST_SCORED // len(by_group), rng)
    num_contexts = int(data.codes.max()) + 1
    if num_contexts < 2:
        return
    by_context = _parts(np.zeros(num_contexts), rng)
    for part in by_context:
        test = everything[part[data.codes]]
        train = everything[~np.isin(data.groups, data.groups[test]) & ~part[data.codes]]
        if len(train) == 0:  # groups that have every context: leave out the rows alone
            train = everything[~part[data.codes]]
        yield train, _some(test, MOST_SCORED // len(by_context), rng)


def _parts(kinds: np.ndarray, rng: np.random.Generator) -> list[np.ndarray]:
    """Deal things to folds, those of one kind to as many as possible.

    Returns:
        For each fold, which things are in it.
    """
    count = len(kinds)
    shuffled = rng.permutation(count)
    order = shuffled[np.argsort(kinds[shuffled], kind="stable")]
    num = min(NUM_FOLDS, count)
    return [np.isin(np.arange(count), order[start::num]) for start in range(num)]


def _some(rows: np.ndarray, most: int, rng: np.random.Generator) -> np.ndarray:
    return rows if len(rows) <= most else np.sort(rng.choice(rows, most, replace=False))
