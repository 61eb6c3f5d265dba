"""Whether posterior means depend on the context, before and after the correction."""

from __future__ import annotations

from dataclasses import dataclass
from typing import TYPE_CHECKING, Any

from torch import Tensor

from ma_sbi.diagnostics.dependence import Dependence, dependence_test
from ma_sbi.diagnostics.diagnostic import Diagnostic
from ma_sbi.diagnostics.exclusion import held_out_r2
from ma_sbi.diagnostics.thresholds import THRESHOLDS
from ma_sbi.randomness import derive
from ma_sbi.scaling import column_scale

if TYPE_CHECKING:
    from ma_sbi.diagnostics.subject import Subject

__all__ = ["DIAGNOSTIC", "PosteriorMeans"]


@dataclass(frozen=True)
class PosteriorMeans:
    """How posterior means depend on the context.

    Attributes:
        before: Test of dependence, observations as they are.
        after: Corrected; None without a correction.
        share_before: Held-out share of the means' variance that the context explains.
        share_after: The same, corrected.
    """

    before: Dependence
    after: Dependence | None
    share_before: float
    share_after: float | None

    @property
    def share(self) -> float:
        """The share after the correction, if there is one, else before."""
        return self.share_before if self.share_after is None else self.share_after

    @property
    def move(self) -> bool:
        """Whether they depend on the context, after the correction if there is one."""
        test = self.before if self.after is None else self.after
        return test.p_value <= THRESHOLDS.means_move and self.share > THRESHOLDS.means_share

    def __str__(self) -> str:
        text = (
            f"the context explains {max(self.share_before, 0):.0%} of the variance of "
            f"posterior means (p = {self.before.p_value:.2g})"
        )
        if self.after is not None and self.share_after is not None:
            text += (
                f", {max(self.share_after, 0):.0%} after correction "
                f"(p = {self.after.p_value:.2g})"
            )
        return text


def _run(subject: Subject) -> PosteriorMeans:
    posterior, num_draws = subject.quick_posterior, subject.budget.draws_of_means
    positions, rows, _ = subject.some(subject.budget.means, "means")
    seed = derive(subject.seed, "means")
    options: dict[str, Any] = {
        "encoder": rows.encoder,
        "groups": rows.groups,
        "seed": seed,
    }
    by_regime = None if rows.regimes is None else rows.by_regime.entries

    def test(draws: Tensor) -> tuple[Dependence, float]:
        mean = draws.double().mean(dim=0).cpu()
        mean = (mean - mean.mean(dim=0)) / column_scale(mean)
        found = dependence_test(mean, rows.entries, blind=rows.blind, **options)
        share = held_out_r2(mean, rows.entries, **options)
        if by_regime is not None:
            # Texts hide what their regimes explain: the larger share counts.
            of_regimes = held_out_r2(mean, by_regime, **(options | {"encoder": None}))
            share = max(share, of_regimes)
        return found, share

    x, seed_of_draws = rows.x_obs.float(), derive(seed, "draws")
    before, share_before = test(posterior.sample(num_draws, x, seed=seed_of_draws))
    corrected = subject.corrected_posterior
    if corrected is None:
        return PosteriorMeans(before, None, share_before, None)
    draws = corrected.sample(num_draws, x, positions, seed=seed_of_draws)
    after, share_after = test(draws)
    return PosteriorMeans(before, after, share_before, share_after)


DIAGNOSTIC = Diagnostic(
    "means", "Do posterior means move with the context?", _run, needs=("posterior",)
)
