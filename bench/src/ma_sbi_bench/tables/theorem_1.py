"""Verification table of Theorem 1: what is gained, and the two bounds on it."""

from __future__ import annotations

from collections.abc import Sequence

import numpy as np
import pandas as pd

from ma_sbi.randomness import derive
from ma_sbi_bench.engine.budget import Budget
from ma_sbi_bench.engine.cell import Cell, Measurement
from ma_sbi_bench.engine.experiment import Experiment
from ma_sbi_bench.engine.models import Models
from ma_sbi_bench.paper.comparing import Compared, Line, beside, estimate, exactly
from ma_sbi_bench.paper.printed import printed
from ma_sbi_bench.paper.words import named
from ma_sbi_bench.theory import GaussianWorld, canonical_information

__all__ = ["PATTERNS", "Theorem1", "lines"]

PATTERNS = {
    "zero": [0.0] * 5,
    "graded 0.1 to 0.9": [0.1, 0.3, 0.5, 0.7, 0.9],
    "uniform 0.5": [0.5] * 5,
    "oracle 0.999": [0.999] * 5,
    # Not in the paper. Its corollary says that much information recovers the oracle.
    "one of five known": [1 - 1e-12, 0.0, 0.0, 0.0, 0.0],
}
# Means over this many parts of the draws give the interval.
NUM_PARTS = 20


QUANTITIES = {
    "information": "I in nats",
    "fitted": "reduction, corrector fitted to the draws",
    "known": "reduction, E[delta | z] known",
    "simulated": "reduction, simulated",
    "reduction": "reduction, closed form",
    "exact_bound": "exact bound",
    "linear_bound": "linear bound",
    "bayes": "exact posterior given x_obs and z",
}


class Theorem1(Experiment):
    """Draws of departure and context at four patterns of canonical correlations."""

    name, title, place, note = named("theorem_1").values()
    version = 2

    def cells(self, budget: Budget) -> Sequence[Cell]:
        """List one cell for each pattern of correlations."""
        return [
            self.cell(
                pattern,
                seed=seed,
                settings={
                    "correlations": correlations,
                    "draws": 20_000 if budget.quick else 200_000,
                },
            )
            for pattern, correlations in PATTERNS.items()
            for seed in budget.seeds_of()
        ]

    def run(self, cell: Cell, models: Models) -> Sequence[Measurement]:
        """Draw departures and contexts, and correct the ones by the others."""
        world, rho = GaussianWorld(), np.array(cell.settings["correlations"])
        num_draws = cell.settings["draws"]
        delta, z = world.simulate(rho, num_draws, seed=cell.seed)
        coefficients = np.linalg.lstsq(z, delta, rcond=None)[0]
        information = canonical_information(rho)
        closed_forms = {
            "information": information,
            "reduction": world.reduction(rho),
            "exact_bound": world.exact_bound(information),
            "linear_bound": world.linear_bound(information),
            "bayes": world.bayes_reduction(rho),
        }
        predicted = {"fitted": z @ coefficients, "known": world.departure_scale * rho * z}
        return [
            *(Measurement(name, (value,)) for name, value in closed_forms.items()),
            *(
                Measurement(name, _means(world.gains(delta, shift)), num_draws=num_draws)
                for name, shift in predicted.items()
            ),
            Measurement(
                "simulated",
                _means(_simulated(world, rho, num_draws, coefficients, cell.seed)),
                num_draws=num_draws,
            ),
        ]


def _simulated(
    world: GaussianWorld, rho: np.ndarray, num_draws: int, fitted: np.ndarray, seed: int
) -> np.ndarray:
    """Measure what a fitted corrector gains on draws that it has not seen.

    Nothing of the theorem's proof is used: parameters, data and departures are drawn, and
    errors of the posterior mean are compared.
    """
    delta, z = world.simulate(rho, num_draws, seed=derive(seed, "judged") or 0)
    theta, y_obs = world.observe(delta, seed=derive(seed, "observed") or 0)
    return world.reductions(theta, y_obs, z @ fitted)


def lines(rows: pd.DataFrame) -> Sequence[Line]:
    """Make a line for each pattern and quantity."""
    by_cell = dict(list(rows.groupby(["method", "metric"], sort=False)))
    return [
        Line(
            "Verification of Theorem 1",
            {"correlations": pattern, "quantity": label},
            raw=_compare(pattern, metric, by_cell[pattern, metric]),
            metric="value",
        )
        for pattern in PATTERNS
        for metric, label in QUANTITIES.items()
        if (pattern, metric) in by_cell
    ]


def _compare(pattern: str, metric: str, found: pd.DataFrame) -> Compared:
    # As the paper does where it prints a figure: more decimals where nothing is gained.
    digits = 2 if metric == "information" else 5 if pattern == "zero" else 4
    known = beside(printed("theorem_1", metric, method=pattern), digits)
    if found["num_draws"].isna().all():
        return exactly(found["value"].iloc[0], **known)
    return estimate(np.concatenate(list(found["values"])), **known)


def _means(gains: np.ndarray) -> tuple[float, ...]:
    return tuple(float(part.mean()) for part in np.array_split(gains, NUM_PARTS))
