"""What people look at: figures."""

from ma_sbi.report.gains import plot_gains
from ma_sbi.report.posteriors import plot_posteriors

__all__ = ["plot_gains", "plot_posteriors"]
