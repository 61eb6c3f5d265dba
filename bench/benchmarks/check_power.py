"""Size and power of the tests that a check uses, from 50 to 5000 rows, groups included.

    python bench/benchmarks/check_power.py --csv bench/benchmarks/results/check_power.csv

Where the code of few tests changed, `--only pairs unlike` runs these anew, and leaves the
other rows of the file as they are: repetitions have seeds of their own.

Each row of the table is the share of repetitions in which a test says so, at the level that
the check uses, with its standard error. Where there is nothing to find, the share is the
size of the test. A check asks several questions of the same pairs at once: so does this.
Groups have five rows that share their parameters; tests that take groups are given them.

There are fewer repetitions where a test is slow, so that all takes a quarter of an hour on
one core. Levels of 0.1 % to 1 % are too small to be measured by them: they show that a
test is not grossly wrong. The leak test has a table of its own, by `exclusion.py`, at 5 %;
here it is at the levels that forbid a correction, and that ask for care.

Worlds: a linear Gaussian simulator of three columns and two parameters, whose signal has
twice the deviation of its noise, and two labels. Shifts are in deviations of x.
"""

import argparse
import time
import warnings
from functools import partial
from pathlib import Path

import pandas as pd
import torch
from torch.distributions import MultivariateNormal

from ma_sbi.choosing.exchange import exchange_test
from ma_sbi.choosing.features import describe
from ma_sbi.choosing.noise import find_noise
from ma_sbi.choosing.outliers import find_outliers
from ma_sbi.choosing.pairing import examine_pairs
from ma_sbi.choosing.population import energy_p_value
from ma_sbi.choosing.reference import Reference
from ma_sbi.choosing.sides import tell_unlike
from ma_sbi.diagnostics import (
    coverage,
    dependence_test,
    exclusion_test,
    held_out_r2,
    out_of_distribution,
    predictive_check,
)
from ma_sbi.diagnostics.thresholds import THRESHOLDS
from ma_sbi.posteriors import from_callable

SIZES = (50, 200, 1000, 5000)
PER_GROUP = 5
MATRIX = torch.tensor([[1.0, 0.0], [0.0, 1.0], [0.7, 0.7]], dtype=torch.float64)
NOISE = 0.5
SHIFT = torch.tensor([0.5, -0.5, 0.5], dtype=torch.float64)
FEWEST_GROUPS = 20
# Rows that a check shows to the posterior at most, for each question, and draws of each.
MOST_COVERED, MOST_PREDICTED, MOST_MEANS, NUM_DRAWS = 500, 200, 1000, 200


class Rows:
    """Rows of the world: what tests are made of."""

    def __init__(self, n, seed, *, grouped):
        """Draw parameters, others that are independent of them, labels and simulations."""
        self.rng = torch.Generator().manual_seed(seed)
        self.n, self.seed = n, seed
        groups = torch.arange(n) // (PER_GROUP if grouped else 1)
        self.groups = groups if grouped else None
        self.theta, self.other = (
            _normal(self.rng, int(groups.max()) + 1, 2)[groups] for _ in range(2)
        )
        self.codes = torch.randint(2, (n,), generator=self.rng)
        self.x = again(self)

    @property
    def features(self):
        """Features of the context, as the check has them."""
        return describe(pd.Series(self.codes.numpy()).astype(str))

    @property
    def labels(self):
        """The context of each row."""
        return ["ab"[code] for code in self.codes]

    def pool(self, num=2000):
        """Simulate from the prior."""
        return again(self, _normal(self.rng, num, 2))


def _normal(rng, *shape):
    return torch.randn(*shape, generator=rng, dtype=torch.float64)


def again(rows, theta=None):
    """Simulate with noise of its own."""
    theta = rows.theta if theta is None else theta
    return theta @ MATRIX.T + NOISE * _normal(rows.rng, len(theta), 3)


def shifted(rows, size=1.0, x=None):
    return (rows.x if x is None else x) + size * rows.codes[:, None] * SHIFT


def some_pairs(rows, share):
    own = torch.rand(rows.n, 1, generator=rows.rng) < share
    return again(rows, torch.where(own, rows.theta, rows.other))


def exact_posterior():
    """Return the posterior of the simulator in closed form."""
    covariance = torch.linalg.inv(torch.eye(2).double() + MATRIX.T @ MATRIX / NOISE**2)
    slopes = covariance @ MATRIX.T / NOISE**2

    def given(x):
        return MultivariateNormal(x.double() @ slopes.T, covariance)

    return from_callable(
        lambda num, x: given(x).sample((num,)),
        lambda theta, x: given(x).log_prob(theta.double()),
        batched=True,
        prior=MultivariateNormal(torch.zeros(2), torch.eye(2)),
    ), slopes


POSTERIOR, SLOPES = exact_posterior()


def pairs(rows, x_obs, x_sim, *, known=False):
    found = examine_pairs(
        x_obs,
        x_sim,
        rows.codes,
        features=rows.features,
        groups=rows.groups,
        reference=Reference.of(rows.pool()) if known else None,
        seed=rows.seed,
    )
    prior = ", simulations known" if known else ""
    sides = {
        f"swapped{prior}": found.swapped is True,
        f"sides are told as given{prior}": found.swapped is False,
    }
    if known:
        return sides
    return sides | {
        "rows are pairs": found.are_pairs,
        "columns exchanged": found.order is not None,
        "other units": bool(found.units),
    }


def unlike(rows, x_obs, x_sim):
    pool = Reference.of(rows.pool())
    found = tell_unlike(x_obs, x_sim, rows.features, rows.groups, pool)
    return {"x_sim is no simulation, simulations known": found is not None}


def leak(rows, share):
    """Test as the check does: means of groups, where no context changes within one."""
    own = torch.rand(rows.n, generator=rows.rng) < share
    codes = torch.where(own, (rows.theta[:, 0] > 0).long(), rows.codes)
    x_sim, groups = rows.x, rows.groups
    if groups is not None and share == 1:
        num = int(groups.max()) + 1
        x_sim = x_sim.reshape(num, PER_GROUP, -1).mean(dim=1)
        codes, groups = codes[::PER_GROUP], None
        if num < FEWEST_GROUPS:
            return {"leak": False, "leak suspected": False}
    found = exclusion_test(
        ["ab"[code] for code in codes],
        x_sim,
        groups=groups,
        level=THRESHOLDS.leak_found,
        num_permutations=1999,
        seed=rows.seed,
    )
    suspected = not found.passed or found.p_value <= THRESHOLDS.leak_suspected
    return {"leak": not found.passed, "leak suspected": suspected}


def noise(rows, x_obs, x_sim):
    variance = torch.full((3,), NOISE**2, dtype=torch.float64)
    by_rows = find_noise(x_obs, x_sim[:, None], rows.codes)
    by_simulator = find_noise(x_obs, x_sim[:, None], rows.codes, variance)
    return {
        "own noise, by rows": by_rows.found,
        "own noise, that of the simulator known": by_simulator.found,
        "noise cannot be told, by rows": not by_rows.told,
    }


def exchange(rows, x_obs):
    x_sim = torch.stack([again(rows), again(rows)], dim=1)
    few = exchange_test(x_obs, x_sim[:, :1], rows.features, rows.seed).p_value
    return {"no further simulation": few <= THRESHOLDS.exchange}


def likeness(rows, x_obs, x_sim, *, paired):
    found = out_of_distribution(x_obs, x_sim, paired=paired, seed=rows.seed).before
    name = f"unlike simulations, {'pairs' if paired else 'pools'}"
    return {name: found.p_value < THRESHOLDS.unusual}


def population(rows, theta):
    first = slice(None) if rows.groups is None else slice(None, None, PER_GROUP)
    prior = _normal(rows.rng, 1000, 2)
    p_value = energy_p_value(theta[first], prior, rows.seed)
    return {"theta from elsewhere": p_value <= THRESHOLDS.leak_found}


def outliers(rows, x_obs, x_sim):
    return {"rows far from all others": bool(find_outliers(x_obs, x_sim).any())}


def some_far(rows):
    x = rows.x.clone()
    x[: max(1, rows.n // 100)] += 40 * _normal(rows.rng, max(1, rows.n // 100), 3)
    return x


def means(rows, x):
    few = slice(MOST_MEANS)
    options = {"groups": None if rows.groups is None else rows.groups[few].numpy()}
    options["seed"] = rows.seed
    mean = x[few] @ SLOPES.T
    labels = rows.labels[few]
    p_value = dependence_test(mean, labels, **options).p_value
    share = held_out_r2(mean, labels, **options)
    move = p_value <= THRESHOLDS.means_move and share > THRESHOLDS.means_share
    return {"posterior means move": move}


def predicted(rows, x):
    found = predictive_check(
        POSTERIOR,
        lambda theta: again(rows, theta.double()),
        x[:MOST_PREDICTED].float(),
        num_samples=NUM_DRAWS,
        seed=rows.seed,
    )
    return {"not predicted by the posterior": found.p_value < THRESHOLDS.unusual}


def covered(rows, x):
    few = slice(MOST_COVERED)
    found = coverage(
        POSTERIOR,
        rows.theta[few],
        x[few].float(),
        num_samples=NUM_DRAWS,
        levels=(0.8,),
        seed=rows.seed,
    )
    error = (0.8 * 0.2 / len(x[few])) ** 0.5
    short = 0.8 - found.expected[0].share
    return {"regions too small": short > THRESHOLDS.coverage_slack + 2 * error}


# Each test with its repetitions for each number of rows, and what it is shown: the case,
# the answers that are there to be found, and how it is made.
AS_GIVEN = "sides are told as given"
PAIRS = "rows are pairs"
NO_SIMULATION = "x_sim is no simulation"
CASES = [
    (
        pairs,
        (40, 16, 8, 6),
        (
            ("other parameters, a shift", (), lambda r: (shifted(r), again(r, r.other))),
            (
                "four in ten rows are pairs, a shift",
                (PAIRS,),
                lambda r: (shifted(r), some_pairs(r, 0.4)),
            ),
            ("own noise, a shift", (PAIRS, AS_GIVEN), lambda r: (shifted(r), again(r))),
            ("shared noise, a shift", (PAIRS, AS_GIVEN), lambda r: (shifted(r), r.x)),
            (
                "own noise, a shift, swapped",
                (PAIRS, "swapped"),
                lambda r: (again(r), shifted(r)),
            ),
            (
                "shared noise, a shift, swapped",
                (PAIRS, "swapped"),
                lambda r: (r.x, shifted(r)),
            ),
            (
                "own noise, a shift, two columns exchanged",
                (PAIRS, "columns exchanged"),
                lambda r: (shifted(r)[:, [1, 0, 2]], again(r)),
            ),
            ("shared noise, a gain of 3", (PAIRS,), lambda r: (3 * r.x, r.x)),
            (
                "own noise, a factor of 100",
                (PAIRS, "other units"),
                lambda r: (100 * r.x, again(r)),
            ),
        ),
    ),
    (
        partial(pairs, known=True),
        (40, 16, 8, 6),
        (
            ("own noise, a shift", (PAIRS, AS_GIVEN), lambda r: (shifted(r), again(r))),
            (
                "own noise, a shift, swapped",
                (PAIRS, "swapped"),
                lambda r: (again(r), shifted(r)),
            ),
        ),
    ),
    (
        unlike,
        (200, 200, 100, 50),
        (
            ("own noise, nothing departs", (), lambda r: (r.x, again(r))),
            ("own noise, a shift", (), lambda r: (shifted(r), again(r))),
            (
                "own noise, another population",
                (),
                lambda r: (again(r, 1.0 + 0.5 * r.theta), again(r, 1.0 + 0.5 * r.theta)),
            ),
            (
                "own noise, 32 + 1.8 x_sim",
                (NO_SIMULATION,),
                lambda r: (r.x, 32 + 1.8 * again(r)),
            ),
            (
                "an expected value, nothing departs",
                (NO_SIMULATION,),
                lambda r: (r.x, r.theta @ MATRIX.T),
            ),
            (
                "own noise, all rows shifted by 0.5, swapped",
                (NO_SIMULATION,),
                lambda r: (r.x, again(r) + SHIFT),
            ),
        ),
    ),
    (
        leak,
        (60, 40, 20, 10),
        (
            ("none", (), lambda r: (0.0,)),
            ("sign of theta_1, in three of ten rows", ("leak",), lambda r: (0.3,)),
            ("sign of theta_1", ("leak",), lambda r: (1.0,)),
        ),
    ),
    (
        noise,
        (60, 60, 30, 15),
        (
            ("shared noise, a shift", (), lambda r: (shifted(r), r.x)),
            ("shared noise, a gain of 1.5", (), lambda r: (1.5 * r.x, r.x)),
            ("own noise, nothing departs", ("own noise",), lambda r: (r.x, again(r))),
            (
                "own noise, a shift",
                ("own noise",),
                lambda r: (shifted(r, 2.0), again(r)),
            ),
            ("own noise, a gain of 1.5", ("own noise",), lambda r: (1.5 * r.x, again(r))),
        ),
    ),
    (
        exchange,
        (60, 30, 15, 10),
        (
            ("own noise, nothing departs", (), lambda r: (r.x,)),
            (
                "own noise, a shift of 0.25",
                ("no further",),
                lambda r: (shifted(r, 0.5),),
            ),
            ("own noise, a gain of 1.5", ("no further",), lambda r: (1.5 * r.x,)),
        ),
    ),
    (
        partial(likeness, paired=True),
        (40, 40, 12, 8),
        (
            ("own noise, nothing departs", (), lambda r: (r.x, again(r))),
            ("a shift of 1", ("unlike",), lambda r: (shifted(r, 2.0), again(r))),
        ),
    ),
    (
        partial(likeness, paired=False),
        (40, 40, 12, 8),
        (
            ("nothing departs", (), lambda r: (r.x, again(r, r.other))),
            ("a shift of 1", ("unlike",), lambda r: (shifted(r, 2.0), again(r, r.other))),
        ),
    ),
    (
        population,
        (60, 60, 40, 40),
        (
            ("the prior", (), lambda r: (r.theta,)),
            ("0.5 away", ("theta from",), lambda r: (r.theta + 0.5,)),
        ),
    ),
    (
        outliers,
        (200, 200, 100, 50),
        (
            ("shared noise, a shift", (), lambda r: (shifted(r), r.x)),
            ("one row in a hundred, 40 away", ("rows far",), lambda r: (some_far(r), r.x)),
        ),
    ),
    (
        means,
        (60, 40, 20, 20),
        (
            ("no departure is left", (), lambda r: (r.x,)),
            ("a shift of 1 is left", ("posterior means",), lambda r: (shifted(r, 2.0),)),
        ),
    ),
    (
        predicted,
        (60, 40, 20, 20),
        (
            ("no departure is left", (), lambda r: (r.x,)),
            ("a shift of 1 is left", ("not predicted",), lambda r: (shifted(r, 2.0),)),
        ),
    ),
    (
        covered,
        (60, 40, 20, 20),
        (
            ("no departure is left", (), lambda r: (r.x,)),
            ("a shift of 0.5 is left", ("regions",), lambda r: (shifted(r),)),
        ),
    ),
]


def shares_found(test, make, n, seed, repeats, *, grouped):
    """Count how often a test says so, for each of its answers."""
    start = time.process_time()
    says = []
    for one in range(repeats):
        rows = Rows(n, seed + one, grouped=grouped)
        says.append(test(rows, *make(rows)))
    seconds = (time.process_time() - start) / repeats
    for answer, share in pd.DataFrame(says).astype(float).mean().items():
        yield answer, share, seconds


def name_of(test):
    return getattr(test, "func", test).__name__


def with_others(table, csv):
    """Keep the rows of tests that were not run."""
    others = pd.read_csv(csv, keep_default_na=False)
    both = pd.concat([others[~others["test"].isin(table["test"])], table])
    return both.sort_values("test", kind="stable")


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
    torch.set_num_threads(1)
    warnings.filterwarnings("ignore")
    places = [
        (test, case, there, make, grouped, n, max(2, round(given.repeats * number)))
        for test, numbers, cases in CASES
        if given.only is None or name_of(test) in given.only
        for case, there, make in cases
        for grouped in (False, True)
        for n, number in zip(SIZES, numbers, strict=True)
    ]
    found = []
    start = time.process_time()
    for test, case, there, make, grouped, n, repeats in places:
        shares = shares_found(test, make, n, given.seed, repeats, grouped=grouped)
        for answer, share, seconds in shares:
            is_there = answer.startswith(there) if there else False
            if answer.startswith(AS_GIVEN) and not is_there and "swapped" not in case:
                continue  # right or not, it changes nothing
            found.append(
                {
                    "test": answer,
                    "case": case,
                    "to be found": is_there,
                    "groups": f"of {PER_GROUP}" if grouped else "none",
                    "n": n,
                    "share": round(share, 4),
                    "standard error": round((share * (1 - share) / repeats) ** 0.5, 4),
                    "repeats": repeats,
                    "seconds": round(seconds, 3),
                }
            )
        print(case, n, round(time.process_time() - start), flush=True)
    table = pd.DataFrame(found).sort_values("test", kind="stable")
    print(as_markdown(table))
    if given.only is not None and given.csv is not None and given.csv.exists():
        table = with_others(table, given.csv)
    if given.csv is not None:
        table.to_csv(given.csv, index=False)


if __name__ == "__main__":
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--csv", type=Path)
    parser.add_argument(
        "--repeats", type=float, default=1.0, help="times as many as CASES says"
    )
    parser.add_argument("--seed", type=int, default=20_000)
    parser.add_argument("--only", nargs="+", metavar="TEST", help="functions in CASES")
    main(parser.parse_args())
