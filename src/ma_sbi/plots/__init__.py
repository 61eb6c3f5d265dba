"""Pictures of data, corrections and posteriors, one call each.

Every function returns matplotlib axes and shows nothing: ``ax.figure.savefig(path)`` writes
a picture, and ``ax.figure`` displays it in a notebook. Figures are not those of pyplot, so
that none has to be closed.
"""

from ma_sbi.plots.calibration import plot_coverage
from ma_sbi.plots.choice import plot_candidates, plot_tried
from ma_sbi.plots.corner import plot_before_after, plot_corner
from ma_sbi.plots.observed import plot_departures, plot_observations

__all__ = [
    "plot_before_after",
    "plot_candidates",
    "plot_corner",
    "plot_coverage",
    "plot_departures",
    "plot_observations",
    "plot_tried",
]
