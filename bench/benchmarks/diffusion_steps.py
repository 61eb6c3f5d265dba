"""How many steps the sampler of a diffusion model needs: C2ST and seconds.

The tables' diffusion model is trained for each task, schedule of noise and seed, and drawn
from at the observations of the tables by the ancestral sampler, in all 200 steps and in
fewer, and by the deterministic one. Observations are as simulated (oracle) and as they
depart (npe); the same model, observations and exact draws for every sampler.

    python bench/benchmarks/diffusion_steps.py --csv FILE [--device cuda --workers 16]
    python bench/benchmarks/diffusion_steps.py --show FILE

A row is the mean over the seeds' observations; a run goes on where the file ends.
"""

import argparse
import time
from pathlib import Path

import pandas as pd
import torch

from ma_sbi.metrics import c2st_batch
from ma_sbi.posteriors import fit_ddpm
from ma_sbi.randomness import derive
from ma_sbi_bench.engine.budget import Budget
from ma_sbi_bench.tasks import get_task

TASKS = ("gaussian_linear", "two_moons", "slcp")
SCHEDULES = ("paper", "rescaled")
NUM_DRAWS = 500
USUAL = "ancestral 200"
SAMPLERS = {
    USUAL: lambda model: model,
    "ancestral 50": lambda model: model.ancestral(50),
    "ancestral 20": lambda model: model.ancestral(20),
    "deterministic 50": lambda model: model.deterministic(50),
    "deterministic 20": lambda model: model.deterministic(20),
}
BLOCK = ["task", "schedule", "seed"]


def measure(task_name, schedule, seed, device, num_workers):
    task = get_task(task_name)
    draws = task.draw(Budget().simulations(task_name), seed=seed)
    start = time.perf_counter()
    model = fit_ddpm(
        task.prior, draws.theta, draws.x_sim, schedule=schedule, seed=seed, device=device
    )
    training = time.perf_counter() - start
    test = task.draw(Budget().sizes(task_name)["observations"], seed=derive(0, "test"))
    reference = task.reference(test.x_sim, NUM_DRAWS, seed=derive(0, "reference"))
    for sampler, of in SAMPLERS.items():
        for method, x in (("oracle", test.x_sim), ("npe", test.x_obs)):
            start = time.perf_counter()
            drawn = of(model).sample(NUM_DRAWS, x.to(device), seed=seed).cpu()
            seconds = time.perf_counter() - start
            values = c2st_batch(drawn, reference, recipe="fast", num_workers=num_workers)
            yield {
                **{"task": task_name, "schedule": schedule, "seed": seed},
                **{"sampler": sampler, "method": method, "c2st": values.mean().item()},
                "values": " ".join(f"{one:.4f}" for one in values.tolist()),
                **{"seconds": round(seconds, 2), "training": round(training, 1)},
            }


def compare(rows):
    """Average C2ST, and what each sampler differs by from the usual, with its error."""
    rows = rows.assign(values=[text.split() for text in rows["values"]])
    rows = rows.explode("values").astype({"values": float})
    rows["observation"] = rows.groupby([*BLOCK, "sampler", "method"]).cumcount()
    index = [*BLOCK, "method", "observation"]
    table = rows.pivot(index=index, columns="sampler", values="values")
    found = []
    for (task, schedule, method), part in table.groupby(["task", "schedule", "method"]):
        # Observations are the same for every seed: each counts once.
        part = part.groupby("observation").mean()
        for sampler in SAMPLERS:
            differs = part[sampler] - part[USUAL]
            found.append(
                {
                    **{"task": task, "schedule": schedule, "method": method},
                    **{"sampler": sampler, "c2st": part[sampler].mean()},
                    "more than usual": differs.mean(),
                    "standard error": differs.std() / len(part) ** 0.5,
                }
            )
    return pd.DataFrame(found).round(4)


def main():
    parser = argparse.ArgumentParser()
    parser.add_argument("--csv", type=Path)
    parser.add_argument("--seeds", type=int, default=3)
    parser.add_argument("--tasks", nargs="+", default=TASKS)
    parser.add_argument("--schedules", nargs="+", default=SCHEDULES)
    parser.add_argument("--device", default="cpu")
    parser.add_argument("--workers", type=int, default=1, help="processes for C2ST")
    parser.add_argument("--show", type=Path)
    given = parser.parse_args()
    if given.show:
        print(compare(pd.read_csv(given.show)).to_string(index=False))
        return
    torch.set_num_threads(1)
    known = pd.read_csv(given.csv) if given.csv.exists() else pd.DataFrame(columns=BLOCK)
    done = set(known[BLOCK].itertuples(index=False, name=None))
    for seed in range(given.seeds):
        for task in given.tasks:
            for schedule in given.schedules:
                if (task, schedule, seed) in done:
                    continue
                rows = pd.DataFrame(
                    measure(task, schedule, seed, given.device, given.workers)
                )
                print(rows.drop(columns="values").to_string(index=False), flush=True)
                rows.to_csv(given.csv, mode="a", header=not given.csv.exists(), index=False)


if __name__ == "__main__":
    main()
