"""How many rows per second ``ma-sbi correct`` corrects, and what memory it takes.

    python benchmarks/streaming.py --rows 10000000 --folder streaming

writes a csv of so many rows, corrects it in a process of its own, and prints rows per
second and the peak memory of that process (``resource.getrusage``).
"""

import argparse
import json
import platform
import subprocess
import sys
import time
from pathlib import Path

import numpy as np

AT_ONCE = 100_000
LABELS = np.array(["calm", "storm", ""])
SHIFTS = np.array([[0.0, 0.0], [1.0, -1.0], [0.0, 2.0]])


def write_rows(path, num, *, paired):
    rng = np.random.default_rng(0)
    names = ["id", "x_obs_0", "x_obs_1", "context"]
    names += ["x_sim_0", "x_sim_1"] if paired else []
    with path.open("w") as file:
        file.write(",".join(names) + "\n")
        for start in range(0, num, AT_ONCE):
            count = min(AT_ONCE, num - start)
            regime = rng.integers(3, size=count)
            x_sim = rng.normal(size=(count, 2))
            x_obs = x_sim + SHIFTS[regime] + 0.1 * rng.normal(size=(count, 2))
            columns = [range(start, start + count), *x_obs.round(6).T, LABELS[regime]]
            columns += list(x_sim.round(6).T) if paired else []
            file.writelines(
                f"{','.join(map(str, row))}\n" for row in zip(*columns, strict=True)
            )


# Each process measures itself: what the system tells of children is the largest of all.
PROGRAM = """
import atexit, pathlib, resource, sys
from ma_sbi.cli import app
peak = pathlib.Path(sys.argv.pop(1))
usage = lambda: resource.getrusage(resource.RUSAGE_SELF).ru_maxrss
atexit.register(lambda: peak.write_text(str(usage())))
app()
"""


def run(folder, *command):
    """Run a command; return its seconds and its peak memory in MiB."""
    peak = folder / "peak"
    started = time.perf_counter()
    arguments = [sys.executable, "-c", PROGRAM, peak, *command]
    subprocess.run(list(map(str, arguments)), check=True)
    unit = 1 if platform.system() == "Darwin" else 1024
    return time.perf_counter() - started, int(peak.read_text()) * unit / 2**20


def main():
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--rows", type=int, default=1_000_000)
    parser.add_argument("--folder", type=Path, default=Path("build/streaming"))
    options = parser.parse_args()
    options.folder.mkdir(parents=True, exist_ok=True)
    fit, table, model, out = (
        options.folder / one for one in ("fit.csv", "rows.csv", "model", "corrected.csv")
    )
    write_rows(fit, 200, paired=True)
    write_rows(table, options.rows, paired=False)
    _, peak_of_fit = run(options.folder, "fit", fit, "--out", model)
    command = ("correct", table, "--model", model, "--out", out)
    seconds, peak = run(options.folder, *command)
    print(
        json.dumps(
            {
                "rows": options.rows,
                "bytes_read": table.stat().st_size,
                "seconds": round(seconds, 1),
                "rows_per_second": round(options.rows / seconds),
                "peak_mib": round(peak),
                "peak_mib_of_fit": round(peak_of_fit),
            },
            indent=2,
        )
    )


if __name__ == "__main__":
    main()
