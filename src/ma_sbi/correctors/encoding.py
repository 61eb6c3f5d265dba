"""Encoded contexts as a tensor, with what is missing marked."""

from __future__ import annotations

import torch
from torch import Tensor

from ma_sbi.context import Entries
from ma_sbi.protocols import Encoder
from ma_sbi.transforming import transform

__all__ = ["encode"]


def encode(encoder: Encoder, entries: Entries) -> Tensor:
    """Encode contexts; missing ones become rows of NaN."""
    return torch.from_numpy(transform(encoder, entries))
