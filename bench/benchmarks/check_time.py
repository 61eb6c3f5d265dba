"""Time of a check for 1,000, 10,000 and 100,000 rows, on one core.

    python bench/benchmarks/check_time.py --csv bench/benchmarks/results/check_time.csv

A linear Gaussian simulator of five columns with its exact posterior; four regimes shift x.
Seconds on the clock, and those that the process had a core (on a busy machine, fewer).
"""

import argparse
import time
import warnings
from pathlib import Path

import numpy as np
import pandas as pd
import torch

from ma_sbi import check
from ma_sbi_bench.trials.exact_simulators import draw_simulator

SIZES = (1_000, 10_000, 100_000)
WORDS = ("The sensor reads high.", "The sensor reads low.", "Rain.", "All is well.")


def draw(n, rng):
    simulator = draw_simulator("linear", rng, (5, 5))
    theta = simulator.prior_draws(n, rng)
    x_sim = simulator.simulate(theta, rng)
    regime = rng.integers(4, size=n)
    shifts = torch.from_numpy(rng.standard_normal((4, 5)))
    contexts = {
        "labels": [f"site {one}" for one in regime],
        "four texts": [WORDS[one] for one in regime],
        "texts that differ": [f"Run {i}: {WORDS[one]}" for i, one in enumerate(regime)],
        "number": regime + rng.random(n),
    }
    return simulator.posterior(), contexts, x_sim + shifts[regime], x_sim


def main(given):
    torch.set_num_threads(1)
    warnings.filterwarnings("ignore")
    rows = []
    for n in given.rows:
        posterior, contexts, x_obs, x_sim = draw(n, np.random.default_rng(0))
        for form in given.contexts or contexts:
            context = contexts[form]
            posteriors = {"none": None}
            if form == "labels":
                posteriors["exact"] = posterior
            for name, one in posteriors.items():
                wall, spent = time.perf_counter(), time.process_time()
                verdict = check(x_obs, context, x_sim=x_sim, posterior=one, seed=0).verdict
                rows.append(
                    {
                        "rows": n,
                        "context": form,
                        "posterior": name,
                        "seconds": round(time.perf_counter() - wall, 1),
                        "cpu seconds": round(time.process_time() - spent, 1),
                        "verdict": verdict,
                    }
                )
                print(*rows[-1].values(), sep=" | ", flush=True)
                if given.csv is not None:
                    pd.DataFrame(rows).to_csv(given.csv, index=False)


if __name__ == "__main__":
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--csv", type=Path)
    parser.add_argument("--rows", type=int, nargs="+", default=SIZES)
    parser.add_argument("--contexts", nargs="+", help="all if not given")
    main(parser.parse_args())
