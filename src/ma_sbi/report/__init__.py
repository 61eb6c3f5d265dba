"""What people look at: figures."""

from ma_sbi.report.posteriors import plot_posteriors

__all__ = ["plot_posteriors"]
