"""The commands that join ``ma-sbi`` when the bench is installed."""

from __future__ import annotations

import re
from collections.abc import Iterator
from contextlib import contextmanager
from json import dumps
from pathlib import Path
from typing import Annotated, Any

import typer
from rich.box import SIMPLE
from rich.console import Console
from rich.table import Table

__all__ = ["methods", "report", "reproduce"]

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
        help="Folder of committed rows, which are not run again; else bench/results.",
    ),
]
FRESH = Annotated[bool, typer.Option("--fresh", help="Ignore committed rows.")]
QUICK = Annotated[
    bool, typer.Option("--quick", help="A reduced budget: shows in minutes that all runs.")
]
SEEDS = Annotated[
    int | None, typer.Option(min=1, help="Seeds of every experiment; else the paper's.")
]


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
    device: Annotated[
        str,
        typer.Option(
            metavar="NAME",
            help="Where posteriors are trained, and diffusion models drawn from, such as "
            "cuda; workers share it.",
        ),
    ] = "cpu",
    out: OUT = Path("ma-sbi-reproduction"),
    results: RESULTS = None,
    fresh: FRESH = False,
    listing: Annotated[
        bool, typer.Option("--list", help="Only print how many cells are finished.")
    ] = False,
    json: Annotated[
        bool, typer.Option("--json", help="Print JSON, for other programs.")
    ] = False,
) -> None:
    """Check the paper: run its tables and figures, with ours beside the paper's.

    Finished cells are kept; the same command continues a run that was stopped.
    """
    # Imported late: the help must not wait for torch.
    from ma_sbi_bench.engine.budget import Budget
    from ma_sbi_bench.report import commands

    if not names and not listing and not json:
        commands.describe()
        return
    with _refusing("reproduce"):
        asked = commands.prepare(
            names or [],
            Budget(quick=quick, seeds=seeds),
            out,
            results,
            fresh=fresh,
            device=device,
        )
        if listing or not names:
            commands.list_cells(asked, as_json=json)
            return
        commands.check(asked, workers, scheduler)
    raise typer.Exit(
        commands.reproduce(asked, num_workers=workers, scheduler=scheduler, as_json=json)
    )


def report(
    names: NAMES = None,
    *,
    quick: QUICK = False,
    seeds: SEEDS = None,
    out: OUT = Path("ma-sbi-reproduction"),
    results: RESULTS = None,
    fresh: FRESH = False,
    html: Annotated[
        Path | None,
        typer.Option(
            help="Write the page to this file; ma-sbi-report.html without other options."
        ),
    ] = None,
    csv: Annotated[
        Path | None,
        typer.Option(metavar="DIR", help="Write finished rows, one CSV per experiment."),
    ] = None,
    markdown: Annotated[
        Path | None,
        typer.Option(
            help="Write a page of claims to this file, and one per experiment into the "
            "folder of its name: results.md, results/*.md."
        ),
    ] = None,
) -> None:
    """Write a page of what is finished: tables that sort, figures, provenance."""
    from ma_sbi_bench.engine.budget import Budget
    from ma_sbi_bench.report import commands

    if html is None and csv is None and markdown is None:
        html = Path("ma-sbi-report.html")
    with _refusing("report"):
        if csv is not None and (quick or seeds is not None):
            raise ValueError(
                "--csv is for rows of the full budget, not of --quick or --seeds"
            )
        asked = commands.prepare(
            names or [], Budget(quick=quick, seeds=seeds), out, results, fresh=fresh
        )
    raise typer.Exit(commands.write_report(asked, html=html, markdown=markdown, csv=csv))


@contextmanager
def _refusing(command: str) -> Iterator[None]:
    """Say in a sentence what is wrong with the input."""
    from ma_sbi.display.text import printable

    try:
        yield
    except ValueError as error:
        said = printable(" ".join(str(error).split()))
        typer.echo(f"ma-sbi {command}: {said}", err=True)
        raise typer.Exit(2) from None


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
    from ma_sbi_bench.methods import METHODS, describe_methods

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
    from ma_sbi_bench.methods import NEEDS

    # Cross-references are for Sphinx.
    plain = re.sub(r":\w+:`~?(?:[\w.]*\.)?([^`]+)`", r"\1", row["description"])
    typer.echo(f"{row['name']}: {plain}\n")
    typer.echo(f"Reference: {row['reference']}")
    for kind in row["needs"]:
        typer.echo(f"Needs {kind}: {NEEDS[kind]}")
    typer.echo("Options: " + ", ".join(f"{k}={v}" for k, v in row["options"].items()))
