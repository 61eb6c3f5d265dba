"""Features of contexts that means may depend on."""

from __future__ import annotations

import numpy as np
import pandas as pd
import torch
from torch import Tensor

from ma_sbi.context import Entries, distinct, in_days, is_missing

__all__ = ["basis_of", "describe", "frequent"]

# Contexts that have a mean of their own, the most frequent ones, and their fewest rows.
MOST_MEANS, FEWEST_OF_MEAN = 20, 3


def describe(entries: Entries) -> Tensor:
    """Describe contexts by features that means may depend on, shape ``(n, num)``.

    A column of many numbers is described by them and their squares, any other by which
    of its most frequent entries each is.
    """
    parts = []
    for _, column in pd.DataFrame(entries).items():
        uniques, codes = distinct(column.reset_index(drop=True))
        numbers = in_days(column).where(~is_missing(column), np.nan).infer_objects()
        if pd.api.types.is_numeric_dtype(numbers) and len(uniques) > MOST_MEANS:
            values = torch.from_numpy(numbers.to_numpy(np.float64, copy=True))
            values = values.nan_to_num(nan=values.nanmean().item())
            values = (values - values.mean()) / values.std().clamp(min=1e-300)
            parts.append(torch.stack([values, values.square()], dim=1))
        else:
            parts.append(frequent(torch.from_numpy(codes)))
    return torch.cat(parts, dim=1)


def frequent(codes: Tensor) -> Tensor:
    """Tell which of the most frequent contexts each is, one column for each of them."""
    count = codes.bincount()
    most = count.argsort(descending=True, stable=True)[:MOST_MEANS]
    most = most[count[most] >= FEWEST_OF_MEAN]
    return (codes[:, None] == most).double().cpu()


def basis_of(features: Tensor, *, constant: bool) -> Tensor:
    """Return orthonormal columns that span centred features, and a constant if wanted."""
    features = features.double().cpu()
    design, num = features - features.mean(dim=0), len(features)
    if constant:
        design = torch.cat([torch.ones(num, 1, dtype=torch.float64), design], dim=1)
    basis, size, _ = torch.linalg.svd(design, full_matrices=False)
    return basis[:, size > 1e-6 * num**0.5]
