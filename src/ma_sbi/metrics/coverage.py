"""The metrics of RoPE's authors: log probability of the truth, and its coverage."""

from __future__ import annotations

from typing import Any

from torch import Tensor

from ma_sbi.metrics.draws import with_truth
from ma_sbi.metrics.scores import log_score
from ma_sbi.protocols import Context

__all__ = ["acauc", "lpp"]


def lpp(posterior: Any, theta: Any, x: Any, *, context: Context | None = None) -> float:
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


def acauc(samples: Any, theta: Any) -> Tensor:
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
