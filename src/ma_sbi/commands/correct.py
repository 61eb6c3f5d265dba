"""The command ``correct``: a saved corrector applied to a table of any length."""

from __future__ import annotations

from collections.abc import Callable, Iterator, Sequence
from contextlib import contextmanager
from pathlib import Path
from typing import TYPE_CHECKING, Annotated, Any, Literal

import typer

from ma_sbi.commands.options import (
    AllowPickle,
    ContextColumns,
    LabelColumns,
    NumberColumns,
    PosteriorPath,
    Quiet,
    Seed,
    XObsColumns,
    refusals,
    require_file,
    warnings_told,
)
from ma_sbi.threads import one_thread

if TYPE_CHECKING:
    from ma_sbi.applying.running import Outcome
    from ma_sbi.applying.sources import Source
    from ma_sbi.correctors.files import Kept, TableColumns

__all__ = ["correct"]

INTERRUPTED = 130


def correct(
    file: Annotated[
        Path,
        typer.Argument(help="csv, tsv, parquet or npz with observations and contexts."),
    ],
    *,
    model: Annotated[
        Path, typer.Option(help="A corrector, or a corrected posterior, that save wrote.")
    ],
    out: Annotated[
        Path, typer.Option(help="File to write: csv, tsv, parquet or npz, by its name.")
    ],
    posterior: PosteriorPath = None,
    allow_pickle: AllowPickle = False,
    draws: Annotated[
        int | None,
        typer.Option(min=1, help="Draws from the corrected posterior, a line for each."),
    ] = None,
    candidates: Annotated[
        bool,
        typer.Option(
            "--candidates",
            help="Write every candidate with its weight, a line for each. The mean of "
            "several may be an x that none of them is.",
        ),
    ] = False,
    context: ContextColumns = None,
    x_obs: XObsColumns = None,
    number: NumberColumns = None,
    label: LabelColumns = None,
    scheduler: Annotated[
        str | None,
        typer.Option(help="Address of a Dask scheduler, to correct on its workers."),
    ] = None,
    start_over: Annotated[
        bool,
        typer.Option("--start-over", help="Forget what a run that was stopped has done."),
    ] = False,
    quiet: Quiet = False,
    seed: Seed = 0,
) -> None:
    """Correct every row of a table; a run that was stopped goes on where it was."""
    from ma_sbi.display.text import printable
    from ma_sbi.writing import check_output

    with refusals("correct"):
        _check_options(posterior, draws, candidates=candidates)
        check_output(out, filter(None, [file, model, posterior]), "table")
        for one in filter(None, [model, posterior]):
            require_file(one)
        from ma_sbi.applying.sources import open_source

        source = open_source(file)
        from ma_sbi.applying.blocks import Job, check_new, load_drawn, load_model
        from ma_sbi.applying.outputs import format_of
        from ma_sbi.applying.running import run

        format_of(out)
        replaced = out.exists()
        with one_thread():
            content = model.read_bytes()
            kept = load_model(content, model)
            if draws and posterior is None and kept.posterior is None:
                raise ValueError("draws need a posterior: pass --posterior FILE")
            columns = _columns(source, kept, context, x_obs, number or [], label or [])
            drawn, own = kept.posterior, None
            if posterior is not None:
                own = posterior.read_bytes()
                with warnings_told("correct"):
                    drawn = load_drawn(own, posterior, allow_pickle=allow_pickle)
            _check_widths(source, columns, kept, model)
            if draws:
                _check_posterior(drawn, posterior or model, kept, model)
            job = Job(
                content,
                columns,
                out.suffix.lower(),
                "draws" if draws else "candidates" if candidates else "mean",
                own,
                allow_pickle,
                draws or 0,
                seed,
            )
            check_new(job, source.names)
            with _workers(scheduler) as workers, _progress(source, quiet=quiet) as progress:
                try:
                    outcome = run(
                        source,
                        job,
                        out,
                        workers=workers,
                        start_over=start_over,
                        progress=progress,
                    )
                except KeyboardInterrupt:
                    typer.echo(
                        "ma-sbi correct: stopped; the same command goes on from here "
                        f"({out}.blocks has what is done)",
                        err=True,
                    )
                    raise typer.Exit(INTERRUPTED) from None
    typer.echo(printable(_summary(outcome, out)))
    if source.left_out:
        names = ", ".join(source.left_out)
        typer.echo(printable(f"Left out, as they are no columns of its rows: {names}."))
    if replaced:
        typer.echo(printable(f"An older file {out} was replaced."))
    if not outcome.num_corrected:
        raise typer.Exit(1)


def _check_options(posterior: Path | None, draws: int | None, *, candidates: bool) -> None:
    if posterior is not None and not draws:
        raise ValueError("a posterior is for draws: pass --draws N, or leave it out")
    if draws and candidates:
        raise ValueError("either --draws or --candidates: a table has one kind of lines")


def _columns(
    source: Source,
    kept: Kept,
    context: list[str] | None,
    x_obs: list[str] | None,
    number: list[str],
    label: list[str],
) -> TableColumns:
    """Find which columns are x and context: as named, as in calibration, or by default."""
    import pandas as pd

    from ma_sbi.applying.contexts import read_as
    from ma_sbi.correctors.files import TableColumns

    known = pd.DataFrame(kept.corrector.examples().known)
    fitted = kept.table or TableColumns((), tuple(map(str, known.columns)))
    x_names = _found(source.names, x_obs, fitted.x_obs, "x_obs")
    # A list of Python has no name.
    has_names = kept.table is not None or all(isinstance(n, str) for n in known.columns)
    own_context = fitted.context if has_names else ()
    names = _found(source.names, context, own_context, "context")
    # Columns of calibration are told by their names, others by their order.
    x_names = fitted.x_obs if set(x_names) == set(fitted.x_obs) else x_names
    names = fitted.context if set(names) == set(fitted.context) else names
    if len(names) != known.shape[1]:
        raise ValueError(
            f"the corrector was fitted to {known.shape[1]} columns of context "
            f"({', '.join(fitted.context)}), and the table has {len(names)} "
            f"({', '.join(names)}): name them with --context"
        )
    how = {name: read_as(known.iloc[:, i]) for i, name in enumerate(names)}
    for option, given in (("number", number), ("label", label)):
        for one in given:
            if one in how and how[one] != option:
                raise ValueError(
                    f"--{option} {one}: calibration read this column as {how[one]}, and it "
                    "is read so here"
                )
    return TableColumns(x_names, names)


def _check_widths(source: Source, columns: TableColumns, kept: Kept, model: Path) -> None:
    """Check that the model corrects as many columns of x as the table has."""
    from ma_sbi.checking.files import in_words

    num = len(columns.x_obs)
    if source.path.suffix.lower() == ".parquet" or _takes(kept, num):
        return  # a column of parquet may hold several numbers
    raise ValueError(
        f"the table has {num} columns of x ({in_words(columns.x_obs)}), and the model "
        f"{model} corrects {kept.shown.x.shape[1]}: name them with --x-obs"
    )


def _check_posterior(posterior: Any, path: Path, kept: Kept, model: Path) -> None:
    """Check that a posterior takes as many columns of x as the model corrects."""
    dim_x = getattr(posterior, "dim_x", None)
    if isinstance(dim_x, int) and not _takes(kept, dim_x):
        raise ValueError(
            f"the posterior {path} takes {dim_x} columns of x, and the model {model} "
            f"corrects {kept.shown.x.shape[1]}: pass a posterior and a model of the same "
            "columns"
        )


def _takes(kept: Kept, num_columns: int) -> bool:
    """Tell whether a corrector takes so many columns of x: of trials, any number."""
    from ma_sbi.correctors.trials import TrialCorrector

    num, rest = divmod(num_columns, kept.shown.x.shape[1])
    return not rest and (num == 1 or isinstance(kept.corrector, TrialCorrector))


def _found(
    names: Sequence[str],
    given: list[str] | None,
    fitted: tuple[str, ...],
    what: Literal["x_obs", "context"],
) -> tuple[str, ...]:
    """Find the columns that the user gave, that calibration had, or that have usual names.

    Raises:
        ValueError: If they are not there.
    """
    from ma_sbi.checking.files import find_columns, in_words

    lost = [one for one in fitted if one not in names]
    if given or not lost:
        return find_columns(names, given or fitted, what)
    try:
        usual = find_columns(names, (), what)
    except ValueError:
        usual = ()
    if len(usual) == len(fitted):
        return usual
    raise ValueError(
        f"the model reads {in_words(fitted)}; there is no {in_words(lost)} in the table, "
        f"which has {in_words(names)}: name others with --{what.replace('_', '-')}"
    )


@contextmanager
def _workers(scheduler: str | None) -> Iterator[Any]:
    if scheduler is None:
        yield None
        return
    from ma_sbi.applying.cluster import Cluster

    cluster = Cluster(scheduler)
    try:
        yield cluster
    finally:
        cluster.stop()


@contextmanager
def _progress(source: Source, *, quiet: bool) -> Iterator[Callable[[int, int], None]]:
    """Show how far a run is, on standard error."""
    from rich.console import Console
    from rich.progress import BarColumn, Progress, TextColumn, TimeRemainingColumn

    columns = (TextColumn("{task.description}"), BarColumn(), TimeRemainingColumn())
    console = Console(stderr=True)
    with Progress(*columns, console=console, transient=True, disable=quiet) as shown:
        task = shown.add_task("Correcting", total=source.size)

        def tell(rows: int, position: int) -> None:
            shown.update(task, completed=position, description=f"{rows:,} rows corrected")

        yield tell


def _summary(outcome: Outcome, out: Path) -> str:
    from ma_sbi.applying.blocks import CONTEXT_IS, FAR, KNOWN, X_IS
    from ma_sbi.applying.unread import in_sentences

    num = f"{outcome.num_rows:,}"
    if outcome.num_corrected < outcome.num_rows:
        num = f"{outcome.num_corrected:,} of {num}"
    lines = [f"{num} rows corrected; the table is {out}."]
    if outcome.num_found:
        lines.append(f"{outcome.num_found:,} rows were done by a run that was stopped.")
    if outcome.num_far:
        lines.append(
            f"{outcome.num_far:,} rows have an x far outside the range of calibration, "
            f"or far smaller than it was ({X_IS}: {FAR}): check the units and the order "
            "of columns."
        )
    odd = {words: n for words, n in outcome.contexts.most_common() if words != KNOWN}
    if odd:
        told = ", ".join(f"{words}: {n:,}" for words, n in odd.items())
        lines.append(
            f"Not all contexts are as calibration knows them ({CONTEXT_IS}): {told}."
        )
    lines += in_sentences(outcome.unread)
    if outcome.hint:
        lines.append(f"There is {outcome.hint}.")
    for kind, one in outcome.warned.items():
        begin, end = one.rows
        others = f", and {one.others:,} later blocks of rows" if one.others else ""
        lines.append(f"{kind} (rows {begin:,} to {end:,}{others}): {one.said}.")
    return "\n".join(lines)
