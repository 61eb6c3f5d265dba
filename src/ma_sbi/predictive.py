"""What a posterior predicts for the observation that it is given."""

from __future__ import annotations

from collections.abc import Callable

import torch
from torch import Tensor

from ma_sbi.protocols import AmortizedPosterior, ArrayLike, check_posterior
from ma_sbi.validation import as_count, as_matrix

__all__ = ["predictive_mean"]


def predictive_mean(
    posterior: AmortizedPosterior,
    mean: Callable[[Tensor], Tensor],
    x: ArrayLike,
    *,
    num_samples: int = 500,
    seed: int | None = None,
) -> Tensor:
    r"""Predict each observation from its own posterior.

    .. math:: \hat x_i = E_{\theta \sim \hat q(\theta \mid x_i)}[\bar f(\theta)]

    The residual :math:`x_i - \hat x_i`, the paper's :math:`\delta^{boot}_i`, is the part of
    an observation that the simulator cannot explain. Where there is no simulation at the
    inputs of the observation, it takes the place of the departure: pass :math:`\hat x_i`
    as ``x_sim`` to a corrector. It does not contain what a wrong theta explains.

    Args:
        posterior: The trained posterior.
        mean: The simulator's mean, theta ``(n, dim_theta)`` to ``(n, dim_x)``.
        x: Observations, shape ``(batch, dim_x)``.
        num_samples: Draws per observation to average over.
        seed: Makes the draws repeatable.

    Returns:
        Predicted observations, shape ``(batch, dim_x)``.

    Raises:
        ValueError: If ``mean`` does not return one row of x for each theta.
    """
    check_posterior(posterior)
    if not callable(mean):
        raise ValueError(
            "mean must be a function of theta, the simulator's mean, got a "
            f"{type(mean).__name__}"
        )
    x = as_matrix(x, "x", dim=getattr(posterior, "dim_x", None))
    draws = posterior.sample(as_count(num_samples, "num_samples"), x, seed=seed)
    predicted = torch.as_tensor(mean(draws.flatten(0, 1)))
    expected = (draws.shape[0] * draws.shape[1], x.shape[1])
    if predicted.shape != expected:
        raise ValueError(
            f"mean must map theta of shape ({expected[0]}, {draws.shape[2]}) to "
            f"{expected}, got {tuple(predicted.shape)}"
        )
    return predicted.to(x).unflatten(0, draws.shape[:2]).mean(dim=0)
