"""SLCP on 1,000,000 simulations on a GPU: seconds per posterior, and C2ST to the exact one.

    python bench/benchmarks/slcp_gpu.py --out bench/benchmarks/results/slcp_gpu.csv

Every row: kind, simulations, where it was trained, seconds of training and of drawing,
C2ST on 48 observations (mean, standard error), and each value.
"""

import argparse
import csv
import time
from functools import partial
from pathlib import Path

import torch

from ma_sbi.metrics import c2st_batch
from ma_sbi.posteriors import fit_ddpm, fit_flow
from ma_sbi.randomness import derive
from ma_sbi_bench.engine.cell import Backbone
from ma_sbi_bench.engine.models import Models
from ma_sbi_bench.tasks import get_task

parser = argparse.ArgumentParser()
parser.add_argument("--out", type=Path, required=True)
parser.add_argument("--cpu-models", type=Path)
parser.add_argument("--device", default="cuda")
parser.add_argument("--small", type=int, default=100_000)
parser.add_argument("--large", type=int, default=1_000_000)
parser.add_argument("--observations", type=int, default=48)
parser.add_argument("--workers", type=int, default=16)
parser.add_argument("--limit", type=float, default=280.0)
parser.add_argument("--epochs", type=int, help="for a trial run")
given = parser.parse_args()
START = time.perf_counter()
DRAWS = 500

task = get_task("slcp")
test = task.draw(given.observations, seed=derive(0, "test"))
reference = task.reference(test.x_sim, DRAWS, seed=derive(0, "reference"))
start = time.perf_counter()
draws = task.draw(given.large, seed=0)
print(f"simulated {given.large:,} in {time.perf_counter() - start:.1f} s", flush=True)
rows = []


def sync():
    if given.device != "cpu":
        torch.cuda.synchronize()


def judge(name, number, where, posterior, training):
    sync()
    start = time.perf_counter()
    drawn = posterior.sample(DRAWS, test.x_sim, seed=0).cpu()
    sync()
    drawing = time.perf_counter() - start
    values = c2st_batch(drawn, reference, recipe="fast", num_workers=given.workers)
    mean, error = values.mean().item(), (values.std() / len(values) ** 0.5).item()
    rows.append(
        {
            "posterior": name,
            "simulations": number,
            "trained on": where,
            "training seconds": round(training, 1),
            "drawing seconds": round(drawing, 2),
            "c2st": round(mean, 4),
            "standard error": round(error, 4),
            "values": " ".join(f"{one:.4f}" for one in values.tolist()),
        }
    )
    print({k: v for k, v in rows[-1].items() if k != "values"}, flush=True)
    with given.out.open("w", newline="") as file:
        writer = csv.DictWriter(file, rows[-1])
        writer.writeheader()
        writer.writerows(rows)


few = {} if given.epochs is None else {"epochs": given.epochs}
few_flow = {} if given.epochs is None else {"max_epochs": given.epochs}
# The recipe of the tables, then larger batches: a GPU is idle between steps of 256.
KINDS = {
    "diffusion model, batch 256": partial(fit_ddpm, **few),
    "flow (maf), batch 1000": partial(fit_flow, flow="maf", batch_size=1000, **few_flow),
}
LARGE = {
    "diffusion model, batch 2048": partial(fit_ddpm, batch_size=2048, **few),
    "diffusion model, batch 2048, cosine": partial(
        fit_ddpm, batch_size=2048, decay="cosine", **few
    ),
    "flow (maf), batch 8192": partial(
        fit_flow, flow="maf", batch_size=8192, patience=5, **({"max_epochs": 40} | few_flow)
    ),
}


def used():
    return time.perf_counter() - START


if given.cpu_models:
    for kind in ("ddpm", "maf"):
        backbone = Backbone("slcp", kind, 0, 100_000)
        models = Models(given.cpu_models)
        if models.has(backbone):
            took = models.training(backbone)
            judge(
                f"{kind} of the tables",
                100_000,
                took.get("device", "cpu"),
                models.posterior(backbone),
                took.get("seconds", float("nan")),
            )
for number, kinds in ((given.small, KINDS), (given.large, LARGE)):
    for name, fit in kinds.items():
        if used() > given.limit:
            print(f"no time left for {name} on {number:,}")
            continue
        sync()
        start = time.perf_counter()
        posterior = fit(
            task.prior,
            draws.theta[:number],
            draws.x_sim[:number],
            seed=0,
            device=given.device,
        )
        sync()
        judge(name, number, given.device, posterior, time.perf_counter() - start)
print(f"{used():.0f} s in all")
