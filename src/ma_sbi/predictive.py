"""What a posterior predicts of the observation it was given."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import torch
from torch import Tensor

from ma_sbi.protocols import AmortizedPosterior
from ma_sbi.validation import as_count, as_matrix

__all__ = ["predictive_mean"]


def predictive_mean(
    posterior: AmortizedPosterior,
    mean: Callable[[Tensor], Tensor],
    x: Any,
    *,
    num_samples: int = 500,
    seed: int | None = None,
) -> Tensor:
    r"""Predict each observation from its own posterior.

    .. math:: \hat x_i = E_{\theta \sim \hat q(\theta \mid x_i)}[\bar f(\theta)]

    The residual :math:`x_i - \hat x_i` is what the simulator cannot explain of an
    observation, the paper's :math:`\delta^{boot}_i`. It stands for the departure where
    nothing was simulated at the inputs of the observation: pass :math:`\hat x_i` as
    ``x_sim`` to a corrector. What the posterior does explain by a wrong theta is not in it.

    Args:
        posterior: The trained posterior.
        mean: The simulator's mean, theta ``(n, dim_theta)`` to ``(n, dim_x)``.
        x: Observations, shape ``(batch, dim_x)``.
        num_samples: Draws that the expectation is taken over.
        seed: Makes the draws repeatable.

    Returns:
        Predicted observations, shape ``(batch, dim_x)``.

    Raises:
        ValueError: If ``mean`` does not return one row of x for each theta.
    """
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
