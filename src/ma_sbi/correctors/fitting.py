r"""Fitting: from calibration triples to hypotheses as a function of the context.

Each way minimises the loss of Eq. 2, :math:`\sum_i \|\delta_i - \hat\delta(z_i)\|^2`:
:class:`~ma_sbi.correctors.Ridge` in closed form, :class:`~ma_sbi.correctors.Network` with
the paper's optimiser. What they share is here.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import NamedTuple, Protocol

from torch import Tensor

__all__ = ["Fitted", "Fitting", "Hypotheses", "Triples"]


@dataclass(frozen=True)
class Triples:
    """Calibration data as the fit sees it.

    Attributes:
        encoding: Encoded distinct contexts, shape ``(num_distinct, dim_z)``; a row of NaN
            is a missing context.
        codes: Which of them each row has, shape ``(n,)``.
        basis: Basis of the departure at each observation, shape ``(n, num_basis)``.
        delta: Observed minus simulated, shape ``(n, dim_x)``.
    """

    encoding: Tensor
    codes: Tensor
    basis: Tensor
    delta: Tensor

    def __len__(self) -> int:
        return len(self.codes)

    def rows(self, index: Tensor) -> Triples:
        """Select calibration rows."""
        return Triples(
            self.encoding, self.codes[index], self.basis[index], self.delta[index]
        )


class Hypotheses(NamedTuple):
    """What the context suggests about the departure.

    Attributes:
        coefficients: Coefficients of the departure, shape ``(K, n, num_basis, dim_x)``.
        log_weight: Log probability of each, shape ``(K, n)``; sums to one over K.
    """

    coefficients: Tensor
    log_weight: Tensor

    @classmethod
    def single(cls, coefficients: Tensor) -> Hypotheses:
        """Make one hypothesis of coefficients ``(n, num_basis, dim_x)``."""
        return cls(coefficients[None], coefficients.new_zeros(1, len(coefficients)))


class Fitted(Protocol):
    """A fitted map from encoded contexts to hypotheses about the departure."""

    def __call__(self, encoding: Tensor) -> Hypotheses:
        """Map contexts ``(n, dim_z)`` to K hypotheses each."""
        ...


class Fitting(Protocol):
    """A way to fit coefficients."""

    def fit(self, triples: Triples, *, seed: int | None = None) -> Fitted:
        """Fit to calibration triples."""
        ...
