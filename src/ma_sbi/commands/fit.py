"""The command ``fit``: from a table to a corrector in a file."""

from __future__ import annotations

import warnings
from pathlib import Path
from typing import TYPE_CHECKING, Annotated, Any

import typer

from ma_sbi.commands.options import (
    LONGEST,
    AllowPickle,
    ContextColumns,
    GroupsColumn,
    LabelColumns,
    NumberColumns,
    PosteriorFile,
    PosteriorPath,
    Seed,
    TableFile,
    ThetaColumns,
    XObsColumns,
    XSimColumns,
    refusals,
)
from ma_sbi.threads import one_thread

if TYPE_CHECKING:
    from ma_sbi.checking.files import Observations
    from ma_sbi.correctors.files import TableColumns

__all__ = ["fit"]


def fit(
    file: TableFile,
    *,
    out: Annotated[Path, typer.Option(help="File to write the fitted corrector to.")],
    posterior: PosteriorPath = None,
    allow_pickle: AllowPickle = False,
    json: Annotated[
        bool, typer.Option("--json", help="Print what was learned as JSON.")
    ] = False,
    context: ContextColumns = None,
    x_obs: XObsColumns = None,
    x_sim: XSimColumns = None,
    theta: ThetaColumns = None,
    groups: GroupsColumn = None,
    number: NumberColumns = None,
    label: LabelColumns = None,
    seed: Seed = 0,
) -> None:
    """Learn a correction from a table, print what was learned, and save it."""
    from ma_sbi.display.text import printable
    from ma_sbi.writing import check_output

    with refusals("fit"):
        check_output(out, filter(None, [file, posterior]), "corrector")
        model = None if posterior is None else PosteriorFile(posterior, allow_pickle)
        if model is not None and not model.path.is_file():
            raise ValueError(f"there is no model in {model.path}")
        from ma_sbi.checking.files import read_observations

        held = read_observations(
            file,
            context=context or [],
            x_obs=x_obs or [],
            x_sim=x_sim or [],
            theta=theta or [],
            groups=groups,
            number=number or [],
            label=label or [],
        )
        if held.x_sim is None:
            raise ValueError(
                "x_sim is missing: a correction is learned from simulations at the inputs "
                "of each observation; expected columns x_sim_0, x_sim_1, ..., or name "
                "others with --x-sim"
            )
        with one_thread():
            corrector = _fit(held, model, seed)
            from ma_sbi.correctors.files import save_corrector

            save_corrector(corrector, out, table=_columns(held))
    if json:
        typer.echo(corrector.why.to_json())
        return
    typer.echo(printable(str(corrector.why)))
    for note in held.notes:
        typer.echo(printable(f"- {note}"))
    typer.echo(printable(f"The corrector is {out}; ma-sbi correct TABLE --model {out}"))


def _columns(held: Observations) -> TableColumns:
    import pandas as pd

    from ma_sbi.correctors.files import TableColumns

    x_names = held.columns[0]
    if len(x_names) == 1 and held.x_obs.shape[1] > 1:
        x_names = tuple(f"{x_names[0]}_{i}" for i in range(held.x_obs.shape[1]))
    names = tuple(str(one) for one in pd.DataFrame(held.context).columns)
    return TableColumns(x_names, names)


def _fit(held: Observations, model: PosteriorFile | None, seed: int) -> Any:
    from ma_sbi import fit_corrector
    from ma_sbi.display.text import shorten

    with warnings.catch_warnings(record=True) as caught:
        warnings.simplefilter("always")
        corrector = fit_corrector(
            held.context,
            held.x_obs,
            held.x_sim,
            posterior=None if model is None else model.load("fit"),
            groups=held.groups,
            theta=held.theta,
            seed=seed,
        )
    for said in dict.fromkeys(shorten(one.message, LONGEST) for one in caught):
        typer.echo(f"ma-sbi fit: warning: {said}", err=True)
    return corrector
