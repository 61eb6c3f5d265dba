"""Metrics of posteriors, and comparisons between methods."""

from ma_sbi.metrics.c2st import RECIPES, c2st, c2st_batch
from ma_sbi.metrics.coverage import acauc, lpp, region_coverage
from ma_sbi.metrics.equivalence import Equivalence, tost_paired
from ma_sbi.metrics.gap import GapClosed, gap_closed
from ma_sbi.metrics.paired import PairedGain, paired_gain
from ma_sbi.metrics.scores import excess_error, log_score, posterior_mean_error

__all__ = [
    "RECIPES",
    "Equivalence",
    "GapClosed",
    "PairedGain",
    "acauc",
    "c2st",
    "c2st_batch",
    "excess_error",
    "gap_closed",
    "log_score",
    "lpp",
    "paired_gain",
    "posterior_mean_error",
    "region_coverage",
    "tost_paired",
]
