"""What was tried to break it, and what held: the rows behind docs/how_to/robustness.md.

    python -m benchmarks.robustness                 # every part, from the repository's root
    python -m benchmarks.robustness --part threads  # one part; rows of others are kept
    python -m benchmarks.robustness --page          # the tables, from the rows

A part is a function that yields rows; it joins by its name in ``PARTS``. Seconds are of the
processor, not of the clock, so that a busy machine does not change them.
"""

import argparse
import csv
import json
import resource
import subprocess
import sys
import tempfile
import time
import warnings
from dataclasses import asdict, dataclass
from pathlib import Path

CSV = Path(__file__).parent / "results" / "robustness.csv"
PAGE = Path(__file__).parents[1] / "docs" / "how_to" / "robustness.md"
MOST_MEGABYTES = 2048
NUM_KILLS = 10


@dataclass(frozen=True)
class Row:
    """One thing that was tried.

    Attributes:
        part: Table it belongs to.
        what: What was tried, in words.
        tried: How often.
        held: How often it held.
        seconds: Of the processor, for all of it.
        peak_mb: Largest memory of the process; 0 if it was not looked at.
    """

    part: str
    what: str
    tried: int
    held: int
    seconds: float
    peak_mb: int = 0


def threads():
    """Draw from eight threads at once what one thread draws."""
    import torch

    from tests.test_threads import NUM_THREADS, SAMPLERS, in_threads

    warnings.simplefilter("ignore")
    sys.setswitchinterval(1e-6)
    for name, draw in SAMPLERS.items():
        start = time.process_time()
        count = 4 * NUM_THREADS
        expected = [draw(seed) for seed in range(count)]
        state = torch.get_rng_state()
        found = in_threads(draw, count)
        same = sum(map(torch.equal, found, expected))
        restored = torch.equal(torch.get_rng_state(), state)
        seconds = time.process_time() - start
        yield Row("threads", name, count, same if restored else 0, seconds)


def load():
    """Run each case in a process of its own, so that its peak is its own."""
    for name in LOADS:
        command = [sys.executable, "-m", "benchmarks.robustness", "--load", name]
        done = subprocess.run(command, capture_output=True, text=True, check=False)  # noqa: S603
        if done.returncode == 0:
            seconds, peak = json.loads(done.stdout.splitlines()[-1])
            yield Row("load", name, 1, int(peak < MOST_MEGABYTES), seconds, peak)
        else:
            print(done.stderr[-2000:], file=sys.stderr)
            yield Row("load", name, 1, 0, 0.0)


def measure_load(name):
    """Run one case and print its seconds and its peak memory in megabytes."""
    import torch

    torch.set_num_threads(1)
    warnings.simplefilter("ignore")
    work = LOADS[name]()
    start = time.process_time()
    work()
    seconds = round(time.process_time() - start, 1)
    kilobytes = resource.getrusage(resource.RUSAGE_SELF).ru_maxrss
    print(json.dumps([seconds, round(kilobytes / 1024)]))


def world(num_rows, dim_x=3, seed=0):
    """Draw x_obs that is shifted in every other row, which rows those are, and x_sim."""
    import torch

    rng = torch.Generator().manual_seed(seed)
    x_sim = torch.randn(num_rows, dim_x, generator=rng)
    high = torch.arange(num_rows) % 2 == 0
    x_obs = x_sim + 0.1 * torch.randn(num_rows, dim_x, generator=rng)
    x_obs[:, 0] += high.float()
    return x_obs, high.tolist(), x_sim


def texts_of(high, num_texts):
    """Write a text for each row; half the rows share a few, so that texts repeat."""
    words = [
        "pump",
        "valve",
        "left",
        "right",
        "hot",
        "cold",
        "slow",
        "fast",
        "leak",
        "bias",
        "drift",
        "loose",
        "old",
        "new",
    ]
    often = len(high) // 2
    rare = num_texts - 100

    def text(row, is_high):
        number = row // 2 % 50 if row < often else 50 + row % rare // 2
        some = " ".join(words[number // 10**place % 10] for place in range(4))
        return f"{'reads high' if is_high else 'all is well'}, {some}, item {number}"

    return [text(row, is_high) for row, is_high in enumerate(high)]


def check_texts(num_rows, num_texts):
    def prepare():
        from ma_sbi import check

        x_obs, high, x_sim = world(num_rows)
        texts = texts_of(high, num_texts)
        return lambda: check(x_obs, texts, x_sim=x_sim, seed=0)

    return prepare


def check_labels(num_rows, num_labels):
    def prepare():
        from ma_sbi import check

        x_obs, _, x_sim = world(num_rows)
        labels = [f"line {row % num_labels}" for row in range(num_rows)]
        return lambda: check(x_obs, labels, x_sim=x_sim, seed=0)

    return prepare


def check_numbers(num_rows):
    def prepare():
        import torch

        from ma_sbi import check

        x_obs, high, x_sim = world(num_rows)
        numbers = torch.tensor(high) + 0.4 * torch.linspace(0, 1, num_rows)
        return lambda: check(x_obs, numbers.numpy(), x_sim=x_sim, seed=0)

    return prepare


def exact_posterior():
    import torch

    from ma_sbi import from_callable

    return from_callable(
        lambda num, x: x + 0.1 * torch.randn(num, *x.shape),
        lambda theta, x: -50 * (theta - x).square().sum(dim=-1),
        batched=True,
    )


def fit_triples(num_rows):
    def prepare():
        from ma_sbi import CategoryEncoder, ShiftCorrector

        x_obs, high, x_sim = world(num_rows)
        labels = ["high" if one else "well" for one in high]
        return lambda: ShiftCorrector(CategoryEncoder()).fit(labels, x_obs, x_sim)

    return prepare


def correct_rows(num_rows, dim_x=3, num_draws=256, *, density=False):
    """Fit a stochastic corrector to 2,000 rows, then correct and draw for many."""

    def prepare():
        from ma_sbi import BootstrapCorrector, CategoryEncoder, CorrectedPosterior

        x_obs, high, x_sim = world(num_rows, dim_x)
        labels = ["high" if one else "well" for one in high]
        corrector = BootstrapCorrector(CategoryEncoder(), num_draws)
        corrector.fit(labels[:2000], x_obs[:2000], x_sim[:2000], seed=0)
        corrected = CorrectedPosterior(exact_posterior(), corrector)
        if density:
            return lambda: corrected.log_prob(x_sim[None], x_obs, labels)
        return lambda: corrected.sample(1, x_obs, labels, seed=0)

    return prepare


def correct_shift(num_rows):
    def prepare():
        from ma_sbi import CategoryEncoder, CorrectedPosterior, ShiftCorrector

        x_obs, high, x_sim = world(num_rows)
        labels = ["high" if one else "well" for one in high]
        corrector = ShiftCorrector(CategoryEncoder())
        corrector.fit(labels[:2000], x_obs[:2000], x_sim[:2000])
        corrected = CorrectedPosterior(exact_posterior(), corrector)
        return lambda: corrected.sample(1, x_obs, labels, seed=0)

    return prepare


def fit_texts(num_texts):
    def prepare():
        from ma_sbi import HashEncoder, ShiftCorrector

        x_obs, high, x_sim = world(num_texts)
        texts = [f"{'high' if one else 'well'} {row}" for row, one in enumerate(high)]
        return lambda: ShiftCorrector(HashEncoder()).fit(texts, x_obs, x_sim, seed=0)

    return prepare


LOADS = {
    "check, 4,000 rows, 1,900 texts": check_texts(4_000, 1_900),
    "check, 20,000 rows, 9,000 texts": check_texts(20_000, 9_000),
    "check, 100,000 rows, 50,000 texts": check_texts(100_000, 50_000),
    "check, 100,000 rows, 50 labels": check_labels(100_000, 50),
    "check, 10,000 numbers that do not repeat": check_numbers(10_000),
    "fit a shift to 1,000,000 triples": fit_triples(1_000_000),
    "fit a shift to 100,000 different texts": fit_texts(100_000),
    "correct and draw for 1,000,000 rows": correct_shift(1_000_000),
    "dim_x = 2,000, K = 256, 2,000 rows": correct_rows(2_000, dim_x=2_000),
    "draws, K = 1,000, 100,000 rows": correct_rows(100_000, num_draws=1_000),
    "densities, K = 1,000, 100,000 rows": correct_rows(
        100_000, num_draws=1_000, density=True
    ),
}


def in_folders(part, cases, holds):
    """Try each case of a registry in a folder of its own, and count by what it is of.

    Args:
        part: Table of the rows.
        cases: What each case is of, by name.
        holds: Takes a name and an empty folder, and tells whether it held.
    """
    warnings.simplefilter("ignore")
    for kind in dict.fromkeys(cases.values()):
        start, names = time.process_time(), [one for one in cases if cases[one] == kind]
        held = 0
        for name in names:
            with tempfile.TemporaryDirectory() as folder:
                held += bool(holds(name, Path(folder)))
        yield Row(part, kind, len(names), held, time.process_time() - start)


def crafted_models():
    """Load model files that claim what is not so."""
    from tests.crafted_models import make, names, refusal

    def holds(name, folder):
        crafted = make(name, folder)
        return str(crafted.path) in (refusal(crafted) or "")

    return in_folders("crafted", {name: name.partition(": ")[0] for name in names()}, holds)


def hostile_tables():
    """Read tables that are no tables, or whose cells look like something else."""
    import pandas as pd

    from ma_sbi.checking.files import read_observations
    from tests import hostile_tables as known

    registries = {
        "contexts that look like numbers": known.CONTEXTS,
        "numbers that are none": known.NUMBERS,
        "odd members of an npz": known.ARRAYS,
        "files that are no tables": known.FILES,
    }

    def holds(name, folder):
        case = known.CASES[name]
        try:
            read = read_observations(case.write(folder), **case.options)
        except ValueError as error:
            return case.refused and case.refused in str(error)
        found = [None if pd.isna(one) else one for one in read.context.unique()]
        return not case.refused and (case.context is None or found == list(case.context))

    kinds = {name: kind for kind, cases in registries.items() for name in cases}
    return in_folders("hostile", kinds, holds)


def damaged_stores():
    """Damage finished cells and committed rows, and go on."""
    from bench.tests.engine.damaged_stores import CASES, try_case

    def holds(name, folder):
        outcome, said = try_case(name, folder)
        return outcome == CASES[name].expected and CASES[name].said in said

    words = {"cell": "files of finished cells", "rows": "committed rows"}
    kinds = {name: words[name.partition(": ")[0]] for name in CASES}
    return in_folders("damaged", kinds, holds)


def kills():
    """Kill a run at random times, and compare its numbers with one left alone."""
    from bench.tests.engine.killed_runs import kill_and_resume

    start = time.process_time()
    with tempfile.TemporaryDirectory() as folder:
        try:
            held = len(kill_and_resume(Path(folder), NUM_KILLS, seed=0))
        except AssertionError as error:
            print(error, file=sys.stderr)
            held = 0
    yield Row("kills", "kill -9 of a run", NUM_KILLS, held, time.process_time() - start)


PARTS = {
    "threads": threads,
    "crafted": crafted_models,
    "hostile": hostile_tables,
    "damaged": damaged_stores,
    "kills": kills,
    "load": load,
}
HEADS = {
    "threads": ("sampler", "draws from eight threads", "equal to those of one thread"),
    "crafted": ("of a", "model files", "refused in a sentence that names the file"),
    "hostile": ("tables with", "tried", "refused, or read as they are"),
    "damaged": ("damage to", "tried", "as it should be"),
    "kills": ("what", "tried", "same numbers, nothing left behind"),
    "load": ("what", "seconds", "peak memory, MB"),
}


def read_rows():
    if not CSV.exists():
        return []
    with CSV.open(newline="", encoding="utf-8") as file:
        return [
            Row(
                one["part"],
                one["what"],
                int(one["tried"]),
                int(one["held"]),
                float(one["seconds"]),
                int(one["peak_mb"]),
            )
            for one in csv.DictReader(file)
        ]


def write_rows(rows):
    with CSV.open("w", newline="", encoding="utf-8") as file:
        writer = csv.DictWriter(file, list(Row.__dataclass_fields__), lineterminator="\n")
        writer.writeheader()
        for row in rows:
            writer.writerow(asdict(row) | {"seconds": f"{row.seconds:.1f}"})


def table(part, rows=None):
    """Make the table of a part, in Markdown."""
    head = HEADS.get(part, ("what", "tried", "held"))
    lines = ["| " + " | ".join(head) + " |", "|---|---:|---:|"]
    for row in read_rows() if rows is None else rows:
        if row.part == part:
            figures = (row.tried, row.held)
            if part == "load":
                figures = (f"{row.seconds:.0f}", row.peak_mb)
            lines.append("| " + " | ".join(map(str, (row.what, *figures))) + " |")
    return "\n".join(lines) + "\n"


def main():
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("--part", choices=PARTS, action="append")
    parser.add_argument("--load", choices=LOADS, help="measure one case, here")
    parser.add_argument("--page", action="store_true", help="print the tables")
    options = parser.parse_args()
    if options.load:
        measure_load(options.load)
        return
    if not options.page:
        for part in options.part or PARTS:
            found = []
            for row in PARTS[part]():
                print(row, flush=True)
                found.append(row)
                others = [one for one in read_rows() if one.part != part]
                write_rows([*others, *found])
    for part in dict.fromkeys(row.part for row in read_rows()):
        print(table(part))


if __name__ == "__main__":
    main()
