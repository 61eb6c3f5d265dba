"""Covid-19 counts under changing policies: what a correction by policy gains."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import asdict
from typing import Any

import numpy as np
import pandas as pd

from ma_sbi.encoders import HashEncoder, SentenceEncoder
from ma_sbi.metrics import PairedGain
from ma_sbi.randomness import derive
from ma_sbi.simulation import sample_prior
from ma_sbi_bench.engine.budget import Budget
from ma_sbi_bench.engine.cell import Backbone, Cell, Measurement
from ma_sbi_bench.engine.models import Models
from ma_sbi_bench.paper.comparing import Compared, Line, beside
from ma_sbi_bench.paper.printed import printed
from ma_sbi_bench.paper.words import named
from ma_sbi_bench.plots import Figures
from ma_sbi_bench.real.covid.load import (
    COUNTRIES,
    COVID_FILE,
    PAPER_COUNTRIES,
    load_covid,
)
from ma_sbi_bench.real.covid.study import BLOCK, WindowStudy, fortnight_backbone, gains
from ma_sbi_bench.real.covid.windows import Windows, covid_windows
from ma_sbi_bench.real.experiment import (
    BASELINE,
    PRIOR,
    RealExperiment,
    conditional_part,
    loss,
    usual_parts,
)
from ma_sbi_bench.real.preflight import PREFLIGHT, preflight_lines
from ma_sbi_bench.tasks.fortnight import FortnightSimulator

__all__ = ["COVID", "figures", "lines"]

COUNTRY_SETS = {"paper": PAPER_COUNTRIES, "ten": COUNTRIES}
POOLS = {"loo": "leave_one_out", "past": "past"}
# Which countries, which pools and, if not the default, which simulator or data.
SETTINGS = {
    "paper-loo": "4 countries, leave one out",
    "paper-past": "4 countries, past only",
    "ten-loo": "10 countries, leave one out",
    "ten-past": "10 countries, past only",
    "paper-loo-known_dispersion": "4 countries, leave one out, dispersion known",
    "paper-past-known_dispersion": "4 countries, past only, dispersion known",
    "paper-loo-simulated": "4 countries, leave one out, simulated counts",
}
QUICK = (
    "paper-loo",
    "ten-past",
    "paper-loo-known_dispersion",
    "paper-loo-simulated",
)
SIMILAR = (
    "stochastic, wording",
    "stochastic, notes",
    "stochastic, country",
    "stochastic, country and regime",
)
# An automatic width is chosen again for each window, which takes long where each of 710
# windows is left out by itself.
LEFT_OUT = {"ten-loo": SIMILAR}
BY_COUNTRY = ("stochastic", *SIMILAR[:1], *SIMILAR[2:])


def _settings(
    budget: Budget, setting: str, method: str, seed: int
) -> dict[str, Any] | None:
    # Residuals are the same whichever of them a window may draw from.
    repeated = method == PREFLIGHT and "-past" in setting
    if repeated or method in LEFT_OUT.get(setting, ()):
        return None
    countries, pools, *variant = setting.split("-")
    known = variant == ["known_dispersion"]
    settings = {
        "countries": list(COUNTRY_SETS[countries]),
        "pools": POOLS[pools],
        "simulated": variant == ["simulated"],
        "windows": 3 * BLOCK if budget.quick else None,
        "draws": 100 if budget.quick else 1000,
        "posterior": asdict(fortnight_backbone(budget, seed, known_dispersion=known)),
    }
    if method == "shuffled":
        settings["deals"] = 2 if budget.quick else 10
    if method.endswith("notes"):
        settings["encoder"] = "hash" if budget.quick else "sentence"
    return settings


def _file(setting: str) -> str:
    return COVID_FILE


def _world(cell: Cell) -> dict[str, Any]:
    shared = ("countries", "simulated", "windows", "draws", "posterior")
    return {name: cell.settings[name] for name in shared}


def _prepare(world: Mapping[str, Any], seed: int, models: Models) -> WindowStudy:
    backbone = Backbone(**world["posterior"])
    simulator = FortnightSimulator(**backbone.world_options)
    windows = covid_windows(load_covid(world["countries"]), world["countries"])
    if world["windows"] is not None:
        windows = _first(windows, world["windows"])
    if world["simulated"]:
        windows = _simulated(windows, simulator, seed)
    posterior = models.posterior(backbone)
    draws = world["draws"]
    return WindowStudy(windows, simulator, posterior, num_samples=draws, seed=seed)


def _first(windows: Windows, number: int) -> Windows:
    """Keep the first windows of each country."""
    early = (windows.table["time"] < number).to_numpy()
    table = windows.table[early].reset_index(drop=True)
    return Windows(table, windows.counts[early], windows.raw_counts[early])


def _simulated(windows: Windows, simulator: FortnightSimulator, seed: int) -> Windows:
    """Replace the counts by draws of the simulator: nothing departs from it."""
    own = derive(seed, "truth")
    theta = sample_prior(simulator.prior, len(windows), seed=own)
    counts = simulator.simulate(theta, seed=own).double().expm1().round()
    return Windows(windows.table, counts.numpy(), counts.numpy())


def _measure(study: WindowStudy, cell: Cell) -> list[Measurement]:
    pools: Any = cell.settings["pools"]
    if cell.method == "shuffled":
        shuffles = range(cell.settings["deals"])
        by_shuffle = [study.losses(study.shuffled(seed), pools) for seed in shuffles]
        return [loss(np.mean(by_shuffle, axis=0), cell)]
    sentences = cell.settings.get("encoder") == "sentence"
    methods = study.methods(SentenceEncoder() if sentences else HashEncoder())
    if cell.method != "conditional-only":
        return [loss(study.losses(methods[cell.method], pools), cell)]
    whole, marginal = (
        study.corrections(methods[name], pools) for name in ("point", "marginal-only")
    )
    return [loss(study.score(conditional_part(study.x, whole, marginal)), cell)]


def _describe(study: WindowStudy, cell: Cell) -> dict[str, list[int]]:
    country = study.table["iso3"].map(cell.settings["countries"].index)
    return {"time": study.table["time"].tolist(), "country": country.tolist()}


COVID = RealExperiment(
    **named("covid"),
    names=SETTINGS,
    head="setting",
    quick=QUICK,
    methods=(
        PRIOR,
        BASELINE,
        "point",
        "marginal-only",
        "conditional-only",
        "stochastic",
        "pooled",
        "shuffled",
        *SIMILAR,
    ),
    parts=usual_parts("point", "pooled"),
    about=("country", "time"),
    group="time",
    block=BLOCK,
    unit="nats per window",
    digits=2,
    file=_file,
    settings=_settings,
    world=_world,
    prepare=_prepare,
    measure=_measure,
    describe=_describe,
)


def lines(rows: pd.DataFrame) -> Sequence[Line]:
    """Make tables of losses, gains, parts and pre-flight values."""
    pools = ", leave one out"  # which residuals do not depend on
    names = {task: name.replace(pools, "") for task, name in SETTINGS.items()}
    return [
        *COVID.loss_lines(rows, _loss_note),
        *(
            _gain_line(setting, over, method, gain)
            for setting, losses in COVID.losses(rows).items()
            for over in (BASELINE, "pooled", "shuffled")
            for method, gain in COVID.gains(losses, over).items()
            if over == BASELINE or method.startswith("stochastic")
        ),
        *COVID.part_lines(rows),
        *preflight_lines(rows, COVID.head, names),
    ]


def _loss_note(task: str, method: str, losses: pd.DataFrame) -> str:
    paper = printed("covid", "loss", task=task, method=method)
    printed_loss = f"; paper {paper.value:g}, unit not stated" if paper else ""
    return f"{len(losses)} windows{printed_loss}"


def _gain_line(setting: str, over: str, method: str, gain: PairedGain) -> Line:
    """Express a gain in per cent of the mean loss of what it is over."""
    unit = 100 * gain.relative / gain.gain if gain.gain else 0.0
    paper, p_below = (
        printed("covid", metric, task=setting, method=method, axis=f"over {over}")
        for metric in ("gain", "p_below")
    )
    nats = f"{gain.gain:+.2f} [{gain.low:+.2f}, {gain.high:+.2f}] nats per window"
    more = f" (paper < {p_below.value:g})" if p_below else ""
    return Line(
        "Gains",
        {"setting": SETTINGS[setting], "over": over, "method": method},
        raw=Compared(
            100 * gain.relative,
            unit * gain.low,
            unit * gain.high,
            better="higher",
            **beside(paper, digits=1),
        ),
        metric="gain, %",
        note=f"{nats}; Wilcoxon p = {gain.p_value:.1g}{more}",
    )


def figures(rows: pd.DataFrame) -> Figures:
    """Draw gains by country, and what each part takes off the loss."""
    from ma_sbi_bench.plots.gains import plot_gains

    drawn = {}
    losses = COVID.losses(rows).get("ten-past", pd.DataFrame())
    shown = [one for one in BY_COUNTRY if one in losses]
    if "pooled" in losses and shown:
        named = losses.rename(columns={"country": "iso3"}).replace(
            {"iso3": dict(enumerate(COUNTRIES))}
        )
        over = "a pool that ignores the context"
        drawn["covid_gains"] = plot_gains(gains(named, over="pooled"), shown, over=over)
    return {**drawn, **COVID.part_figure("covid_decomposition", rows)}
