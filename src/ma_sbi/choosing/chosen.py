"""The chosen corrector: all that calibration could not rule out, with weights."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass

import torch
from torch import Tensor

from ma_sbi.choosing.outliers import Outliers
from ma_sbi.choosing.why import Why
from ma_sbi.context import Entries, as_entries, distinct, match
from ma_sbi.correctors.composed import BaseCorrector
from ma_sbi.correctors.inference import weigh_by_evidence
from ma_sbi.correctors.observed_range import ObservedRange
from ma_sbi.correctors.unseen import Examples, SeenContexts, Unseen
from ma_sbi.minilm import embedded_once
from ma_sbi.protocols import ArrayLike, Context, Corrections
from ma_sbi.storing.forms import stored
from ma_sbi.telling import untold
from ma_sbi.validation import as_matrix

__all__ = ["ChosenCorrector", "Part"]

# Candidates of a smaller weight are left out.
LEAST_WEIGHT = 1e-9
ABOUT_UNSEEN = (
    "new contexts have the weights that did best on contexts left out; what is far counts "
    "as missing"
)


@stored()
@dataclass(frozen=True)
class Part:
    """A fitted proposal with its weights.

    Attributes:
        name: Its name.
        corrector: The fitted corrector.
        seen: Weight under a context of the calibration set.
        unseen: Weight under any other.
        is_forward: Whether evidence weighs its candidates.
    """

    name: str
    corrector: BaseCorrector
    seen: float
    unseen: float
    is_forward: bool = True


@stored("columns_")
class ChosenCorrector(BaseCorrector):
    """What :func:`~ma_sbi.fit_corrector` returns: a mixture of fitted proposals.

    Attributes:
        parts: The proposals that have a weight.
        log_density: Density of the simulations that weighs candidates; None without.
        outliers: What to make of an observation that is a gross outlier, if the
            calibration set had some; else None.
        why: What was chosen, what was rejected, and why.
        contexts: The contexts of the calibration set.
    """

    def __init__(
        self,
        parts: Sequence[Part],
        contexts: SeenContexts,
        dim_x: int,
        why: Why,
        log_density: Callable[[Tensor], Tensor] | None = None,
        outliers: Outliers | None = None,
    ) -> None:
        self.parts: tuple[Part, ...] = tuple(parts)
        self.contexts = contexts
        self.dim_x = dim_x
        self.why = why
        self.log_density = log_density
        self.outliers = outliers

    def corrections(self, x: ArrayLike, context: Context) -> Corrections:
        """Return every candidate correction of x ``(batch, dim_x)`` with its weight."""
        x, context = self.matched(x, context, self.dim_x)
        x = as_matrix(x, "x", dim=self.dim_x)
        self.contexts.x_range.warn(x)
        with embedded_once():
            return self._corrections(x, self.entries_of(context, len(x)))

    def _corrections(self, x: Tensor, entries: Entries) -> Corrections:
        unseen = self.contexts.read(entries)
        self.contexts.warn(unseen, ABOUT_UNSEEN)
        seen = self._seen(entries)
        # What is far from all contexts that were seen tells nothing.
        entries = self.contexts.in_reach(entries)
        entries = self.contexts.forget(entries, unseen.far & ~unseen.refused)
        outlying = torch.zeros_like(x[:, 0])
        if self.outliers is not None:
            outlying = self.outliers.probability(x)
        each, forward = [], []
        for part in self.parts:
            share = torch.where(seen, part.seen, part.unseen).to(x) * (1 - outlying)
            with untold("unseen"):
                found = part.corrector.corrections(x, entries)
            each.append(found._replace(log_weight=found.log_weight + share.log()))
            forward.append(torch.full((len(found.x),), part.is_forward, device=x.device))
        if self.outliers is not None:
            found = self.outliers.corrections(x)
            each.append(found._replace(log_weight=found.log_weight + outlying.log()))
            forward.append(torch.zeros(len(found.x), dtype=torch.bool, device=x.device))
        whole = Corrections(
            torch.cat([one.x for one in each]),
            torch.cat([one.log_weight for one in each]),
            torch.cat([one.log_abs_det for one in each]),
        )
        if self.log_density is not None:
            whole = weigh_by_evidence(whole, self.log_density, torch.cat(forward))
        return _prune(whole)

    def examples(self) -> Examples:
        """Return a few calibration rows."""
        return self.contexts.examples()

    def unseen(self, context: Context) -> Unseen:
        """Tell which contexts calibration has not seen; printed, it counts them.

        Example:
            >>> import torch
            >>> from ma_sbi import fit_corrector
            >>> x = torch.randn(40, 1, generator=torch.Generator().manual_seed(0))
            >>> corrector = fit_corrector(["dry", "wet"] * 20, x, x, seed=0)
            >>> print(corrector.unseen(["dry", "damp", "damp"]).new.sum())
            2
        """
        return self.contexts.read(self.entries_of(context))

    def entries_of(self, context: Context, num_rows: int | None = None) -> Entries:
        """Check a context, and bring it into the form of those that were fitted to."""
        return self.contexts.conform(as_entries(context, num_rows=num_rows))

    def _x_range(self) -> ObservedRange:
        return self.contexts.x_range

    def _seen(self, entries: Entries) -> Tensor:
        """Tell which contexts are among those of the calibration set."""
        uniques, codes = distinct(entries)
        known = match(self.contexts.known, uniques) < len(self.contexts.known)
        return torch.from_numpy(known[codes])

    def __repr__(self) -> str:
        shares: dict[str, float] = {}
        for part in self.parts:  # one may have a weight with evidence, and one without
            shares[part.name] = shares.get(part.name, 0.0) + part.seen
        parts = ", ".join(f"{share:.0%} {name}" for name, share in shares.items())
        return f"ChosenCorrector({parts})"


def _prune(candidates: Corrections) -> Corrections:
    """Leave out candidates that have no weight for any observation."""
    log_weight = candidates.log_weight.log_softmax(dim=0)
    log_weight = log_weight.masked_fill(log_weight.exp() < LEAST_WEIGHT, -torch.inf)
    kept = (log_weight > -torch.inf).any(dim=1)
    return Corrections(
        candidates.x[kept],
        log_weight[kept].log_softmax(dim=0),
        candidates.log_abs_det[kept],
    )
