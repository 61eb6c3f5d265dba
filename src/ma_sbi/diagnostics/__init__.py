"""Whether to trust it: what the context tells, what it must not tell."""

from ma_sbi.diagnostics.coverage import Coverage, CoveredShare, coverage
from ma_sbi.diagnostics.decomposition import GapByPart, ThreeWay, three_way
from ma_sbi.diagnostics.departure_family import DepartureFamily, departure_family
from ma_sbi.diagnostics.dependence import Dependence, dependence_test
from ma_sbi.diagnostics.estimators import ksg, ross
from ma_sbi.diagnostics.exclusion import Exclusion, exclusion_test, held_out_r2
from ma_sbi.diagnostics.held_out import Estimate, HeldOut, encoder_for, hold_out
from ma_sbi.diagnostics.information import Information, mutual_information
from ma_sbi.diagnostics.out_of_distribution import (
    Likeness,
    OutOfDistribution,
    out_of_distribution,
)
from ma_sbi.diagnostics.predictive_check import PredictiveCheck, predictive_check
from ma_sbi.diagnostics.reading import departures
from ma_sbi.diagnostics.recommendation import Recommendation, recommend
from ma_sbi.diagnostics.weak_context import WeakContext, weak_context

__all__ = [
    "Coverage",
    "CoveredShare",
    "DepartureFamily",
    "Dependence",
    "Estimate",
    "Exclusion",
    "GapByPart",
    "HeldOut",
    "Information",
    "Likeness",
    "OutOfDistribution",
    "PredictiveCheck",
    "Recommendation",
    "ThreeWay",
    "WeakContext",
    "coverage",
    "departure_family",
    "departures",
    "dependence_test",
    "encoder_for",
    "exclusion_test",
    "held_out_r2",
    "hold_out",
    "ksg",
    "mutual_information",
    "out_of_distribution",
    "predictive_check",
    "recommend",
    "ross",
    "three_way",
    "weak_context",
]
