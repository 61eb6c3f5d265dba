"""Regimes behind free text: wordings whose departures are alike, read as one context.

Diagnostics that compare contexts need many rows of each. Texts say the same in many words,
so the regimes are sought in the departures, as :class:`~ma_sbi.correctors.RegimeCorrector`
does, and a row's regime is told by its wording: by other rows that have it, and by wordings
that mean the same. A row's own departure has no part in it.

That is enough to describe rows, but not to test them: the regime of one row depends on the
x of others, whose regimes depend on its own. So tests of dependence learn the regimes from
some rows and are made on the rest (:class:`Blind`), which makes them exact.
"""

from __future__ import annotations

import math
import warnings
from dataclasses import dataclass, replace
from typing import Any

import numpy as np
import torch
from scipy.cluster.hierarchy import fcluster, linkage
from torch import Tensor

from ma_sbi.correctors.assignment import assign, leave_out
from ma_sbi.correctors.discovery import discover
from ma_sbi.one_at_a_time import local_filters
from ma_sbi.randomness import derive
from ma_sbi.reading import FEWEST_PER_LABEL
from ma_sbi.scaling import column_scale

__all__ = ["MISSING", "Blind", "Wordings", "learning_rows", "regimes_of_rows"]

MISSING = -1
"""The code, and the regime, of a text that is missing."""

MOST_REGIMES = 12
# Rows for each coefficient of regressions on x_sim, if there are a few regimes.
ROWS_PER_COEFFICIENT, FEW_REGIMES = 4, 4
MOST_STEPS = 20
# Rows that no regime explains, and the least variance within one, relative to all.
ODD, FLOOR, TINY = 0.01, 1e-6, 1e-12
ROUNDING = 1e-5
# Departures on which regimes are learned for a test of the rest: a quarter, within limits.
FEWEST_LEARNED, MOST_LEARNED = 60, 500
# Parts of which each is foretold from the others, to see whether wordings tell anything.
NUM_PARTS = 4


@dataclass(frozen=True)
class Wordings:
    """A column of texts.

    Attributes:
        codes: Wording of each row, shape ``(n,)``; :data:`MISSING` where there is none.
        texts: The wordings.
        encoding: What they mean, shape ``(num_wordings, dim_z)``.
        column: Place of the column in the table of contexts; None if there is one only.
    """

    codes: np.ndarray
    texts: list[str]
    encoding: Tensor
    column: int | None = None

    def take(self, rows: np.ndarray) -> Wordings:
        """Keep some rows."""
        return replace(self, codes=self.codes[rows])

    def names(self, regimes: np.ndarray) -> dict[int, str | None]:
        """Name each regime by its number and its most frequent text."""
        named: dict[int, str | None] = {MISSING: None}
        for one in np.unique(regimes[regimes != MISSING]).tolist():
            wording = np.bincount(self.codes[regimes == one]).argmax()
            named[one] = f"{one + 1}: {self.texts[wording]}"
        return named


@dataclass(frozen=True)
class Blind:
    """Rows with a context that was read without looking at their x.

    Attributes:
        rows: Positions of the rows, shape ``(m,)``.
        context: Their contexts, regimes in place of texts; None if none were found.
    """

    rows: np.ndarray
    context: Any


def learning_rows(num_rows: int, seed: int | None) -> np.ndarray:
    """Choose the rows to learn regimes from; the others are left for tests."""
    most = min(MOST_LEARNED, num_rows // 2)
    num = int(np.clip(num_rows // 4, min(FEWEST_LEARNED, most), most))
    rng = np.random.default_rng(derive(seed, "rows that regimes are learned from"))
    return np.sort(rng.permutation(num_rows)[:num])


def regimes_of_rows(
    wordings: Wordings,
    x_obs: Tensor,
    x_sim: Tensor,
    learn: np.ndarray | None = None,
    seed: int | None = None,
) -> np.ndarray | None:
    """Tell the regime of every row by its wording, without its own departure.

    Args:
        wordings: The texts.
        x_obs: Observations, shape ``(n, dim_x)``.
        x_sim: Simulations at the same inputs, shape ``(n, dim_x)``.
        learn: Rows to learn from; if None all, if their wordings tell departures at all.
        seed: Of that question.

    Returns:
        A code per row, shape ``(n,)``, the most frequent regime first, :data:`MISSING`
        where there is no text; None if there is one regime only.
    """
    codes = wordings.codes
    chosen = np.arange(len(codes)) if learn is None else learn
    chosen = chosen[codes[chosen] != MISSING]
    if learn is None and not _wordings_tell(wordings, x_obs, x_sim, chosen, seed):
        return None
    told = _Told.learn(wordings, x_obs, x_sim, chosen)
    if told is None:
        return None
    found = told.log_probability.argmax(dim=1).numpy()
    found[codes == MISSING] = MISSING
    return _in_order(found)


def _wordings_tell(
    wordings: Wordings, x_obs: Tensor, x_sim: Tensor, rows: np.ndarray, seed: int | None
) -> bool:
    """Tell whether wordings foretell departures of rows that were not learned from."""
    mixed = np.random.default_rng(derive(seed, "parts")).permutation(rows)
    gains = []
    for one in range(NUM_PARTS):
        part = mixed[one::NUM_PARTS]
        told = _Told.learn(wordings, x_obs, x_sim, np.setdiff1d(rows, part))
        if told is None:
            return False
        gains.append(told.gain(part))
    gain = torch.cat(gains)
    return bool(gain.mean() > 2 * gain.std() / len(gain) ** 0.5)


@dataclass(frozen=True)
class _Told:
    """What wordings tell of regimes.

    Attributes:
        each: Log likelihood of every row in each regime, shape ``(n, num_regimes)``.
        share: How often each regime occurs, shape ``(num_regimes,)``.
        log_probability: Of the regimes of every row, up to a constant, by its wording and
            not by its own departure, shape ``(n, num_regimes)``.
    """

    each: Tensor
    share: Tensor
    log_probability: Tensor

    @classmethod
    def learn(
        cls, wordings: Wordings, x_obs: Tensor, x_sim: Tensor, rows: np.ndarray
    ) -> _Told | None:
        """Learn from some rows; None if they show one regime only."""
        if len(rows) < 2 * FEWEST_PER_LABEL:
            return None
        known = np.zeros(len(x_obs), dtype=bool)
        known[rows] = True
        search = _Search.over(wordings.codes, x_obs - x_sim, x_sim, torch.from_numpy(known))
        labels = search.find()
        num_regimes = int(labels.max()) + 1
        if num_regimes < 2:
            return None
        each, share = search.fit(labels)
        wording = torch.from_numpy(np.maximum(wordings.codes, 0)).long()
        evidence = each.new_zeros(len(wordings.texts), num_regimes)
        evidence.index_add_(0, wording[rows], each[rows])
        seen = torch.zeros(len(wordings.texts), dtype=torch.bool)
        seen[wording[rows]] = True
        prior = _by_meaning(wordings.encoding.to(each), evidence, seen, share)
        by_wording = (prior.log() + evidence)[wording]
        by_wording[rows] = by_wording[rows] - each[rows]
        return cls(each, share, by_wording)

    def gain(self, rows: np.ndarray) -> Tensor:
        """Return how much better wordings foretell departures than no context does."""
        told = self.log_probability[rows].log_softmax(dim=1) + self.each[rows]
        return told.logsumexp(dim=1) - (self.share.log() + self.each[rows]).logsumexp(dim=1)


@dataclass(frozen=True)
class _Search:
    """Departures in which regimes are sought, each a regression of them on x_sim.

    Clouds of departures show regimes. A departure that depends on x spreads over several,
    so clouds are only where the search begins: wordings move, whole, to the regime that
    explains their rows best, and regimes that one regression explains are joined.

    Attributes:
        wording: Of the rows to learn from, shape ``(m,)``.
        delta: Departures of all rows, shape ``(n, dim_x)``.
        basis: What regressions are on, shape ``(n, 1)`` or ``(n, 1 + dim_x)``.
        rows: Positions of the rows to learn from, shape ``(m,)``.
    """

    wording: Tensor
    delta: Tensor
    basis: Tensor
    rows: Tensor

    @classmethod
    def over(
        cls, codes: np.ndarray, delta: Tensor, x_sim: Tensor, known: Tensor
    ) -> _Search:
        """Scale everything by the rows to learn from, and by no others."""
        rows = known.nonzero()[:, 0]
        wording = torch.from_numpy(codes).long()[rows].unique(return_inverse=True)[1]
        delta = delta / column_scale(delta[rows])
        basis = x_sim.new_ones(len(x_sim), 1)
        if len(rows) >= ROWS_PER_COEFFICIENT * FEW_REGIMES * (1 + x_sim.shape[1]):
            some = x_sim[rows]
            scaled = (x_sim - some.mean(dim=0)) / column_scale(some)
            basis = torch.cat([basis, scaled], dim=1)
        return cls(wording, delta, basis, rows)

    def find(self) -> Tensor:
        """Return the regime of each row to learn from, the same for all of a wording."""
        delta = self.delta[self.rows]
        rounding = (ROUNDING * delta.abs().amax(dim=0)).clamp(min=1e-12)
        with local_filters():
            warnings.simplefilter("ignore")  # of more regimes than are looked for
            clouds = discover(delta, self.wording, rounding, MOST_REGIMES)
        starts = [self._vote(clouds.clamp(min=1e-9).log()), self._by_means()]
        found = []
        for start in starts:
            labels = start
            for _ in range(2):
                labels = self._join(self._settle(labels))
            found.append(labels)
        return min(found, key=self._criterion)

    def fit(self, labels: Tensor) -> tuple[Tensor, Tensor]:
        """Regress each regime; return log likelihoods of all rows, and shares."""
        known = self.delta[self.rows]
        whole = known.var(dim=0, correction=0) + TINY
        everywhere = _log_normal(self.delta - known.mean(dim=0), 9 * whole)
        each = []
        for one in range(int(labels.max()) + 1):
            left, variance = self._regress(self.rows[labels == one])
            inside = _log_normal(left, variance + FLOOR * whole)
            both = torch.stack([inside + math.log(1 - ODD), everywhere + math.log(ODD)])
            each.append(both.logsumexp(dim=0))
        count = labels.bincount().to(known)
        return torch.stack(each, dim=1), count / count.sum()

    def _vote(self, each: Tensor, prior: Tensor | float = 0.0) -> Tensor:
        """Give all rows of a wording the label that suits them best together."""
        total = each.new_zeros(int(self.wording.max()) + 1, each.shape[1])
        total = total.index_add_(0, self.wording, each) + prior
        return total.argmax(dim=1)[self.wording].unique(return_inverse=True)[1]

    def _by_means(self) -> Tensor:
        """Join wordings of similar mean departures, to more regimes than there may be."""
        count = self.wording.bincount()[:, None]
        if len(count) < 2:
            return torch.zeros_like(self.wording)
        total = self.delta.new_zeros(len(count), self.delta.shape[1])
        mean = total.index_add_(0, self.wording, self.delta[self.rows]) / count
        branch = fcluster(linkage(mean.numpy(), "ward"), MOST_REGIMES, "maxclust")
        of_row = torch.from_numpy(branch).long()[self.wording]
        return of_row.unique(return_inverse=True)[1]

    def _settle(self, labels: Tensor) -> Tensor:
        """Move wordings to the regimes that explain them, until none moves."""
        for _ in range(MOST_STEPS):
            each, share = self.fit(labels)
            moved = self._vote(each[self.rows], share.log())
            if torch.equal(moved, labels):
                break
            labels = moved
        return labels

    def _join(self, labels: Tensor) -> Tensor:
        """Join regimes while that makes the criterion smaller."""
        costs: dict[frozenset[int], float] = {}
        parts = [frozenset({one}) for one in range(int(labels.max()) + 1)]
        mine = {one: labels == next(iter(one)) for one in parts}

        def cost(part: frozenset[int], rows: Tensor) -> float:
            if part not in costs:
                costs[part] = self._cost(rows)
            return costs[part]

        while len(parts) > 1:
            pairs = [(one, two) for two in parts for one in parts[: parts.index(two)]]
            change = [
                cost(one | two, mine[one] | mine[two])
                - cost(one, mine[one])
                - cost(two, mine[two])
                for one, two in pairs
            ]
            if min(change) > 0:
                break
            one, two = pairs[change.index(min(change))]
            mine[one | two] = mine[one] | mine[two]
            parts = [part for part in parts if part not in (one, two)] + [one | two]
        return torch.stack([mine[part] for part in parts]).byte().argmax(dim=0)

    def _criterion(self, labels: Tensor) -> float:
        return sum(self._cost(labels == one) for one in range(int(labels.max()) + 1))

    def _cost(self, mine: Tensor) -> float:
        """Return one regime's part of the Bayesian information criterion.

        Which wordings are its own must be told as well.
        """
        known = self.rows[mine]
        basis, delta = self.basis[known], self.delta[known]
        left = delta - basis @ _slopes(basis, delta)
        variance = left.square().mean(dim=0) + FLOOR  # of departures with a scale of one
        numbers = delta.shape[1] * (basis.shape[1] + 1)
        num_wordings = int(self.wording.max()) + 1
        own = len(self.wording[mine].unique())
        return (
            len(known) * variance.log().sum().item()
            - 2 * own * math.log(own / num_wordings)
            + numbers * math.log(len(self.rows))
        )

    def _regress(self, mine: Tensor) -> tuple[Tensor, Tensor]:
        """Regress departures of some rows; return what is left of all, and its variance."""
        left = self.delta - self.basis @ _slopes(self.basis[mine], self.delta[mine])
        freedom = max(1, len(mine) - self.basis.shape[1])
        return left, left[mine].square().sum(dim=0) / freedom


def _slopes(basis: Tensor, delta: Tensor) -> Tensor:
    """Regress departures; a tenth of a row's weight keeps slopes of few rows small."""
    penalty = 0.1 * torch.eye(basis.shape[1]).to(basis)
    penalty[0, 0] = TINY
    return torch.linalg.solve(basis.T @ basis + penalty, basis.T @ delta)


def _log_normal(left: Tensor, variance: Tensor) -> Tensor:
    """Return log densities of rows, but for a constant, shape ``(n,)``."""
    return -0.5 * (left.square() / variance + variance.log()).sum(dim=1)


def _by_meaning(encoding: Tensor, evidence: Tensor, seen: Tensor, share: Tensor) -> Tensor:
    """Return what other wordings tell of each, shape ``(num_wordings, num_regimes)``."""
    member = (evidence[seen] + share.log()).softmax(dim=1)
    assignment = assign(encoding[seen], member, share)
    prior = share.repeat(len(encoding), 1)
    if not assignment.tells:
        return prior
    without = leave_out(encoding[seen], member, assignment.spread)
    prior[seen] = assignment.probability(without.distance, without.left)
    if not seen.all():
        prior[~seen] = assignment(encoding[~seen])[0]
    return prior.clamp(min=1e-12)


def _in_order(found: np.ndarray) -> np.ndarray:
    """Number regimes by how often they occur; rare ones join the most frequent."""
    names, counts = np.unique(found[found != MISSING], return_counts=True)
    order = names[np.argsort(-counts, kind="stable")]
    num = int((counts >= FEWEST_PER_LABEL).sum())
    number = {name: place if place < num else 0 for place, name in enumerate(order)}
    number[MISSING] = MISSING
    return np.array([number[one] for one in found])
