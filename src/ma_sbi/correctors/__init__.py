"""Correctors: how reality departs from the simulator, given the context."""

from ma_sbi.correctors.composed import BaseCorrector, ComposedCorrector, FittedCorrector
from ma_sbi.correctors.decomposition import (
    ConditionalCorrector,
    Decomposition,
    MarginalCorrector,
    decompose,
)
from ma_sbi.correctors.departures import Affine, Departure, Shift
from ma_sbi.correctors.fitting import Fitted, Fitting, Hypotheses, Triples
from ma_sbi.correctors.inference import Evidence, Inference, Mixture, Point
from ma_sbi.correctors.network import Network
from ma_sbi.correctors.ridge import Ridge
from ma_sbi.correctors.shift import ShiftCorrector

__all__ = [
    "Affine",
    "BaseCorrector",
    "ComposedCorrector",
    "ConditionalCorrector",
    "Decomposition",
    "Departure",
    "Evidence",
    "FittedCorrector",
    "Fitted",
    "Fitting",
    "Hypotheses",
    "Inference",
    "MarginalCorrector",
    "Mixture",
    "Network",
    "Point",
    "Ridge",
    "Shift",
    "ShiftCorrector",
    "Triples",
    "decompose",
]
