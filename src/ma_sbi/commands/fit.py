"""The command ``fit``: from a table to a corrector in a file."""

from __future__ import annotations

import warnings
from pathlib import Path
from typing import TYPE_CHECKING, Annotated, Any

import typer

from ma_sbi.commands import options
from ma_sbi.threads import one_thread

if TYPE_CHECKING:
    import numpy as np

    from ma_sbi.checking.files import Observations
    from ma_sbi.correctors.files import TableColumns

__all__ = ["fit"]


def fit(
    file: options.TableFile,
    *,
    out: Annotated[Path, typer.Option(help="File to write the fitted corrector to.")],
    posterior: options.PosteriorPath = None,
    allow_pickle: options.AllowPickle = False,
    simulations: Annotated[
        Path | None,
        typer.Option(
            help="npz, csv, tsv or parquet with simulations from the prior: the columns of "
            "x, or x. In place of x_sim, or beside it."
        ),
    ] = None,
    density: Annotated[
        bool,
        typer.Option(
            "--density",
            help="Learn the density of these simulations, so that x itself weighs the "
            "candidates. It assumes that parameters come from the prior.",
        ),
    ] = False,
    json: Annotated[
        bool, typer.Option("--json", help="Print what was learned as JSON.")
    ] = False,
    context: options.ContextColumns = None,
    x_obs: options.XObsColumns = None,
    x_sim: options.XSimColumns = None,
    theta: options.ThetaColumns = None,
    groups: options.GroupsColumn = None,
    number: options.NumberColumns = None,
    label: options.LabelColumns = None,
    quiet: options.Quiet = False,
    seed: options.Seed = 0,
) -> None:
    """Learn a correction from a table, print what was learned, and save it."""
    from ma_sbi.display import progress
    from ma_sbi.display.text import printable
    from ma_sbi.writing import check_output

    with options.refusals("fit"):
        check_output(out, filter(None, [file, posterior, simulations]), "corrector")
        model = (
            None if posterior is None else options.PosteriorFile(posterior, allow_pickle)
        )
        if model is not None:
            options.require_file(model.path)
        if density and simulations is None:
            raise ValueError(
                "--density is learned from simulations: pass --simulations FILE"
            )
        replaced = out.exists()
        from ma_sbi.checking.files import read_observations, read_simulations

        named = options.named_columns(context, x_obs, x_sim, theta, groups, number, label)
        held = read_observations(file, **named)
        pool = None
        if simulations is not None:
            pool = read_simulations(simulations, held.columns[2], held.columns[0])
        if held.x_sim is None and pool is None:
            raise ValueError(
                "x_sim is missing: a correction is learned from simulations at the inputs "
                "of each observation; expected columns x_sim_0, x_sim_1, ..., or name "
                "others with --x-sim; or pass simulations from the prior: --simulations"
            )
        with one_thread(), progress.quiet(quiet):
            corrector = _fit(held, model, pool, seed, density=density)
            from ma_sbi.correctors.files import save_corrector

            save_corrector(corrector, out, table=_columns(held))
    if json:
        typer.echo(corrector.why.to_json())
        return
    typer.echo(printable(str(corrector.why)))
    for note in held.told():
        typer.echo(printable(f"- {note}"))
    if replaced:
        typer.echo(printable(f"An older file {out} was replaced."))
    typer.echo(printable(f"The corrector is {out}; ma-sbi correct TABLE --model {out}"))


def _columns(held: Observations) -> TableColumns:
    import pandas as pd

    from ma_sbi.correctors.files import TableColumns

    x_names = held.columns[0]
    if len(x_names) == 1 and held.x_obs.shape[1] > 1:
        x_names = tuple(f"{x_names[0]}_{i}" for i in range(held.x_obs.shape[1]))
    names = tuple(str(one) for one in pd.DataFrame(held.context).columns)
    return TableColumns(x_names, names)


def _fit(
    held: Observations,
    model: options.PosteriorFile | None,
    simulations: np.ndarray | None,
    seed: int,
    *,
    density: bool,
) -> Any:
    from ma_sbi import fit_corrector, fit_density
    from ma_sbi.display.text import shorten

    with warnings.catch_warnings(record=True) as caught:
        warnings.simplefilter("always")
        learned = None
        if density and simulations is not None:
            learned = fit_density(simulations, seed=seed)
        corrector = fit_corrector(
            held.context,
            held.x_obs,
            held.x_sim,
            simulations=simulations,
            density=learned,
            posterior=None if model is None else model.load("fit"),
            groups=held.groups,
            theta=held.theta,
            seed=seed,
        )
    for said in dict.fromkeys(shorten(one.message, options.LONGEST) for one in caught):
        typer.echo(f"ma-sbi fit: warning: {said}", err=True)
    return corrector
