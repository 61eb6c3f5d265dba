"""Size and power of the tests that a check uses, from 50 to 5000 rows, groups included.

    python bench/benchmarks/check_power.py --csv bench/benchmarks/results/check_power.csv

Each row of the table is a share of repetitions in which a test says so, at the level that
the check uses. Where there is nothing to find, the share is the size of the test. The leak
test has a table of its own, by `exclusion.py`, at 5 %; here it is at the level that forbids
a correction. Groups have five rows that share their parameters.

Worlds: a linear Gaussian simulator of three columns and two parameters, whose signal has
twice the deviation of its noise, and two labels. Shifts are in deviations of x.
"""

import argparse
import inspect
import time
import warnings
from functools import partial
from pathlib import Path

import numpy as np
import pandas as pd
import torch
from joblib import Parallel, delayed

from ma_sbi.choosing.noise import find_noise
from ma_sbi.choosing.pairing import PAIRED, examine_pairs
from ma_sbi.choosing.population import energy_p_value
from ma_sbi.diagnostics import exclusion_test, out_of_distribution
from ma_sbi.diagnostics.thresholds import THRESHOLDS

SIZES = (50, 200, 1000, 5000)
PER_GROUP = 5
MATRIX = torch.tensor([[1.0, 0.0], [0.0, 1.0], [0.7, 0.7]], dtype=torch.float64)
NOISE = 0.5
SHIFT = torch.tensor([0.5, -0.5, 0.5], dtype=torch.float64)
ELSEWHERE = 0.001


class Rows:
    """Rows of the world: what tests are made of."""

    def __init__(self, n, seed, *, grouped):
        """Draw parameters, others that are independent of them, labels and simulations."""
        self.rng = torch.Generator().manual_seed(seed)
        self.n, self.seed = n, seed
        groups = torch.arange(n) // (PER_GROUP if grouped else 1)
        self.groups = groups.numpy() if grouped else None
        self.theta, self.other = (
            _normal(self.rng, int(groups.max()) + 1, 2)[groups] for _ in range(2)
        )
        self.codes = torch.randint(2, (n,), generator=self.rng)
        self.x = again(self)


def _normal(rng, *shape):
    return torch.randn(*shape, generator=rng, dtype=torch.float64)


def again(rows, theta=None):
    """Simulate with noise of its own."""
    theta = rows.theta if theta is None else theta
    return theta @ MATRIX.T + NOISE * _normal(rows.rng, len(theta), 3)


def shifted(rows, size=1.0):
    return rows.x + size * rows.codes[:, None] * SHIFT


def some_pairs(rows, share):
    own = torch.rand(rows.n, 1, generator=rows.rng) < share
    return again(rows, torch.where(own, rows.theta, rows.other))


def pairs(rows, x_obs, x_sim, what):
    options = {"seed": rows.seed}
    if "groups" in inspect.signature(examine_pairs).parameters:
        options["groups"] = rows.groups
    found = examine_pairs(x_obs, x_sim, rows.codes, **options)
    return {
        "paired": found.p_value <= PAIRED,
        "swapped": found.swapped is True,
        "order": found.order is not None,
        "units": bool(found.units),
    }[what]


def leak(rows, share):
    own = torch.rand(rows.n, generator=rows.rng) < share
    codes = torch.where(own, (rows.theta[:, 0] > 0).long(), rows.codes)
    found = exclusion_test(
        ["ab"[code] for code in codes],
        rows.x,
        groups=rows.groups,
        num_permutations=1999,
        seed=rows.seed,
    )
    return found.p_value <= THRESHOLDS.leak_found


def noise(rows, x_obs, x_sim, *, known):
    variance = torch.full((3,), NOISE**2, dtype=torch.float64) if known else None
    return find_noise(x_obs, x_sim[:, None], rows.codes, variance).found


def likeness(rows, x_obs, x_sim, *, paired):
    found = out_of_distribution(x_obs, x_sim, paired=paired, seed=rows.seed).before
    return found.p_value < THRESHOLDS.unusual


def population(rows, x):
    first = np.unique(
        rows.groups if rows.groups is not None else np.arange(rows.n), return_index=True
    )[1]
    pool = again(rows, _normal(rows.rng, 2000, 2))
    return energy_p_value(x[first], pool, rows.seed) <= ELSEWHERE


NOISES = (
    ("shared, a shift", False, lambda r: (shifted(r), r.x)),
    ("own, nothing departs", True, lambda r: (r.x, again(r))),
    ("own, a shift", True, lambda r: (shifted(r, 2.0), again(r))),
    ("own, a gain", True, lambda r: (1.5 * r.x, again(r))),
)
CASES = [
    (
        "rows are pairs",
        (
            ("other parameters", False, lambda r: (shifted(r), again(r, r.other))),
            (
                "four in ten rows are pairs",
                True,
                lambda r: (shifted(r), some_pairs(r, 0.4)),
            ),
            ("own noise", True, lambda r: (shifted(r), again(r))),
        ),
        partial(pairs, what="paired"),
    ),
    (
        "swapped",
        (
            ("nothing departs", False, lambda r: (r.x, again(r))),
            ("as they should be", False, lambda r: (shifted(r), r.x)),
            ("swapped", True, lambda r: (r.x, shifted(r))),
        ),
        partial(pairs, what="swapped"),
    ),
    (
        "columns exchanged",
        (
            ("as they should be", False, lambda r: (shifted(r), again(r))),
            ("two exchanged", True, lambda r: (shifted(r)[:, [1, 0, 2]], again(r))),
        ),
        partial(pairs, what="order"),
    ),
    (
        "other units",
        (
            ("a gain of 3", False, lambda r: (3 * r.x, r.x)),
            ("a factor of 30", True, lambda r: (30 * r.x, r.x)),
            ("a factor of 100", True, lambda r: (100 * r.x, r.x)),
        ),
        partial(pairs, what="units"),
    ),
    (
        "leak",
        (
            ("none", False, lambda r: 0.0),
            ("sign of theta_1, in three of ten rows", True, lambda r: 0.3),
            ("sign of theta_1", True, lambda r: 1.0),
        ),
        leak,
    ),
    ("own noise, that of the simulator known", NOISES, partial(noise, known=True)),
    ("own noise, that of the simulator not known", NOISES, partial(noise, known=False)),
    (
        "unlike simulations, pairs",
        (
            ("own noise, nothing departs", False, lambda r: (r.x, again(r))),
            ("a shift of 0.25", True, lambda r: (shifted(r, 0.5), again(r))),
        ),
        partial(likeness, paired=True),
    ),
    (
        "unlike simulations, pools",
        (
            ("nothing departs", False, lambda r: (r.x, again(r, r.other))),
            ("a shift of 1", True, lambda r: (shifted(r, 2.0), again(r, r.other))),
        ),
        partial(likeness, paired=False),
    ),
    (
        "other population",
        (
            ("the prior", False, lambda r: r.x),
            ("0.5 away", True, lambda r: r.x + 0.5),
        ),
        population,
    ),
]
"""Each test with what it is shown, and whether there is something to find."""


def share_found(test, make, n, grouped, given):
    """Count how often a test says so; with many rows, in a quarter of the repetitions."""
    torch.set_num_threads(1)
    warnings.filterwarnings("ignore")
    start = time.process_time()
    says = []
    repeats = given.repeats if n < 1000 else given.repeats // 4
    for one in range(repeats):
        rows = Rows(n, given.seed + one, grouped=grouped)
        shown = make(rows)
        says.append(test(rows, *(shown if isinstance(shown, tuple) else (shown,))))
    seconds = (time.process_time() - start) / repeats
    return {
        "share": np.mean(says).round(4),
        "repeats": repeats,
        "seconds": round(seconds, 3),
    }


def as_markdown(table):
    """Write shares in per cent, a column for each number of rows."""
    index = ["test", "case", "to be found", "groups"]
    shares = table.pivot_table("share", index, "n", sort=False)
    lines = [f"| test | case | groups | {' | '.join(map(str, SIZES))} |", "|---" * 7 + "|"]
    for (name, case, is_there, groups), row in shares.iterrows():
        case = case if is_there else f"*{case}*"
        values = " | ".join(f"{100 * share:.0f}" for share in row)
        lines.append(f"| {name} | {case} | {groups} | {values} |")
    return "\n".join(lines)


def main(given):
    places = [
        (name, case, is_there, grouped, n, test, make)
        for name, cases, test in CASES
        for case, is_there, make in cases
        for grouped in (False, True)
        for n in SIZES
    ]
    found = Parallel(n_jobs=given.workers, batch_size=1)(
        delayed(share_found)(test, make, n, grouped, given)
        for *_, grouped, n, test, make in places
    )
    table = pd.DataFrame(
        {
            "test": name,
            "case": case,
            "to be found": is_there,
            "groups": f"of {PER_GROUP}" if grouped else "none",
            "n": n,
            **one,
        }
        for (name, case, is_there, grouped, n, *_), one in zip(places, found, strict=True)
    )
    print(as_markdown(table))
    if given.csv is not None:
        table.to_csv(given.csv, index=False)


if __name__ == "__main__":
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--csv", type=Path)
    parser.add_argument("--repeats", type=int, default=100)
    parser.add_argument("--seed", type=int, default=20_000)
    parser.add_argument("--workers", type=int, default=1)
    main(parser.parse_args())
