"""Response times under instructions: what corrections do to the loss and the boundary."""

from __future__ import annotations

import json
import math
from collections.abc import Mapping, Sequence
from functools import lru_cache
from typing import Any

import numpy as np
import pandas as pd
from matplotlib.figure import Figure
from scipy import stats

from ma_sbi.context import as_codes
from ma_sbi.protocols import Corrections
from ma_sbi_bench.engine.budget import Budget
from ma_sbi_bench.engine.cell import Backbone, Cell, Measurement
from ma_sbi_bench.engine.models import Laboratory
from ma_sbi_bench.real import load_evans_hawkins, load_response_times
from ma_sbi_bench.real.experiment import BASELINE, PREFLIGHT, RealExperiment
from ma_sbi_bench.real.instructions.study import (
    InstructionStudy,
    cut_cells,
    simulated_cells,
)
from ma_sbi_bench.real.parts import (
    Part,
    conditional_part,
    measure_preflight,
    read_interval,
    with_interval,
)
from ma_sbi_bench.real.worlds import (
    EVANS_HAWKINS_FOLDER,
    NUM_TRIALS,
    RESPONSE_TIMES_FILE,
    as_setting,
    missing_file,
    trials_backbone,
)
from ma_sbi_bench.tables.comparing import Compared, Line
from ma_sbi_bench.tasks import DDM

__all__ = ["Instructions"]

PAPER_GAIN = -2.8
DATA = {
    "forstmann2008": "Forstmann et al. (2008)",
    "ratcliff_rouder1998_exp1": "Ratcliff & Rouder (1998)",
    "cavanagh2011_dbs": "Cavanagh et al. (2011)",
    "simulated": "simulated, no departure",
    "evans_hawkins": "Evans & Hawkins (2019)",
}
EVANS_HAWKINS = "evans_hawkins"
# Whose subjects and trials the simulated ones imitate.
IMITATED = "forstmann2008"
# The two regimes that the effect on theta is taken between.
CONTRASTS = {
    "forstmann2008": ("speed", "accuracy"),
    "ratcliff_rouder1998_exp1": ("speed", "accuracy"),
    "cavanagh2011_dbs": ("dbs_on", "dbs_off"),
    "simulated": ("speed", "accuracy"),
    EVANS_HAWKINS: ("no_delay", "one_second"),
}
SHUFFLED = ", shuffled"
PRIOR = "prior"
METHODS = (
    PRIOR,
    BASELINE,
    "matched",
    "marginal-only",
    "conditional-only",
    "stochastic",
    "stochastic, pooled",
    "matched" + SHUFFLED,
    "stochastic" + SHUFFLED,
)
PARTS = (
    Part("marginal", BASELINE, "marginal-only", "point"),
    Part("conditional", BASELINE, "conditional-only", "point"),
    Part("both", BASELINE, "matched", "point"),
    Part("breadth, no context", BASELINE, "stochastic, pooled", "stochastic"),
    Part("what context adds", "stochastic, pooled", "stochastic", "stochastic"),
    Part("breadth and context", BASELINE, "stochastic", "stochastic"),
)
PARAMETERS = ("v", "a", "tau")


class Instructions(RealExperiment):
    """Every method on people under instructions, in nats per held-out trial."""

    name = "instructions"
    title = "Response times under instructions"
    place = "Section on real-data validation"
    note = (
        "Cases are subjects under regimes; corrections are learned from other subjects. "
        "Intervals of losses and gains are from a bootstrap over subjects, those over "
        "shuffled labels are quantiles over deals, those of effects are from a t "
        "distribution. The paper's -2.8 % is on data of Evans & Hawkins (2019), which "
        "live on OSF only; where they are not at hand no figure of them is claimed. A "
        "loss here is near zero, so a per cent of it is a small number of nats."
    )
    names = DATA
    head = "data"
    methods = METHODS
    parts = PARTS
    about = ("subject", "num_held_out")
    group = "subject"  # subjects are independent, their cases are not
    unit = "nats per trial"
    digits = 4

    def cells(self, budget: Budget) -> Sequence[Cell]:
        """List every method on all data."""
        return [
            self._cell(budget, data, method, seed)
            for seed in budget.seeds_of()
            for data in DATA
            for method in (*METHODS, PREFLIGHT)
        ]

    def _cell(self, budget: Budget, data: str, method: str, seed: int) -> Cell:
        settings = {
            "draws": 100 if budget.quick else 500,
            "posterior": as_setting(trials_backbone(budget, seed)),
        }
        if method.endswith(SHUFFLED):
            settings["deals"] = 3 if budget.quick else 20
        return self.cell(method, task=data, backbone="maf", seed=seed, settings=settings)

    def missing(self, cell: Cell) -> str:
        """Say where the response times should be."""
        own = cell.task == EVANS_HAWKINS
        return missing_file(EVANS_HAWKINS_FOLDER if own else RESPONSE_TIMES_FILE)

    def run(self, cell: Cell, laboratory: Laboratory) -> Sequence[Measurement]:
        """Score a method on every case, or look at the residuals."""
        world = {k: v for k, v in cell.settings.items() if k != "deals"}
        definition = json.dumps(world, sort_keys=True)
        study = _study(cell.task, definition, cell.seed, str(laboratory.folder))
        subject = study.cells.table["subject"]
        if cell.method == PREFLIGHT:
            regime = study.cells.table["regime"].tolist()
            return measure_preflight(
                regime, study.x, study.predicted, subject.tolist(), cell.seed
            )
        if cell.method == PRIOR:
            return [_losses(study.prior_losses(), cell)]
        if cell.method.endswith(SHUFFLED):
            return _shuffled(study, cell)
        corrections = _corrections(study, cell.method)
        losses = study.losses(corrections)
        measured = [_losses(losses, cell), *_effects(study, corrections, cell.task)]
        if cell.method == BASELINE:
            codes = as_codes(subject, "subject", len(subject))
            held_out = study.cells.table["num_held_out"]
            measured += [
                Measurement("subject", tuple(codes.tolist())),
                Measurement("num_held_out", tuple(held_out.tolist())),
            ]
        return measured

    def lines(self, rows: pd.DataFrame) -> Sequence[Line]:
        """Make tables of losses, gains, effects, parts and what the residuals foretell."""
        tables = self.losses(rows)
        lines = self.loss_lines(rows)
        lines += [one for data in tables for one in self.gain_lines(data, tables[data])]
        lines += [one for data in tables for one in _shuffled_lines(data, rows)]
        if rows.shape[0] and EVANS_HAWKINS not in tables:
            lines.append(
                Line(
                    "Gains",
                    {"data": DATA[EVANS_HAWKINS], "over": BASELINE, "method": "matched"},
                    raw=Compared(math.nan, paper=PAPER_GAIN, digits=1, reason=NOT_AT_HAND),
                    metric="gain, nats per trial",
                    note=f"not run: {NOT_AT_HAND}; the paper's is in per cent",
                )
            )
        lines += _effect_lines(rows)
        return [*lines, *self.part_lines(rows), *self.residual_lines(rows)]

    def loss_note(self, task: str, method: str, losses: pd.DataFrame) -> str:
        """Say how many cases, subjects and trials there are."""
        return (
            f"{len(losses)} cases of {losses['subject'].nunique()} subjects, "
            f"{losses['num_held_out'].sum()} trials"
        )

    def gain_lines(self, data: str, losses: pd.DataFrame) -> list[Line]:
        """Show the gain of every method over NPE."""
        lines = []
        for method in [one for one in METHODS if one in losses and one != BASELINE]:
            gain = self.gain(losses, BASELINE, method)
            lines.append(
                Line(
                    "Gains",
                    {"data": DATA[data], "over": BASELINE, "method": method},
                    # In nats: these losses are near zero, and a share of nothing is noise.
                    raw=Compared(gain.gain, gain.low, gain.high, better="higher", digits=4),
                    metric="gain, nats per trial",
                    note=f"Wilcoxon p = {gain.p_value:.1g}",
                )
            )
        return lines

    def figures(self, rows: pd.DataFrame) -> Mapping[str, Figure]:
        """Draw what each part takes off the loss."""
        parts = self.part_figure(rows)
        return {} if parts is None else {"instructions_decomposition": parts}

    def captions(self) -> Mapping[str, str]:
        """Say what the figure shows."""
        return {
            "instructions_decomposition": "What each part of the correction takes off the "
            "loss of NPE: the mean shift and what the instruction adds to it (matched "
            "means), a pool of all residuals and its division by instruction "
            "(stochastic). Intervals are 95 %."
        }


NOT_AT_HAND = "the data live on OSF only and are not at hand"


@lru_cache(maxsize=2)
def _study(data: str, definition: str, seed: int, folder: str) -> InstructionStudy:
    """Prepare the cases of one data set, which all methods share."""
    settings = json.loads(definition)
    posterior = Laboratory(folder).posterior(Backbone(**settings["posterior"]))
    task = DDM(NUM_TRIALS)
    source = IMITATED if data == "simulated" else data
    trials = load_evans_hawkins() if data == EVANS_HAWKINS else load_response_times(source)
    cases = cut_cells(trials, NUM_TRIALS, seed=seed)
    options: Any = {"num_samples": settings["draws"], "seed": seed}
    study = InstructionStudy(cases, task, posterior, **options)
    if data != "simulated":
        return study
    # The same subjects without any departure: their first posterior draw.
    subjects = cases.table.drop_duplicates("subject").index
    theta = posterior.sample(1, study.x[subjects], seed=seed)[0]
    imitation = simulated_cells(cases, theta, seed=seed)
    return InstructionStudy(imitation, task, posterior, **options)


def _corrections(study: InstructionStudy, method: str) -> Corrections:
    whole, no_regime = "matched", pd.Series(["all"] * len(study.x))
    if method == "marginal-only":
        return study.corrections(whole, no_regime)
    if method == "conditional-only":
        parts = study.corrections(whole), study.corrections(whole, no_regime)
        return conditional_part(study.x, *parts)
    return study.corrections(method)


def _losses(losses: np.ndarray, cell: Cell) -> Measurement:
    draws = cell.settings["draws"]
    return Measurement("loss", tuple(losses.tolist()), num_draws=draws)


def _shuffled(study: InstructionStudy, cell: Cell) -> list[Measurement]:
    """Score labels dealt out at random: the mean of each case, and of each deal."""
    method = cell.method.removesuffix(SHUFFLED)
    losses = np.stack(
        [
            study.losses(study.corrections(method, study.shuffled(deal)))
            for deal in range(cell.settings["deals"])
        ]
    )
    by_deal = tuple(losses.mean(axis=1).tolist())
    return [_losses(losses.mean(axis=0), cell), Measurement("loss_of_deal", by_deal)]


def _effects(
    study: InstructionStudy, corrections: Corrections, data: str
) -> list[Measurement]:
    """Measure what the instruction does to theta, with an interval over subjects."""
    first, second = CONTRASTS[data]
    effect = study.effect(corrections, first, second)
    seen = study.cells.table.groupby("regime")["subject"].agg(set)
    both = seen[first] & seen[second]
    freedom = len(both) - 1 if both else len(seen[first]) + len(seen[second]) - 2
    reach = float(stats.t.ppf(0.975, freedom))
    measured = []
    for name, (size, error) in zip(PARAMETERS, effect.to_numpy(), strict=True):
        measured += with_interval(
            f"effect_on_{name}", size, size - reach * error, size + reach * error
        )
    return measured


def _shuffled_lines(data: str, rows: pd.DataFrame) -> list[Line]:
    """Compare true labels with labels dealt out at random."""
    rows = rows[rows["task"] == data]
    lines = []
    for method in ("matched", "stochastic"):
        true = rows[(rows["method"] == method) & (rows["metric"] == "loss")]
        deals = rows[
            (rows["method"] == method + SHUFFLED) & (rows["metric"] == "loss_of_deal")
        ]
        if true.empty or deals.empty:
            continue
        gain = np.concatenate(deals["values"].tolist()) - true["value"].mean()
        low, high = np.quantile(gain, [0.025, 0.975])
        lines.append(
            Line(
                "True over shuffled labels",
                {"data": DATA[data], "method": method},
                raw=Compared(float(gain.mean()), float(low), float(high), digits=4),
                metric="nats per trial",
                note=f"{len(gain)} deals",
            )
        )
    return lines


def _effect_lines(rows: pd.DataFrame) -> list[Line]:
    found = rows[rows["metric"] == "effect_on_a"]
    lines = []
    for (data, method), _ in found.groupby(["task", "method"], sort=False):
        part = rows[(rows["task"] == data) & (rows["method"] == method)]
        others = (read_interval(part, f"effect_on_{name}").value for name in ("v", "tau"))
        drift, delay = others
        first, second = CONTRASTS[data]
        lines.append(
            Line(
                "Effect of the instruction on the boundary",
                {"data": DATA[data], "contrast": f"{first} - {second}", "method": method},
                raw=read_interval(part, "effect_on_a"),
                metric="effect on a",
                note=f"on v {drift:+.3f}, on tau {delay:+.3f}",
            )
        )
    return lines
