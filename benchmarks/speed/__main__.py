"""Speed, as ratios of what was timed in one run: the rows behind docs/how_to/speed.md.

    python -m benchmarks.speed                  # all parts, from the repository's root
    python -m benchmarks.speed --quick          # small sizes, a few minutes
    python -m benchmarks.speed --part sampling  # one part
    python -m benchmarks.speed --device cuda    # networks run on a GPU
    python -m benchmarks.speed --page           # figures and tables of the page

The rows of a part are written to ``build/speed-cpu.csv`` when it ends. Parts that are in
it are not run again, unless they are named: a run that was stopped goes on. ``--out`` names
another file; the rows of the page are in ``benchmarks/results/speed.csv``. Seconds are of
the processor on one thread, so that other work on the machine counts little; on a GPU they
are of the clock.
"""

from __future__ import annotations

import argparse
import warnings
from importlib import import_module
from pathlib import Path

import torch

from benchmarks.speed.page import tables, write_page
from benchmarks.speed.timing import Effort, read_rows, write_rows

PARTS = (
    "sampling",
    "fitting",
    "flow_training",
    "on_gpu",
    "diffusion",
    "classifying",
    "encoding",
    "streaming",
)


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("--part", choices=PARTS, action="append")
    parser.add_argument("--quick", action="store_true", help="small sizes")
    parser.add_argument("--device", default="cpu", help="where networks run")
    parser.add_argument("--out", type=Path, help="file of the rows")
    parser.add_argument("--page", action="store_true", help="write the page from the rows")
    options = parser.parse_args()
    if options.page:
        write_page()
        return
    torch.set_num_threads(1)
    warnings.simplefilter("ignore")
    effort = Effort(quick=options.quick, device=options.device)
    kind = f"speed-{options.device}" + "-quick" * options.quick
    path = options.out or Path("build") / f"{kind}.csv"
    for name in options.part or PARTS:
        module = import_module(f"benchmarks.speed.{name}")
        known = read_rows(path)
        is_done = set(module.TABLES) <= {row.part for row in known}
        if is_done and not options.part:
            continue
        found = []
        for row in module.rows(effort):
            print(row, flush=True)
            found.append(row)
        others = [row for row in known if row.part not in module.TABLES]
        write_rows(path, [*others, *found])
    print(*tables(read_rows(path)).values(), sep="\n")


if __name__ == "__main__":
    main()
