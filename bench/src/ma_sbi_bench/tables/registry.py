"""Every experiment by name."""

from __future__ import annotations

from collections.abc import Sequence
from difflib import get_close_matches

from ma_sbi_bench.engine.budget import Budget
from ma_sbi_bench.engine.cell import Cell, Measurement
from ma_sbi_bench.engine.experiment import Experiment
from ma_sbi_bench.engine.models import Models
from ma_sbi_bench.paper.words import named
from ma_sbi_bench.real.covid.table import COVID
from ma_sbi_bench.real.instructions.table import INSTRUCTIONS
from ma_sbi_bench.tables import methods_compared as compared
from ma_sbi_bench.tables import sweeps
from ma_sbi_bench.tables.advice import Advice
from ma_sbi_bench.tables.channels import Channels
from ma_sbi_bench.tables.compute import Compute
from ma_sbi_bench.tables.exclusion import ExclusionTable
from ma_sbi_bench.tables.never_worse import NeverWorse
from ma_sbi_bench.tables.recovered_shift import RecoveredShift
from ma_sbi_bench.tables.sharpness import Sharpness
from ma_sbi_bench.tables.structural import Structural
from ma_sbi_bench.tables.theorem_1 import Theorem1
from ma_sbi_bench.tables.training import Training
from ma_sbi_bench.tables.unpaired import Unpaired
from ma_sbi_bench.tables.unseen_words import UnseenWords

__all__ = ["EXPERIMENTS", "get_experiment"]


class Schematic(Experiment):
    """The paper's first figure: there is nothing to compute."""

    name, title, place, note = named("schematic").values()

    def cells(self, budget: Budget) -> Sequence[Cell]:
        """List nothing."""
        return []

    def run(self, cell: Cell, models: Models) -> Sequence[Measurement]:
        """Refuse: there are no cells."""
        raise ValueError("the schematic has no cells")


_CELLS: tuple[Experiment, ...] = (
    Schematic(),
    compared.MAIN_RESULTS,
    compared.HIDE_CALIBRATION,
    RecoveredShift(),
    sweeps.ROPE_SWEEPS,
    compared.BACKBONE_ABLATION,
    compared.POSTERIORS,
    compared.DECOMPOSITION,
    sweeps.CALIBRATION_SIZE,
    Theorem1(),
    Sharpness(),
    Channels(),
    ExclusionTable(),
    NeverWorse(),
    UnseenWords(),
    Unpaired(),
    Structural(),
    Advice(),
    sweeps.NOISY_CONTEXT,
    sweeps.INDEX_OR_TEXT,
    compared.UNSEEN_REGIMES,
    compared.WELL_SPECIFIED,
    compared.ENCODER_ABLATION,
    sweeps.CORRECTOR_NETWORK,
    sweeps.SINKHORN_EPSILON,
    sweeps.NNPE_SCALE,
    Compute(),
    sweeps.CONTINUOUS_CONTEXT,
    COVID,
    INSTRUCTIONS,
)
_TRAINING = Training([one for one in _CELLS if one.place])
EXPERIMENTS: dict[str, Experiment] = {one.name: one for one in (*_CELLS, _TRAINING)}
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
