"""Simulators of random shape whose posterior and density are known in closed form."""

from __future__ import annotations

import math
from dataclasses import dataclass
from functools import cached_property
from typing import Any

import numpy as np
import torch
from scipy.special import ndtri_exp
from torch import Tensor
from torch.distributions import MultivariateNormal

from ma_sbi.posteriors import from_callable

__all__ = ["FAMILIES", "ExactSimulator", "draw_simulator"]

LOG_TAU = math.log(2 * math.pi)
FAMILIES = ("linear", "banana", "stretched", "moons", "clusters", "heavy tails")
"""What simulators are like; only the first is Gaussian."""


@dataclass(frozen=True)
class ExactSimulator:
    r"""A linear Gaussian simulator that may be folded, mixed and bent.

    .. math:: \theta \sim N(0, I), \quad y \mid \theta, c \sim
        N(A f(\theta) + o_c, s_c^2\, \mathrm{diag}(\sigma^2)), \quad x = g(y)

    Component c has probability :math:`w_c`. The fold f takes the absolute value of the
    first parameter, which leaves two modes; the bend g is a bijection.

    Attributes:
        family: Its name.
        matrix: A, shape ``(dim_x, dim_theta)``.
        noise: sigma, shape ``(dim_x,)``.
        weights: w, shape ``(num_components,)``.
        offsets: o, shape ``(num_components, dim_x)``.
        scales: s, shape ``(num_components,)``.
        bend: How far the second column is bent by the square of the first.
        stretched: Whether g is the hyperbolic sine.
        folded: Whether f is not the identity.
    """

    family: str
    matrix: Tensor
    noise: Tensor
    weights: Tensor
    offsets: Tensor
    scales: Tensor
    bend: float = 0.0
    stretched: bool = False
    folded: bool = False

    @property
    def dim_x(self) -> int:
        """Columns of x."""
        return self.matrix.shape[0]

    @property
    def dim_theta(self) -> int:
        """Number of parameters."""
        return self.matrix.shape[1]

    def prior_draws(self, num: int, rng: np.random.Generator) -> Tensor:
        """Draw theta, shape ``(num, dim_theta)``."""
        return torch.from_numpy(rng.standard_normal((num, self.dim_theta)))

    def simulate(self, theta: Tensor, rng: np.random.Generator) -> Tensor:
        """Draw x, shape ``(n, dim_x)``."""
        n = len(theta)
        one = torch.from_numpy(rng.choice(len(self.weights), n, p=self.weights.numpy()))
        noise = torch.from_numpy(rng.standard_normal((n, self.dim_x))) * self.noise
        inner = self._fold(theta) @ self.matrix.T + self.offsets[one]
        return self._bend(inner + self.scales[one, None] * noise)

    def log_likelihood(self, theta: Tensor, x: Tensor) -> Tensor:
        """Evaluate p(x given theta), shape ``(n,)``, for a theta for each x."""
        y, log_det = self._straighten(x)
        mean = self._fold(theta) @ self.matrix.T
        sd = self.scales[:, None, None] * self.noise
        each = _log_normal((y - mean - self.offsets[:, None]) / sd) - sd.log().sum(dim=2)
        return (each + self.weights.log()[:, None]).logsumexp(dim=0) + log_det

    def log_density(self, x: Tensor) -> Tensor:
        """Evaluate the density of simulations from the prior, shape ``(n,)``."""
        y, log_det = self._straighten(x.double())
        return self._log_evidence(y).logsumexp(dim=0) + log_det

    def posterior_log_prob(self, theta: Tensor, x: Tensor) -> Tensor:
        """Evaluate theta ``(n, batch, dim_theta)``, shape ``(n, batch)``."""
        y, _ = self._straighten(x.double())
        weight = self._log_evidence(y).log_softmax(dim=0)
        means = self._means(y)
        # Shape (n, components, batch, dim_theta).
        away = self._fold(theta.double())[:, None] - means
        unit = away @ torch.linalg.inv(self._roots).mT
        size = self._roots.diagonal(dim1=-2, dim2=-1).log().sum(dim=-1, keepdim=True)
        each = _log_normal(unit) - size
        if self.folded:
            each = each - math.log(2) - torch.special.log_ndtr(self._inside(means))
        return (each + weight).logsumexp(dim=1)

    def posterior_draws(self, num_samples: int, x: Tensor) -> Tensor:
        """Draw ``(num_samples, batch, dim_theta)`` with torch's global generator."""
        y, _ = self._straighten(x.double())
        weight = self._log_evidence(y).softmax(dim=0)
        pick = torch.multinomial(weight.T, num_samples, replacement=True).T
        batch = torch.arange(len(y))
        means = self._means(y)[pick, batch]
        unit = torch.randn(means.shape, dtype=means.dtype)
        if self.folded:
            unit[..., 0] = _above(-self._inside(self._means(y))[pick, batch])
        theta = means + (self._roots[pick] @ unit.unsqueeze(-1)).squeeze(-1)
        if self.folded:
            theta[..., 0] *= 2.0 * torch.randint(2, theta.shape[:2]) - 1.0
        return theta

    def posterior(self, x_train: Tensor | None = None) -> Any:
        """Return the exact posterior as the library takes it."""
        zero = torch.zeros(self.dim_theta)
        return from_callable(
            self.posterior_draws,
            self.posterior_log_prob,
            batched=True,
            prior=MultivariateNormal(zero, torch.eye(self.dim_theta)),
            x_train=x_train,
        )

    def displacement(self, shift: Tensor) -> Tensor:
        """Return by how many posterior deviations shifts ``(n, dim_x)`` move the mean."""
        precision = (self.matrix.T / self.noise.square()) @ self.matrix
        covariance = torch.linalg.inv(torch.eye(self.dim_theta).double() + precision)
        moved = (shift / self.noise.square()) @ self.matrix @ covariance
        root = torch.linalg.cholesky(covariance)
        return torch.linalg.solve_triangular(root, moved.T, upper=False).norm(dim=0)

    def _fold(self, theta: Tensor) -> Tensor:
        if not self.folded:
            return theta
        return torch.cat([theta[..., :1].abs(), theta[..., 1:]], dim=-1)

    def _bend(self, y: Tensor) -> Tensor:
        if self.stretched:
            return y.sinh()
        x = y.clone()
        if self.bend:
            x[:, 1] += self.bend * y[:, 0].square()
        return x

    def _straighten(self, x: Tensor) -> tuple[Tensor, Tensor]:
        """Invert the bend, and give the log determinant of what inverts it."""
        if self.stretched:
            return x.asinh(), -0.5 * x.square().log1p().sum(dim=1)
        y = x.clone()
        if self.bend:
            y[:, 1] -= self.bend * x[:, 0].square()
        return y, x.new_zeros(len(x))

    @cached_property
    def _covariances(self) -> Tensor:
        """Posterior covariance within each component."""
        precision = (self.matrix.T / self.noise.square()) @ self.matrix
        identity = torch.eye(self.dim_theta, dtype=precision.dtype)
        return torch.linalg.inv(identity + precision / self.scales[:, None, None] ** 2)

    @cached_property
    def _roots(self) -> Tensor:
        """Cholesky factor of each covariance."""
        return torch.linalg.cholesky(self._covariances)

    def _means(self, y: Tensor) -> Tensor:
        """Posterior means of components, shape ``(components, batch, dim_theta)``."""
        pulled = ((y - self.offsets[:, None]) / self.noise.square()) @ self.matrix
        return pulled @ self._covariances / self.scales[:, None, None] ** 2

    def _inside(self, means: Tensor) -> Tensor:
        """How many deviations the mean of the first parameter lies above zero."""
        return means[..., 0] / self._roots[:, :1, 0]

    def _log_evidence(self, y: Tensor) -> Tensor:
        """Log density of y with each component, shape ``(components, batch)``."""
        variance = torch.diag(self.noise.square()) * self.scales[:, None, None] ** 2
        root = torch.linalg.cholesky(self.matrix @ self.matrix.T + variance)
        away = (y - self.offsets[:, None]).mT
        unit = torch.linalg.solve_triangular(root, away, upper=False).mT
        size = root.diagonal(dim1=-2, dim2=-1).log().sum(dim=-1)
        each = _log_normal(unit) - size[:, None] + self.weights.log()[:, None]
        if not self.folded:
            return each
        return each + math.log(2) + torch.special.log_ndtr(self._inside(self._means(y)))


def draw_simulator(
    family: str, rng: np.random.Generator, dims: tuple[int, int] = (1, 8)
) -> ExactSimulator:
    """Draw a simulator of a family.

    Args:
        family: One of ``FAMILIES``.
        rng: Source of chance.
        dims: Fewest and most columns of x.
    """
    dim_x = int(rng.integers(max(dims[0], 2 if family == "banana" else 1), dims[1] + 1))
    dim_theta = int(rng.integers(1, min(dim_x, 4) + 1))
    # Columns of a random orthogonal matrix: every parameter shows in x.
    square = np.linalg.qr(rng.standard_normal((dim_x, dim_x)))[0]
    size = rng.uniform(0.7, 1.5, dim_theta)
    noise = rng.uniform(0.2, 0.7, dim_x)
    weights, offsets, scales = np.ones(1), np.zeros((1, dim_x)), np.ones(1)
    known: dict[str, Any] = {}
    if family == "banana":
        known["bend"] = float(rng.uniform(0.3, 1.0))
    elif family == "stretched":
        known["stretched"] = True
    elif family == "moons":
        known["folded"] = True
    elif family == "clusters":
        away = rng.uniform(3.0, 5.0) * np.eye(dim_x)[0]
        weights, offsets, scales = np.full(2, 0.5), np.stack([away, -away]), np.ones(2)
    elif family == "heavy tails":
        weights, offsets = np.array([0.9, 0.1]), np.zeros((2, dim_x))
        scales = np.array([1.0, rng.uniform(3.0, 6.0)])
    parts = {
        "matrix": square[:, :dim_theta] * size,
        "noise": noise,
        "weights": weights,
        "offsets": offsets,
        "scales": scales,
    }
    known |= {name: torch.from_numpy(part) for name, part in parts.items()}
    return ExactSimulator(family, **known)


def _log_normal(unit: Tensor) -> Tensor:
    """Log density of standard normal vectors."""
    return -0.5 * (unit.square().sum(dim=-1) + unit.shape[-1] * LOG_TAU)


def _above(limit: Tensor) -> Tensor:
    """Draw standard normal numbers above limits."""
    chance = torch.rand(limit.shape, dtype=limit.dtype).clamp(min=1e-300)
    # By logarithms: far out the probability itself would be zero.
    log_share = chance.log() + torch.special.log_ndtr(-limit)
    return -torch.as_tensor(ndtri_exp(log_share.numpy()))
