"""What ``ma-sbi reproduce`` and ``ma-sbi report`` do."""

from __future__ import annotations

import json
import signal
import threading
from collections.abc import Iterable, Iterator, Mapping, Sequence
from contextlib import contextmanager
from pathlib import Path
from shlex import quote
from tempfile import TemporaryFile

import pandas as pd
import torch
import typer
from joblib import cpu_count

from ma_sbi.display.text import printable
from ma_sbi.posteriors.unconstrained import default_device
from ma_sbi.writing import check_output
from ma_sbi_bench.engine.budget import Budget
from ma_sbi_bench.engine.cell import Cell
from ma_sbi_bench.engine.leftovers import held
from ma_sbi_bench.engine.reproduction import Reproduction
from ma_sbi_bench.engine.running import Done, FolderIsGone, run
from ma_sbi_bench.engine.workers import connect
from ma_sbi_bench.report.contents import Report, gather
from ma_sbi_bench.report.markdown import write_markdown
from ma_sbi_bench.report.page import write_page
from ma_sbi_bench.report.progress import ProgressDisplay
from ma_sbi_bench.report.tables import Column, Table, words
from ma_sbi_bench.report.terminal import render_report, render_table, wide_console
from ma_sbi_bench.tables.registry import EXPERIMENTS, get_experiment

__all__ = ["check", "describe", "list_cells", "prepare", "reproduce", "write_report"]

# The exit code of shells after Ctrl-C.
INTERRUPTED = 130
RESULTS = Path("bench/results")
USAGE = """\
All at a reduced budget, in minutes:  ma-sbi reproduce all --quick
All as in the paper, in hours:        ma-sbi reproduce all
Some of them:                         ma-sbi reproduce NAME ...
How many cells are finished:          ma-sbi reproduce --list"""


def prepare(
    names: Sequence[str],
    budget: Budget,
    out: Path,
    results: Path | None = None,
    *,
    fresh: bool = False,
    device: str = "cpu",
) -> Reproduction:
    """Find the experiments and where their numbers are kept.

    Args:
        names: Names of experiments, or ``all``; none are all.
        budget: What may be spent.
        out: Folder of finished cells.
        results: Folder of committed rows; ``bench/results`` if None and there is one.
        fresh: Whether to ignore committed rows.
        device: Where posteriors are trained, and diffusion models drawn from.

    Raises:
        ValueError: If an experiment or a folder is not there.
    """
    wanted = {get_experiment(name).name for name in names if name != "all"}
    every = not names or "all" in names
    if fresh and results is not None:
        raise ValueError(
            "--fresh ignores committed rows, so --results has no use beside it"
        )
    if results is not None and not results.is_dir():
        raise ValueError(f"there is no folder {results} with committed rows")
    if results is None and not fresh and RESULTS.is_dir():
        results = RESULTS
    experiments = [one for name, one in EXPERIMENTS.items() if every or name in wanted]
    found = Reproduction(experiments, budget, out, results, device)
    _ = found.store.committed  # so that a broken file is refused before any work
    return found


def check(asked: Reproduction, num_workers: int | None, scheduler: str | None) -> None:
    """See that the work can be done at all, before any of it.

    Raises:
        ValueError: If it cannot.
    """
    if num_workers is not None and scheduler is not None:
        raise ValueError("--workers are processes of this machine: not with --scheduler")
    _check_device(asked.device, here=scheduler is None)
    try:
        asked.out.mkdir(parents=True, exist_ok=True)
        with TemporaryFile(dir=asked.out):
            pass
    except OSError as error:
        reason = error.strerror or error
        raise ValueError(f"cannot write into the folder {asked.out}: {reason}") from error
    if scheduler is not None:
        with connect(scheduler, extra="ma-sbi-bench[cluster]") as client:
            if not client.scheduler_info()["workers"]:
                _say(f"The scheduler at {scheduler} has no workers yet.", err=True)


def _check_device(name: str, *, here: bool) -> None:
    """See that torch knows a device, and that this machine has it if the work is here."""
    device = default_device(name)
    try:
        if here:
            torch.zeros(1, device=device).item()
    except (RuntimeError, AssertionError, NotImplementedError) as error:
        reason = str(error).splitlines()[0]
        raise ValueError(f"--device {name} cannot be used here: {reason}") from error


def describe() -> None:
    """Print every experiment in a line, and how to run them."""
    _print_table(
        "Experiments",
        [
            {"name": one.name, "what it is": one.title, "in the paper": one.place}
            for one in EXPERIMENTS.values()
        ],
    )
    _say(USAGE)


def list_cells(asked: Reproduction, *, as_json: bool = False) -> None:
    """Print how many cells of every experiment are finished."""
    _say_damaged(asked)
    report = _gather(asked)
    counts = [section.counts for section in report.sections]
    if as_json:
        _print_json(counts)
        return
    _print_table("Experiments" + " (quick)" * asked.budget.quick, counts)
    num = sum(report.finished.values())
    _say(
        f"{num} of {len(report.finished)} different cells are finished. "
        "One that experiments share counts in each of them."
    )


def reproduce(
    asked: Reproduction,
    *,
    num_workers: int | None = None,
    scheduler: str | None = None,
    as_json: bool = False,
) -> int:
    """Run what is left, print ours beside the paper's, and return the exit code."""
    try:
        with held(asked.out), _stopped_by_signals():
            return _reproduce(asked, num_workers, scheduler, as_json=as_json)
    except KeyboardInterrupt:
        _say(_how_to_resume(asked), err=True)
        return INTERRUPTED
    except (FolderIsGone, OSError) as error:
        _say(f"ma-sbi reproduce: {error}. The same command starts again.", err=True)
        return 1


def _reproduce(
    asked: Reproduction, num_workers: int | None, scheduler: str | None, *, as_json: bool
) -> int:
    for file, how in asked.set_aside().items():
        _say(f"Damaged, set aside as {file} and done again: {how}.", err=True)
    for one in _gather(asked).sections:
        if one.missing:
            _say(f"Cells of {one.experiment.name} are skipped: {one.missing}", err=True)
    num_workers = num_workers or cpu_count()
    work = asked.work()
    failures: list[Done] = []
    if any(work.values()):
        estimate = asked.estimate(None if scheduler else num_workers)
        try:
            with ProgressDisplay(work, estimate, wide_console(stderr=True)) as display:
                failures = run(
                    [one for some in work.values() for one in some],
                    num_workers=num_workers,
                    scheduler=scheduler,
                    on_done=display.update,
                )
        except ValueError as error:
            if scheduler is None:
                raise
            _say(f"ma-sbi reproduce: {error}\n{_how_to_resume(asked)}", err=True)
            return 1
    report = _gather(asked)
    if as_json:
        failed = [
            {"cell": str(one.work.item), "reason": one.error, "details": one.details}
            for one in failures
        ]
        _print_json(report.to_dict() | {"failures": failed})
    else:
        wide_console().print(render_report(report))
        _say(f"A page with figures: {_report_command(asked)}")
    problems = [f"{len(failures)} failed:"] if failures else []
    problems += [f"- {one.work.item}: {one.error}" for one in failures]
    return _exit_code([*problems, *report.problems])


def write_report(
    asked: Reproduction,
    *,
    html: Path | None = None,
    markdown: Path | None = None,
    csv: Path | None = None,
) -> int:
    """Write what is asked for of finished cells, and return the exit code."""
    try:
        _check_outputs(asked, html, markdown, csv)
    except ValueError as error:
        _say(f"ma-sbi report: {error}", err=True)
        return 2
    _say_damaged(asked)
    report = _gather(asked)
    done = report.provenance
    if done.num_cells and not done.num_finished:
        _say(
            f"ma-sbi report: nothing is finished in {asked.out}, nor committed. Run "
            "ma-sbi reproduce first, or name other folders by --out and --results.",
            err=True,
        )
        return 2
    try:
        if html is not None:
            write_page(report, html)
            _say(f"The page is {html}.")
        if markdown is not None:
            write_markdown(report, markdown)
            _say(f"The pages are {markdown} and {markdown.with_suffix('')}/*.md.")
        if csv is not None:
            for section in report.sections:
                if section.num_finished:
                    file = csv / f"{section.experiment.name}.csv"
                    num = asked.store.export(section.cells, file)
                    _say(f"{num} rows are in {file}.")
    except OSError as error:
        reason = error.strerror or error
        _say(f"ma-sbi report: cannot write {error.filename}: {reason}", err=True)
        return 2
    _say(report.conclusion)
    _say(f"{done.num_finished} of {done.num_cells} cells are finished.")
    return _exit_code(report.problems)


def _check_outputs(
    asked: Reproduction, html: Path | None, markdown: Path | None, csv: Path | None
) -> None:
    """See that nothing that is read would be replaced, nor finished rows be lost.

    Raises:
        ValueError: If it would.
    """

    def read() -> Iterator[Path]:
        yield from asked.out.rglob("*")
        yield from () if asked.results is None else asked.results.glob("*.csv")

    if html is not None:
        check_output(html, read(), "page")
    if markdown is not None:
        if html is not None and html.resolve() == markdown.resolve():
            raise ValueError(f"--html and --markdown name the same file {html}")
        written = markdown.with_suffix("").rglob("*")
        pages = [one for one in written if one.suffix in (".md", ".png")]
        for page in filter(Path.exists, [markdown, *pages]):
            check_output(page, read(), "page")
    if csv is not None:
        for one in asked.experiments:
            _check_kept(asked, one.cells(asked.budget), csv / f"{one.name}.csv")


def _check_kept(asked: Reproduction, cells: Sequence[Cell], file: Path) -> None:
    """See that a file of rows holds no cell that would not be written again."""
    if not file.exists():
        return
    check_output(file, (), "file of rows")
    try:
        held = set(pd.read_csv(file, usecols=["key"], dtype=str)["key"])
    except ValueError as error:
        raise ValueError(f"{file} is not a file of results: name another folder") from error
    lost = [one for one in cells if one.key in held and one not in asked.store]
    if lost:
        raise ValueError(
            f"{file} holds {len(lost)} finished cells that are not in {asked.out}, and "
            "would lose them: name another folder by --csv, or leave --fresh out"
        )


def _gather(asked: Reproduction) -> Report:
    return gather(asked.experiments, asked.budget, asked.store)


def _say_damaged(asked: Reproduction) -> None:
    for file, how in asked.damaged().items():
        said = f"{file} is damaged and does not count: {how}. "
        _say(f"{said}ma-sbi reproduce sets it aside and does it again.", err=True)


@contextmanager
def _stopped_by_signals() -> Iterator[None]:
    """Stop as after Ctrl-C when the process is asked to end: nothing is left behind."""

    def stop(*_: object) -> None:
        raise KeyboardInterrupt

    known = {}
    if threading.current_thread() is threading.main_thread():
        asked = (getattr(signal, name, None) for name in ("SIGTERM", "SIGHUP"))
        # What somebody has set, such as nohup, stays.
        known = {
            one: signal.signal(one, stop)
            for one in asked
            if one is not None and signal.getsignal(one) is signal.SIG_DFL
        }
    try:
        yield
    finally:
        for one, before in known.items():
            signal.signal(one, before)


def _how_to_resume(asked: Reproduction) -> str:
    return (
        f"Stopped. What is finished is kept in {asked.out}. The same command goes "
        f"on from there. What there is so far: {_report_command(asked)}"
    )


def _report_command(asked: Reproduction) -> str:
    options = " --quick" if asked.budget.quick else ""
    options += f" --seeds {asked.budget.seeds}" if asked.budget.seeds else ""
    if asked.results is None:
        options += " --fresh" if RESULTS.is_dir() else ""
    elif asked.results != RESULTS:
        options += f" --results {quote(str(asked.results))}"
    return f"ma-sbi report{options} --out {quote(str(asked.out))}"


def _exit_code(problems: Iterable[str]) -> int:
    """Print problems, each once; 1 if there is any."""
    once = list(dict.fromkeys(problems))
    for problem in once:
        _say(problem, err=True)
    return 1 if once else 0


def _say(sentence: str, *, err: bool = False) -> None:
    typer.echo(printable(sentence), err=err)


def _print_table(title: str, rows: Sequence[Mapping[str, str | int]]) -> None:
    columns = [Column(head, isinstance(one, int)) for head, one in rows[0].items()]
    entries = [[words(str(one)) for one in row.values()] for row in rows]
    wide_console().print(render_table(Table(title, columns, entries)))


def _print_json(document: object) -> None:
    typer.echo(json.dumps(document, indent=1, allow_nan=False))
