"""Response times under instructions: what corrections do to the loss and the boundary."""

from __future__ import annotations

import math
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import asdict, replace
from typing import Any

import numpy as np
import pandas as pd
from scipy import stats

from ma_sbi.context import as_codes
from ma_sbi.protocols import Corrections
from ma_sbi_bench.engine.budget import Budget
from ma_sbi_bench.engine.cell import Backbone, Cell, Measurement
from ma_sbi_bench.engine.models import Models
from ma_sbi_bench.paper.comparing import Compared, Line, beside
from ma_sbi_bench.paper.printed import printed
from ma_sbi_bench.paper.words import named
from ma_sbi_bench.plots import Figures
from ma_sbi_bench.real.experiment import (
    BASELINE,
    PRIOR,
    RealExperiment,
    conditional_part,
    loss,
    usual_parts,
)
from ma_sbi_bench.real.instructions.study import (
    EVANS_HAWKINS,
    NUM_TRIALS,
    InstructionStudy,
    file_of,
    load_cases,
    simulated_cases,
    trials_backbone,
)
from ma_sbi_bench.real.preflight import (
    preflight_lines,
    read_interval,
    with_interval,
)
from ma_sbi_bench.tasks import DDM

__all__ = ["INSTRUCTIONS", "RELATIVE", "figures", "lines"]

DATA = {
    "forstmann2008": "Forstmann et al. (2008)",
    "ratcliff_rouder1998_exp1": "Ratcliff & Rouder (1998)",
    "cavanagh2011_dbs": "Cavanagh et al. (2011)",
    "simulated": "simulated, no departure",
    EVANS_HAWKINS: "Evans & Hawkins (2019)",
}
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
PARAMETERS = ("v", "a", "tau")
SHUFFLED = ", shuffled"
NATS, PER_CENT = "gain, nats per trial", "gain, % of NPE's loss"
RELATIVE = "Gains in per cent of the loss"
NOT_AVAILABLE = "the data are on OSF only and were not available"


def _settings(budget: Budget, data: str, method: str, seed: int) -> dict[str, Any]:
    settings = {
        "draws": 100 if budget.quick else 500,
        "posterior": asdict(trials_backbone(budget, seed)),
    }
    if method.endswith(SHUFFLED):
        settings["deals"] = 3 if budget.quick else 20
    return settings


def _world(cell: Cell) -> dict[str, Any]:
    shared = {name: cell.settings[name] for name in ("draws", "posterior")}
    return {"data": cell.task, **shared}


def _prepare(world: Mapping[str, Any], seed: int, models: Models) -> InstructionStudy:
    posterior = models.posterior(Backbone(**world["posterior"]))
    task = DDM(NUM_TRIALS)
    simulated = world["data"] == "simulated"
    cases = load_cases(IMITATED if simulated else world["data"], seed=seed)
    options: Any = {"num_samples": world["draws"], "seed": seed}
    study = InstructionStudy(cases, task, posterior, **options)
    if not simulated:
        return study
    # The same subjects without any departure: their first posterior draw.
    subjects = cases.table.drop_duplicates("subject").index
    theta = posterior.sample(1, study.x[subjects], seed=seed)[0]
    imitation = simulated_cases(cases, theta, seed=seed)
    return InstructionStudy(imitation, task, posterior, **options)


def _measure(study: InstructionStudy, cell: Cell) -> list[Measurement]:
    """Score a method on every case, and measure the effect of the instruction.

    Shuffled labels are scored by two means: of each case, and of each shuffle.
    """
    if not cell.method.endswith(SHUFFLED):
        corrections = _corrections(study, cell.method)
        losses = study.losses(corrections)
        return [loss(losses, cell), *_effects(study, corrections, cell.task)]
    method = cell.method.removesuffix(SHUFFLED)
    by_shuffle = np.stack(
        [
            study.losses(study.corrections(method, study.shuffled(shuffle)))
            for shuffle in range(cell.settings["deals"])
        ]
    )
    means = tuple(by_shuffle.mean(axis=1).tolist())
    return [loss(by_shuffle.mean(axis=0), cell), Measurement("loss_of_deal", means)]


def _describe(study: InstructionStudy, cell: Cell) -> dict[str, list[int]]:
    table = study.cases.table
    codes = as_codes(table["subject"], "subject", len(table))
    return {"subject": codes.tolist(), "num_held_out": table["num_held_out"].tolist()}


def _corrections(study: InstructionStudy, method: str) -> Corrections:
    whole, no_regime = "matched", pd.Series(["all"] * len(study.x))
    if method == "marginal-only":
        return study.corrections(whole, no_regime)
    if method == "conditional-only":
        parts = study.corrections(whole), study.corrections(whole, no_regime)
        return conditional_part(study.x, *parts)
    return study.corrections(method)


def _effects(
    study: InstructionStudy, corrections: Corrections, data: str
) -> list[Measurement]:
    """Measure what the instruction does to theta, with an interval over subjects."""
    first, second = CONTRASTS[data]
    effect = study.effect(corrections, first, second)
    seen = study.cases.table.groupby("regime")["subject"].agg(set)
    both = seen[first] & seen[second]
    freedom = len(both) - 1 if both else len(seen[first]) + len(seen[second]) - 2
    reach = float(stats.t.ppf(0.975, freedom))
    measured = []
    for name, (size, error) in zip(PARAMETERS, effect.to_numpy(), strict=True):
        measured += with_interval(
            f"effect_on_{name}", size, size - reach * error, size + reach * error
        )
    return measured


INSTRUCTIONS = RealExperiment(
    **named("instructions"),
    names=DATA,
    head="data",
    methods=(
        PRIOR,
        BASELINE,
        "matched",
        "marginal-only",
        "conditional-only",
        "stochastic",
        "stochastic, pooled",
        "matched" + SHUFFLED,
        "stochastic" + SHUFFLED,
    ),
    parts=usual_parts("matched", "stochastic, pooled"),
    about=("subject", "num_held_out"),
    group="subject",  # subjects are independent, their cases are not
    unit="nats per trial",
    digits=4,
    file=file_of,
    settings=_settings,
    world=_world,
    prepare=_prepare,
    measure=_measure,
    describe=_describe,
)


def lines(rows: pd.DataFrame) -> Sequence[Line]:
    """Make tables of losses, gains, effects, parts and pre-flight values."""
    tables = INSTRUCTIONS.losses(rows)
    return [
        *INSTRUCTIONS.loss_lines(rows, _loss_note),
        *(
            _gain_line(
                data,
                method,
                # In nats: these losses are near zero, and a share of nothing is noise.
                Compared(gain.gain, gain.low, gain.high, better="higher", digits=4),
                f"Wilcoxon p = {gain.p_value:.1g}",
            )
            for data, losses in tables.items()
            for method, gain in INSTRUCTIONS.gains(losses, BASELINE).items()
        ),
        *_relative_lines(tables),
        *(_not_run() if len(rows) and EVANS_HAWKINS not in tables else ()),
        *(line for data in tables for line in _shuffled_lines(data, rows)),
        *_effect_lines(rows),
        *INSTRUCTIONS.part_lines(rows),
        *preflight_lines(rows, INSTRUCTIONS.head, DATA),
    ]


def figures(rows: pd.DataFrame) -> Figures:
    """Draw what each part takes off the loss."""
    return INSTRUCTIONS.part_figure("instructions_decomposition", rows)


def _loss_note(task: str, method: str, losses: pd.DataFrame) -> str:
    return (
        f"{len(losses)} cases of {losses['subject'].nunique()} subjects, "
        f"{losses['num_held_out'].sum()} trials"
    )


def _gain_line(data: str, method: str, gain: Compared, note: str) -> Line:
    return Line("Gains", _gain_labels(data, method), gain, metric=NATS, note=note)


def _gain_labels(data: str, method: str) -> dict[str, str]:
    return {"data": DATA[data], "over": BASELINE, "method": method}


def _relative_lines(losses: Mapping[str, pd.DataFrame]) -> Iterator[Line]:
    """Express gains in per cent of NPE's mean loss, as the paper prints its own."""
    for data, of_data in losses.items():
        for method, gain in INSTRUCTIONS.gains(of_data, BASELINE).items():
            whole = abs(float(of_data[BASELINE].mean()))
            unit = 100 / whole
            paper = printed(
                "instructions", "gain", task=data, method=method, axis=f"over {BASELINE}"
            )
            share = Compared(
                unit * gain.gain,
                unit * gain.low,
                unit * gain.high,
                better="higher",
                **beside(paper, digits=1),
            )
            labels = _gain_labels(data, method)
            note = f"of {whole:.4f} nats per trial"
            yield Line(RELATIVE, labels, share, metric=PER_CENT, note=note)


def _not_run() -> list[Line]:
    data = {"task": EVANS_HAWKINS, "method": "matched"}
    paper = printed("instructions", "gain", axis=f"over {BASELINE}", **data)
    blank = Compared(math.nan, reason=NOT_AVAILABLE, **beside(paper))
    labels = _gain_labels(EVANS_HAWKINS, "matched")
    note = f"not run: {NOT_AVAILABLE}"
    return [
        _gain_line(EVANS_HAWKINS, "matched", replace(blank, paper=None), note),
        Line(RELATIVE, labels, blank, metric=PER_CENT, note=note),
    ]


def _shuffled_lines(data: str, rows: pd.DataFrame) -> list[Line]:
    """Compare true labels with shuffled ones."""
    values = rows[rows["task"] == data].groupby(["method", "metric"])["values"]
    by_cell = {key: np.stack(list(some)) for key, some in values}
    made = []
    for method in ("matched", "stochastic"):
        true, shuffled = (method, "loss"), (method + SHUFFLED, "loss_of_deal")
        if true not in by_cell or shuffled not in by_cell:
            continue
        gain = by_cell[shuffled].ravel() - by_cell[true].mean()
        low, high = np.quantile(gain, [0.025, 0.975])
        made.append(
            Line(
                "True over shuffled labels",
                {"data": DATA[data], "method": method},
                raw=Compared(float(gain.mean()), float(low), float(high), digits=4),
                metric="nats per trial",
                note=f"{len(gain)} shuffles",
            )
        )
    return made


def _effect_lines(rows: pd.DataFrame) -> list[Line]:
    made = []
    measured = rows[rows["metric"].str.startswith("effect_on_")]
    for (data, method), part in measured.groupby(["task", "method"], sort=False):
        effect = {name: read_interval(part, f"effect_on_{name}") for name in PARAMETERS}
        first, second = CONTRASTS[data]
        made.append(
            Line(
                "Effect of the instruction on the boundary",
                {"data": DATA[data], "contrast": f"{first} - {second}", "method": method},
                raw=effect["a"],
                metric="effect on a",
                note=f"on v {effect['v'].value:+.3f}, on tau {effect['tau'].value:+.3f}",
            )
        )
    return made
