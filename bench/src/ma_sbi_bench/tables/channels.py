"""Gap closed against I / log K, for contexts that are sometimes wrong or missing."""

from __future__ import annotations

import math
from collections.abc import Callable, Mapping, Sequence
from typing import cast

import numpy as np
import pandas as pd
from matplotlib.figure import Figure

from ma_sbi_bench.engine.budget import Budget
from ma_sbi_bench.engine.cell import Cell, Measurement
from ma_sbi_bench.engine.experiment import Experiment
from ma_sbi_bench.engine.models import Laboratory
from ma_sbi_bench.tables.comparing import Compared, Line, exactly
from ma_sbi_bench.theory import (
    discrete_information,
    erasure_channel,
    gap_closed_by_context,
    symmetric_channel,
)

__all__ = ["Channels"]

CHANNELS: dict[str, Callable[[int, float], np.ndarray]] = {
    "wrong": symmetric_channel,
    "missing": erasure_channel,
}
RELIABILITIES = (0.0, 0.1, 0.25, 0.4, 0.5, 0.6, 0.75, 0.9, 1.0)
PAPER_REGIMES = 4
NUM_REGIMES = (PAPER_REGIMES, 2, 16)


class Channels(Experiment):
    """K regimes, and a context that is right with some probability."""

    name = "channels"
    title = "Gap closed against I / log K"
    place = "Figure 3a"
    note = (
        "The paper prints no numbers. Its text says of K = 4 that the gap closed tracks "
        "I / log K exactly, which is what its text implies. A context "
        "that is not right is either missing, or wrong: a regime picked at random, which "
        "may be the right one. The paper does not say which. Gap closed is the share of "
        "the departure's variance that the best corrector removes; where the posterior "
        "mean is linear it is that of the excess squared error. It is measured on draws: "
        "regime means from one half, judged on the other."
    )

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

    def run(self, cell: Cell, laboratory: Laboratory) -> Sequence[Measurement]:
        """Compute information and gap closed, and measure the gap on draws."""
        num_regimes, num_draws = cell.settings["regimes"], cell.settings["draws"]
        joints = [
            CHANNELS[cell.method](num_regimes, reliability)
            for reliability in cell.settings["reliabilities"]
        ]
        information = [discrete_information(joint) for joint in joints]
        # Whatever the departures are, the share is the same.
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

    def lines(self, rows: pd.DataFrame) -> Sequence[Line]:
        """Put the gap closed beside I / log K."""
        lines = []
        for (num_regimes, channel), found in _curves(rows).items():
            for i, reliability in enumerate(found["reliabilities"]):
                share = found["share"][i]
                middle, half = found["closed_seen"][i], 1.96 * found["closed_error"][i]
                lines.append(
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
        return lines

    def figures(self, rows: pd.DataFrame) -> Mapping[str, Figure]:
        """Draw the gap closed against I / log K, one panel for each K."""
        if not len(rows):
            return {}
        curves = _curves(rows)
        numbers = list(dict.fromkeys(number for number, _ in curves))
        figure = Figure(figsize=(3 * max(len(numbers), 1), 3.2), layout="constrained")
        panels = figure.subplots(1, max(len(numbers), 1), sharey=True, squeeze=False)[0]
        for axis, number in zip(panels, numbers, strict=False):
            axis.plot([0, 1], [0, 1], color="0.6", lw=0.8, label="gap = I / log K")
            for channel in CHANNELS:
                if (number, channel) in curves:
                    found = curves[number, channel]
                    axis.errorbar(
                        found["share"],
                        found["closed_seen"],
                        yerr=1.96 * found["closed_error"],
                        marker="o",
                        ms=3,
                        lw=1.2,
                        label=channel,
                    )
            axis.set(title=f"K = {number}", xlabel="I / log K")
        panels[0].set_ylabel("gap closed")
        panels[0].legend(fontsize=8, frameon=False)
        return {"channels": figure}

    def captions(self) -> Mapping[str, str]:
        """Say what the figure shows."""
        return {
            "channels": "Gap closed against I / log K for contexts that are missing or "
            "wrong with some probability. On the grey line both are equal, as the paper "
            "says for K = 4 (its Figure 3a). Bars, mostly hidden, are 95 % intervals."
        }


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
    # Before any correction each draw has the same error: regimes are alike.
    shares = 1 - left / np.square(delta[judge]).sum(axis=1)
    return float(shares.mean()), float(shares.std() / math.sqrt(len(shares)))


def _curves(rows: pd.DataFrame) -> dict[tuple[int, str], dict[str, np.ndarray]]:
    """Collect metrics by number of regimes and channel; draws are averaged over seeds."""
    curves = {}
    number = rows["settings"].map(lambda settings: settings["regimes"])
    for key, part in rows.groupby([number, "method"], sort=False):
        num_regimes, channel = cast("tuple[int, str]", key)
        found = {
            str(metric): np.mean(list(some["values"]), axis=0)
            for metric, some in part.groupby("metric", sort=False)
        }
        found["closed_error"] = found["closed_error"] / math.sqrt(part["seed"].nunique())
        found["share"] = found["information"] / math.log(num_regimes)
        found["reliabilities"] = np.array(part["settings"].iloc[0]["reliabilities"])
        curves[num_regimes, channel] = found
    return curves
