"""Sweeps of one option of one method on SLCP: network, epsilon, noise scale."""

from __future__ import annotations

from abc import abstractmethod
from collections.abc import Iterator, Mapping, Sequence
from typing import Any, ClassVar

import numpy as np
import pandas as pd
from matplotlib.figure import Figure

from ma_sbi_bench.engine.budget import Budget
from ma_sbi_bench.engine.cell import Cell
from ma_sbi_bench.plots.sweeps import plot_sweeps
from ma_sbi_bench.tables.comparing import Line
from ma_sbi_bench.trials.experiment import EXTRA_ROWS, TrialExperiment
from ma_sbi_bench.trials.lines import levels, per_observation, trial_lines

__all__ = ["CorrectorNetwork", "NNPEScale", "SinkhornEpsilon"]

TASK = "slcp"


class OptionSweep(TrialExperiment):
    """One option is varied; the rest of the table stands beside it.

    Attributes:
        varied: Names of the options, which head columns of the table.
        default: Methods whose own settings stand beside the sweep.
        usual: What the first of them has for an option, a point of the curves as well.
        backbone: Kind of posterior.
    """

    varied: ClassVar[tuple[str, ...]]
    default: ClassVar[tuple[str, ...]]
    usual: ClassVar[Mapping[str, float]] = {}
    backbone: ClassVar[str] = "maf"

    @abstractmethod
    def points(self) -> Iterator[tuple[str, dict[str, Any]]]:
        """Yield a method and its options for every point of the sweep."""

    def cells(self, budget: Budget) -> Sequence[Cell]:
        """List the sweep, and the rows that it is compared with."""
        fixed = ("npe", *self.default, *EXTRA_ROWS, "oracle")
        cells = []
        for seed in budget.seeds_of():
            cells += [self.method_cell(budget, TASK, self.backbone, m, seed) for m in fixed]
            points = list(self.points())
            cells += [
                self.trial(budget, TASK, self.backbone, method, seed=seed, options=options)
                for method, options in (points[:2] if budget.quick else points)
            ]
        return cells

    def lines(self, rows: pd.DataFrame) -> Sequence[Line]:
        """Show every point beside NPE, the default and the oracle."""
        columns = {
            name: [row["options"].get(name) for row in rows["settings"]]
            for name in self.varied
        }
        rows = rows.assign(**columns)
        order = ("prior", "npe", *self.default)
        return trial_lines(rows, "SLCP", by=self.varied, order=order)

    def figures(self, rows: pd.DataFrame) -> Mapping[str, Figure]:
        """Draw C2ST against the option that was varied."""
        rows = rows[rows["metric"] == "c2st"]
        found: dict[str, dict[str, dict[float, list[float]]]] = {}
        for _, row in rows.iterrows():
            options = row["settings"]["options"]
            # A point belongs to the last option that it has; those before it are held.
            for name in [one for one in self.varied if one in options][-1:]:
                curve = found.setdefault(name, {}).setdefault(row["method"], {})
                curve.setdefault(options[name], []).append(per_observation(row).mean())
        usual = [
            per_observation(row).mean()
            for _, row in rows.iterrows()
            if row["method"] == self.default[0] and not row["settings"]["options"]
        ]
        for name, at in self.usual.items() if usual else ():
            for curve in found.get(name, {}).values():
                curve[at] = usual
        panels = {
            name: {
                method: {at: float(np.mean(values)) for at, values in curve.items()}
                for method, curve in curves.items()
            }
            for name, curves in found.items()
        }
        if not panels:
            return {}
        flat = levels(rows, ("npe", "oracle"))
        return {self.name: plot_sweeps(panels, "C2ST", levels=flat)}

    def captions(self) -> Mapping[str, str]:
        """Say what the figure shows."""
        return {self.name: f"C2ST on SLCP against {' and '.join(self.varied)}."}


class CorrectorNetwork(OptionSweep):
    """Width and weight decay of the paper's network."""

    name = "corrector_network"
    title = "Width and weight decay of the corrector"
    place = "the appendix on the corrector: robust to weight decay up to 1e-4"
    note = (
        "SLCP, MAF. The paper uses 128 hidden units (256 in its main text) "
        "without weight decay; 30 epochs. `ma_sbi` is the closed form."
    )
    varied = ("hidden", "weight_decay")
    default = ("ma_sbi_paper", "ma_sbi")
    usual: ClassVar = {"hidden": 128}

    def points(self) -> Iterator[tuple[str, dict[str, Any]]]:
        """Yield widths, then weight decays."""
        for hidden in (32, 64, 256):
            yield "ma_sbi_network", {"hidden": hidden}
        for decay in (1e-5, 1e-4, 1e-3, 1e-2):
            yield "ma_sbi_network", {"hidden": 128, "weight_decay": decay}


class SinkhornEpsilon(OptionSweep):
    """How RoPE-Sinkhorn depends on its regularisation."""

    name = "sinkhorn_epsilon"
    title = "Sinkhorn's epsilon"
    place = "the sweep that the appendix on compute mentions, without figures"
    note = (
        "SLCP, MAF. `rope_sinkhorn` without an epsilon chooses it on held-out "
        "calibration rows."
    )
    varied = ("epsilon",)
    default = ("rope_sinkhorn",)

    def points(self) -> Iterator[tuple[str, dict[str, Any]]]:
        """Yield six values; the paper does not give its own."""
        for epsilon in (0.01, 0.03, 0.1, 0.3, 1.0, 3.0):
            yield "rope_sinkhorn", {"epsilon": epsilon}


class NNPEScale(OptionSweep):
    """How NNPE depends on the noise that it trains with."""

    name = "nnpe_scale"
    title = "NNPE's noise scale"
    place = "the appendix on baselines: sensitivity to the scale"
    note = (
        "SLCP, diffusion model, Gaussian noise per dimension; the paper's default is 0.3, "
        "`nnpe_matched` has the norm of the departure, `nnpe` is Ward's spike and slab."
    )
    varied = ("scale",)
    backbone = "ddpm"
    default = ("nnpe_isotropic", "nnpe_matched", "nnpe")
    usual: ClassVar = {"scale": 0.3}

    def points(self) -> Iterator[tuple[str, dict[str, Any]]]:
        """Yield scales around the default."""
        for scale in (0.03, 0.1, 1.0, 3.0):
            yield "nnpe_isotropic", {"scale": scale}
