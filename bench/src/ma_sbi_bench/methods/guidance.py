"""Diffusion posteriors whose reverse process is guided, towards a prior or a context."""

from __future__ import annotations

from dataclasses import dataclass
from pathlib import Path
from typing import Literal

import torch
from torch import Tensor

from ma_sbi.posteriors.diffusion import DiffusionPosterior, standard_normal

__all__ = ["ContextGuided", "GuidedDiffusion", "PriorGuided", "RatioMixture", "Spread"]

Spread = Literal["unit", "jacobian"]
"""What stands for the covariance of the denoised theta; see :class:`PriorGuided`."""


class GuidedDiffusion(DiffusionPosterior):
    """A diffusion posterior that shares the network of another, and guides it."""

    def __init__(self, base: DiffusionPosterior) -> None:
        assert base.prior is not None  # noqa: S101 (every diffusion model knows both)
        assert base.training_range is not None  # noqa: S101
        super().__init__(
            base.network,
            base.signal,
            prior=base.prior,
            to_real=base.to_real,
            training_range=base.training_range,
        )
        self.sampler, self.steps = base.sampler, base.steps

    @property
    def has_density(self) -> bool:
        """Whether ``log_prob`` can be evaluated: the draws follow no known density."""
        return False

    def save(self, path: str | Path) -> None:
        """Refuse: the file could not hold the guidance."""
        raise ValueError("a guided posterior cannot be saved: save the one it guides")


class ContextGuided(GuidedDiffusion):
    r"""A diffusion model of theta given x and a code, pushed away from x alone.

    .. math:: \varepsilon = (1 + \lambda)\, \varepsilon_\phi(\theta_t, t, x, z)
        - \lambda\, \varepsilon_\phi(\theta_t, t, x, 0)

    The guided score is that of :math:`p_t(\theta_t|x,z)^{1+\lambda} /
    p_t(\theta_t|x)^\lambda` at each step, but no diffusion of one distribution has these
    marginals: for :math:`\lambda \notin \{-1, 0\}` the draws follow no posterior.

    Args:
        base: Trained on conditions ``[x, code]``, where a zero code means no context.
        dim_code: Number of columns of the code.
        strength: The :math:`\lambda`; 0 is the model given the context, -1 without it.
    """

    def __init__(self, base: DiffusionPosterior, dim_code: int, strength: float) -> None:
        super().__init__(base)
        self.dim_code = dim_code
        self.strength = strength

    @property
    def has_density(self) -> bool:
        """Whether ``log_prob`` can be evaluated: at the strengths without guidance."""
        return self.strength in (-1, 0)

    def _clean(self, theta: Tensor, step: int, condition: Tensor) -> Tensor:
        # The prediction of the undisturbed theta is linear in that of the noise.
        with_code = super()._clean(theta, step, condition)
        if self.strength == 0:
            return with_code
        without_code = super()._clean(theta, step, self._without_code(condition))
        return (1 + self.strength) * with_code - self.strength * without_code

    def _without_code(self, condition: Tensor) -> Tensor:
        """Put the image of a zero code into standardised conditions ``(n, dim)``."""
        nothing = self.network.x_scale(torch.zeros_like(condition[:1]))
        code = nothing[:, -self.dim_code :].expand(len(condition), -1)
        return torch.cat([condition[:, : -self.dim_code], code], dim=1)


@dataclass(frozen=True)
class RatioMixture:
    r"""A ratio of two priors as a mixture of Gaussians, up to a constant.

    .. math:: r(\theta) = \sum_k w_k\, N(\theta; \mu_k, \operatorname{diag} \Sigma_k)

    Attributes:
        log_weight: Shape ``(K,)``.
        mean: Shape ``(K, dim_theta)``.
        variance: Shape ``(K, dim_theta)``.
    """

    log_weight: Tensor
    mean: Tensor
    variance: Tensor

    def log_value(self, theta: Tensor) -> Tensor:
        """Evaluate log r at theta ``(n, dim_theta)``; gives ``(n,)``."""
        # Expanded, so that no array of shape (n, K, dim_theta) is made.
        precision = 1 / self.variance
        scaled = self.mean * precision
        distance = theta.square() @ precision.T - 2 * theta @ scaled.T
        constant = (self.mean * scaled + self.variance.log()).sum(dim=-1)
        each = self.log_weight - 0.5 * (distance + constant)
        return each.logsumexp(dim=-1)

    def pull(self, center: Tensor, covariance: Tensor) -> Tensor:
        r"""Differentiate the log of r averaged over a Gaussian, by its center.

        .. math:: \sum_k \tilde w_k S_k^{-1} (\mu_k - m), \qquad S_k = \Sigma_k + C,
            \quad \tilde w_k \propto w_k N(\mu_k; m, S_k)

        Args:
            center: The m, shape ``(n, dim_theta)``.
            covariance: The C: ``(n, dim_theta, dim_theta)``, or ``(1, dim_theta)`` for a
                diagonal that all rows share.

        Returns:
            Shape ``(n, dim_theta)``.
        """
        offset = self.mean - center[:, None]
        if covariance.ndim == 2:
            total = self.variance + covariance
            solved, log_det = offset / total, total.log().sum(dim=-1)
        else:
            factor = torch.linalg.cholesky(self.variance.diag_embed() + covariance[:, None])
            solved = torch.cholesky_solve(offset[..., None], factor)[..., 0]
            log_det = 2 * factor.diagonal(dim1=-2, dim2=-1).log().sum(dim=-1)
        each = self.log_weight - 0.5 * ((offset * solved).sum(dim=-1) + log_det)
        return (each.softmax(dim=1)[..., None] * solved).sum(dim=1)


class PriorGuided(GuidedDiffusion):
    r"""A diffusion posterior under another prior, without training (PriorGuide).

    .. math:: \nabla \log q_t(\theta_t \mid x) = \nabla \log p_t(\theta_t \mid x)
        + \nabla_{\theta_t} \log E[r(\theta_0) \mid \theta_t, x], \qquad
        \theta_0 \mid \theta_t, x \approx N(\mu_0(\theta_t), \Sigma_0)

    The ratio r of the priors acts on theta as the network sees it: standardised, on the
    real line. The guidance is :math:`J^\top v` with :math:`J = \partial\mu_0 /
    \partial\theta_t` and v the mixture's :meth:`~RatioMixture.pull`.

    Args:
        base: The diffusion posterior under the training prior.
        ratio: New prior over training prior.
        lower: Smallest denoised theta that makes sense, shape ``(dim_theta,)``: early
            predictions, from nearly pure noise, are cut to it.
        upper: Largest.
        spread: ``"unit"``: :math:`\Sigma_0 = (1 - \bar\alpha_t) I`, the paper's, exact
            for a posterior of unit variance, too wide for a narrower one.
            ``"jacobian"``: :math:`\Sigma_0 = (1 - \bar\alpha_t) J /
            \sqrt{\bar\alpha_t}`, Tweedie's formula, exact for every Gaussian; costs
            one derivative per dimension of theta instead of one.
        num_langevin: Langevin steps after each reverse step.
        langevin_step: Their length in units of a quarter of the step's noise variance;
            the paper's :math:`\eta`.
    """

    # Derivatives keep every layer of every row in memory.
    max_rows = 50_000

    def __init__(
        self,
        base: DiffusionPosterior,
        ratio: RatioMixture,
        *,
        lower: Tensor,
        upper: Tensor,
        spread: Spread = "unit",
        num_langevin: int = 0,
        langevin_step: float = 0.5,
    ) -> None:
        super().__init__(base)
        self.ratio = ratio
        self.lower = lower
        self.upper = upper
        self.spread = spread
        self.num_langevin = num_langevin
        self.langevin_step = langevin_step

    def _clean(self, theta: Tensor, step: int, condition: Tensor) -> Tensor:
        left = self.signal[step]
        with torch.enable_grad():
            noisy = theta.detach().requires_grad_()
            clean = super()._clean(noisy, step, condition)
            center = clean.clamp(self.lower, self.upper)
            move = self._unit if self.spread == "unit" else self._jacobian
            shift = move(noisy, center, left)
        return (center.detach() + shift).clamp(self.lower, self.upper)

    def _unit(self, noisy: Tensor, center: Tensor, left: Tensor) -> Tensor:
        pull = self.ratio.pull(center.detach(), (1 - left).expand(1, center.shape[1]))
        (guidance,) = torch.autograd.grad(center, noisy, pull)
        return (1 - left) / left.sqrt() * guidance

    def _jacobian(self, noisy: Tensor, center: Tensor, left: Tensor) -> Tensor:
        rows = [
            torch.autograd.grad(column.sum(), noisy, retain_graph=True)[0]
            for column in center.unbind(dim=1)
        ]
        covariance = (1 - left) / left.sqrt() * torch.stack(rows, dim=1)
        # The network's is not exactly a covariance; no posterior is wider than the prior.
        values, vectors = torch.linalg.eigh((covariance + covariance.mT) / 2)
        values = values.clamp(0.0, 1.0)
        covariance = vectors * values[:, None] @ vectors.mT
        pull = self.ratio.pull(center.detach(), covariance)
        return (covariance @ pull[..., None])[..., 0]

    def _adjust(
        self,
        theta: Tensor,
        step: int,
        following: int,
        condition: Tensor,
        rng: torch.Generator | None,
    ) -> Tensor:
        """Take Langevin steps, which correct errors of the reverse step."""
        left = self.signal[following]
        length = self.langevin_step * (1 - self.signal[step] / left) / 4
        for _ in range(self.num_langevin):
            clean = self._clean(theta, following, condition)
            score = (left.sqrt() * clean - theta) / (1 - left)
            noise = (2 * length).sqrt() * standard_normal(theta, rng)
            theta = theta + length * score + noise
        return theta
