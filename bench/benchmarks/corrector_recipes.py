"""Both recipes of the corrector: error against the number of triples, and time.

Four regimes, their texts hashed, unit shifts in 8 dimensions, as the SLCP task has them.
The last block shows that ``converged`` is linear in the number of triples, for four texts
and for as many different numbers as there are triples.

    python bench/benchmarks/corrector_recipes.py
"""

import time

import numpy as np
import torch

from ma_sbi import HashEncoder, NumberEncoder, ShiftCorrector
from ma_sbi_bench.tasks import get_task

SEEDS = range(10)


def relative_error(corrector, task):
    shifts = torch.stack([regime.shift for regime in task.regimes])
    texts = [regime.text for regime in task.regimes]
    return ((corrector.shift(texts) - shifts).norm() / shifts.norm()).item()


def recipes(task, noise):
    print(f"\nrelative error of the shift, noise {noise} (mean of {len(SEEDS)} seeds)")
    print("  n_cal   converged     paper   regime mean   time ratio paper / converged")
    for n in (20, 100, 500, 2000):
        errors, times = {"converged": [], "paper": [], "mean": []}, {}
        for seed in SEEDS:
            draws = task.draw(n, seed=seed)
            rng = torch.Generator().manual_seed(seed)
            x_obs = draws.x_obs + noise * torch.randn(draws.x_obs.shape, generator=rng)
            for recipe in ("converged", "paper"):
                start = time.perf_counter()
                corrector = ShiftCorrector(HashEncoder(), recipe)
                corrector.fit(draws.context, x_obs, draws.x_sim, seed=seed)
                times[recipe] = times.get(recipe, 0.0) + time.perf_counter() - start
                errors[recipe].append(relative_error(corrector, task))
            delta = x_obs - draws.x_sim
            means = torch.stack([delta[draws.regime == k].mean(0) for k in range(4)])
            shifts = torch.stack([regime.shift for regime in task.regimes])
            errors["mean"].append(((means - shifts).norm() / shifts.norm()).item())
        converged, paper, mean = (np.mean(values) for values in errors.values())
        ratio = times["paper"] / times["converged"]
        print(f"  {n:5d}   {converged:9.1e}  {paper:8.3f}   {mean:11.1e}   {ratio:6.1f}")


def scaling(task):
    print("\nconverged: seconds per million triples")
    for n in (10_000, 100_000, 1_000_000):
        rng = torch.Generator().manual_seed(0)
        x_sim = torch.randn(n, task.dim_x, generator=rng)
        regime = torch.arange(n) % 4
        number = torch.rand(n, generator=rng, dtype=torch.float64)
        cases = {
            "4 texts": (HashEncoder(), task.contexts(regime), task.depart(x_sim, regime)),
            "n numbers": (NumberEncoder(), number, x_sim + number[:, None].float()),
        }
        for name, (encoder, context, x_obs) in cases.items():
            start = time.perf_counter()
            ShiftCorrector(encoder).fit(context, x_obs, x_sim, seed=0)
            elapsed = time.perf_counter() - start
            print(f"  n = {n:9,d}  {name:10s} {elapsed:7.2f} s  {elapsed / n * 1e6:7.2f}")


if __name__ == "__main__":
    torch.set_num_threads(1)
    slcp = get_task("slcp", shift_length=1.0)
    recipes(slcp, noise=0.0)
    recipes(slcp, noise=1.0)
    scaling(slcp)
