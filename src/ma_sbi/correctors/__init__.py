"""Correctors: how reality departs from the simulator, given the context."""

from ma_sbi.correctors.bootstrap import BootstrapCorrector, ResidualPools
from ma_sbi.correctors.composed import BaseCorrector, ComposedCorrector, FittableCorrector
from ma_sbi.correctors.cross_fitting import CrossFittedCorrector, cross_fit
from ma_sbi.correctors.decomposition import (
    ConditionalCorrector,
    Decomposition,
    MarginalCorrector,
    decompose,
)
from ma_sbi.correctors.departures import Affine, Departure, Shift
from ma_sbi.correctors.fitting import Fitted, Fitting, Hypotheses, Pools, Triples
from ma_sbi.correctors.forward import FewPairs, ForwardCorrector, OtherUnits
from ma_sbi.correctors.inference import Evidence, Inference, Mixture, Point
from ma_sbi.correctors.likelihood import ShiftLikelihood
from ma_sbi.correctors.located import RidgeWithResiduals
from ma_sbi.correctors.matching import Matching, MatchingAssumption, MatchingCorrector
from ma_sbi.correctors.network import Network
from ma_sbi.correctors.preflight import Preflight
from ma_sbi.correctors.regimes import RegimeCorrector, RegimeFit, Regimes
from ma_sbi.correctors.ridge import Ridge
from ma_sbi.correctors.shift import ShiftCorrector
from ma_sbi.correctors.trials import TrialCorrector, per_trial
from ma_sbi.correctors.unseen import UnrelatedContext, Unseen, UnseenContext

__all__ = [
    "Affine",
    "BaseCorrector",
    "BootstrapCorrector",
    "ComposedCorrector",
    "ConditionalCorrector",
    "CrossFittedCorrector",
    "Decomposition",
    "Departure",
    "Evidence",
    "FewPairs",
    "Fitted",
    "FittableCorrector",
    "Fitting",
    "ForwardCorrector",
    "Hypotheses",
    "Inference",
    "MarginalCorrector",
    "Matching",
    "MatchingAssumption",
    "MatchingCorrector",
    "Mixture",
    "Network",
    "OtherUnits",
    "Point",
    "Pools",
    "Preflight",
    "RegimeCorrector",
    "RegimeFit",
    "Regimes",
    "ResidualPools",
    "Ridge",
    "RidgeWithResiduals",
    "Shift",
    "ShiftCorrector",
    "ShiftLikelihood",
    "TrialCorrector",
    "Triples",
    "UnrelatedContext",
    "Unseen",
    "UnseenContext",
    "cross_fit",
    "decompose",
    "per_trial",
]
