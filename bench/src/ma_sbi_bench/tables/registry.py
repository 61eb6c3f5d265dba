"""Every experiment by name."""

from __future__ import annotations

from difflib import get_close_matches

from ma_sbi_bench.engine.experiment import Experiment
from ma_sbi_bench.real.covid.table import Covid
from ma_sbi_bench.real.instructions.table import Instructions
from ma_sbi_bench.tables.channels import Channels
from ma_sbi_bench.tables.compute import Compute
from ma_sbi_bench.tables.exclusion import ExclusionTable
from ma_sbi_bench.tables.schematic import Schematic
from ma_sbi_bench.tables.sharpness import Sharpness
from ma_sbi_bench.tables.theorem_1 import Theorem1
from ma_sbi_bench.tables.trial_tables import TRIAL_TABLES

__all__ = ["EXPERIMENTS", "get_experiment"]

OTHERS: dict[str, Experiment] = {
    one.name: one
    for one in (
        Schematic(),
        Theorem1(),
        Sharpness(),
        Channels(),
        ExclusionTable(),
        Compute(),
        Covid(),
        Instructions(),
    )
}
ORDER = (
    "schematic",
    "main_results",
    "hide_calibration",
    "rope_sweeps",
    "backbone_ablation",
    "posteriors",
    "decomposition",
    "calibration_size",
    "theorem_1",
    "sharpness",
    "channels",
    "exclusion",
    "noisy_context",
    "index_or_text",
    "unseen_regimes",
    "well_specified",
    "encoder_ablation",
    "corrector_network",
    "sinkhorn_epsilon",
    "nnpe_scale",
    "compute",
    "continuous_context",
    "covid",
    "instructions",
)
EXPERIMENTS: dict[str, Experiment] = {
    name: {**TRIAL_TABLES, **OTHERS}[name] for name in ORDER
}
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
