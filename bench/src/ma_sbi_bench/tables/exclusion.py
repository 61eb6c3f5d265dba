"""The Exclusion Test: may the context be used, on our tasks and on real data."""

from __future__ import annotations

import math
from collections.abc import Sequence
from typing import Any, NamedTuple

import numpy as np
import pandas as pd
import torch
from scipy.stats import binomtest
from torch import Tensor

from ma_sbi.diagnostics import exclusion_test, held_out_r2
from ma_sbi.diagnostics.exclusion import held_out_r2_error
from ma_sbi.protocols import Context
from ma_sbi.randomness import derive, seeded
from ma_sbi_bench.engine.budget import Budget
from ma_sbi_bench.engine.cell import Backbone, Cell, Measurement
from ma_sbi_bench.engine.experiment import Experiment
from ma_sbi_bench.engine.models import Laboratory
from ma_sbi_bench.real import (
    PAPER_COUNTRIES,
    covid_windows,
    load_covid,
    load_evans_hawkins,
    load_response_times,
)
from ma_sbi_bench.real.covid.study import WindowStudy
from ma_sbi_bench.real.instructions.study import InstructionStudy, cut_cells
from ma_sbi_bench.real.worlds import (
    COVID_FILE,
    EVANS_HAWKINS_FOLDER,
    NUM_TRIALS,
    RESPONSE_TIMES_FILE,
    as_setting,
    backbone_of,
    fortnight_backbone,
    missing_file,
    trials_backbone,
)
from ma_sbi_bench.tables.comparing import Compared, Line
from ma_sbi_bench.tasks import DDM, get_task
from ma_sbi_bench.tasks.ddm import density_summary
from ma_sbi_bench.tasks.fortnight import FortnightSimulator

__all__ = ["ExclusionTable"]

TASKS: dict[str, tuple[str, dict[str, Any]]] = {
    "SLCP": ("slcp", {}),
    "SIR": ("sir_delay", {}),
    "SIR, surveys": ("sir_delay", {"layout": "surveys"}),
    "DDM": ("ddm", {}),
    "DDM, delay of each trial": ("ddm_trials", {}),
    "Two Moons": ("two_moons", {}),
    "GL": ("gaussian_linear", {}),
}
"""Task and options behind each label."""

COVID = "COVID + OxCGRT"
EVANS_HAWKINS = "Evans-Hawkins"
RESPONSE_TIMES = {
    "Forstmann 2008": "forstmann2008",
    "Cavanagh 2011": "cavanagh2011_dbs",
    EVANS_HAWKINS: "evans_hawkins",
}
FILES = {
    COVID: COVID_FILE,
    **dict.fromkeys(RESPONSE_TIMES, RESPONSE_TIMES_FILE),
    EVANS_HAWKINS: EVANS_HAWKINS_FOLDER,
}
"""What has to be at hand for real data, by label."""

STAND_INS = ("prior", "predicted")

VARIABLES = {
    "sim": "x_sim",
    "obs": "x_obs",
    "delta": "delta",
    "columns": "delta, columns alike",
}
# R^2 of x_sim, x_obs and delta, each with its decimals.
PAPER = {
    "SLCP": ((-0.002, 3), (0.007, 3), (1.00, 2)),
    "SIR": ((-0.001, 3), (0.49, 2), (0.70, 2)),
    "DDM": ((0.000, 3), (0.022, 3), (1.00, 2)),
    "Two Moons": ((0.001, 3), (0.053, 3), (1.00, 2)),
    COVID: ((0.003, 3), (0.172, 3), (0.752, 3)),
    EVANS_HAWKINS: ((0.000, 3), (0.061, 3), (1.000, 3)),
}
TABLE = "Held-out R² on the context"
REPEATED = "How often a clean context passes"


class Case(NamedTuple):
    """What is tested.

    Attributes:
        context: One entry per row.
        x_sim: Clean simulations, or what stands for them.
        x_obs: Observations.
        theta: Parameters of the simulations, where known.
    """

    context: Context
    x_sim: Tensor
    x_obs: Tensor
    theta: Tensor | None = None


class ExclusionTable(Experiment):
    """R^2 of simulations, observations and departures, and whether the context passes."""

    name = "exclusion"
    title = "Exclusion Test"
    place = "Appendix, table of the Exclusion Test"
    note = (
        "A context passes if R² of x_sim is below 0.10 (the paper's rule) and no "
        "dependence of x_sim or theta on it is found at the 5 % level of both tests "
        "together: one clean context in twenty is refused, here SLCP's, which is "
        "independent by construction (below, 40 other draws of it). All tasks share their "
        "seeds. Real data have no clean x_sim, and the paper does not say what stood for "
        "it. Here `prior` is simulations of prior draws, which pass by construction, and "
        "`predicted` is what the posterior of each window or subject predicts. Intervals "
        "are over rows as if independent, which windows of a country are not. The paper "
        "does not say how many rows it had: its shares of x_sim, all within 0.003 of zero, "
        "can be noise that our 10,000 rows do not have, whatever the verdict on the third "
        "decimal."
    )

    def cells(self, budget: Budget) -> Sequence[Cell]:
        """List the tasks, and real data as far as they are at hand."""
        seeds = budget.seeds_of()
        return [
            *(cell for seed in seeds for cell in self._tasks(budget, seed)),
            *(cell for seed in seeds for cell in self._real(budget, seed)),
        ]

    def _tasks(self, budget: Budget, seed: int) -> list[Cell]:
        whole = {"rows": 1000, "permutations": 99} if budget.quick else {}
        often = {"rows": 200, "permutations": 99, "repeats": 5} if budget.quick else {}
        whole = {"rows": 10_000, "permutations": 500} | whole
        often = {"rows": 1000, "permutations": 199, "repeats": 40} | often
        return [
            self.cell(method, task=label, seed=seed, settings=settings)
            for method, settings in (("true", whole), ("repeated", often))
            for label in TASKS
        ]

    def _real(self, budget: Budget, seed: int) -> list[Cell]:
        cells = []
        for label in FILES:
            define = fortnight_backbone if label == COVID else trials_backbone
            for stand_in in STAND_INS:
                settings: dict[str, Any] = {"permutations": 99 if budget.quick else 500}
                if stand_in == "predicted":
                    settings["posterior"] = as_setting(define(budget, seed))
                cells.append(
                    self.cell(
                        stand_in,
                        task=label,
                        backbone="maf" if "posterior" in settings else "",
                        seed=seed,
                        settings=settings,
                    )
                )
        return cells

    def missing(self, cell: Cell) -> str:
        """Ask for the data behind a real context."""
        return missing_file(FILES[cell.task]) if cell.task in FILES else ""

    def backbones(self, cell: Cell) -> Sequence[Backbone]:
        """Name the posterior that predicts what stands for clean simulations."""
        return (backbone_of(cell),) if "posterior" in cell.settings else ()

    def run(self, cell: Cell, laboratory: Laboratory) -> Sequence[Measurement]:
        """Test one context, or many that are clean."""
        if cell.method == "repeated":
            return [Measurement("passed", _repeat(cell))]
        return _test(_case(cell, laboratory), cell)

    def lines(self, rows: pd.DataFrame) -> Sequence[Line]:
        """Put shares beside the paper's; data that are not at hand are blank."""
        if not len(rows):
            return []
        lines = []
        order = [*TASKS, *FILES]
        once = rows[rows["method"] != "repeated"]
        for label in order:
            parts = once[once["task"] == label].groupby("method", sort=False)
            for stand_in, part in parts:
                lines += _shares(label, str(stand_in), part)
            if not len(parts) and label in FILES and label in PAPER:
                lines += _absent(label)
        for label, part in rows[rows["method"] == "repeated"].groupby("task", sort=False):
            passed = np.concatenate(list(part["values"]))
            lines.append(
                Line(REPEATED, {"data": str(label)}, _proportion(passed), metric="share")
            )
        return lines


def _case(cell: Cell, laboratory: Laboratory) -> Case:
    """Draw or load what a cell tests."""
    if cell.task in TASKS:
        return _draw(cell.task, cell.settings["rows"], cell.seed)
    if cell.task == COVID:
        return _covid(cell, laboratory)
    return _response_times(cell, laboratory)


def _draw(label: str, num_rows: int, seed: int | None) -> Case:
    name, options = TASKS[label]
    draws = get_task(name, **options).draw(num_rows, seed=seed)
    return Case(draws.context, draws.x_sim, draws.x_obs, draws.theta)


def _covid(cell: Cell, laboratory: Laboratory) -> Case:
    simulator = FortnightSimulator()
    windows = covid_windows(load_covid(), PAPER_COUNTRIES)
    regime = windows.table["regime"].astype(str).tolist()
    if cell.method == "predicted":
        posterior = laboratory.posterior(backbone_of(cell))
        study = WindowStudy(windows, simulator, posterior, seed=cell.seed)
        return Case(regime, study.predicted, study.x)
    x_obs = torch.as_tensor(windows.counts, dtype=torch.float64).log1p().float()
    return Case(regime, *_from_prior(simulator, x_obs, cell.seed))


def _response_times(cell: Cell, laboratory: Laboratory) -> Case:
    task = DDM(NUM_TRIALS)
    trials = (
        load_evans_hawkins()
        if cell.task == EVANS_HAWKINS
        else load_response_times(RESPONSE_TIMES[cell.task])
    )
    subjects = cut_cells(trials, NUM_TRIALS, seed=cell.seed)
    regime = subjects.table["regime"].tolist()
    if cell.method == "predicted":
        posterior = laboratory.posterior(backbone_of(cell))
        study = InstructionStudy(subjects, task, posterior, seed=cell.seed)
        return Case(regime, study.predicted, study.x)
    x_obs = density_summary(subjects.fitted).float()
    return Case(regime, *_from_prior(task, x_obs, cell.seed))


def _from_prior(
    simulator: FortnightSimulator | DDM, x_obs: Tensor, seed: int
) -> tuple[Tensor, Tensor, Tensor]:
    """Simulate as many prior draws as there are observations."""
    with seeded(derive(seed, "prior")):
        theta = simulator.prior.sample((len(x_obs),))
    return simulator.simulate(theta, seed=seed), x_obs, theta


def _test(case: Case, cell: Cell) -> list[Measurement]:
    found = exclusion_test(
        *case, num_permutations=cell.settings["permutations"], seed=cell.seed
    )
    delta = case.x_obs.double() - case.x_sim.double()
    spread = delta.std(dim=0)
    columns = delta[:, spread > 1e-9] / spread[spread > 1e-9]
    measured = {"passed": float(found.passed is True), "rows": float(found.num_rows)}
    values = {"sim": case.x_sim, "obs": case.x_obs, "delta": delta, "columns": columns}
    for name, one in values.items():
        measured[f"r2_{name}"] = held_out_r2(one, case.context, seed=cell.seed)
        measured[f"error_{name}"] = held_out_r2_error(one, case.context, seed=cell.seed)
    for name, test in (("x_sim", found.x_sim), ("theta", found.theta)):
        if test is not None:
            measured[f"p_{name}"] = test.p_value
    return [Measurement(name, (value,)) for name, value in measured.items()]


def _repeat(cell: Cell) -> tuple[float, ...]:
    """Test clean contexts, drawn anew each time: about 95 % should pass."""
    passed = []
    for repeat in range(cell.settings["repeats"]):
        seed = derive(cell.seed, f"repeat {repeat}")
        case = _draw(cell.task, cell.settings["rows"], seed)
        found = exclusion_test(
            case.context,
            case.x_sim,
            theta=case.theta,
            num_permutations=cell.settings["permutations"],
            seed=seed,
        )
        passed.append(float(found.passed is True))
    return tuple(passed)


def _shares(label: str, stand_in: str, part: pd.DataFrame) -> list[Line]:
    """Make a line for each variable, averaged over seeds."""
    found = part.groupby("metric")["value"].mean()
    num_seeds = part["seed"].nunique()
    # Real observations are the same for every seed.
    num_draws = num_seeds if label in TASKS else 1
    lines = []
    for i, (name, variable) in enumerate(VARIABLES.items()):
        paper, digits = PAPER.get(label, ((None, 3),) * 3)[i] if i < 3 else (None, 3)
        value = float(found[f"r2_{name}"])
        half = 1.96 * float(found[f"error_{name}"]) / math.sqrt(num_draws)
        lines.append(
            Line(
                TABLE,
                {"data": label, "x_sim is": stand_in, "R² of": variable},
                Compared(value, value - half, value + half, paper=paper, digits=digits),
                metric="R²",
                note="" if i else _outcome(found, num_seeds),
            )
        )
    return lines


def _outcome(found: pd.Series, num_seeds: int) -> str:
    rows = f"{found['rows']:.0f} rows"
    if num_seeds > 1:
        return f"passes in {num_seeds * found['passed']:.0f} of {num_seeds} seeds, {rows}"
    tests = ", ".join(
        f"p = {found[f'p_{name}']:.2g} for {name}"
        for name in ("x_sim", "theta")
        if f"p_{name}" in found
    )
    return f"{'passes' if found['passed'] else 'refused'}: {tests}; {rows}"


def _absent(label: str) -> list[Line]:
    reason = f"not run: {FILES[label]} was not at hand"
    return [
        Line(
            TABLE,
            {"data": label, "x_sim is": "", "R² of": variable},
            Compared(math.nan, paper=paper, digits=digits, reason=reason),
            metric="R²",
            note=reason,
        )
        for variable, (paper, digits) in zip(
            list(VARIABLES.values())[:3], PAPER[label], strict=True
        )
    ]


def _proportion(passed: np.ndarray) -> Compared:
    """Average outcomes, with Wilson's interval."""
    ends = binomtest(int(passed.sum()), len(passed)).proportion_ci(method="wilson")
    return Compared(float(passed.mean()), float(ends.low), float(ends.high))
