"""Gap closed against I / log K, for contexts that are sometimes wrong or missing."""

from __future__ import annotations

import math
from collections.abc import Callable, Sequence
from typing import Any, cast

import numpy as np
import pandas as pd

from ma_sbi_bench.engine.budget import Budget
from ma_sbi_bench.engine.cell import Cell, Measurement
from ma_sbi_bench.engine.experiment import Experiment
from ma_sbi_bench.engine.models import Models
from ma_sbi_bench.paper.comparing import Compared, Line, exactly, mean_over_seeds
from ma_sbi_bench.paper.words import named
from ma_sbi_bench.plots import Figures
from ma_sbi_bench.theory import (
    discrete_information,
    erasure_channel,
    gap_closed_by_context,
    symmetric_channel,
)

__all__ = ["Channels", "figures", "lines"]

CHANNELS: dict[str, Callable[[int, float], np.ndarray]] = {
    "wrong": symmetric_channel,
    "missing": erasure_channel,
}
RELIABILITIES = (0.0, 0.1, 0.25, 0.4, 0.5, 0.6, 0.75, 0.9, 1.0)
NUM_REGIMES = (4, 2, 16)  # the paper's first


class Channels(Experiment):
    """K regimes, and a context that is right with some probability."""

    name, title, place, note = named("channels").values()

    def cells(self, budget: Budget) -> Sequence[Cell]:
        """List one cell for each channel and number of regimes."""
        return [
            self.cell(
                channel,
                seed=seed,
                settings={
                    "regimes": num_regimes,
                    "reliabilities": list(RELIABILITIES),
                    "draws": 20_000 if budget.quick else 200_000,
                },
            )
            for num_regimes in NUM_REGIMES
            for channel in CHANNELS
            for seed in budget.seeds_of()
        ]

    def run(self, cell: Cell, models: Models) -> Sequence[Measurement]:
        """Compute information and gap closed, and measure the gap on draws."""
        num_regimes, num_draws = cell.settings["regimes"], cell.settings["draws"]
        joints = [
            CHANNELS[cell.method](num_regimes, reliability)
            for reliability in cell.settings["reliabilities"]
        ]
        information = [discrete_information(joint) for joint in joints]
        # The share is the same for all departures.
        departures = np.eye(num_regimes)
        closed = [gap_closed_by_context(departures, joint) for joint in joints]
        rng = np.random.default_rng(cell.seed)
        seen = [_measure(joint, num_draws, rng) for joint in joints]
        return [
            Measurement("information", tuple(information)),
            Measurement("closed", tuple(closed)),
            Measurement("closed_seen", tuple(m for m, _ in seen), num_draws=num_draws),
            Measurement("closed_error", tuple(e for _, e in seen), num_draws=num_draws),
        ]


def lines(rows: pd.DataFrame) -> Sequence[Line]:
    """Put the gap closed beside I / log K."""
    made = []
    for (num_regimes, channel), found in _curves(rows).items():
        for i, reliability in enumerate(found["reliabilities"]):
            share = found["share"][i]
            middle, half = found["closed_seen"][i], 1.96 * found["closed_error"][i]
            made.append(
                Line(
                    f"K = {num_regimes}",
                    {"context not right is": channel, "right": f"{reliability:.0%}"},
                    raw=exactly(share),
                    closed=Compared(
                        100 * middle,
                        100 * (middle - half),
                        100 * (middle + half),
                        implied=100 * share,
                        digits=0,
                    ),
                    metric="I / log K",
                    note=f"closed form: {found['closed'][i]:.1%}",
                )
            )
    return made


def figures(rows: pd.DataFrame) -> Figures:
    """Draw the gap closed against I / log K, one panel for each K."""
    from ma_sbi_bench.plots.theory import plot_channels

    panels: dict[str, dict[str, Any]] = {}
    for (number, channel), found in _curves(rows).items():
        curve = found["share"], found["closed_seen"], 1.96 * found["closed_error"]
        panels.setdefault(f"K = {number}", {})[channel] = curve
    return {"channels": plot_channels(panels)} if panels else {}


def _measure(
    joint: np.ndarray, num_draws: int, rng: np.random.Generator
) -> tuple[float, float]:
    """Return the gap that regime means of half of the draws close on the other half.

    Returns:
        The share, and its standard error.
    """
    num_regimes, num_contexts = joint.shape
    drawn = rng.choice(joint.size, num_draws, p=joint.ravel())
    regime, context = np.divmod(drawn, num_contexts)
    delta = np.eye(num_regimes)[regime] - 1 / num_regimes
    fit, judge = slice(None, num_draws // 2), slice(num_draws // 2, None)
    sums = np.zeros((num_contexts, num_regimes))
    np.add.at(sums, context[fit], delta[fit])
    counts = np.bincount(context[fit], minlength=num_contexts)
    means = sums / np.maximum(counts, 1)[:, None]
    left = np.square(delta[judge] - means[context[judge]]).sum(axis=1)
    # Before any correction each draw has the same error, by symmetry.
    shares = 1 - left / np.square(delta[judge]).sum(axis=1)
    return float(shares.mean()), float(shares.std() / math.sqrt(len(shares)))


def _curves(rows: pd.DataFrame) -> dict[tuple[int, str], dict[str, np.ndarray]]:
    """Collect metrics by number of regimes and channel; draws are averaged over seeds."""
    curves = {}
    number = rows["settings"].map(lambda settings: settings["regimes"])
    for key, part in rows.groupby([number, "method"], sort=False):
        num_regimes, channel = cast("tuple[int, str]", key)
        found = mean_over_seeds(part, errors=("closed_error",))
        found["share"] = found["information"] / math.log(num_regimes)
        found["reliabilities"] = np.array(part["settings"].iloc[0]["reliabilities"])
        curves[num_regimes, channel] = found
    return curves
