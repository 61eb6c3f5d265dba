"""Encoded contexts as a tensor, with what is missing marked."""

from __future__ import annotations

import numpy as np
import torch
from torch import Tensor

from ma_sbi.context import Entries, is_missing
from ma_sbi.protocols import Encoder

__all__ = ["encode"]


def encode(encoder: Encoder, entries: Entries) -> Tensor:
    """Encode contexts; missing ones become rows of NaN."""
    encoding = encoder.transform(entries)
    if hasattr(encoding, "toarray"):
        encoding = encoding.toarray()
    values = torch.tensor(np.asarray(encoding), dtype=torch.float64)
    missing = torch.from_numpy(is_missing(entries)).reshape(len(entries), -1).all(dim=1)
    if getattr(encoder, "zero_is_missing", False):
        missing |= (values == 0).all(dim=1)
    values[missing] = torch.nan
    return values
