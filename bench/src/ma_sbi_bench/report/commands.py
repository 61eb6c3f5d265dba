"""What ``ma-sbi reproduce`` and ``ma-sbi report`` do."""

from __future__ import annotations

import json
from collections.abc import Iterable, Sequence
from pathlib import Path
from shlex import quote
from tempfile import TemporaryFile

from joblib import cpu_count
from rich.console import Console
from rich.text import Text

from ma_sbi.display.text import printable
from ma_sbi_bench.engine.budget import Budget
from ma_sbi_bench.engine.reproduction import Reproduction
from ma_sbi_bench.engine.running import Done, run
from ma_sbi_bench.engine.workers import connect
from ma_sbi_bench.report.contents import gather
from ma_sbi_bench.report.markdown import write_markdown
from ma_sbi_bench.report.page import write_page
from ma_sbi_bench.report.progress import ProgressDisplay
from ma_sbi_bench.report.tables import Column, Table, words
from ma_sbi_bench.report.terminal import render_report, render_table, wide_console
from ma_sbi_bench.tables.registry import EXPERIMENTS, get_experiment

__all__ = [
    "check_request",
    "describe",
    "list_experiments",
    "prepare",
    "reproduce",
    "write_report",
]

# As shells have it: ended by Ctrl-C.
INTERRUPTED = 130
RESULTS = Path("bench/results")


def prepare(
    names: Sequence[str],
    budget: Budget,
    out: Path,
    results: Path | None = None,
    *,
    fresh: bool = False,
) -> Reproduction:
    """Find the experiments and where their numbers are kept.

    Args:
        names: Names of experiments, or ``all``; none are all.
        budget: What may be spent.
        out: Folder of finished cells.
        results: Folder of committed rows; ``bench/results`` if None and there is one.
        fresh: Whether to ignore committed rows.

    Raises:
        ValueError: If an experiment or a folder is not there.
    """
    wanted = {get_experiment(name).name for name in names if name != "all"}
    if not names or "all" in names:
        wanted = set(EXPERIMENTS)
    if fresh and results is not None:
        raise ValueError(
            "--fresh ignores committed rows, so --results has no use beside it"
        )
    if results is not None and not results.is_dir():
        raise ValueError(f"there is no folder {results} with committed rows")
    if results is None and not fresh and RESULTS.is_dir():
        results = RESULTS
    experiments = [one for name, one in EXPERIMENTS.items() if name in wanted]
    found = Reproduction(experiments, budget, out, results)
    found.store.committed()  # so that a broken file is refused before any work
    return found


def describe() -> None:
    """Print every experiment in a line, and how to run them."""
    console = wide_console()
    rows = [(one.name, one.title, one.place) for one in EXPERIMENTS.values()]
    _print_table(console, "Experiments", ("name", "what it is", "in the paper"), rows)
    _say(
        console,
        "All at a reduced budget, in minutes:  ma-sbi reproduce all --quick\n"
        "All as in the paper, in hours:        ma-sbi reproduce all\n"
        "Some of them:                         ma-sbi reproduce NAME ...\n"
        "How many cells are finished:          ma-sbi reproduce --list",
    )


def list_experiments(reproduction: Reproduction, *, as_json: bool = False) -> None:
    """Print how many cells of every experiment are finished."""
    known = []
    for one in reproduction.experiments:
        cells = one.cells(reproduction.budget)
        finished = sum(cell in reproduction.store for cell in cells)
        missing = reproduction.missing(one)
        known.append((one.name, one.title, len(cells), finished, missing))
    if as_json:
        keys = ("name", "title", "cells", "finished", "missing")
        _print_json([dict(zip(keys, row, strict=True)) for row in known])
        return
    label = " (quick)" if reproduction.budget.quick else ""
    heads = ("name", "what it is", "cells", "finished", "missing")
    _print_table(wide_console(), f"Experiments{label}", heads, known)


def check_request(
    reproduction: Reproduction, num_workers: int | None, scheduler: str | None
) -> None:
    """See that the work can be done at all, before any of it.

    Raises:
        ValueError: If it cannot.
    """
    if num_workers is not None and scheduler is not None:
        raise ValueError("--workers are processes of this machine: not with --scheduler")
    out = reproduction.out
    try:
        out.mkdir(parents=True, exist_ok=True)
        with TemporaryFile(dir=out):
            pass
    except OSError as error:
        reason = error.strerror or error
        raise ValueError(f"cannot write into the folder {out}: {reason}") from error
    if scheduler is not None:
        with connect(scheduler) as client:
            if not client.scheduler_info()["workers"]:
                aside = wide_console(stderr=True)
                _say(aside, f"The scheduler at {scheduler} has no workers yet; waiting.")


def reproduce(
    reproduction: Reproduction,
    *,
    num_workers: int | None = None,
    scheduler: str | None = None,
    as_json: bool = False,
) -> int:
    """Run what is left, print ours beside the paper's, and return the exit code."""
    aside = wide_console(stderr=True)
    for one in reproduction.experiments:
        if reason := reproduction.missing(one):
            _say(aside, f"Cells of {one.name} are skipped: {reason}")
    num_workers = num_workers or cpu_count()
    work = reproduction.work()
    failures: list[Done] = []
    if any(work.values()):
        estimate = reproduction.estimate(None if scheduler else num_workers)
        try:
            with ProgressDisplay(work, estimate, aside) as display:
                failures = run(
                    [one for some in work.values() for one in some],
                    num_workers=num_workers,
                    scheduler=scheduler,
                    on_done=display.update,
                )
        except KeyboardInterrupt:
            _say(aside, _how_to_go_on(reproduction))
            return INTERRUPTED
        except ValueError as error:
            if scheduler is None:
                raise
            _say(aside, f"ma-sbi reproduce: {error}\n{_how_to_go_on(reproduction)}")
            return 1
    report = gather(reproduction.experiments, reproduction.budget, reproduction.store)
    if as_json:
        failed = [
            {"cell": str(one.work.item), "reason": one.error, "details": one.details}
            for one in failures
        ]
        _print_json(report.to_dict() | {"failures": failed})
    else:
        console = wide_console()
        console.print(render_report(report))
        _say(console, f"A page with figures: {_report_command(reproduction)}")
    problems = [f"{len(failures)} failed:"] if failures else []
    problems += [f"- {one.work.item}: {one.error}" for one in failures]
    return _exit_code([*problems, *report.warnings], aside)


def write_report(
    reproduction: Reproduction,
    *,
    html: Path | None = None,
    markdown: Path | None = None,
    csv: Path | None = None,
) -> int:
    """Write what is asked for of finished cells, and return the exit code."""
    console, aside = wide_console(), wide_console(stderr=True)
    report = gather(reproduction.experiments, reproduction.budget, reproduction.store)
    done = report.provenance
    if done.num_cells and not done.num_finished:
        _say(
            aside,
            f"ma-sbi report: nothing is finished in {reproduction.out}, nor committed. Run "
            "ma-sbi reproduce first, or name other folders by --out and --results.",
        )
        return 2
    warnings = report.warnings
    try:
        if html is not None:
            warnings += write_page(report, html)
            _say(console, f"The page is {html}.")
        if markdown is not None:
            warnings += write_markdown(report, markdown)
            folder = markdown.with_suffix("")
            _say(console, f"The pages are {markdown} and {folder}/*.md.")
        for section in report.sections if csv is not None else ():
            if csv is not None and section.num_finished:
                file = csv / f"{section.experiment.name}.csv"
                num = reproduction.store.export(section.cells, file)
                _say(console, f"{num} rows are in {file}.")
    except OSError as error:
        _say(aside, f"ma-sbi report: cannot write {error.filename}: {error.strerror}")
        return 2
    _say(console, report.conclusion)
    _say(console, f"{done.num_finished} of {done.num_cells} cells are finished.")
    return _exit_code(warnings, aside)


def _how_to_go_on(reproduction: Reproduction) -> str:
    return (
        f"Stopped. What is finished is kept in {reproduction.out}. The same command goes "
        f"on from there. What there is so far: {_report_command(reproduction)}"
    )


def _report_command(reproduction: Reproduction) -> str:
    budget = reproduction.budget
    options = " --quick" if budget.quick else ""
    options += f" --seeds {budget.seeds}" if budget.seeds else ""
    if reproduction.results not in (None, RESULTS):
        options += f" --results {quote(str(reproduction.results))}"
    return f"ma-sbi report{options} --out {quote(str(reproduction.out))}"


def _exit_code(problems: Iterable[str], console: Console) -> int:
    """Print problems, each once; 1 if there is any."""
    once = list(dict.fromkeys(problems))
    for problem in once:
        _say(console, problem)
    return 1 if once else 0


def _say(console: Console, sentence: str) -> None:
    console.print(Text(printable(sentence)), soft_wrap=True)


def _print_table(
    console: Console,
    title: str,
    heads: Sequence[str],
    rows: Sequence[Sequence[str | int]],
) -> None:
    columns = tuple(Column(head, numeric=head in ("cells", "finished")) for head in heads)
    entries = tuple(tuple(words(str(one)) for one in row) for row in rows)
    console.print(render_table(Table(title, columns, entries)))


def _print_json(document: object) -> None:
    # Not through a console, which would wrap it.
    text = json.dumps(document, indent=1, allow_nan=False)
    Console(soft_wrap=True, highlight=False, markup=False).out(text, highlight=False)
