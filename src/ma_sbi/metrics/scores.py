"""Scores against the parameters that produced the observations."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import torch
from torch import Tensor

from ma_sbi.metrics.draws import as_draws, with_truth
from ma_sbi.protocols import ArrayLike, Context
from ma_sbi.validation import as_matrix

__all__ = ["excess_error", "log_score", "posterior_mean_error"]


@torch.no_grad()
def log_score(
    posterior: Any, theta: ArrayLike, x: ArrayLike, *, context: Context | None = None
) -> Tensor:
    r"""Evaluate the log density of the true parameters, higher is better.

    .. math:: \log q(\theta^*_b \mid x_b)

    A proper score: on average only the exact posterior attains the maximum. C2ST is
    not proper, and may rank a narrow wrong posterior above a wide correct one.

    Args:
        posterior: Has ``log_prob(theta, x)``, or ``log_prob(theta, x, context)``.
        theta: True parameters, shape ``(batch, dim_theta)``.
        x: Observations they produced, shape ``(batch, dim_x)``.
        context: One entry per observation; passed on only if given.

    Returns:
        One value per observation, shape ``(batch,)``; minus infinity where the true
        parameters lie outside the posterior's support.

    Raises:
        TypeError: If the posterior has no ``log_prob``.
        ValueError: If theta and x are not paired, or ``log_prob`` does not return
            shape ``(1, batch)``.

    Example:
        >>> class Normal:
        ...     def log_prob(self, theta, x):
        ...         return torch.distributions.Normal(x, 1.0).log_prob(theta).sum(-1)
        >>> log_score(Normal(), theta=[[0.0], [1.0]], x=[[0.0], [0.0]])
        tensor([-0.9189, -1.4189])
    """
    log_prob = getattr(posterior, "log_prob", None)
    if not callable(log_prob):
        raise TypeError(
            "posterior must have a log_prob method to be scored, got "
            f"{type(posterior).__name__}"
        )
    theta, x = as_matrix(theta, "theta"), as_matrix(x, "x")
    if len(theta) != len(x):
        raise ValueError(
            "theta and x must have one row per observation each, got "
            f"{len(theta)} and {len(x)} rows"
        )
    arguments = (x,) if context is None else (x, context)
    log_density = log_prob(theta[None], *arguments)
    if log_density.shape != (1, len(x)):
        raise ValueError(
            f"log_prob must return shape (1, {len(x)}) for theta of shape "
            f"(1, {len(x)}, {theta.shape[1]}), got {tuple(log_density.shape)}"
        )
    return log_density[0]


def posterior_mean_error(
    samples: ArrayLike,
    theta: ArrayLike,
    *,
    transform: Callable[[Tensor], Tensor] | None = None,
) -> Tensor:
    """Average the squared error of the posterior mean over the dimensions of theta.

    Args:
        samples: Posterior draws, shape ``(num_samples, batch, dim_theta)``.
        theta: True parameters, shape ``(batch, dim_theta)``.
        transform: Applied to draws and parameters before the mean is taken, such as
            ``torch.log`` for rates; None for no transform.

    Returns:
        One value per observation, shape ``(batch,)``; their mean is the
        posterior-mean MSE.

    Raises:
        ValueError: If the shapes do not match or values are not finite, before or after
            the transform.

    Example:
        >>> posterior_mean_error([[[0.0, 1.0]], [[2.0, 3.0]]], theta=[[0.0, 2.0]])
        tensor([0.5000])
    """
    draws, truth = with_truth(samples, theta)
    if transform is not None:
        draws = as_draws(transform(draws), "transformed samples")
        truth = as_matrix(transform(truth), "transformed theta", dim=draws.shape[2])
    return (draws.mean(dim=0) - truth).square().mean(dim=1)


def excess_error(
    samples: ArrayLike,
    exact: ArrayLike,
    theta: ArrayLike,
    *,
    transform: Callable[[Tensor], Tensor] | None = None,
) -> Tensor:
    """Return the error of the posterior mean, less that of the exact posterior.

    No function of the data has a smaller mean squared error than the mean of their exact
    posterior, so the average excess is zero at best. A single value may be negative, and
    so may be the average for a method with more data, such as an oracle.

    Args:
        samples: Posterior draws of a method, shape ``(num_samples, batch, dim_theta)``.
        exact: Draws from the exact posterior given the same data, shape
            ``(num_exact, batch, dim_theta)``.
        theta: True parameters, shape ``(batch, dim_theta)``.
        transform: Applied to draws and parameters first, such as ``torch.log``.

    Returns:
        One value per observation, shape ``(batch,)``.

    Example:
        >>> excess_error([[[1.0]], [[3.0]]], exact=[[[0.5]], [[1.5]]], theta=[[0.0]])
        tensor([3.])
    """
    error = posterior_mean_error(samples, theta, transform=transform)
    least = posterior_mean_error(exact, theta, transform=transform)
    return error - least.to(error.device)
