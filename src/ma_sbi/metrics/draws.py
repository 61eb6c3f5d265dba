"""Checks of posterior draws that all metrics share."""

from __future__ import annotations

from typing import Any

import numpy as np
import torch
from torch import Tensor

from ma_sbi.validation import as_matrix

__all__ = ["as_draws", "with_truth"]


def as_draws(values: Any, name: str) -> Tensor:
    """Convert draws to a finite float32 tensor ``(num_samples, batch, dim)``.

    Args:
        values: Tensor, array or nested list.
        name: Its name in error messages.

    Raises:
        ValueError: If it has another number of axes or is not finite.

    Example:
        >>> as_draws([[[0.0, 1.0]], [[2.0, 3.0]]], "samples").shape
        torch.Size([2, 1, 2])
    """
    draws = values if isinstance(values, Tensor) else torch.as_tensor(np.array(values))
    if draws.ndim != 3 or draws.numel() == 0:
        raise ValueError(
            f"{name} must have shape (num_samples, batch, dim), none of them zero, "
            f"got {tuple(draws.shape)}"
        )
    return as_matrix(draws.flatten(0, 1), name).reshape(draws.shape)


def with_truth(samples: Any, theta: Any) -> tuple[Tensor, Tensor]:
    """Check draws ``(num_samples, batch, dim)`` and the true parameters ``(batch, dim)``.

    Raises:
        ValueError: If the shapes do not match or values are not finite.
    """
    draws = as_draws(samples, "samples")
    truth = as_matrix(theta, "theta", dim=draws.shape[2], device=draws.device)
    if len(truth) != draws.shape[1]:
        raise ValueError(
            "theta must have one row per observation in samples, expected "
            f"{draws.shape[1]}, got {len(truth)}"
        )
    return draws, truth
