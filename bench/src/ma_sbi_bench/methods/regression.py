"""Shortcuts from the context alone: regress theta, or x, on it."""

from __future__ import annotations

from typing import Literal

import torch
from sklearn.base import clone
from torch import Tensor

from ma_sbi.context import Entries, distinct
from ma_sbi.correctors import Network, Ridge
from ma_sbi.correctors.composed import encode
from ma_sbi.correctors.fitting import PairedFitting, Triples
from ma_sbi.encoders import HashEncoder
from ma_sbi.posteriors.unconstrained import check_simulations
from ma_sbi.protocols import Corrections, Encoder
from ma_sbi.randomness import generator
from ma_sbi_bench.methods.materials import Materials, Need
from ma_sbi_bench.methods.method import CorrectingMethod, Method

__all__ = ["ContextToTheta", "ContextToX"]


class _Regression:
    """A regression of anything on the encoded context.

    Args:
        encoder: Context to vectors; hashed text if None.
        fitting: How it is fitted; in closed form if None.
        context: One entry per row.
        target: What to predict, shape ``(n, dim)``.
        seed: Makes the fit repeatable.
    """

    def __init__(
        self,
        encoder: Encoder | None,
        fitting: PairedFitting | None,
        context: Entries,
        target: Tensor,
        seed: int | None,
    ) -> None:
        uniques, codes = distinct(context)
        self.encoder = clone(encoder or HashEncoder()).fit(context)
        triples = Triples(
            encode(self.encoder, uniques),
            torch.as_tensor(codes),
            basis=torch.ones(len(target), 1, dtype=torch.float64),
            delta=target.double(),
        )
        self.fitted = (fitting or Ridge()).fit(triples, seed=seed)

    def __call__(self, context: Entries) -> Tensor:
        """Predict, shape ``(n, dim)``, float32."""
        uniques, codes = distinct(context)
        coefficients = self.fitted(encode(self.encoder, uniques)).coefficients
        return coefficients[0, torch.as_tensor(codes), 0].float()


class ContextToTheta(Method):
    r"""Theta regressed on the context: no simulator, no observation, :math:`g(z)`.

    Learned on the real line, so that draws respect the prior's bounds. The paper takes
    the prediction for the whole posterior, and a classifier separates a point from any
    posterior. By default the residuals of the calibration rows are added as a Gaussian.

    Args:
        encoder: Context to vectors; the paper's hashed text if None.
        fitting: ``Ridge()``, in closed form, if None; ``Network()`` is the paper's.
        spread: ``"residual"``, or ``"none"`` for the paper's point.
    """

    reference = "MA-SBI, ablation"
    needs: frozenset[Need] = frozenset({"theta*", "context"})

    def __init__(
        self,
        encoder: Encoder | None = None,
        fitting: Ridge | Network | None = None,
        *,
        spread: Literal["residual", "none"] = "residual",
    ) -> None:
        self.encoder = encoder
        self.fitting = fitting
        self.spread = spread

    def _fit(self, materials: Materials, seed: int | None) -> None:
        if self.spread not in ("residual", "none"):
            raise ValueError(f"spread must be 'residual' or 'none', got {self.spread!r}")
        context = materials.take("context")
        checked = check_simulations(
            materials.prior, materials.take("theta*"), materials.take("x_obs"), None
        )
        self.to_real_, target = checked.to_real, checked.real_theta
        self.regression_ = _Regression(self.encoder, self.fitting, context, target, seed)
        residual = target - self.regression_(context)
        covariance = residual.T @ residual / len(residual)
        self.factor_ = torch.linalg.cholesky(covariance + 1e-9 * torch.eye(len(covariance)))

    def _sample(
        self, num_samples: int, x: Tensor, context: Entries, seed: int | None
    ) -> Tensor:
        center = self.regression_(context).expand(num_samples, -1, -1)
        if self.spread == "residual":
            noise = torch.randn(center.shape, generator=generator(seed))
            center = center + noise @ self.factor_.T
        return self.to_real_.inv(center)


class ContextToX(CorrectingMethod):
    """X regressed on the context: the posterior at the x that the context predicts.

    The observation is not used. The paper counts this among the methods that need
    true parameters; the simulations paired with the calibration rows are enough.

    Args:
        encoder: Context to vectors; the paper's hashed text if None.
        fitting: ``Ridge()``, in closed form, if None; ``Network()`` is the paper's.
    """

    reference = "MA-SBI, ablation"
    needs: frozenset[Need] = frozenset({"posterior", "context", "pairs"})

    def __init__(
        self, encoder: Encoder | None = None, fitting: Ridge | Network | None = None
    ) -> None:
        self.encoder = encoder
        self.fitting = fitting

    def _fit(self, materials: Materials, seed: int | None) -> None:
        super()._fit(materials, seed)
        self.regression_ = _Regression(
            self.encoder,
            self.fitting,
            materials.take("context"),
            materials.take("pairs"),
            seed,
        )

    def _corrections(self, x: Tensor, context: Entries, seed: int | None) -> Corrections:
        return Corrections.certain(self.regression_(context).to(x))
