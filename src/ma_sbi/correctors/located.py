"""Residuals around a regression: what a fit does not explain, kept as hypotheses."""

from __future__ import annotations

from dataclasses import dataclass, field, replace
from typing import ClassVar, Literal

from torch import Tensor

from ma_sbi.correctors.bootstrap import ResidualFit, ResidualPools, rounding_of
from ma_sbi.correctors.fitting import Hypotheses, Triples
from ma_sbi.correctors.ridge import KernelFit, Ridge
from ma_sbi.storing.forms import stored

__all__ = ["RidgeWithResiduals"]


@stored()
@dataclass(frozen=True)
class RidgeWithResiduals:
    """A regression with its own left-out residuals around it.

    Each hypothesis is the departure that the regression predicts plus the residual of one
    triple under the fit to all others. So the hypotheses spread as the errors of the
    regression do: by noise, by coefficients that are not known, by what the family cannot
    describe. A departure that is predicted exactly has one hypothesis.

    Attributes:
        ridge: The regression.
        pools: How contexts share residuals.
    """

    paired: ClassVar[Literal[True]] = True

    ridge: Ridge = field(default_factory=Ridge)
    pools: ResidualPools = field(default_factory=lambda: ResidualPools(width="auto"))

    def fit(self, triples: Triples, *, seed: int | None = None) -> LocatedFit:
        """Fit the regression, then the pools of its residuals."""
        location, left_out = self.ridge.fit_and_leave_out(triples, seed=seed)
        left_out[left_out.abs() < rounding_of(triples)] = 0.0
        constant = replace(
            triples,
            basis=triples.basis[:, :1],
            delta=left_out,
            rounding=rounding_of(triples),
        )
        return LocatedFit(location, self.pools.fit(constant, seed=seed))


@stored()
@dataclass(frozen=True)
class LocatedFit:
    """What :class:`RidgeWithResiduals` fitted."""

    location: KernelFit
    residuals: ResidualFit

    def __call__(self, encoding: Tensor) -> Hypotheses:
        """Map contexts ``(n, dim_z)`` to hypotheses."""
        around, log_weight, _ = self.residuals(encoding)
        location = self.location(encoding).coefficients
        return Hypotheses(location, log_weight, offset=around[:, :, 0])
