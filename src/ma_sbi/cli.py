"""The command line."""

from __future__ import annotations

import shlex
import time
from collections.abc import Iterable
from dataclasses import replace
from importlib.metadata import EntryPoint, entry_points
from json import dumps
from operator import attrgetter
from pathlib import Path
from typing import TYPE_CHECKING, Annotated, Any

import typer
from rich.console import Console
from rich.table import Table

from ma_sbi import __version__
from ma_sbi.commands import options
from ma_sbi.commands.correct import correct
from ma_sbi.commands.fit import fit
from ma_sbi.threads import one_thread

if TYPE_CHECKING:
    from ma_sbi.checking import Check

app = typer.Typer(
    help="Correct a trained posterior from what you know about your simulator's errors.",
    no_args_is_help=True,
    pretty_exceptions_show_locals=False,
)


MARGINAL = "use the marginal part only"
CORRECT = "ma-sbi correct NEW --model MODEL --out FILE"


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
        Path, typer.Option(help="Folder for the figure; created if missing.")
    ] = Path("ma-sbi-demo"),
    simulations: Annotated[
        int, typer.Option(min=1000, help="Simulations to train the posterior on.")
    ] = 10_000,
    calibration: Annotated[
        int, typer.Option(min=4, help="Notes with paired data to learn from.")
    ] = 100,
    draws: Annotated[
        int, typer.Option(min=200, help="Posterior draws per observation.")
    ] = 500,
    max_epochs: Annotated[int, typer.Option(min=2, help="Most epochs of training.")] = 40,
    seed: Annotated[int, typer.Option(min=0, help="Seed of everything.")] = 0,
) -> None:
    """Two beacons and a log of their faults: NPE, MA-SBI from the log, and the Oracle."""
    # Imported late, so that the help does not wait for torch.
    from ma_sbi.demo import COMPARED, NOTES, plot_posteriors, run_demo
    from ma_sbi.display.progress import stages
    from ma_sbi.writing import written_whole

    out.mkdir(parents=True, exist_ok=True)
    console = Console()
    started = time.perf_counter()
    with one_thread(), stages(console) as stage:
        result = run_demo(
            num_simulations=simulations,
            num_calibration=calibration,
            num_draws=draws,
            max_epochs=max_epochs,
            seed=seed,
            stage=stage,
        )

    num_observations = result.c2st["NPE"].shape[1]
    table = Table(
        title=f"C2ST to the exact posterior, mean of {num_observations} observations "
        "(0.5 is perfect, 1 is useless)"
    )
    table.add_column("What the log says", max_width=44)
    for name in COMPARED:
        table.add_column(name, justify="right")
    table.add_column("Gap closed", justify="right")
    for index, note in enumerate(NOTES):
        means = [f"{result.c2st[name][index].mean():.3f}" for name in COMPARED]
        table.add_row(note, *means, str(result.gap_closed(index)))
    table.add_section()
    means = [f"{result.c2st[name].mean():.3f}" for name in COMPARED]
    table.add_row("all notes", *means, str(result.gap_closed()))
    console.print(table)
    console.print(
        f"The shifts were learned from {calibration} notes with a relative error of "
        f"{result.shift_error:.1e}; no true parameter was used."
    )
    console.print(f"\nWhy this corrector:\n{result.why}\n", markup=False, highlight=False)

    file = out / "posteriors.png"
    first = {name: values[:, :, 0] for name, values in result.draws.items()}
    figure = plot_posteriors(
        first, list(NOTES), limits=(-1.05, 1.05), names=("east", "north")
    )
    with written_whole(file) as unfinished:
        figure.savefig(unfinished, format="png", dpi=150)
    elapsed = time.perf_counter() - started
    console.print(f"The figure is {file} ({elapsed:.0f} s in total).")


@app.command()
def check(
    file: options.TableFile,
    *,
    posterior: options.PosteriorPath = None,
    allow_pickle: options.AllowPickle = False,
    html: Annotated[
        Path | None, typer.Option(help="Write a page with plots to this file.")
    ] = None,
    json: Annotated[
        bool, typer.Option("--json", help="Print JSON, for other programs.")
    ] = False,
    context: options.ContextColumns = None,
    x_obs: options.XObsColumns = None,
    x_sim: options.XSimColumns = None,
    theta: options.ThetaColumns = None,
    groups: options.GroupsColumn = None,
    number: options.NumberColumns = None,
    label: options.LabelColumns = None,
    require: Annotated[
        list[str] | None,
        typer.Option(
            help="Exit with 1 if the verdict is another; may be given several times."
        ),
    ] = None,
    quiet: options.Quiet = False,
    seed: options.Seed = 0,
) -> None:
    """Say whether a correction by this context can be trusted, and why."""
    from ma_sbi.display import progress
    from ma_sbi.display.text import printable
    from ma_sbi.writing import check_output

    with options.refusals("check"):
        if html is not None:
            check_output(html, filter(None, [file, posterior]), "page")
        named = options.named_columns(context, x_obs, x_sim, theta, groups, number, label)
        model = (
            None if posterior is None else options.PosteriorFile(posterior, allow_pickle)
        )
        with progress.quiet(quiet):
            result = _check(file, model, named, require or [], seed)
        if result.advice.code:
            code = f"{_to_begin_with(file, model, named, seed)}\n\n{result.advice.code}"
            if result.corrector is not None and result.verdict != MARGINAL:
                code = f"{_commands(file, model, named, seed)}\n\n{code}"
            result = replace(result, advice=replace(result.advice, code=code))
        if html is not None:
            result.to_html(html)
    if json:
        typer.echo(dumps(result.to_dict(), indent=2, allow_nan=False))
    else:
        console = Console()
        console.print(result, crop=False)
        if html is not None:
            console.print(printable(f"The page is {html}."), markup=False)
    if require and result.verdict not in require:
        raise typer.Exit(1)


def _commands(
    file: Path, model: options.PosteriorFile | None, named: dict[str, Any], seed: int
) -> str:
    """Write the commands that fit and apply what is advised, as comments of Python."""
    words = ["ma-sbi", "fit", str(file)]
    for name, value in named.items():
        for one in [value] if isinstance(value, str) else value or ():
            words += [f"--{name.replace('_', '-')}", one]
    if model is not None:
        words += ["--posterior", str(model.path)]
        words += ["--allow-pickle"] if model.allow_pickle else []
    words += ["--seed", str(seed)] if seed else []
    # A name may have line breaks, which would end the comment.
    fit = " ".join(shlex.join([*words, "--out", "MODEL"]).splitlines())
    lines = ("On the command line:", f"  {fit}", f"  {CORRECT}", "In Python:")
    return "\n".join(f"# {line}" for line in lines)


def _to_begin_with(
    file: Path, model: options.PosteriorFile | None, named: dict[str, Any], seed: int
) -> str:
    """Write the lines that make in Python what the command has read and found."""
    names = "".join(f", {name}={value!r}" for name, value in named.items() if value)
    lines = [
        f"from ma_sbi import check{'' if model is None else ', load_posterior'}",
        "from ma_sbi.checking.files import read_observations",
        "",
        f"rows = read_observations({str(file)!r}{names})",
        "x_obs, context = rows.x_obs, rows.context",
    ]
    given = [f"{one}=rows.{one}" for one in ("x_sim", "theta", "groups")]
    if model is None:
        lines.append("# posterior is your own, for example ma_sbi.load_posterior(file)")
    else:
        pickled = ", allow_pickle=True" if model.allow_pickle else ""
        lines.append(f"posterior = load_posterior({str(model.path)!r}{pickled})")
        given.append("posterior=posterior")
    given.append(f"seed={seed}")
    return "\n".join([*lines, f"answer = check(x_obs, context, {', '.join(given)})"])


def _check(
    file: Path,
    model: options.PosteriorFile | None,
    named: dict[str, Any],
    require: list[str],
    seed: int,
) -> Check:
    from ma_sbi.checking.files import read_observations

    if model is not None:
        options.require_file(model.path)
    held = read_observations(file, **named)

    # Imported late, so that a bad file is refused before torch and sbi are imported.
    from ma_sbi.checking.verdict import VERDICTS

    for one in require:
        if one not in VERDICTS:
            raise ValueError(
                f"there is no verdict {one!r}; known are {', '.join(VERDICTS)}"
            )
    from ma_sbi import check

    with one_thread():
        result = check(
            held.x_obs,
            held.context,
            x_sim=held.x_sim,
            theta=held.theta,
            groups=held.groups,
            posterior=None if model is None else model.load("check"),
            seed=seed,
        )
    notes = held.told()
    return replace(result, notes=(*result.notes, *notes)) if notes else result


app.command()(fit)
app.command()(correct)

BENCH_COMMANDS = {
    "methods": "List MA-SBI and its rivals, and the data that each needs.",
    "report": "Write a page of what is finished: tables that sort, figures, provenance.",
    "reproduce": "Check the paper: run its tables and figures again.",
}

BENCH_INSTALL = "pip install ma-sbi-bench, or pip install ./bench in the repository"


def join_commands(app: typer.Typer, entries: Iterable[EntryPoint]) -> None:
    """Add the commands of other packages.

    A command of the bench that is not installed, or one that cannot be loaded, says why
    and exits with 2; the other commands work.
    """
    refused = dict.fromkeys(BENCH_COMMANDS, f"needs the bench: {BENCH_INSTALL}")
    for entry in entries:
        try:
            app.command(entry.name)(entry.load())
        except Exception as error:  # noqa: BLE001 (the other commands must work)
            refused[entry.name] = f"cannot be loaded from {entry.value}: {error}"
        else:
            refused.pop(entry.name, None)
    for name, reason in refused.items():
        _refuse(app, name, reason)


def _refuse(app: typer.Typer, name: str, reason: str) -> None:
    any_arguments = {"ignore_unknown_options": True, "allow_extra_args": True}
    summary = f"{BENCH_COMMANDS.get(name, '')} ({reason})".strip()

    @app.command(name, help=summary, context_settings=any_arguments)
    def refuse() -> None:
        typer.echo(f"ma-sbi {name} {reason}", err=True)
        raise typer.Exit(2)


join_commands(app, sorted(entry_points(group="ma_sbi.commands"), key=attrgetter("name")))
