"""The Exclusion Test: may the context be used, on our tasks and on real data."""

from __future__ import annotations

import math
from collections.abc import Sequence
from dataclasses import asdict
from typing import Any, NamedTuple

import numpy as np
import pandas as pd
import torch
from scipy.stats import binomtest
from torch import Tensor

from ma_sbi.diagnostics import exclusion_test, held_out_r2
from ma_sbi.diagnostics.exclusion import held_out_r2_error
from ma_sbi.protocols import Context
from ma_sbi.randomness import derive
from ma_sbi.simulation import sample_prior
from ma_sbi_bench.engine.budget import Budget
from ma_sbi_bench.engine.cell import Backbone, Cell, Measurement
from ma_sbi_bench.engine.experiment import Experiment
from ma_sbi_bench.engine.models import Models
from ma_sbi_bench.paper.comparing import Compared, Line, beside
from ma_sbi_bench.paper.printed import printed
from ma_sbi_bench.paper.words import named
from ma_sbi_bench.real.backbones import Simulator, backbone_of, predict
from ma_sbi_bench.real.covid.load import COVID_FILE, PAPER_COUNTRIES, load_covid
from ma_sbi_bench.real.covid.study import fortnight_backbone
from ma_sbi_bench.real.covid.windows import covid_windows
from ma_sbi_bench.real.instructions.study import (
    NUM_TRIALS,
    file_of,
    load_cases,
    trials_backbone,
)
from ma_sbi_bench.real.source import missing_file
from ma_sbi_bench.tasks import DDM, get_task
from ma_sbi_bench.tasks.ddm import density_summary
from ma_sbi_bench.tasks.fortnight import FortnightSimulator

__all__ = ["ExclusionTable", "lines"]

TASKS: dict[str, tuple[str, dict[str, Any]]] = {
    "SLCP": ("slcp", {}),
    "SIR": ("sir_delay_million", {}),
    "SIR, plain counts": ("sir_delay_million", {"scale": "counts"}),
    "SIR, one in a thousand counted": ("sir_delay", {}),
    "SIR, surveys": ("sir_delay", {"layout": "surveys"}),
    "DDM": ("ddm_small_shifts", {}),
    "DDM, larger shifts": ("ddm", {}),
    "DDM, delay of each trial": ("ddm_trials", {}),
    "Two Moons": ("two_moons", {}),
    "GL": ("gaussian_linear", {}),
}
"""Task and options behind each label."""

COVID = "COVID + OxCGRT"
RESPONSE_TIMES = {
    "Forstmann 2008": "forstmann2008",
    "Cavanagh 2011": "cavanagh2011_dbs",
    "Evans-Hawkins": "evans_hawkins",
}
FILES = {
    COVID: COVID_FILE,
    **{label: file_of(data) for label, data in RESPONSE_TIMES.items()},
}
"""The file of real data, by label."""

STAND_INS = ("prior", "predicted")
# What the paper prints stands beside these: its residuals, of which delta is one, are taken
# from what the posterior predicts.
IN_PAPER = ("true", "predicted")
# The paper's limit for R^2 of x_sim. Shares of nothing are sampled noise: two that are
# nearer to each other than a twentieth of the limit say the same.
LIMIT = 0.10
ALIKE = LIMIT / 20
VARIABLES = {
    "sim": "x_sim",
    "obs": "x_obs",
    "delta": "delta",
    "columns": "delta, columns alike",
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

    name, title, place, note = named("exclusion").values()

    def cells(self, budget: Budget) -> Sequence[Cell]:
        """List the tasks, once and many times, and real data with either stand-in."""
        quick = budget.quick
        once = {"rows": 1000 if quick else 10_000, "permutations": 99 if quick else 500}
        often = {
            "rows": 200 if quick else 1000,
            "permutations": 99 if quick else 199,
            "repeats": 5 if quick else 40,
        }
        seeds = budget.seeds_of()
        tasks = [
            self.cell(
                method,
                task=label,
                seed=seed,
                settings=settings | {"world": world, "options": options},
            )
            for seed in seeds
            for method, settings in (("true", once), ("repeated", often))
            for label, (world, options) in TASKS.items()
        ]
        return tasks + [
            self._real(budget, label, stand_in, seed)
            for seed in seeds
            for label in FILES
            for stand_in in STAND_INS
        ]

    def _real(self, budget: Budget, label: str, stand_in: str, seed: int) -> Cell:
        settings: dict[str, Any] = {"permutations": 99 if budget.quick else 500}
        backbone = ""
        if stand_in == "predicted":
            define = fortnight_backbone if label == COVID else trials_backbone
            settings["posterior"] = asdict(define(budget, seed))
            backbone = "maf"
        known = {"backbone": backbone, "seed": seed, "settings": settings}
        return self.cell(stand_in, task=label, **known)

    def missing(self, cell: Cell) -> str:
        """Say where the data behind a real context should be."""
        return missing_file(FILES[cell.task]) if cell.task in FILES else ""

    def backbones(self, cell: Cell) -> Sequence[Backbone]:
        """Name the posterior that predicts what stands for clean simulations."""
        return (backbone_of(cell),) if "posterior" in cell.settings else ()

    def run(self, cell: Cell, models: Models) -> Sequence[Measurement]:
        """Test one context, or many that are clean."""
        if cell.method == "repeated":
            return [Measurement("passed", _repeat(cell))]
        if cell.method == "true":
            return _test(_draw(cell, cell.seed), cell)
        return _test(_load(cell, models), cell)


def _draw(cell: Cell, seed: int | None) -> Case:
    task = get_task(cell.settings["world"], **cell.settings["options"])
    draws = task.draw(cell.settings["rows"], seed=seed)
    return Case(draws.context, draws.x_sim, draws.x_obs, draws.theta)


def _load(cell: Cell, models: Models) -> Case:
    """Load real data, and predict or simulate what stands for clean simulations."""
    simulator: Simulator
    if cell.task == COVID:
        simulator = FortnightSimulator()
        windows = covid_windows(load_covid(), PAPER_COUNTRIES)
        regime = windows.table["regime"].astype(str).tolist()
        x_obs = torch.as_tensor(windows.counts, dtype=torch.float64).log1p().float()
    else:
        simulator = DDM(NUM_TRIALS)
        subjects = load_cases(RESPONSE_TIMES[cell.task], seed=cell.seed)
        regime = subjects.table["regime"].tolist()
        x_obs = density_summary(subjects.fitted).float()
    if cell.method == "predicted":
        posterior = models.posterior(backbone_of(cell))
        return Case(regime, predict(posterior, simulator, x_obs, cell.seed), x_obs)
    seed = derive(cell.seed, "prior")
    theta = sample_prior(simulator.prior, len(x_obs), seed=seed)
    return Case(regime, simulator.simulate(theta, seed=cell.seed), x_obs, theta)


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
    """Test clean contexts, drawn independently: about 95 % should pass."""
    passed = []
    for repeat in range(cell.settings["repeats"]):
        seed = derive(cell.seed, f"repeat {repeat}")
        case = _draw(cell, seed)
        found = exclusion_test(
            case.context,
            case.x_sim,
            theta=case.theta,
            num_permutations=cell.settings["permutations"],
            seed=seed,
        )
        passed.append(float(found.passed is True))
    return tuple(passed)


def lines(rows: pd.DataFrame) -> Sequence[Line]:
    """Put shares beside the paper's; data that were not there are blank."""
    if not len(rows):
        return []
    made = []
    repeated = rows["method"] == "repeated"
    for label in [*TASKS, *FILES]:
        parts = rows[(rows["task"] == label) & ~repeated].groupby("method", sort=False)
        for stand_in, part in parts:
            made += _shares(label, str(stand_in), part)
        if not len(parts) and label in FILES:
            made += _absent(label)
    for label, part in rows[repeated].groupby("task", sort=False):
        share = _proportion(np.concatenate(list(part["values"])))
        made.append(Line(REPEATED, {"data": str(label)}, share, metric="share"))
    return made


def _shares(label: str, stand_in: str, part: pd.DataFrame) -> list[Line]:
    """Make a line for each variable, averaged over seeds."""
    found = part.groupby("metric")["value"].mean()
    num_seeds = part["seed"].nunique()
    # Real observations are the same for every seed.
    num_draws = num_seeds if label in TASKS else 1
    made = []
    for name, variable in VARIABLES.items():
        value = float(found[f"r2_{name}"])
        half = 1.96 * float(found[f"error_{name}"]) / math.sqrt(num_draws)
        known = _paper(label, stand_in, name)
        known |= {"num": int(found["rows"]), "unit": "rows"}
        number = Compared(value, value - half, value + half, **known)
        note = _outcome(found, num_seeds) if name == "sim" else ""
        made.append(_share_line(label, stand_in, variable, number, note))
    return made


def _paper(label: str, stand_in: str, name: str) -> dict[str, Any]:
    """Give what the paper prints, beside the reading of x_sim that it describes."""
    if stand_in not in IN_PAPER:
        return beside(None)
    paper = beside(printed("exclusion", f"r2_{name}", task=label))
    return paper | {"coarsest": LIMIT / 2, "alike": ALIKE if name == "sim" else 0.0}


def _share_line(
    label: str, stand_in: str, variable: str, number: Compared, note: str
) -> Line:
    labels = {"data": label, "x_sim is": stand_in, "R² of": variable}
    return Line(TABLE, labels, number, metric="R²", note=note)


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
    """Show what the paper prints of data that were not there."""
    reason = f"not run: {FILES[label]} was not available"
    return [
        _share_line(
            label, "", variable, Compared(math.nan, reason=reason, **beside(paper)), reason
        )
        for name, variable in VARIABLES.items()
        if (paper := printed("exclusion", f"r2_{name}", task=label))
    ]


def _proportion(passed: np.ndarray) -> Compared:
    """Average outcomes, with Wilson's interval."""
    ends = binomtest(int(passed.sum()), len(passed)).proportion_ci(method="wilson")
    return Compared(float(passed.mean()), float(ends.low), float(ends.high))
