"""Choosing a corrector: what calibration data say, and what they cannot rule out."""

from ma_sbi.choosing.chosen import ChosenCorrector
from ma_sbi.choosing.encodings import ENCODINGS
from ma_sbi.choosing.fit import fit_corrector
from ma_sbi.choosing.pairing import NotPaired
from ma_sbi.choosing.proposals import PROPOSALS, Proposal
from ma_sbi.choosing.why import Why

__all__ = [
    "ENCODINGS",
    "PROPOSALS",
    "ChosenCorrector",
    "NotPaired",
    "Proposal",
    "Why",
    "fit_corrector",
]
