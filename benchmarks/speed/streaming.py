"""Rows per second of ``ma-sbi correct``, against pandas that only copies the table."""

from __future__ import annotations

import resource
import subprocess
import sys
import tempfile
from collections.abc import Iterator
from pathlib import Path

from benchmarks.speed.timing import Effort, Row, row_of
from benchmarks.streaming import write_rows

TABLES = ("streaming",)
CORRECT = "from ma_sbi.cli import app; app()"
COPY = """
import sys
import pandas as pd
blocks = pd.read_csv(sys.argv[1], chunksize=100_000)
for number, block in enumerate(blocks):
    block.to_csv(sys.argv[2], mode="a" if number else "w", header=not number, index=False)
"""


def run(program: str, *arguments: str | Path) -> float:
    """Run a program in a process of its own; return the processor's seconds."""

    def spent() -> float:
        usage = resource.getrusage(resource.RUSAGE_CHILDREN)
        return usage.ru_utime + usage.ru_stime

    before = spent()
    command = [sys.executable, "-c", program, *map(str, arguments)]
    subprocess.run(command, check=True, capture_output=True)  # noqa: S603
    return spent() - before


def rows(effort: Effort) -> Iterator[Row]:
    """Time tables of growing length; the time includes the start of python."""
    sizes = (1_000, 10_000) if effort.quick else (10_000, 100_000, 1_000_000)
    with tempfile.TemporaryDirectory() as name:
        folder = Path(name)
        fit, table, model, out = (
            folder / one for one in ("fit.csv", "rows.csv", "model", "corrected.csv")
        )
        write_rows(fit, 200, paired=True)
        run(CORRECT, "fit", fit, "--out", model)
        for size in sizes:
            write_rows(table, size, paired=False)
            turns = []
            for _ in range(2):
                out.unlink(missing_ok=True)
                ours = run(CORRECT, "correct", table, "--model", model, "--out", out)
                turns.append([ours, run(COPY, table, folder / "copy.csv")])
            yield row_of("streaming", "ma-sbi correct", size, "pandas copies it", turns)
