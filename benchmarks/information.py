"""Mutual information: error, coverage of the interval and level of the null.

Where the truth is known: Gaussian pairs of dimension 1 and 5, and labels whose departures
are Gaussian. Errors are in nats; "bias" is the mean error over repetitions with its
standard error, "rms" the size of a single one, "covered" the share of 95 % intervals that
hold the truth, "rejected" the share of p-values of at most 5 %.

    python benchmarks/information.py --csv benchmarks/results/exclusion_information.csv
"""

import argparse
import time
from pathlib import Path

import numpy as np
import pandas as pd
from scipy.special import logsumexp

from ma_sbi.diagnostics import mutual_information
from ma_sbi.diagnostics.estimators import ksg


def gaussian(rng, n, dim, rho):
    a = rng.standard_normal((n, dim))
    b = rho * a + np.sqrt(1 - rho**2) * rng.standard_normal((n, dim))
    return a, b, -0.5 * dim * np.log(1 - rho**2)


def labelled(rng, n, dim, length, num_labels=4):
    mean = np.random.default_rng(0).standard_normal((num_labels, dim))
    mean *= length / np.linalg.norm(mean, axis=1, keepdims=True)

    def draw(rows):
        label = rng.integers(num_labels, size=rows)
        return label, mean[label] + rng.standard_normal((rows, dim))

    label, x = draw(200_000)
    log_density = -0.5 * np.square(x[:, None] - mean).sum(axis=2)
    own = log_density[np.arange(len(x)), label]
    truth = np.mean(own - logsumexp(log_density, axis=1)) + np.log(num_labels)
    label, x = draw(n)
    return x, label, float(truth)


WORLDS = [
    *(("gaussian", gaussian, 5000, 1, rho) for rho in (0.0, 0.2, 0.5, 0.7, 0.9, 0.99)),
    *(("gaussian", gaussian, 5000, 5, rho) for rho in (0.0, 0.2, 0.5, 0.7, 0.9)),
    *(("gaussian", gaussian, 500, 1, rho) for rho in (0.0, 0.5, 0.9)),
    *(("labels", labelled, 5000, 1, length) for length in (0.0, 1.0, 2.0)),
    *(("labels", labelled, 5000, 8, length) for length in (0.0, 1.0, 2.0)),
    *(("labels", labelled, 500, 1, length) for length in (0.0, 1.0, 2.0)),
]


def main(repeats, path):
    rows = []
    for name, make, n, dim, strength in WORLDS:
        start = time.perf_counter()
        found = []
        # Several dimensions take several seconds each.
        times = repeats if dim == 1 else max(repeats // 4, 2)
        for seed in range(times):
            rng = np.random.default_rng(seed)
            a, b, truth = make(rng, n, dim, strength)
            # The null is only of interest where there is nothing.
            permutations = 40 if strength == 0 else 0
            result = mutual_information(a, b, num_permutations=permutations, seed=seed)
            plain = ksg(a, b) if name == "gaussian" and seed < 3 else np.nan
            found.append(
                {
                    "error": result.value - truth,
                    "covered": result.low <= truth + 1e-9 and truth <= result.high + 1e-9,
                    "rejected": result.p_value <= 0.05 if permutations else np.nan,
                    "plain": plain - truth,
                }
            )
        table = pd.DataFrame(found).astype(float)
        error = table["error"]
        row = {
            "world": name,
            "n": n,
            "dim": dim,
            "strength": strength,
            "truth": truth,
            "bias": error.mean(),
            "bias_error": error.sem(),
            "bias_share": error.mean() / truth if strength else np.nan,
            "rms": np.sqrt(np.square(error).mean()),
            "plain_ksg_bias": table["plain"].mean(),
            "covered": table["covered"].mean(),
            "rejected": table["rejected"].mean(),
            "repeats": times,
            "seconds": (time.perf_counter() - start) / times,
        }
        rows.append(row)
        print(pd.DataFrame([row]).round(4).to_string(index=False), flush=True)
    if path is not None:
        pd.DataFrame(rows).round(5).to_csv(path, index=False)


if __name__ == "__main__":
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--repeats", type=int, default=40)
    parser.add_argument("--csv", type=Path)
    arguments = parser.parse_args()
    main(arguments.repeats, arguments.csv)
