"""Encoded contexts as a tensor, with what is missing marked."""

from __future__ import annotations

import numpy as np
import torch
from torch import Tensor

from ma_sbi.context import Entries, is_missing
from ma_sbi.display.text import shorten
from ma_sbi.protocols import Encoder

__all__ = ["encode"]


def encode(encoder: Encoder, entries: Entries) -> Tensor:
    """Encode contexts; missing ones become rows of NaN.

    Raises:
        ValueError: If the encoder gives NaN, or infinity, for one that is not missing.
    """
    encoding = encoder.transform(entries)
    if hasattr(encoding, "toarray"):
        encoding = encoding.toarray()
    values = torch.tensor(np.asarray(encoding), dtype=torch.float64)
    missing = torch.from_numpy(is_missing(entries)).reshape(len(entries), -1).all(dim=1)
    if getattr(encoder, "zero_is_missing", False):
        missing |= (values == 0).all(dim=1)
    failed = ~missing & ~values.isfinite().all(dim=1)
    # Numbers that stand for contexts have their vectors, of which some were missing.
    if failed.any() and not getattr(encoder, "by_number", False):
        first = int(failed.int().argmax())
        shown = shorten(repr(entries.iloc[first]))
        raise ValueError(
            "the encoder must give finite numbers for what is not missing; it does not for "
            f"{int(failed.sum())} of {len(failed)} different contexts (first: {shown})"
        )
    values[missing] = torch.nan
    return values
