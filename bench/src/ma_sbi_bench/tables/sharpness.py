"""How sharp the sub-Gaussian theorem is: Var(E[delta | z]) over its bound 2 tau^2 I."""

from __future__ import annotations

import math
from collections.abc import Sequence
from dataclasses import replace
from typing import Any

import numpy as np
import pandas as pd

from ma_sbi.diagnostics import mutual_information
from ma_sbi_bench.engine.budget import Budget
from ma_sbi_bench.engine.cell import Cell, Measurement
from ma_sbi_bench.engine.experiment import Experiment
from ma_sbi_bench.engine.models import Models
from ma_sbi_bench.paper.comparing import (
    Compared,
    Line,
    beside,
    exactly,
    mean_over_seeds,
)
from ma_sbi_bench.paper.printed import printed
from ma_sbi_bench.paper.words import named
from ma_sbi_bench.plots import Figures
from ma_sbi_bench.theory import ModalDeparture

__all__ = ["Sharpness", "figures", "lines"]

# All have variance 1, at scale 1.
LAWS: dict[str, dict[str, Any]] = {
    "Rademacher": {"modes": [-1.0, 1.0]},
    "bimodal": {"modes": [-0.9, 0.9], "width": math.sqrt(0.19)},
    "three modes, 1/3 each": {"modes": [-math.sqrt(1.5), 0.0, math.sqrt(1.5)]},
    "three modes, middle 0.8": {
        "modes": [-math.sqrt(5), 0.0, math.sqrt(5)],
        "probabilities": [0.1, 0.8, 0.1],
    },
    "asymmetric, 0.2": {"modes": [-0.5, 2.0], "probabilities": [0.8, 0.2]},
    "asymmetric, 0.05": {
        "modes": [0.0, 1 / math.sqrt(0.05 * 0.95)],
        "probabilities": [0.95, 0.05],
    },
}
RHOS = (0.01, 0.1, 0.3, 0.5, 0.7, 0.9, 0.99)
# The noise of the context has deviation 1 at any scale, so ratios depend on it. The paper
# does not give its own; with two points, its largest ratio is that of 0.33.
SCALES = (0.1, 0.2, 0.33, 0.4, 0.5, 2.0, 4.0)
PAPER_SCALE = 0.33
# As many draws as the paper, at least; the time of an estimate grows with the neighbours.
NUM_DRAWS = 200_000
NUM_NEIGHBOURS = 5
# At that scale, a law whose rarest mode is rarer than those of LAWS: the smallest ratio
# depends on it, and the paper gives no probabilities.
RARER_LAWS: dict[str, dict[str, Any]] = {
    "asymmetric, 0.02": {
        "modes": [0.0, 1 / math.sqrt(0.02 * 0.98)],
        "probabilities": [0.98, 0.02],
    },
}
# The paper's sweep begins here, and says between what its ratios lie.
LEAST_RHO = 0.3
ENDS = {"smallest": min, "largest": max}
RARE = 1e-4

EXACT = "Ratio with the exact information"
ESTIMATED = "Ratio with the information estimated by neighbours"
SCALED = "Ratio at other scales of the departure, exact"
OTHERS = "Other couplings, and the variance in place of the proxy"
RATIO = "sharpness", "ratio"


class Sharpness(Experiment):
    """Departures with modes, coupled to a context in Gaussian noise."""

    name, title, place, note = named("sharpness").values()

    def cells(self, budget: Budget) -> Sequence[Cell]:
        """List one cell for each law of the departure, and for each of its scales."""
        usual = [
            self.cell(
                name,
                seed=seed,
                settings={
                    **law,
                    "rhos": list(RHOS),
                    "draws": 300 if budget.quick else NUM_DRAWS,
                    "num_neighbours": NUM_NEIGHBOURS,
                },
            )
            for name, law in LAWS.items()
            for seed in budget.seeds_of()
        ]
        if budget.quick:
            return usual
        scaled = [(scale, *one) for one in LAWS.items() for scale in SCALES]
        scaled += [(PAPER_SCALE, *one) for one in RARER_LAWS.items()]
        return usual + [
            self.cell(name, settings={**law, "rhos": list(RHOS), "scale": scale})
            for scale, name, law in scaled
        ]

    def run(self, cell: Cell, models: Models) -> Sequence[Measurement]:
        """Compute both sides of the inequality for every coupling."""
        known = ("modes", "probabilities", "width")
        law = ModalDeparture(**{k: cell.settings[k] for k in known if k in cell.settings})
        rhos = cell.settings["rhos"]
        if "scale" in cell.settings:
            law = _scaled(law, cell.settings["scale"])
            return [Measurement("ratio", tuple(law.couple(rho).ratio for rho in rhos))]
        exact = [law.couple(rho) for rho in rhos]
        seen = [_estimate_information(law, rho, cell) for rho in rhos]
        measured = [
            Measurement("proxy", (law.proxy,)),
            Measurement("variance", (law.variance,)),
            Measurement("information", tuple(one.information for one in exact)),
            Measurement("explained", tuple(one.explained for one in exact)),
            Measurement("ratio", tuple(one.ratio for one in exact)),
            Measurement("information_seen", tuple(one[0] for one in seen), "neighbours"),
            Measurement("information_error", tuple(one[1] for one in seen), "halves"),
        ]
        if not law.width:
            rare = law.rare_context(RARE)
            measured.append(Measurement("rare_ratio", (rare.ratio,)))
        return measured


def lines(rows: pd.DataFrame) -> Sequence[Line]:
    """Make a line for each law and coupling, and for the ends of their range."""
    at_scale_one, scaled = _split(rows)
    laws = _by_law(at_scale_one)
    exact, estimated = {}, {}
    for law, (rhos, found) in laws.items():
        for i, rho in enumerate(rhos):
            exact[law, rho] = exactly(found["ratio"][i])
            estimated[law, rho] = _with_estimate(found, i)
    made = [*_ratio_lines(EXACT, exact), *_ratio_lines(ESTIMATED, estimated)]
    made += _scaled_lines(scaled)
    for law, (_, found) in laws.items():
        largest = (found["ratio"] * found["proxy"] / found["variance"]).max()
        others = {"variance for proxy, largest ratio": largest}
        if "rare_ratio" in found:
            others["rare context that tilts the law"] = found["rare_ratio"][0]
        made += [
            Line(OTHERS, {"law": law, "coupling": name}, exactly(value), metric="ratio")
            for name, value in others.items()
        ]
    return made


def figures(rows: pd.DataFrame) -> Figures:
    """Draw the ratio against the coupling, one curve for each law."""
    from ma_sbi_bench.plots.theory import plot_sharpness

    laws = _by_law(_split(rows)[0])
    if not laws:
        return {}
    curves = {law: (rhos, found["ratio"]) for law, (rhos, found) in laws.items()}
    ratios = [one.value for end in ENDS if (one := printed(*RATIO, axis=end))]
    return {"sharpness": plot_sharpness(curves, [LEAST_RHO, max(RHOS)], ratios)}


def _scaled(law: ModalDeparture, scale: float) -> ModalDeparture:
    return ModalDeparture(scale * law.modes, law.probabilities, scale * law.width)


def _split(rows: pd.DataFrame) -> tuple[pd.DataFrame, pd.DataFrame]:
    """Separate the rows of scale 1 from those of other scales."""
    scaled = np.array(["scale" in settings for settings in rows["settings"]], dtype=bool)
    return rows[~scaled], rows[scaled]


def _scaled_lines(rows: pd.DataFrame) -> list[Line]:
    """Show, for each scale, the ends of the paper's range and each law at its start."""
    made = []
    scales = [settings["scale"] for settings in rows["settings"]]
    for scale, part in rows.assign(scale=scales).groupby("scale"):
        ratios = {
            (str(row["method"]), rho): exactly(ratio)
            for _, row in part.iterrows()
            for rho, ratio in zip(row["settings"]["rhos"], row["values"], strict=True)
        }
        compared = math.isclose(float(scale), PAPER_SCALE)
        shown = [
            *_end_lines(
                SCALED,
                {key: one for key, one in ratios.items() if key[0] in LAWS},
                compared=compared,
            ),
            *(
                Line(SCALED, {"law": law, "rho": rho}, ratio, metric="ratio")
                for (law, rho), ratio in ratios.items()
                if rho == LEAST_RHO
            ),
        ]
        made += [
            replace(one, labels={"scale": float(scale), **one.labels}) for one in shown
        ]
    return made


def _estimate_information(
    law: ModalDeparture, rho: float, cell: Cell
) -> tuple[float, float]:
    """Return an estimate from draws and its standard error."""
    delta, z = law.sample(cell.settings["draws"], rho, seed=cell.seed)
    found = mutual_information(
        delta[:, None],
        z,
        num_neighbours=cell.settings["num_neighbours"],
        num_permutations=0,
        seed=cell.seed,
    )
    return found.value, (found.high - found.low) / 3.92


def _by_law(rows: pd.DataFrame) -> dict[str, tuple[list[float], dict[str, np.ndarray]]]:
    """Collect couplings and metrics of each law; estimates are averaged over seeds."""
    laws = {}
    for law, part in rows.groupby("method", sort=False):
        found = mean_over_seeds(part, errors=("information_error",))
        laws[str(law)] = part["settings"].iloc[0]["rhos"], found
    return laws


def _with_estimate(found: dict[str, np.ndarray], i: int) -> Compared:
    """Divide by the bound with the estimated information."""
    middle, error = found["information_seen"][i], found["information_error"][i]
    low, high = middle - 1.96 * error, middle + 1.96 * error
    if low <= 0:
        return Compared(math.nan, reason="the information is within its own noise")
    scale = found["explained"][i] / (2 * found["proxy"][0])
    return Compared(scale / middle, scale / high, scale / low)


def _ratio_lines(table: str, ratios: dict[tuple[str, float], Compared]) -> list[Line]:
    """Make a line for each ratio, after those of the ends of the paper's range."""
    return _end_lines(table, ratios) + [
        Line(table, {"law": law, "rho": rho}, ratio, metric="ratio")
        for (law, rho), ratio in ratios.items()
    ]


def _end_lines(
    table: str, ratios: dict[tuple[str, float], Compared], *, compared: bool = False
) -> list[Line]:
    """Make a line for each end of the paper's range, beside the paper's if so asked."""
    inside = [
        ratio
        for (_, rho), ratio in ratios.items()
        if rho >= LEAST_RHO and not math.isnan(ratio.value)
    ]
    made = []
    for end, pick in ENDS.items() if inside else ():
        ratio = pick(inside, key=lambda one: one.value)
        labels = {"law": f"{end} of all", "rho": f"{LEAST_RHO} to {max(RHOS)}"}
        if compared:
            # The largest fixes the scale, and the smallest is that of modes that the paper
            # does not give: no difference says that it is wrong, or right.
            paper = beside(printed(*RATIO, axis=end))
            ratio = replace(ratio, coarsest=math.nan, **paper)
        made.append(Line(table, labels, ratio, metric="ratio"))
    return made
