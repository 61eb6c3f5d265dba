"""The warnings of this package, in one place, to be filtered or turned into errors."""

from ma_sbi.choosing.pairing import NotPaired
from ma_sbi.correctors.forward import FewPairs, OtherUnits
from ma_sbi.correctors.matching import MatchingAssumption
from ma_sbi.correctors.observed_range import OutsideCalibration
from ma_sbi.correctors.unseen import UnrelatedContext, UnseenContext
from ma_sbi.nan import NotANumber
from ma_sbi.posteriors.loading import PickledPosterior
from ma_sbi.posteriors.training_range import OutsideTrainingRange
from ma_sbi.posteriors.truncation import LeakyPosterior
from ma_sbi.storing.packing import NotSaved
from ma_sbi.validation import LostPrecision

__all__ = [
    "FewPairs",
    "LeakyPosterior",
    "LostPrecision",
    "MatchingAssumption",
    "NotANumber",
    "NotPaired",
    "NotSaved",
    "OtherUnits",
    "OutsideCalibration",
    "OutsideTrainingRange",
    "PickledPosterior",
    "UnrelatedContext",
    "UnseenContext",
]
