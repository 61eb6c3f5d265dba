"""Size and power of the exclusion test: clean contexts, and planted leaks.

    python bench/benchmarks/exclusion.py --csv bench/benchmarks/results/exclusion_power.csv

Power is the share of repetitions in which a planted leak is found, at the 5 % level. The
paper's table is an experiment: `ma-sbi reproduce exclusion`.
"""

import argparse
from pathlib import Path

import numpy as np
import pandas as pd
import torch

from ma_sbi import HashEncoder
from ma_sbi.diagnostics import dependence_test, held_out_r2
from ma_sbi_bench.tasks import get_task

TASKS = ("slcp", "gaussian_linear", "two_moons")
SIZES = (200, 500, 2000)


def leaks(theta, rng):
    """Plant leaks of several kinds, and contexts without any."""
    n = len(theta)
    first, other = theta[:, 0], np.abs(theta[:, min(2, theta.shape[1] - 1)])
    sign = np.where(first > np.median(first), "high", "low")
    chance = np.where(rng.random(n) < 0.5, "high", "low")
    # On SLCP these two parameters set the spread of x and nothing else.
    spread = np.square(theta[:, 2:4] if theta.shape[1] == 5 else theta).sum(axis=1)
    number = rng.permutation(10 * n)[:n]

    def notes(words):
        return [f"run {i}: level {word}" for i, word in zip(number, words, strict=True)]

    return {
        "none, labels": rng.integers(4, size=n).tolist(),
        "none, number": rng.standard_normal(n),
        "none, text": notes(chance),
        "sign of theta_1": sign.tolist(),
        "|theta_3| large": np.where(other > np.median(other), "hot", "cold").tolist(),
        "quartile of theta_1": pd.qcut(first, 4, labels=False).tolist(),
        "sign, 30 % of the time": np.where(rng.random(n) < 0.3, sign, chance).tolist(),
        "spread of theta": np.where(spread > np.median(spread), "wide", "narrow").tolist(),
        "theta_1 + noise": first + first.std() * rng.standard_normal(n),
        "text names the sign": notes(sign),
    }


def power(repeats, path):
    rows = []
    for name in TASKS:
        task = get_task(name)
        for n in SIZES:
            found = {}
            times = repeats if n < 2000 else repeats // 2
            for seed in range(times):
                draws = task.draw(n, seed=10_000 + seed)
                rng = np.random.default_rng(seed)
                for leak, context in leaks(draws.theta.double().numpy(), rng).items():
                    options = {
                        "encoder": HashEncoder() if "text" in leak else None,
                        "seed": seed,
                    }
                    number = {"num_permutations": 99}
                    x_sim = dependence_test(draws.x_sim, context, **number, **options)
                    theta = dependence_test(draws.theta, context, **number, **options)
                    share = held_out_r2(draws.x_sim, context, **options)
                    row = {
                        "x_sim": x_sim.p_value <= 0.05,
                        "theta": theta.p_value <= 0.05,
                        "r2_above_0.10": share >= 0.10,
                        "r2": share,
                    }
                    found.setdefault(leak, []).append(row)
            for leak, results in found.items():
                mean = pd.DataFrame(results).astype(float).mean().to_dict()
                rows.append({"task": name, "n": n, "leak": leak, **mean, "repeats": times})
                line = pd.DataFrame(rows[-1:]).round(3)
                print(line.to_string(index=False, header=False), flush=True)
            save(rows, path)


def save(rows, path):
    if path is not None:
        pd.DataFrame(rows).round(4).to_csv(path, index=False)


if __name__ == "__main__":
    torch.set_num_threads(1)
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--csv", type=Path)
    parser.add_argument("--repeats", type=int, default=100)
    arguments = parser.parse_args()
    power(arguments.repeats, arguments.csv)
