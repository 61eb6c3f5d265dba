"""How often posteriors cover the truth, and the two metrics of RoPE's authors."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

import torch
from torch import Tensor

from ma_sbi.metrics.draws import with_truth
from ma_sbi.metrics.scores import log_score
from ma_sbi.protocols import ArrayLike, Context

__all__ = ["acauc", "lpp", "region_coverage"]

# Share of their variance by which draws are blurred: fewer draws than parameters, or
# parameters that determine each other, would leave no ellipsoid.
BLUR = 1e-9


def lpp(
    posterior: Any, theta: ArrayLike, x: ArrayLike, *, context: Context | None = None
) -> float:
    r"""Average the log posterior probability of the true parameters (LPP).

    .. math:: \mathrm{LPP} = \frac 1 n \sum_i \log q(\theta^*_i \mid x_i)

    Higher is better. One value per observation, for intervals and paired tests, comes
    from :func:`log_score`.

    Args:
        posterior: Has ``log_prob(theta, x)``, or ``log_prob(theta, x, context)``.
        theta: True parameters, shape ``(batch, dim_theta)``.
        x: Observations they produced, shape ``(batch, dim_x)``.
        context: One entry per observation; passed on only if given.

    Returns:
        The average; minus infinity if any true parameter has density zero.
    """
    return log_score(posterior, theta, x, context=context).mean().item()


def acauc(samples: ArrayLike, theta: ArrayLike) -> Tensor:
    r"""Measure how far central credible intervals are from covering as often as they say.

    The average area between the diagonal and the coverage curve (ACAUC):

    .. math:: \mathrm{ACAUC} = \frac{1}{n d} \sum_{i, j} \int_0^1
        \alpha - 1[\theta^*_{ij} \in \mathrm{CI}_\alpha(i, j)] \, d\alpha

    The truth lies in the interval of level :math:`\alpha` if
    :math:`|2 u - 1| \le \alpha`, where u is the share of draws below it, so the integral
    is :math:`|2 u - 1| - 1/2` and no grid of levels is needed. Zero for calibrated
    intervals, positive for overconfident ones (0.5 if they never cover), negative for
    intervals that are too wide (-0.5 if they always cover). The prior scores zero as well:
    look also at sharpness. With S draws a calibrated posterior scores
    :math:`1 / (2 S + 2)` too high.

    Args:
        samples: Posterior draws, shape ``(num_samples, batch, dim_theta)``.
        theta: True parameters, shape ``(batch, dim_theta)``.

    Returns:
        One value per observation, averaged over parameters, shape ``(batch,)``; their
        mean is the ACAUC.

    Raises:
        ValueError: If the shapes do not match or values are not finite.

    Example:
        >>> import torch
        >>> acauc(torch.zeros(10, 2, 1), theta=[[1.0], [0.0]])
        tensor([ 0.5000, -0.5000])
    """
    draws, truth = with_truth(samples, theta)
    below = (draws < truth).float().mean(dim=0) + (draws == truth).float().mean(dim=0) / 2
    return (2 * below - 1).abs().mean(dim=1) - 0.5


def region_coverage(
    samples: ArrayLike, theta: ArrayLike, levels: Sequence[float]
) -> Tensor:
    r"""Tell how often joint regions of all parameters hold the truth.

    The region of an observation is an ellipsoid,
    :math:`(\theta - m)^\top C^{-1} (\theta - m) \le r`, with mean m and covariance C of
    half of the draws. The other half decides its size: r is such that the ellipsoid holds
    the share of them that the level says. So its level is right whatever the shape of the
    posterior. The halves take turns, and results are averaged.

    Intervals of single parameters can all be right where joint regions are not: a posterior
    may have each spread right, and know nothing of how parameters go together.

    Args:
        samples: Posterior draws, shape ``(num_samples, batch, dim_theta)``; independent,
            and far more than there are parameters.
        theta: True parameters, shape ``(batch, dim_theta)``.
        levels: Probabilities of the regions.

    Returns:
        The share of observations whose region holds the truth, one for each level.

    Raises:
        ValueError: If the shapes do not match, values are not finite, or there are fewer
            than four draws.

    Example:
        >>> import torch
        >>> line = torch.linspace(-1, 1, 1000)[torch.randperm(1000)]
        >>> region_coverage(line[:, None, None].repeat(1, 2, 1), [[0.7], [9.0]], [0.5, 0.9])
        tensor([0.0000, 0.5000])
    """
    draws, truth = with_truth(samples, theta)
    if len(draws) < 4:
        raise ValueError(f"regions need at least 4 draws, got {len(draws)}")
    one, other = draws.double().tensor_split(2)
    truth = truth.double()
    nearer = torch.cat([_share_nearer(one, other, truth), _share_nearer(other, one, truth)])
    return torch.stack([(nearer <= level).float().mean() for level in levels])


def _share_nearer(shape: Tensor, size: Tensor, theta: Tensor) -> Tensor:
    """Return the share of draws that are nearer to the centre of others than the truth.

    Args:
        shape: Draws that tell centre and covariance, shape ``(num, batch, dim)``.
        size: Draws whose distances are compared with that of the truth.
        theta: The truth, shape ``(batch, dim)``.
    """
    centre = shape.mean(dim=0)
    # In units of each parameter's spread, so that rounding is the same for all.
    spread = shape.std(dim=0).clamp(min=torch.finfo(shape.dtype).tiny ** 0.5)
    shape, size, theta = ((part - centre) / spread for part in (shape, size, theta))
    covariance = torch.einsum("nbi,nbj->bij", shape, shape) / (len(shape) - 1)
    covariance += BLUR * torch.eye(covariance.shape[-1]).to(covariance)
    factor = torch.linalg.cholesky(covariance)
    points = torch.cat([size, theta[None]]).permute(1, 2, 0)
    distance = torch.linalg.solve_triangular(factor, points, upper=False)
    distance = distance.square().sum(dim=1)
    rank = (distance[:, :-1] < distance[:, -1:]).sum(dim=1)
    # The truth is one more of these draws if all is right: in the middle of its share.
    return (rank + 0.5) / (len(size) + 1)
