"""Observations that sbibm publishes with its tasks, on which the paper judges."""

from __future__ import annotations

import numpy as np
import torch
from torch import Tensor

from ma_sbi_bench.real.source import missing_file, tidy_file

__all__ = ["NUM_PUBLISHED", "published_draws", "why_not_published"]

NUM_PUBLISHED = 3
"""The paper takes the first three of ten."""


def published_draws(task: str) -> tuple[Tensor, Tensor]:
    """Read parameters ``(3, dim_theta)`` and observations ``(3, dim_x)`` of a task.

    Raises:
        FileNotFoundError: If sbibm's file is not there.
    """
    with np.load(tidy_file(_file(task))) as arrays:
        theta, x = (
            torch.from_numpy(arrays[name][:NUM_PUBLISHED]).float()
            for name in ("true_parameters", "observation")
        )
    return theta, x


def why_not_published(task: str) -> str:
    """Say why they cannot be read; empty if they can."""
    return missing_file(_file(task))


def _file(task: str) -> str:
    return f"sbibm/{task}.npz"
