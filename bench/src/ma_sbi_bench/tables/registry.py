"""Every experiment by name."""

from __future__ import annotations

from difflib import get_close_matches

from ma_sbi_bench.engine.experiment import Experiment
from ma_sbi_bench.real.covid.table import COVID
from ma_sbi_bench.real.instructions.table import INSTRUCTIONS
from ma_sbi_bench.tables.backbone_ablation import BackboneAblation
from ma_sbi_bench.tables.calibration_size import CalibrationSize
from ma_sbi_bench.tables.channels import Channels
from ma_sbi_bench.tables.compute import Compute
from ma_sbi_bench.tables.continuous_context import ContinuousContext
from ma_sbi_bench.tables.decomposition import ThreeWayDecomposition
from ma_sbi_bench.tables.encoder_ablation import EncoderAblation
from ma_sbi_bench.tables.exclusion import ExclusionTable
from ma_sbi_bench.tables.hide_calibration import HideCalibration
from ma_sbi_bench.tables.index_or_text import IndexOrText
from ma_sbi_bench.tables.main_results import MainResults
from ma_sbi_bench.tables.noisy_context import NoisyContext
from ma_sbi_bench.tables.posteriors import Posteriors
from ma_sbi_bench.tables.rope_sweeps import RoPESweeps
from ma_sbi_bench.tables.schematic import Schematic
from ma_sbi_bench.tables.sharpness import Sharpness
from ma_sbi_bench.tables.sweeps import CorrectorNetwork, NNPEScale, SinkhornEpsilon
from ma_sbi_bench.tables.theorem_1 import Theorem1
from ma_sbi_bench.tables.unseen_regimes import UnseenRegimes
from ma_sbi_bench.tables.well_specified import WellSpecified

__all__ = ["EXPERIMENTS", "get_experiment"]

EXPERIMENTS: dict[str, Experiment] = {
    one.name: one
    for one in (
        Schematic(),
        MainResults(),
        HideCalibration(),
        RoPESweeps(),
        BackboneAblation(),
        Posteriors(),
        ThreeWayDecomposition(),
        CalibrationSize(),
        Theorem1(),
        Sharpness(),
        Channels(),
        ExclusionTable(),
        NoisyContext(),
        IndexOrText(),
        UnseenRegimes(),
        WellSpecified(),
        EncoderAblation(),
        CorrectorNetwork(),
        SinkhornEpsilon(),
        NNPEScale(),
        Compute(),
        ContinuousContext(),
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
