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
    one_thread,
    refusals,
)

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
        columns, entries = _as_it_will_be_read(held)
        with one_thread():
            corrector = _fit(held, entries, model, seed)
            from ma_sbi.correctors.files import save_corrector

            save_corrector(corrector, out, table=columns)
    if json:
        typer.echo(corrector.why.to_json())
        return
    typer.echo(printable(str(corrector.why)))
    for note in held.notes:
        typer.echo(printable(f"- {note}"))
    typer.echo(printable(f"The corrector is {out}; ma-sbi correct TABLE --model {out}"))


def _as_it_will_be_read(held: Observations) -> tuple[TableColumns, Any]:
    """Read contexts as later tables will be, so that equal cells are equal contexts."""
    import pandas as pd
    from pandas.api.types import is_datetime64_any_dtype, is_numeric_dtype

    from ma_sbi.applying.blocks import read_entries
    from ma_sbi.correctors.files import TableColumns

    table = pd.DataFrame(held.context)
    names = tuple(str(one) for one in table.columns)
    read_as: list[Any] = [
        "date"
        if is_datetime64_any_dtype(one)
        else "number"
        if is_numeric_dtype(one)
        else "label"
        for _, one in table.items()
    ]
    columns = [read_entries(table.iloc[:, i], how) for i, how in enumerate(read_as)]
    x_names = held.columns[0]
    if len(x_names) == 1 and held.x_obs.shape[1] > 1:
        x_names = tuple(f"{x_names[0]}_{i}" for i in range(held.x_obs.shape[1]))
    entries = columns[0] if len(columns) == 1 else pd.concat(columns, axis=1, keys=names)
    return TableColumns(x_names, names, tuple(read_as)), entries


def _fit(held: Observations, entries: Any, model: PosteriorFile | None, seed: int) -> Any:
    from ma_sbi import fit_corrector
    from ma_sbi.display.text import shorten

    with warnings.catch_warnings(record=True) as caught:
        warnings.simplefilter("always")
        corrector = fit_corrector(
            entries,
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
