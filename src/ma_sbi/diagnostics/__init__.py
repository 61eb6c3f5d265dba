"""Diagnostics: what the context explains, what it must not depend on, what to trust."""

from ma_sbi.diagnostics.columns import departures
from ma_sbi.diagnostics.coverage import Coverage, CoveredShare, coverage
from ma_sbi.diagnostics.departure_family import DepartureFamily, departure_family
from ma_sbi.diagnostics.dependence import Dependence, dependence_test
from ma_sbi.diagnostics.diagnostic import Diagnostic, Skipped
from ma_sbi.diagnostics.exclusion import Exclusion, exclusion_test, held_out_r2
from ma_sbi.diagnostics.held_out import Gain, HeldOut, hold_out
from ma_sbi.diagnostics.information import Information, mutual_information
from ma_sbi.diagnostics.out_of_distribution import (
    Likeness,
    OutOfDistribution,
    out_of_distribution,
)
from ma_sbi.diagnostics.predictive_check import PredictiveCheck, predictive_check
from ma_sbi.diagnostics.three_way import GapByPart, ThreeWay, three_way
from ma_sbi.diagnostics.thresholds import THRESHOLDS, Thresholds
from ma_sbi.diagnostics.weak_context import WeakContext, weak_context
from ma_sbi.reading import ContextReading, encoder_for, read_context

__all__ = [
    "THRESHOLDS",
    "ContextReading",
    "Coverage",
    "CoveredShare",
    "DepartureFamily",
    "Dependence",
    "Diagnostic",
    "Exclusion",
    "Gain",
    "GapByPart",
    "HeldOut",
    "Information",
    "Likeness",
    "OutOfDistribution",
    "PredictiveCheck",
    "Skipped",
    "ThreeWay",
    "Thresholds",
    "WeakContext",
    "coverage",
    "departure_family",
    "departures",
    "dependence_test",
    "encoder_for",
    "exclusion_test",
    "held_out_r2",
    "hold_out",
    "mutual_information",
    "out_of_distribution",
    "predictive_check",
    "read_context",
    "three_way",
    "weak_context",
]
