"""How good a posterior is, and whether one is as good as another."""

from ma_sbi.metrics.c2st import RECIPES, c2st, c2st_batch
from ma_sbi.metrics.equivalence import Equivalence, tost_paired
from ma_sbi.metrics.gap import GapClosed, gap_closed
from ma_sbi.metrics.scores import log_score, posterior_mean_error

__all__ = [
    "RECIPES",
    "Equivalence",
    "GapClosed",
    "c2st",
    "c2st_batch",
    "gap_closed",
    "log_score",
    "posterior_mean_error",
    "tost_paired",
]
