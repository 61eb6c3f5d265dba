"""MA-SBI under the interface of its rivals."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any, Literal, get_args

from sklearn.base import clone
from torch import Tensor

from ma_sbi import fit_corrector, fit_density
from ma_sbi.context import Entries
from ma_sbi.correctors.composed import BaseCorrector, FittableCorrector
from ma_sbi.correctors.decomposition import decompose
from ma_sbi.correctors.shift import ShiftCorrector
from ma_sbi.encoders import HashEncoder
from ma_sbi.protocols import Corrections, Encoder
from ma_sbi.randomness import derive
from ma_sbi_bench.methods.materials import Materials, Need
from ma_sbi_bench.methods.method import CorrectingMethod

__all__ = ["MASBI", "DefaultMASBI", "Density"]

Part = Literal["whole", "marginal", "conditional"]
Density = Callable[[Tensor], Tensor]
"""The log density of simulations: ``(n, dim_x)`` to ``(n,)``."""


class MASBI(CorrectingMethod):
    """A corrector learned from context, before the trained posterior.

    The same as ``CorrectedPosterior(posterior, corrector)``, for comparisons.

    Args:
        corrector: Any corrector, not fitted yet; a shift predicted from hashed text, in
            closed form, if None.
        part: ``"marginal"`` corrects by the mean shift alone, ``"conditional"`` by what
            the context adds to it (:func:`~ma_sbi.decompose`).
    """

    reference = "MA-SBI"
    corrector_: BaseCorrector

    def __init__(
        self, corrector: FittableCorrector | None = None, part: Part = "whole"
    ) -> None:
        self.corrector = corrector
        self.part = part

    @property
    def needs(self) -> frozenset[Need]:  # type: ignore[override]
        """Pairs or a pool of simulations, as the corrector learns from."""
        data: Need = "pairs" if self._corrector.axes().fitting.paired else "simulations"
        return frozenset({"posterior", "context", data})

    @property
    def _corrector(self) -> FittableCorrector:
        if self.corrector is None:
            return ShiftCorrector(HashEncoder())
        if not isinstance(self.corrector, FittableCorrector):
            raise ValueError(f"corrector must be a corrector, got {self.corrector!r}")
        return self.corrector

    def _fit(self, materials: Materials, seed: int | None) -> None:
        super()._fit(materials, seed)
        if self.part not in get_args(Part):
            raise ValueError(
                f"part must be one of {', '.join(get_args(Part))}, got {self.part!r}"
            )
        corrector = clone(self._corrector)
        context, x_obs = materials.take("context"), materials.take("x_obs")
        if corrector.axes().fitting.paired:
            corrector.fit(context, x_obs, materials.take("pairs"), seed=seed)
        else:
            pool = materials.take("simulations").x
            corrector.fit(context, x_obs, simulations=pool, seed=seed)
        self.corrector_ = corrector
        if self.part != "whole":
            self.corrector_ = getattr(decompose(corrector, context), self.part)

    def _corrections(
        self, x: Tensor, context: Entries | None, seed: int | None
    ) -> Corrections:
        return self.corrector_.corrections(x, context)


class DefaultMASBI(CorrectingMethod):
    """The corrector that ``fit_corrector`` chooses, before the trained posterior.

    A posterior whose density is an integral, as a diffusion model's is, does not judge
    proposals; ``x_sim`` does.

    Args:
        density: Log density of the simulations, for the evidence of each candidate;
            ``"fit"`` trains one on the simulations, None does without.
        most_simulations: Most simulations that a density is trained on.
        encoder: Context to vectors; chosen if None, among those that are installed.
    """

    reference = "-"
    corrector_: Any

    def __init__(
        self,
        density: Literal["fit"] | Density | None = "fit",
        most_simulations: int = 20_000,
        encoder: Encoder | None = None,
    ) -> None:
        self.density = density
        self.most_simulations = most_simulations
        self.encoder = encoder

    @property
    def needs(self) -> frozenset[Need]:  # type: ignore[override]
        """Triples, and simulations if a density is to be trained."""
        known: frozenset[Need] = frozenset({"posterior", "context", "pairs"})
        more: frozenset[Need] = frozenset({"simulations"})
        return known | more if self.density == "fit" else known

    def _fit(self, materials: Materials, seed: int | None) -> None:
        super()._fit(materials, seed)
        density = self.density
        if density == "fit":
            pool = materials.take("simulations").x[: self.most_simulations]
            density = fit_density(pool, seed=derive(seed, "density"))
        expensive = getattr(self.posterior_, "expensive_density", False)
        self.corrector_ = fit_corrector(
            materials.take("context"),
            materials.take("x_obs"),
            materials.take("pairs"),
            density=density,
            posterior=None if expensive else self.posterior_,
            encoder=self.encoder,
            seed=seed,
        )

    def _corrections(
        self, x: Tensor, context: Entries | None, seed: int | None
    ) -> Corrections:
        return self.corrector_.corrections(x, context)
