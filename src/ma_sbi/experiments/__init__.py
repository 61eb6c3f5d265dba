"""Every table and figure of the paper, as cells that are run once and kept.

An experiment is a grid of cells, what a cell measures, and how its rows stand beside the
paper's. ``EXPERIMENTS`` names them all; :func:`~ma_sbi.experiments.running.run` runs them.
"""

import lazy_loader

__getattr__, __dir__, __all__ = lazy_loader.attach_stub(__name__, __file__)
