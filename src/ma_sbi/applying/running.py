"""A run over all blocks of a table, which goes on where it was stopped."""

from __future__ import annotations

import json
import shutil
from collections import Counter
from collections.abc import Callable, Iterable, Iterator
from concurrent.futures import FIRST_COMPLETED, Future, wait
from importlib.metadata import PackageNotFoundError, version
from pathlib import Path
from typing import NamedTuple, Protocol

from ma_sbi import __version__
from ma_sbi.applying.blocks import Finished, Job, Told, correct_block
from ma_sbi.applying.outputs import format_of, join
from ma_sbi.applying.sources import Block, Source
from ma_sbi.applying.unread import Unread, all_unread
from ma_sbi.writing import write_text, written_whole

__all__ = ["Outcome", "Warned", "Workers", "run"]

# What says that a folder is that of a run.
NOTE = "run.json"
PACKAGES = ("torch", "numpy", "pandas", "scikit-learn", "sbi", "zuko", "pyarrow")


class Warned(NamedTuple):
    """Warnings of one kind.

    Attributes:
        rows: First and last row of the block that was warned of first.
        said: What was said of it.
        others: How many other blocks were warned of.
    """

    rows: tuple[int, int]
    said: str
    others: int


class Outcome(NamedTuple):
    """What a run did.

    Attributes:
        num_rows: Rows of the table.
        num_corrected: Those of them that are corrected.
        num_far: Those of these whose x is far outside the range of calibration.
        num_found: Rows that an earlier run had done.
        contexts: How many contexts are of each kind.
        hint: The first that calibration has in another spelling, in words; or nothing.
        warned: What was warned of, by the kind of warning.
        unread: Cells that could not be read, by column.
    """

    num_rows: int
    num_corrected: int
    num_far: int
    num_found: int
    contexts: Counter[str]
    hint: str
    warned: dict[str, Warned]
    unread: list[Unread]


class Workers(Protocol):
    """Where blocks are corrected."""

    @property
    def capacity(self) -> int:
        """How many blocks may be on their way."""
        ...

    def start(self, job: Job, number: int, first: int, block: Block) -> Future[Finished]:
        """Begin to correct a block; arguments as of ``correct_block``."""
        ...


class ThisProcess:
    """The calling process: a block is done when ``start`` returns."""

    capacity = 1

    def start(self, job: Job, number: int, first: int, block: Block) -> Future[Finished]:
        """Correct a block."""
        future: Future[Finished] = Future()
        future.set_result(correct_block(job, number, first, block))
        return future


def run(
    source: Source,
    job: Job,
    out: Path,
    *,
    workers: Workers | None = None,
    start_over: bool = False,
    progress: Callable[[int, int], None] = lambda rows, position: None,
) -> Outcome:
    """Correct a table.

    Finished blocks are kept in a folder beside the output, ``out.blocks``. They become the
    output when all are there; a run that was stopped goes on after the last of them, and
    gives what it would have given without a stop.

    Args:
        source: The table.
        job: What to do with each block.
        out: The file to write.
        workers: Where blocks are corrected; in this process if None.
        start_over: Whether to forget the blocks of an earlier run.
        progress: Called with the number of rows that are done, and where the source is.

    Raises:
        ValueError: If there are blocks of another run, or a folder of that name that holds
            something else.
    """
    folder = out.with_name(f"{out.name}.blocks")
    if start_over and (folder / NOTE).exists():
        shutil.rmtree(folder)
    _claim(folder, source, job)
    finished: dict[int, Told] = {}
    num_found = 0
    waiting = _not_done(folder, source.blocks(job.block_rows), finished)
    for number, done in _corrected(workers or ThisProcess(), job, waiting):
        if done is None:
            num_found += finished[number].num_rows
        else:
            _write(folder, number, done, job.suffix)
            finished[number] = done.told
        progress(sum(one.num_rows for one in finished.values()), source.position)
    files = [_block(folder, number, job.suffix) for number in range(len(finished))]
    if not files:
        shutil.rmtree(folder)
        raise ValueError(f"{source.path.name} has columns but no rows")
    join(format_of(out), files, out)
    shutil.rmtree(folder)
    return _outcome([finished[number] for number in range(len(files))], num_found)


def _outcome(told: list[Told], num_found: int) -> Outcome:
    """Join what there is to say of all blocks."""
    first, contexts, warned = 0, Counter[str](), dict[str, Warned]()
    for one in told:
        contexts.update(one.contexts)
        rows = (first, first + one.num_rows - 1)
        for kind, said in one.warned.items():
            known = warned.get(kind, Warned(rows, said, -1))
            warned[kind] = known._replace(others=known.others + 1)
        first += one.num_rows
    num_corrected = sum(one.num_corrected for one in told)
    hint = next(filter(None, (one.hint for one in told)), "")
    num_far = sum(one.num_far for one in told)
    unread = all_unread(map(Unread._make, one.unread) for one in told)  # lists, if read
    return Outcome(first, num_corrected, num_far, num_found, contexts, hint, warned, unread)


def _claim(folder: Path, source: Source, job: Job) -> None:
    """Make the folder of a run, or see that it is of this one."""
    versions = {name: _version(name) for name in PACKAGES} | {"ma_sbi": __version__}
    mine = {
        "table": source.fingerprint(),
        "job": job.fingerprint(),
        "block_rows": job.block_rows,
        "versions": versions,
    }
    note = folder / NOTE
    if note.exists():
        try:
            found = json.loads(note.read_text(encoding="utf-8"))
        except ValueError:
            found = None
        if found == mine:
            return
        if any(folder.glob("[0-9]*.json")):
            other = next((k for k in mine if not found or found.get(k) != mine[k]), "run")
            raise ValueError(
                f"{folder} holds a run that was stopped, of another {other}: finish that "
                "one with the same command as before, name another output, or pass "
                "--start-over to forget it"
            )
    elif folder.exists() and any(folder.iterdir()):
        raise ValueError(f"{folder} is there and holds no run: name another output")
    folder.mkdir(exist_ok=True)
    write_text(note, json.dumps(mine, indent=2))


def _version(package: str) -> str | None:
    try:
        return version(package)
    except PackageNotFoundError:  # parquet is an extra
        return None


def _not_done(
    folder: Path, blocks: Iterable[Block], finished: dict[int, Told]
) -> Iterator[tuple[int, int, Block | None]]:
    """Yield blocks, with their number and that of their first row.

    None is in place of one that an earlier run has finished.
    """
    first = 0
    for number, block in enumerate(blocks):
        note = folder / f"{number:06d}.json"
        if note.exists():
            finished[number] = Told(**json.loads(note.read_text(encoding="utf-8")))
            yield number, first, None
        else:
            yield number, first, block
        first += len(next(iter(block.values())))


def _corrected(
    workers: Workers, job: Job, blocks: Iterable[tuple[int, int, Block | None]]
) -> Iterator[tuple[int, Finished | None]]:
    """Correct blocks, as many at a time as there are workers; yield them as they come."""
    running: dict[Future[Finished], int] = {}
    for number, first, block in blocks:
        if block is None:
            yield number, None
            continue
        running[workers.start(job, number, first, block)] = number
        while len(running) >= workers.capacity:
            yield from _done(running)
    while running:
        yield from _done(running)


def _done(running: dict[Future[Finished], int]) -> Iterator[tuple[int, Finished]]:
    for future in wait(running, return_when=FIRST_COMPLETED).done:
        yield running.pop(future), future.result()


def _write(folder: Path, number: int, done: Finished, suffix: str) -> None:
    """Keep a block; the note comes last, and says that it is whole."""
    with written_whole(_block(folder, number, suffix)) as unfinished:
        unfinished.write_bytes(done.content)
    write_text(folder / f"{number:06d}.json", json.dumps(done.told._asdict()))


def _block(folder: Path, number: int, suffix: str) -> Path:
    return folder / f"{number:06d}{suffix}"
