"""Misspecification-aware simulation-based inference."""

from ma_sbi.correctors import ComposedCorrector, ShiftCorrector, decompose
from ma_sbi.encoders import (
    CategoryEncoder,
    HashEncoder,
    NumberEncoder,
    SentenceEncoder,
)

__all__ = [
    "CategoryEncoder",
    "ComposedCorrector",
    "HashEncoder",
    "NumberEncoder",
    "SentenceEncoder",
    "ShiftCorrector",
    "decompose",
]

__version__ = "0.1.0"
