"""Networks learn theta on the real line; draws come back inside the prior's support.

sbi rejects draws outside the prior until enough are inside, which may never end for a
shifted observation. Here nothing is rejected: theta is mapped by the bijection of the
prior's support (a logit for a box), learned on the real line, and mapped back.
"""

from __future__ import annotations

import copy
from collections.abc import Callable
from dataclasses import dataclass
from typing import Any

import torch
from sbi.utils.sbiutils import mcmc_transform
from sbi.utils.user_input_checks import process_prior
from sbi.utils.user_input_checks_utils import move_distribution_to_device
from torch import Tensor
from torch.distributions import Distribution, Transform

from ma_sbi.display.text import shorten
from ma_sbi.posteriors.support import within_support
from ma_sbi.posteriors.training_range import TrainingRange
from ma_sbi.randomness import seeded
from ma_sbi.validation import as_matrix, check_precision

__all__ = [
    "Simulations",
    "check_simulations",
    "check_theta",
    "default_device",
    "density_at",
    "off_the_edge",
    "on_real_line",
]


@dataclass(frozen=True)
class Simulations:
    """A checked training set.

    Attributes:
        prior: The prior, on the training device.
        to_real: Bijection from the prior's support to the real line.
        real_theta: Parameters on the real line, shape ``(n, dim_theta)``.
        x: Simulations, shape ``(n, dim_x)``.
        training_range: Range of the simulations.
    """

    prior: Distribution
    to_real: Transform
    real_theta: Tensor
    x: Tensor
    training_range: TrainingRange


def default_device(device: torch.device | str | None) -> torch.device:
    """Return the given device, or torch's default device if None."""
    try:
        return torch.get_default_device() if device is None else torch.device(device)
    except RuntimeError as error:
        raise ValueError(
            f"device must be one that torch knows, such as 'cpu' or 'cuda', got {device!r}"
        ) from error


def on_real_line(
    prior: Any, device: torch.device | str | None
) -> tuple[Distribution, Transform]:
    """Copy the prior to the device, and build the bijection from its support."""
    device = default_device(device)
    parts = prior if isinstance(prior, (list, tuple)) else [prior]
    if not all(hasattr(part, "sample") and hasattr(part, "log_prob") for part in parts):
        raise ValueError(
            "prior must be a torch distribution, or a list of them, one per parameter; "
            f"got {shorten(repr(prior))}"
        )
    # sbi tests the prior by sampling it; the caller's generator must not change.
    with seeded(0):
        try:
            # A copy: the user's own prior stays on its device.
            prior = copy.deepcopy(process_prior(prior)[0])
            if device.type != "cpu":
                prior = move_distribution_to_device(prior, device)
            return prior, mcmc_transform(prior, device=device)
        except (AssertionError, AttributeError, NotImplementedError) as error:
            raise ValueError(
                "the prior must have a support that can be mapped to the real line, such "
                f"as BoxUniform's or MultivariateNormal's: {error}"
            ) from error


def _single(values: Any, name: str, **options: Any) -> Tensor:
    """Convert to single precision what it can hold."""
    if not (isinstance(values, Tensor) and values.dtype == torch.float32):
        exact = as_matrix(values, name, dtype=torch.float64, **options | {"device": "cpu"})
        check_precision(**{name: exact})
    return as_matrix(values, name, **options)


def check_simulations(
    prior: Any, theta: Any, x: Any, device: torch.device | str | None
) -> Simulations:
    """Check a training set before anything is trained on it.

    Raises:
        ValueError: If theta and x are not finite matrices of equal length, or theta lies
            outside the prior.
    """
    device = default_device(device)
    prior, to_real = on_real_line(prior, device)
    theta = _single(theta, "theta", dim=prior.event_shape[0], device=device)
    x = _single(x, "x", device=device, column=True)
    if len(theta) != len(x):
        raise ValueError(
            f"theta and x must be paired row by row, got {len(theta)} and {len(x)} rows"
        )
    if len(theta) < 20:
        raise ValueError(
            f"training needs at least 20 pairs of theta and x, got {len(theta)}"
        )
    check_theta(prior, theta)
    real_theta = off_the_edge(to_real(theta))
    return Simulations(prior, to_real, real_theta, x, TrainingRange.of(x))


def check_theta(prior: Distribution, theta: Tensor, name: str = "theta") -> None:
    """Check that parameters lie inside the prior's support.

    Raises:
        ValueError: If any row of theta ``(n, dim_theta)`` lies outside its support.
    """
    inside = within_support(prior, theta)
    if not inside.all():
        rows = (~inside).nonzero().flatten().tolist()
        raise ValueError(
            f"{len(rows)} of {len(theta)} {name} (first: row {rows[0]}) lie outside the "
            "prior's support: pass the prior that they were drawn from"
        )


def density_at(
    prior: Distribution,
    to_real: Transform,
    theta: Tensor,
    real_log_prob: Callable[[Tensor], Tensor],
) -> Tensor:
    """Turn a density on the real line into one on the prior's support.

    Args:
        prior: The prior; outside its support the log density is minus infinity.
        to_real: Bijection from its support to the real line.
        theta: Parameters, shape ``(..., dim_theta)``.
        real_log_prob: Gives log densities ``(...)`` of theta on the real line.

    Returns:
        Log densities, shape ``(...)``.
    """
    inside = within_support(prior, theta)
    # The bijection is undefined outside; replace such theta by any point inside.
    inner = to_real.inv(torch.zeros_like(theta))
    safe = torch.where(inside[..., None], theta, inner)
    real_theta = to_real(safe)
    log_abs_det = to_real.log_abs_det_jacobian(safe, real_theta)
    return (real_log_prob(real_theta) + log_abs_det).masked_fill(~inside, -torch.inf)


def off_the_edge(real_theta: Tensor) -> Tensor:
    """Bring back theta that lies exactly on a bound of the prior.

    In float32 one uniform draw in ten million equals a bound. Its image on the real line
    is infinite, or nearly so, and would ruin the standardisation.
    """
    far = ~(real_theta.abs() < 80.0)
    inner = real_theta.masked_fill(far, 0.0)
    nearest = torch.where(real_theta < 0, inner.amin(dim=0), inner.amax(dim=0))
    return torch.where(far, nearest, real_theta)
