"""The command line."""

from __future__ import annotations

import re
import time
from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import replace
from json import dumps
from pathlib import Path
from typing import TYPE_CHECKING, Annotated, Any

import typer
from rich.box import SIMPLE
from rich.console import Console
from rich.progress import Progress, SpinnerColumn, TaskID, TextColumn, TimeElapsedColumn
from rich.table import Table

from ma_sbi import __version__

if TYPE_CHECKING:
    from ma_sbi.checking import Check

app = typer.Typer(
    help="Correct a trained posterior from what you know about your simulator's errors.",
    no_args_is_help=True,
    pretty_exceptions_show_locals=False,
)


def _print_version(requested: bool) -> None:  # noqa: FBT001 (typer's callback)
    if requested:
        typer.echo(f"ma-sbi {__version__}")
        raise typer.Exit


@app.callback()
def main(
    *,
    version: Annotated[
        bool,
        typer.Option(
            "--version",
            callback=_print_version,
            is_eager=True,
            help="Print the version.",
        ),
    ] = False,
) -> None:
    """Misspecification-aware simulation-based inference."""


@app.command()
def demo(
    out: Annotated[
        Path, typer.Option(help="Folder for the picture; made if it is not there.")
    ] = Path("ma-sbi-demo"),
    simulations: Annotated[
        int, typer.Option(min=1000, help="Simulations to train the posterior on.")
    ] = 10_000,
    calibration: Annotated[
        int, typer.Option(min=4, help="Texts with paired data to learn from.")
    ] = 100,
    draws: Annotated[
        int, typer.Option(min=200, help="Posterior draws per observation.")
    ] = 500,
    max_epochs: Annotated[int, typer.Option(min=2, help="Most epochs of training.")] = 40,
    seed: Annotated[int, typer.Option(min=0, help="Seed of everything.")] = 0,
) -> None:
    """Two moons under four regimes: NPE, MA-SBI from text, and the Oracle."""
    # Imported late: the help must not wait for torch.
    import torch

    from ma_sbi.demo import METHODS, run_demo
    from ma_sbi.report import plot_posteriors

    # This process is ours, and small operations on busy threads crawl.
    torch.set_num_threads(1)
    out.mkdir(parents=True, exist_ok=True)
    console = Console()
    started = time.perf_counter()
    columns = (SpinnerColumn(), TextColumn("{task.description}"), TimeElapsedColumn())
    with Progress(*columns, console=console) as progress:
        running: list[TaskID] = []

        def stage(text: str) -> None:
            if running:
                progress.update(running[-1], total=1, completed=1)
            running.append(progress.add_task(text, total=None))

        result = run_demo(
            num_simulations=simulations,
            num_calibration=calibration,
            num_draws=draws,
            max_epochs=max_epochs,
            seed=seed,
            stage=stage,
        )
        progress.update(running[-1], total=1, completed=1)

    num_observations = result.c2st["NPE"].shape[1]
    table = Table(
        title=f"C2ST to the exact posterior, mean of {num_observations} observations "
        "(0.5 is perfect, 1 is useless)"
    )
    table.add_column("What the log says", max_width=44)
    for name in METHODS:
        table.add_column(name, justify="right")
    table.add_column("Gap closed", justify="right")
    for index, regime in enumerate(result.task.regimes):
        means = [f"{result.c2st[name][index].mean():.3f}" for name in METHODS]
        table.add_row(regime.text, *means, str(result.gap_closed(index)))
    table.add_section()
    means = [f"{result.c2st[name].mean():.3f}" for name in METHODS]
    table.add_row("all regimes", *means, str(result.gap_closed()))
    console.print(table)
    console.print(
        f"The shifts were learned from {calibration} texts with a relative error of "
        f"{result.shift_error:.1e}; no true parameter was used."
    )

    picture = out / "posteriors.png"
    first = {name: values[:, :, 0] for name, values in result.draws.items()}
    texts = [regime.text for regime in result.task.regimes]
    plot_posteriors(first, texts, limits=(-1.05, 1.05)).savefig(picture, dpi=150)
    elapsed = time.perf_counter() - started
    console.print(f"The picture is {picture} ({elapsed:.0f} s in all).")


@app.command()
def check(
    file: Annotated[
        Path,
        typer.Argument(
            help="npz, csv or parquet with x_obs and context, and, where there are, x_sim, "
            "theta and groups.",
        ),
    ],
    *,
    posterior: Annotated[
        Path | None,
        typer.Option(help="A posterior that FlowPosterior.save or another save wrote."),
    ] = None,
    html: Annotated[
        Path | None, typer.Option(help="Write a page with plots to this file.")
    ] = None,
    json: Annotated[
        bool, typer.Option("--json", help="Print JSON, for other programs.")
    ] = False,
    context: Annotated[
        list[str] | None,
        typer.Option(help="Column that holds the context; may be given several times."),
    ] = None,
    groups: Annotated[
        str | None,
        typer.Option(help="Column of groups whose rows are not independent."),
    ] = None,
    require: Annotated[
        list[str] | None,
        typer.Option(
            help="Exit with 1 if the verdict is another; may be given several times."
        ),
    ] = None,
    seed: Annotated[int, typer.Option(min=0, help="Seed of everything.")] = 0,
) -> None:
    """Say whether a correction by this context can be trusted, and why."""
    from ma_sbi.checking.wording import printable

    try:
        if html is not None and not html.absolute().parent.is_dir():
            raise ValueError(f"there is no folder {html.parent} for the page")
        result = _check(file, posterior, context or [], groups, require or [], seed)
        if html is not None:
            result.to_html(html)
    except (ValueError, OSError) as error:
        said = printable(" ".join(str(error).split()))
        typer.echo(f"ma-sbi check: {said}", err=True)
        raise typer.Exit(2) from None
    if json:
        typer.echo(dumps(result.to_dict(), indent=2, allow_nan=False))
    else:
        console = Console()
        console.print(result)
        if html is not None:
            console.print(f"The page is {html}.", markup=False)
    if require and result.verdict not in require:
        raise typer.Exit(1)


def _check(
    file: Path,
    model: Path | None,
    context: list[str],
    groups: str | None,
    require: list[str],
    seed: int,
) -> Check:
    from ma_sbi.checking.files import read_observations
    from ma_sbi.checking.verdict import VERDICTS

    for one in require:
        if one not in VERDICTS:
            raise ValueError(
                f"there is no verdict {one!r}; known are {', '.join(VERDICTS)}"
            )
    if model is not None and not model.is_file():
        raise ValueError(f"there is no model in {model}")
    held = read_observations(file, context=context, groups=groups)

    # Imported late: a bad file is refused before torch and sbi are there.
    import torch
    from threadpoolctl import threadpool_limits  # type: ignore[import-untyped]

    from ma_sbi import check, load_posterior

    # This process is ours, and small operations on busy threads crawl.
    torch.set_num_threads(1)
    with threadpool_limits(1):
        result = check(
            held.x_obs,
            held.context,
            x_sim=held.x_sim,
            theta=held.theta,
            groups=held.groups,
            posterior=None if model is None else load_posterior(model),
            seed=seed,
            show_progress=True,
        )
    if not held.unused:
        return result
    names = ", ".join(held.unused[:8]) + (", ..." if len(held.unused) > 8 else "")
    return replace(result, notes=(*result.notes, f"Not used in the file: {names}."))


NAMES = Annotated[
    list[str] | None,
    typer.Argument(metavar="[NAME ...|all]", help="Experiments, or all."),
]
OUT = Annotated[
    Path, typer.Option(metavar="DIR", help="Folder of finished cells and posteriors.")
]
RESULTS = Annotated[
    Path | None,
    typer.Option(
        metavar="DIR",
        help="Folder of committed rows, which are not done again; results, if it is here.",
    ),
]
QUICK = Annotated[
    bool, typer.Option("--quick", help="A reduced budget: minutes, and little to learn.")
]
SEEDS = Annotated[
    int | None, typer.Option(min=1, help="Seeds of every experiment; else the paper's.")
]


@app.command()
def reproduce(
    names: NAMES = None,
    *,
    quick: QUICK = False,
    seeds: SEEDS = None,
    workers: Annotated[
        int | None, typer.Option(min=1, help="Processes; else one for every processor.")
    ] = None,
    scheduler: Annotated[
        str | None,
        typer.Option(metavar="ADDRESS", help="A Dask scheduler whose workers do the work."),
    ] = None,
    out: OUT = Path("ma-sbi-reproduction"),
    results: RESULTS = None,
    fresh: Annotated[
        bool, typer.Option("--fresh", help="Do committed rows again as well.")
    ] = False,
    listing: Annotated[
        bool, typer.Option("--list", help="Only say how far each experiment is.")
    ] = False,
    json: Annotated[
        bool, typer.Option("--json", help="Print JSON, for other programs.")
    ] = False,
) -> None:
    """Check the paper: run its tables and figures, with ours beside the paper's.

    What is finished is kept; the same command goes on where it was stopped.
    """
    # Imported late: the help must not wait for torch.
    from ma_sbi.experiments.budget import Budget
    from ma_sbi.report import commands

    if not names and not listing and not json:
        commands.describe()
        return
    with _refusing("reproduce"):
        asked = commands.prepare(
            names or [], Budget(quick=quick, seeds=seeds), out, results, fresh=fresh
        )
        if listing or not names:
            commands.list_experiments(asked, as_json=json)
            return
        commands.check_request(asked, workers, scheduler)
    raise typer.Exit(
        commands.reproduce(asked, num_workers=workers, scheduler=scheduler, as_json=json)
    )


@app.command()
def report(
    names: NAMES = None,
    *,
    quick: QUICK = False,
    seeds: SEEDS = None,
    out: OUT = Path("ma-sbi-reproduction"),
    results: RESULTS = None,
    html: Annotated[
        Path | None,
        typer.Option(
            help="Write the page to this file; ma-sbi-report.html, if nothing else."
        ),
    ] = None,
    csv: Annotated[
        Path | None,
        typer.Option(metavar="DIR", help="Write finished rows, one CSV per experiment."),
    ] = None,
    markdown: Annotated[
        Path | None, typer.Option(help="Write Markdown to this file, figures beside it.")
    ] = None,
) -> None:
    """Write a page of what is finished: tables that sort, figures, provenance."""
    from ma_sbi.experiments.budget import Budget
    from ma_sbi.report import commands

    if html is None and csv is None and markdown is None:
        html = Path("ma-sbi-report.html")
    with _refusing("report"):
        if csv is not None and quick:
            raise ValueError("--csv is for full-budget rows, on which others rely")
        asked = commands.prepare(
            names or [], Budget(quick=quick, seeds=seeds), out, results
        )
    raise typer.Exit(commands.write_report(asked, html=html, markdown=markdown, csv=csv))


@contextmanager
def _refusing(command: str) -> Iterator[None]:
    """Say in a sentence what is wrong with the input."""
    from ma_sbi.checking.wording import printable

    try:
        yield
    except ValueError as error:
        said = printable(" ".join(str(error).split()))
        typer.echo(f"ma-sbi {command}: {said}", err=True)
        raise typer.Exit(2) from None


@app.command()
def methods(
    name: Annotated[
        str | None, typer.Argument(help="One method, to read all about it.")
    ] = None,
    *,
    json: Annotated[
        bool, typer.Option("--json", help="Print JSON, for other programs.")
    ] = False,
) -> None:
    """List MA-SBI and its rivals, and the data that each needs."""
    from ma_sbi.methods import METHODS, describe_methods

    if name is not None and name not in METHODS:
        raise typer.BadParameter(f"there is no {name!r}; known are {', '.join(METHODS)}")
    described = [row for row in describe_methods() if name in (None, row["name"])]
    if json:
        typer.echo(dumps(described, indent=2))
    elif name is None:
        Console().print(_method_table(described))
    else:
        _print_method(described[0])


def _method_table(described: list[dict[str, Any]]) -> Table:
    table = Table(
        box=SIMPLE,
        caption="theta*: true parameters of real observations; pairs: simulations at "
        "their inputs.\nAll about one: ma-sbi methods NAME",
        caption_justify="left",
    )
    table.add_column("Method", no_wrap=True)
    table.add_column("Needs")
    table.add_column("Amortised")
    table.add_column("Reference")
    for row in described:
        needs = ", ".join(row["needs"]) or "nothing"
        amortised = "yes" if row["amortised"] else "no"
        table.add_row(row["name"], needs, amortised, row["reference"])
    return table


def _print_method(row: dict[str, Any]) -> None:
    from ma_sbi.methods import NEEDS

    # Cross-references are for the documentation's machine.
    plain = re.sub(r":\w+:`~?(?:[\w.]*\.)?([^`]+)`", r"\1", row["description"])
    typer.echo(f"{row['name']}: {plain}\n")
    typer.echo(f"Reference: {row['reference']}")
    for kind in row["needs"]:
        typer.echo(f"Needs {kind}: {NEEDS[kind]}")
    typer.echo("Options: " + ", ".join(f"{k}={v}" for k, v in row["options"].items()))
