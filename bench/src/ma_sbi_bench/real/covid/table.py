"""Covid-19 counts under changing policies: what a correction by policy gains."""

from __future__ import annotations

import math
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
from ma_sbi_bench.real.covid.study import (
    BLOCK,
    WindowStudy,
    fortnight_backbone,
    gains,
    log_jacobian,
)
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

__all__ = ["COVID", "figures", "lines", "losses_of_logs"]

OF_LOGS = "In the density of x = log(1 + y)"

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
    "paper-loo-width_0.25": "4 countries, leave one out, Gaussian of width 0.25",
    "paper-loo-width_0.5": "4 countries, leave one out, Gaussian of width 0.5",
    "paper-loo-width_1": "4 countries, leave one out, Gaussian of width 1",
}
JACOBIAN = "log_jacobian"
WITH_WIDTH = (PRIOR, BASELINE, "stochastic", "pooled", "shuffled")
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
    width = _width(setting)
    if width is not None and method not in WITH_WIDTH:
        return None
    countries, pools, *variant = setting.split("-")
    known = variant == ["known_dispersion"]
    windows = {
        "countries": list(COUNTRY_SETS[countries]),
        "simulated": variant == ["simulated"],
        "windows": 3 * BLOCK if budget.quick else None,
    }
    if method == JACOBIAN:
        return windows
    settings = windows | {
        "pools": POOLS[pools],
        "draws": 100 if budget.quick else 1000,
        "posterior": asdict(fortnight_backbone(budget, seed, known_dispersion=known)),
    }
    if method == "shuffled":
        settings["deals"] = 2 if budget.quick else 10
    if method.endswith("notes"):
        settings["encoder"] = "hash" if budget.quick else "sentence"
    if width is not None:
        settings["width"] = width
    return settings


def _width(setting: str) -> float | None:
    """Read the width of the Gaussian density from the name of a setting that has one."""
    _, found, width = setting.partition("-width_")
    return float(width) if found else None


def _file(setting: str) -> str:
    return COVID_FILE


def _world(cell: Cell) -> dict[str, Any]:
    shared = ("countries", "simulated", "windows", "draws", "posterior")
    width = {"width": cell.settings.get("width")}
    return {name: cell.settings[name] for name in shared} | width


def _prepare(world: Mapping[str, Any], seed: int, models: Models) -> WindowStudy:
    backbone = Backbone(**world["posterior"])
    simulator = FortnightSimulator(**backbone.world_options)
    return WindowStudy(
        _windows(world, simulator, seed),
        simulator,
        models.posterior(backbone),
        num_samples=world["draws"],
        seed=seed,
        width=world["width"],
    )


def _log_jacobian(cell: Cell) -> Sequence[float]:
    counts = _windows(cell.settings, FortnightSimulator(), cell.seed).counts
    return log_jacobian(counts).tolist()


def _windows(world: Mapping[str, Any], simulator: FortnightSimulator, seed: int) -> Windows:
    windows = covid_windows(load_covid(world["countries"]), world["countries"])
    if world["windows"] is not None:
        windows = _first(windows, world["windows"])
    return _simulated(windows, simulator, seed) if world["simulated"] else windows


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
    of_data={JACOBIAN: _log_jacobian},
)


def lines(rows: pd.DataFrame) -> Sequence[Line]:
    """Make tables of losses and gains in both units, of parts and pre-flight values."""
    pools = ", leave one out"  # which residuals do not depend on
    names = {task: name.replace(pools, "") for task, name in SETTINGS.items()}
    of_counts = _of_counts(rows)
    of_logs = losses_of_logs(rows)
    return [
        *COVID.loss_lines(of_counts, _loss_note),
        *_gain_lines("Gains", COVID.losses(of_counts)),
        *(
            _loss_of_logs(setting, method, losses)
            for setting, losses in of_logs.items()
            for method in COVID.methods
            if method in losses
        ),
        *_gain_lines(f"{OF_LOGS}: gains", of_logs),
        *COVID.part_lines(of_counts),
        *preflight_lines(rows, COVID.head, names),
    ]


def losses_of_logs(rows: pd.DataFrame) -> dict[str, pd.DataFrame]:
    """Give the losses of each task in the density of x = log(1 + y).

    Those of counts are larger by what does not depend on the method; those of a Gaussian
    density are of x already.
    """
    more, tables = COVID.means_of_data(rows, JACOBIAN), {}
    for setting, losses in COVID.losses(rows).items():
        if _width(setting) is None and setting not in more:
            continue
        methods = [name for name in losses if name not in COVID.about]
        table = losses.copy()
        if _width(setting) is None:
            table[methods] = losses[methods].sub(more[setting], axis=0)
        tables[setting] = table
    return tables


def _of_counts(rows: pd.DataFrame) -> pd.DataFrame:
    return rows[np.array([_width(task) is None for task in rows["task"]], dtype=bool)]


def _loss_note(task: str, method: str, losses: pd.DataFrame) -> str:
    return f"{len(losses)} windows"


def _loss_of_logs(setting: str, method: str, losses: pd.DataFrame) -> Line:
    """Show a mean loss in the density of x beside the paper's, which fits no other unit."""
    mean = COVID.gain(losses, method, None)
    paper = printed("covid", "loss", task=setting, method=method)
    # As for other errors, agreement says nothing where noise hides half of the paper's.
    known = beside(paper, digits=2) | {"coarsest": paper.value / 2 if paper else math.inf}
    return Line(
        f"{OF_LOGS}: losses",
        {"setting": SETTINGS[setting], "method": method},
        raw=Compared(mean.gain, mean.low, mean.high, better="lower", **known),
        metric=COVID.unit,
        note=_loss_note(setting, method, losses),
    )


def _gain_lines(table: str, by_setting: Mapping[str, pd.DataFrame]) -> list[Line]:
    return [
        _gain_line(table, setting, over, method, gain)
        for setting, losses in by_setting.items()
        for over in (BASELINE, "pooled", "shuffled")
        for method, gain in COVID.gains(losses, over).items()
        if over == BASELINE or method.startswith("stochastic")
    ]


def _gain_line(table: str, setting: str, over: str, method: str, gain: PairedGain) -> Line:
    """Express a gain in per cent of the mean loss of what it is over."""
    # The paper's stand in the unit of its losses alone.
    paper, p_below = (
        printed("covid", metric, task=setting, method=method, axis=f"over {over}")
        if table.startswith(OF_LOGS)
        else None
        for metric in ("gain", "p_below")
    )
    known = beside(paper, digits=1) | {"coarsest": paper.value / 2 if paper else math.inf}
    nats = f"{gain.gain:+.2f} [{gain.low:+.2f}, {gain.high:+.2f}] nats per window"
    more = f" (paper < {p_below.value:g})" if p_below else ""
    return Line(
        table,
        {"setting": SETTINGS[setting], "over": over, "method": method},
        raw=Compared(
            100 * gain.relative,
            100 * gain.relative_low,
            100 * gain.relative_high,
            better="higher",
            **known,
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
    of_counts = _of_counts(rows)
    return {**drawn, **COVID.part_figure("covid_decomposition", of_counts)}
