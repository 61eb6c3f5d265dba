"""Every experiment by name."""

from __future__ import annotations

from difflib import get_close_matches

from ma_sbi_bench.engine.experiment import Experiment
from ma_sbi_bench.real.covid.table import COVID
from ma_sbi_bench.real.instructions.table import INSTRUCTIONS
from ma_sbi_bench.tables.channels import Channels
from ma_sbi_bench.tables.compute import Compute
from ma_sbi_bench.tables.exclusion import ExclusionTable
from ma_sbi_bench.tables.methods_compared import (
    BACKBONE_ABLATION,
    DECOMPOSITION,
    ENCODER_ABLATION,
    HIDE_CALIBRATION,
    MAIN_RESULTS,
    POSTERIORS,
    UNSEEN_REGIMES,
    WELL_SPECIFIED,
)
from ma_sbi_bench.tables.schematic import Schematic
from ma_sbi_bench.tables.sharpness import Sharpness
from ma_sbi_bench.tables.sweeps import (
    CALIBRATION_SIZE,
    CONTINUOUS_CONTEXT,
    CORRECTOR_NETWORK,
    INDEX_OR_TEXT,
    NNPE_SCALE,
    NOISY_CONTEXT,
    ROPE_SWEEPS,
    SINKHORN_EPSILON,
)
from ma_sbi_bench.tables.theorem_1 import Theorem1

__all__ = ["EXPERIMENTS", "get_experiment"]

EXPERIMENTS: dict[str, Experiment] = {
    one.name: one
    for one in (
        Schematic(),
        MAIN_RESULTS,
        HIDE_CALIBRATION,
        ROPE_SWEEPS,
        BACKBONE_ABLATION,
        POSTERIORS,
        DECOMPOSITION,
        CALIBRATION_SIZE,
        Theorem1(),
        Sharpness(),
        Channels(),
        ExclusionTable(),
        NOISY_CONTEXT,
        INDEX_OR_TEXT,
        UNSEEN_REGIMES,
        WELL_SPECIFIED,
        ENCODER_ABLATION,
        CORRECTOR_NETWORK,
        SINKHORN_EPSILON,
        NNPE_SCALE,
        Compute(),
        CONTINUOUS_CONTEXT,
        COVID,
        INSTRUCTIONS,
    )
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
