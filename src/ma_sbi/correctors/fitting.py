r"""Fitting: from calibration data to hypotheses as a function of the context.

From triples, :class:`~ma_sbi.correctors.Ridge` and :class:`~ma_sbi.correctors.Network`
minimise the loss of Eq. 2, :math:`\sum_i \|\delta_i - \hat\delta(z_i)\|^2`, in closed form
and with the paper's optimiser; :class:`~ma_sbi.correctors.ResidualPools` keeps every
:math:`\delta_i`. From observations and a pool of simulations that are not paired,
:class:`~ma_sbi.correctors.Matching` makes the distributions agree.
"""

from __future__ import annotations

from dataclasses import dataclass, replace
from typing import Literal, NamedTuple, Protocol, TypeAlias

from torch import Tensor

__all__ = [
    "Fitted",
    "Fitting",
    "Hypotheses",
    "PairedFitting",
    "Pools",
    "Triples",
    "UnpairedFitting",
    "need_shift",
]


@dataclass(frozen=True)
class Triples:
    """Paired calibration data, encoded.

    Attributes:
        encoding: Encoded distinct contexts, shape ``(num_distinct, dim_z)``; a row of NaN
            is a missing context.
        codes: Which of them each row has, shape ``(n,)``.
        basis: Basis of the departure at each observation, shape ``(n, num_basis)``.
        delta: Observed minus simulated, shape ``(n, dim_x)``.
        rounding: What of a difference may be rounding of x, shape ``(dim_x,)``.
    """

    encoding: Tensor
    codes: Tensor
    basis: Tensor
    delta: Tensor
    rounding: float | Tensor = 0.0

    def __len__(self) -> int:
        return len(self.codes)

    def rows(self, index: Tensor) -> Triples:
        """Select calibration rows."""
        return replace(
            self,
            codes=self.codes[index],
            basis=self.basis[index],
            delta=self.delta[index],
        )


@dataclass(frozen=True)
class Pools:
    """Unpaired calibration data, encoded.

    Attributes:
        encoding: Encoded distinct contexts, shape ``(num_distinct, dim_z)``; a row of NaN
            is a missing context.
        codes: Which of them each observation has, shape ``(n,)``.
        basis: Basis of the departure at each observation, shape ``(n, num_basis)``.
        x_obs: Observations, shape ``(n, dim_x)``.
        simulations: Simulations from the prior, shape ``(num_simulations, dim_x)``.
    """

    encoding: Tensor
    codes: Tensor
    basis: Tensor
    x_obs: Tensor
    simulations: Tensor


class Hypotheses(NamedTuple):
    """Possible coefficients of the departure, given the context.

    Attributes:
        coefficients: Coefficients of the departure, shape ``(K, n, num_basis, dim_x)``; or
            ``(1, n, num_basis, dim_x)``, if the hypotheses differ in their offset alone.
        log_weight: Log probability of each, shape ``(K, n)``; sums to one over K.
        offset: What is added to the departure whatever x is, shape ``(K, n, dim_x)``;
            nothing if None.
    """

    coefficients: Tensor
    log_weight: Tensor
    offset: Tensor | None = None

    @classmethod
    def single(cls, coefficients: Tensor) -> Hypotheses:
        """Make one hypothesis of coefficients ``(n, num_basis, dim_x)``."""
        return cls(coefficients[None], coefficients.new_zeros(1, len(coefficients)))


class Fitted(Protocol):
    """A fitted map from encoded contexts to hypotheses about the departure."""

    def __call__(self, encoding: Tensor) -> Hypotheses:
        """Map contexts ``(n, dim_z)`` to K hypotheses each."""
        ...


class PairedFitting(Protocol):
    """A way to fit coefficients to observations and simulations paired row by row."""

    @property
    def paired(self) -> Literal[True]:
        """Whether it needs pairs."""
        ...

    def fit(self, triples: Triples, *, seed: int | None = None) -> Fitted:
        """Fit to calibration triples."""
        ...


class UnpairedFitting(Protocol):
    """A way to fit coefficients to observations and a pool of simulations."""

    @property
    def paired(self) -> Literal[False]:
        """Whether it needs pairs."""
        ...

    def fit(self, pools: Pools, *, seed: int | None = None) -> Fitted:
        """Fit to the two pools."""
        ...


Fitting: TypeAlias = PairedFitting | UnpairedFitting
"""A way to fit coefficients; it declares what data it needs."""


def need_shift(basis: Tensor, name: str) -> None:
    """Check that the departure is a shift.

    Raises:
        ValueError: If the basis has more than one column.
    """
    if basis.shape[1] > 1:
        raise ValueError(
            f"{name} finds shifts only; a departure that depends on x needs pairs and a "
            "regression, for example Ridge()"
        )
