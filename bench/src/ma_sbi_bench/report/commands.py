"""What ``ma-sbi reproduce`` and ``ma-sbi report`` do."""

from __future__ import annotations

import json
from collections.abc import Sequence
from pathlib import Path
from shlex import quote

from rich.console import Console
from rich.text import Text

from ma_sbi.display.text import printable
from ma_sbi_bench.engine.budget import Budget
from ma_sbi_bench.engine.running import Failure
from ma_sbi_bench.report.contents import Report, gather
from ma_sbi_bench.report.markdown import write_markdown
from ma_sbi_bench.report.page import write_page
from ma_sbi_bench.report.progress import Watch
from ma_sbi_bench.report.tables import Column, Entry, Table
from ma_sbi_bench.report.terminal import render_report, render_table, wide_console
from ma_sbi_bench.reproducing import Estimate, Reproduction, choose, usable_cores
from ma_sbi_bench.tables.registry import EXPERIMENTS

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
    experiments = choose(names or ["all"])
    if fresh and results is not None:
        raise ValueError(
            "--fresh ignores committed rows, so --results has no use beside it"
        )
    if results is not None and not results.is_dir():
        raise ValueError(f"there is no folder {results} with committed rows")
    if results is None and not fresh and RESULTS.is_dir():
        results = RESULTS
    found = Reproduction(experiments, budget, out, results)
    found.store.committed()  # so that a broken file is refused before any work
    return found


def describe() -> None:
    """Print every experiment in a line, and how to run them."""
    console = wide_console()
    table = Table(
        "Experiments",
        (Column("name"), Column("what it is"), Column("in the paper")),
        tuple(
            (Entry(one.name), Entry(one.title), Entry(one.place))
            for one in EXPERIMENTS.values()
        ),
    )
    console.print(render_table(table))
    _say(
        console,
        "A glance at all of them, in minutes:  ma-sbi reproduce all --quick\n"
        "All as in the paper, in hours:        ma-sbi reproduce all\n"
        "Some of them:                         ma-sbi reproduce NAME ...\n"
        "How far they are:                     ma-sbi reproduce --list",
    )


def list_experiments(reproduction: Reproduction, *, as_json: bool = False) -> None:
    """Print how far every experiment is."""
    missing = reproduction.missing()
    known = []
    for one in reproduction.experiments:
        cells = one.cells(reproduction.budget)
        finished = sum(cell in reproduction.store for cell in cells)
        known.append((one, len(cells), finished, missing.get(one.name, "")))
    if as_json:
        _print_json(
            [
                {
                    "name": one.name,
                    "title": one.title,
                    "cells": num,
                    "finished": finished,
                    "missing": lacks,
                }
                for one, num, finished, lacks in known
            ]
        )
        return
    heads = ("name", "what it is", "cells", "finished", "missing")
    columns = tuple(Column(head, numeric=head in ("cells", "finished")) for head in heads)
    rows = tuple(
        tuple(Entry(str(part)) for part in (one.name, one.title, num, finished, lacks))
        for one, num, finished, lacks in known
    )
    label = " (quick)" if reproduction.budget.quick else ""
    wide_console().print(render_table(Table(f"Experiments{label}", columns, rows)))


def check_request(
    reproduction: Reproduction, num_workers: int | None, scheduler: str | None
) -> None:
    """See that the work can be done at all, before any of it.

    Raises:
        ValueError: If it cannot.
    """
    if num_workers is not None and scheduler is not None:
        raise ValueError("--workers are processes of this machine: not with --scheduler")
    if reproduction.check(scheduler) == 0:
        aside = wide_console(stderr=True)
        _say(aside, f"The scheduler at {scheduler} has no workers yet; the work waits.")


def reproduce(
    reproduction: Reproduction,
    *,
    num_workers: int | None = None,
    scheduler: str | None = None,
    as_json: bool = False,
) -> int:
    """Run what is left, print ours beside the paper's, and return the exit code."""
    aside = wide_console(stderr=True)
    for name, reason in reproduction.missing().items():
        _say(aside, f"Cells of {name} are skipped: {reason}")
    workers = num_workers or usable_cores()
    work = reproduction.work()
    estimate = Estimate(None if scheduler else workers)
    _learn(estimate, reproduction)
    failures: list[Failure] = []
    if any(work.values()):
        try:
            with Watch(work, estimate, aside) as watch:
                failures = reproduction.run(
                    work.values(),
                    num_workers=workers,
                    scheduler=scheduler,
                    heard=watch.hear,
                )
        except KeyboardInterrupt:
            _say(aside, _how_to_go_on(reproduction))
            return INTERRUPTED
        except ValueError as error:
            if scheduler is None:
                raise
            _say(aside, f"ma-sbi reproduce: {error}")
            _say(aside, _how_to_go_on(reproduction))
            return 1
    report = gather(reproduction.experiments, reproduction.budget, reproduction.store)
    if as_json:
        told = [{"cell": str(one.item), "reason": one.reason} for one in failures]
        _print_json(report.to_dict() | {"failures": told})
    else:
        console = wide_console()
        console.print(render_report(report))
        _say(console, f"A page with figures: {_report_command(reproduction)}")
    if failures:
        _say(aside, f"{len(failures)} failed:")
    for one in failures:
        _say(aside, f"- {one.item}: {one.reason}")
    return 1 if _tell_problems(report, aside) or failures else 0


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
    if report.provenance.num_cells and not report.provenance.num_finished:
        _say(
            aside,
            f"ma-sbi report: nothing is finished in {reproduction.out}, nor committed. Run "
            "ma-sbi reproduce first, or name other folders by --out and --results.",
        )
        return 2
    undrawn: list[str] = []
    try:
        if html is not None:
            undrawn += write_page(report, html)
            _say(console, f"The page is {html}.")
        if markdown is not None:
            undrawn += write_markdown(report, markdown)
            _say(console, f"The Markdown page is {markdown}.")
        if csv is not None:
            for section in report.sections:
                if section.num_finished:
                    file = csv / f"{section.experiment.name}.csv"
                    num = reproduction.store.export(section.cells, file)
                    _say(console, f"{num} rows are in {file}.")
    except OSError as error:
        _say(aside, f"ma-sbi report: cannot write {error.filename}: {error.strerror}")
        return 2
    _say(console, report.conclusion)
    done = report.provenance
    _say(console, f"{done.num_finished} of {done.num_cells} cells are finished.")
    for problem in dict.fromkeys(undrawn):
        _say(aside, problem)
    return 1 if _tell_problems(report, aside) or undrawn else 0


def _learn(estimate: Estimate, reproduction: Reproduction) -> None:
    """Take note of how long finished cells took."""
    for one in reproduction.experiments:
        cells = {cell.key: cell for cell in one.cells(reproduction.budget)}
        rows = reproduction.store.rows(cells.values()).drop_duplicates("key")
        for key, seconds in zip(rows["key"], rows["seconds"], strict=True):
            estimate.learn(one.name, cells[key], seconds)


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


def _tell_problems(report: Report, console: Console) -> bool:
    problems = {
        section.experiment.name: section.problem
        for section in report.sections
        if section.problem
    }
    for name, problem in problems.items():
        _say(console, f"The tables of {name} could not be made: {problem}")
    return bool(problems)


def _say(console: Console, sentence: str) -> None:
    console.print(Text(printable(sentence)), soft_wrap=True)


def _print_json(document: object) -> None:
    # Not through a console, which would wrap it.
    text = json.dumps(document, indent=1, allow_nan=False)
    Console(soft_wrap=True, highlight=False, markup=False).out(text, highlight=False)
