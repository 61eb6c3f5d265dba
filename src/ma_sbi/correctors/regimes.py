"""Regimes that are discovered: departures that are alike, then how contexts tell them."""

from __future__ import annotations

import warnings
from dataclasses import dataclass, replace
from typing import ClassVar, Literal

import torch
from torch import Tensor

from ma_sbi.correctors.assignment import AT_ONCE, MOST_COMPARED, Assignment, assign
from ma_sbi.correctors.bootstrap import SAME, ResidualPools, rounding_of
from ma_sbi.correctors.composed import FITTED, Axes, FittableCorrector, encode
from ma_sbi.correctors.departures import Shift
from ma_sbi.correctors.discovery import discover
from ma_sbi.correctors.fitting import Hypotheses, Triples, need_shift
from ma_sbi.correctors.inference import Mixture
from ma_sbi.protocols import Context, Encoder
from ma_sbi.scaling import median_distance
from ma_sbi.storing.forms import stored
from ma_sbi.validation import as_count

__all__ = ["RegimeCorrector", "RegimeFit", "Regimes"]


@stored(*FITTED)
class RegimeCorrector(FittableCorrector):
    r"""Shift the observation by the departures of the regime that its context belongs to.

    .. math:: p(\delta \mid z) = \sum_k p(k \mid z)\, p(\delta \mid k)

    The regimes k are groups of departures that are alike; nobody has to name them. A
    context that was seen has the regimes of its rows. A new one, such as a sentence in
    other words, is assigned to regimes by its encoding, as surely as contexts that were
    left out could be. One that is unlike all contexts gets every regime as often as it
    occurs, with an :class:`~ma_sbi.correctors.UnrelatedContext` warning; so does every new
    one, if contexts that were left out could not be assigned.

    For free text use :class:`~ma_sbi.SentenceEncoder`, and at least two, better three,
    wordings of each regime in the calibration set.

    Args:
        encoder: Context to vectors; any scikit-learn transformer.
        num_draws: Most candidates.
        most_regimes: Largest number of regimes, where departures have noise.
        decide: Whether a new context has its most probable regime alone: nearer the truth
            on average, and wrong without a sign of it.

    Example:
        >>> import torch
        >>> from ma_sbi import HashEncoder
        >>> from ma_sbi.correctors import RegimeCorrector
        >>> x_sim = torch.randn(20, 2, generator=torch.Generator().manual_seed(0))
        >>> notes = ["Reads high.", "Reading high.", "All is well.", "All well."] * 5
        >>> shift = torch.tensor([[1.0, 0.0], [1.0, 0.0], [0.0, 0.0], [0.0, 0.0]])
        >>> x_obs = x_sim + shift.repeat(5, 1)
        >>> corrector = RegimeCorrector(HashEncoder()).fit(notes, x_obs, x_sim)
        >>> corrector.shift(["It reads high.", "All is very well."]).round(decimals=1)
        tensor([[1., 0.],
                [0., 0.]])
    """

    def __init__(
        self,
        encoder: Encoder,
        num_draws: int = 256,
        most_regimes: int = 12,
        decide: bool = False,  # noqa: FBT001, FBT002 (scikit-learn style)
    ) -> None:
        self.encoder = encoder
        self.num_draws = num_draws
        self.most_regimes = most_regimes
        self.decide = decide

    def axes(self) -> Axes:
        """Name the departure, the fit and the inference."""
        fitting = Regimes(self.num_draws, self.most_regimes, decide=self.decide)
        return Axes(Shift(), fitting, Mixture())

    def regime_probability(self, context: Context) -> tuple[Tensor, Tensor]:
        """Tell which regimes contexts belong to.

        Returns:
            Probabilities of shape ``(n, num_regimes)``, and which contexts cannot be
            assigned, shape ``(n,)``.
        """
        self._check_fitted()
        fitted: RegimeFit = self.fitted_  # type: ignore[assignment]
        return fitted.read(encode(self.encoder_, self.entries_of(context)))

    @property
    def regime_shifts_(self) -> Tensor:
        """Mean departure of each regime, shape ``(num_regimes, dim_x)``."""
        self._check_fitted()
        fitted: RegimeFit = self.fitted_  # type: ignore[assignment]
        return (fitted.departures * fitted.log_weight.exp()[..., None]).sum(dim=0)


@stored(noise="...?")
@dataclass(frozen=True)
class Regimes:
    """The fit of a :class:`RegimeCorrector`.

    Attributes:
        num_draws: Most hypotheses, of all regimes together.
        most_regimes: Largest number of regimes, where departures have noise.
        noise: Variance of x_obs - x_sim that is no departure, as for
            :class:`~ma_sbi.correctors.ResidualPools`.
        decide: Whether a new context has its most probable regime alone.
    """

    paired: ClassVar[Literal[True]] = True

    num_draws: int = 256
    most_regimes: int = 12
    noise: float | Tensor = 0.0
    decide: bool = False

    def __post_init__(self) -> None:
        as_count(self.num_draws, "num_draws")
        as_count(self.most_regimes, "most_regimes")
        if self.num_draws < self.most_regimes:
            raise ValueError(
                "every regime needs a candidate: num_draws must be at least most_regimes, "
                f"got {self.num_draws} and {self.most_regimes}"
            )

    def fit(self, triples: Triples, *, seed: int | None = None) -> RegimeFit:
        """Discover regimes, keep their departures, and learn to assign contexts."""
        need_shift(triples.basis, "Regimes")
        share = discover(
            triples.delta, triples.codes, rounding_of(triples), self.most_regimes
        )
        num_regimes = share.shape[1]
        if num_regimes == 1:
            warnings.warn(
                "the departures form one regime, so the context has no effect",
                stacklevel=3,
            )
        departures, log_weight = self._pool(triples, share.argmax(dim=1), seed)
        rows = share.new_zeros(len(triples.encoding), num_regimes)
        rows.index_add_(0, triples.codes, share)
        seen = rows.sum(dim=1) > 0
        encoding, rows = triples.encoding[seen], rows[seen]
        # Far from the origin, distances are not exact.
        origin = encoding.nanmean(dim=0).nan_to_num()
        encoding = encoding - origin
        there = ~encoding.isnan().any(dim=1)
        member = rows[there] / rows[there].sum(dim=1, keepdim=True)
        assignment = assign(encoding[there], member, share.mean(dim=0))
        return RegimeFit(
            departures, log_weight, origin, encoding, rows, assignment, self.decide
        )

    def _pool(
        self, triples: Triples, regime: Tensor, seed: int | None
    ) -> tuple[Tensor, Tensor]:
        """Keep departures of each regime, with log weights within it."""
        each = torch.eye(int(regime.max()) + 1).to(triples.delta)
        pools = ResidualPools(max(1, self.num_draws // len(each)), noise=self.noise)
        by_regime = replace(triples, encoding=each, codes=regime)
        coefficients, log_weight, _ = pools.fit(by_regime, seed=seed)(each)
        departures = coefficients[:, :, 0]
        drawn = (departures * log_weight.exp()[..., None]).sum(dim=0)
        member = each[regime]
        mean = member.T @ triples.delta / member.sum(dim=0)[:, None]
        # Some departures of a regime, drawn at random, need not have its mean.
        return departures + (mean - drawn), log_weight


@stored(
    departures="draws regimes dim_x",
    log_weight="draws regimes?",
    origin="dim_z",
    encoding="contexts dim_z?",
    member="contexts regimes",
)
@dataclass(frozen=True)
class RegimeFit:
    """What :class:`Regimes` fitted.

    Attributes:
        departures: Departures of each regime, shape ``(num_draws, num_regimes, dim_x)``.
        log_weight: Their log probabilities within it, shape ``(num_draws, num_regimes)``.
        origin: Encoding from which all others are measured, shape ``(dim_z,)``.
        encoding: Contexts that were seen, measured from it, shape
            ``(num_contexts, dim_z)``.
        member: How many of their rows each regime has, shape
            ``(num_contexts, num_regimes)``.
        assignment: Reads contexts that were not seen.
        decide: Whether these have their most probable regime alone.
    """

    about_unlike: ClassVar[str] = (
        "where a context is far, or contexts tell nothing of others, each regime has the "
        "weight with which it occurs"
    )

    departures: Tensor
    log_weight: Tensor
    origin: Tensor
    encoding: Tensor
    member: Tensor
    assignment: Assignment
    decide: bool

    def __call__(self, encoding: Tensor) -> Hypotheses:
        """Map contexts ``(n, dim_z)`` to the departures of their regimes."""
        probability, _ = self.read(encoding)
        log_weight = self.log_weight[:, None] + probability.log()
        log_weight = log_weight.movedim(2, 1).flatten(end_dim=1)
        departures = self.departures.flatten(end_dim=1)
        used = (log_weight > -torch.inf).any(dim=1)
        coefficients = departures[used, None, None].expand(-1, len(encoding), -1, -1)
        return Hypotheses(coefficients, log_weight[used])

    def unlike(self, encoding: Tensor) -> Tensor:
        """Tell which contexts ``(n, dim_z)`` cannot be assigned."""
        return self.read(encoding)[1]

    def read(self, encoding: Tensor) -> tuple[Tensor, Tensor]:
        """Find probabilities of regimes, and which contexts cannot be assigned.

        A missing context that was not seen has the shares of the regimes, and is none of
        these.
        """
        encoding = encoding.to(self.origin) - self.origin
        missing = encoding.isnan().any(dim=1)
        probability = self.assignment.share.repeat(len(encoding), 1)
        unlike = torch.zeros_like(missing)
        if not missing.all():
            probability[~missing], unlike[~missing] = self.assignment(encoding[~missing])
        if not self.assignment.tells and len(self.assignment.share) > 1:
            unlike = ~missing
        if self.decide:
            best = probability.argmax(dim=1, keepdim=True)
            best = torch.zeros_like(probability).scatter_(1, best, 1.0)
            probability = torch.where((missing | unlike)[:, None], probability, best)
        # Contexts may be encoded alike: their rows are counted together.
        parts = zip(encoding.split(AT_ONCE), missing.split(AT_ONCE), strict=True)
        rows = torch.cat(
            [self._same(*part).to(self.member) @ self.member for part in parts]
        )
        total = rows.sum(dim=1, keepdim=True)
        probability = torch.where(total > 0, rows / total, probability)
        return probability, unlike & (total[:, 0] == 0)

    def _same(self, encoding: Tensor, missing: Tensor) -> Tensor:
        """Tell which contexts are the same, shape ``(n, num_contexts)``."""
        gone = self.encoding.isnan().any(dim=1)
        apart = torch.cdist(encoding.nan_to_num(), self.encoding.nan_to_num())
        near = apart < SAME * median_distance(self.encoding[:MOST_COMPARED])
        return near & (missing[:, None] == gone)
