"""Every table and figure of the paper, as cells that are run once and kept.

An experiment is a grid of cells, what a cell measures, and how its rows stand beside the
paper's. ``EXPERIMENTS`` names them all; :func:`~ma_sbi.experiments.running.run` runs them.
"""

from __future__ import annotations

from ma_sbi.experiments.budget import Budget
from ma_sbi.experiments.cell import Backbone, Cell, Measurement
from ma_sbi.experiments.comparing import Compared, Line
from ma_sbi.experiments.experiment import Experiment
from ma_sbi.experiments.laboratory import Laboratory
from ma_sbi.experiments.registry import EXPERIMENTS, get_experiment
from ma_sbi.experiments.store import Store

__all__ = [
    "EXPERIMENTS",
    "Backbone",
    "Budget",
    "Cell",
    "Compared",
    "Experiment",
    "Laboratory",
    "Line",
    "Measurement",
    "Store",
    "get_experiment",
]
