"""Every experiment by name."""

from __future__ import annotations

from difflib import get_close_matches

from ma_sbi.experiments.experiment import Experiment
from ma_sbi.experiments.main_results import MainResults
from ma_sbi.experiments.theorem_1 import Theorem1

__all__ = ["EXPERIMENTS", "get_experiment"]

EXPERIMENTS: dict[str, Experiment] = {one.name: one for one in (MainResults(), Theorem1())}
"""Every experiment, in the order in which the report shows them."""


def get_experiment(name: str) -> Experiment:
    """Find an experiment by its name.

    Raises:
        ValueError: If there is none of that name.
    """
    if name not in EXPERIMENTS:
        near = get_close_matches(name.lower().replace("-", "_"), EXPERIMENTS, n=1)
        hint = f" (did you mean {near[0]!r}?)" if near else ""
        known = ", ".join(EXPERIMENTS)
        raise ValueError(f"there is no experiment {name!r}{hint}; known are {known}")
    return EXPERIMENTS[name]
