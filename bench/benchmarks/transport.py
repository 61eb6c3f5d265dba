"""Semi-balanced transport: ours against POT, in time and in what the plan is worth.

For a cost of 500 x 2000 and several gammas: seconds of each, their ratio, and how far the
rows of the plan are from their mass. POT has no log domain for unbalanced transport.

    python bench/benchmarks/transport.py
"""

import time
import warnings

import ot
import torch

from ma_sbi_bench.methods.transport import semi_balanced_plan

TAU, NUM_ROWS, NUM_COLUMNS, DIM = 0.9, 500, 2000, 8


def seconds(function):
    start = time.perf_counter()
    plan = function()
    return time.perf_counter() - start, plan


def pot(cost, gamma, method):
    mass = [torch.full((size,), 1 / size, dtype=torch.float64) for size in cost.shape]
    rho = gamma * TAU / (1 - TAU)
    return ot.unbalanced.sinkhorn_unbalanced(
        *mass, cost, gamma, (float("inf"), rho), method=method, stopThr=1e-9
    )


def main():
    torch.set_num_threads(1)
    warnings.filterwarnings("ignore")
    rng = torch.Generator().manual_seed(0)
    real = torch.randn(NUM_ROWS, DIM, generator=rng, dtype=torch.float64) + 0.5
    simulated = torch.randn(NUM_COLUMNS, DIM, generator=rng, dtype=torch.float64)
    cost = torch.cdist(real, simulated)
    for gamma in (0.5, 0.1, 0.02, 0.004):
        ours, plan = seconds(lambda g=gamma: semi_balanced_plan(cost, g, TAU))
        error = (plan.sum(dim=1) * NUM_ROWS - 1).abs().max()
        print(f"gamma {gamma:5g}   ours {ours:6.2f} s, rows off by {error:.0e}", end="")
        for method in ("sinkhorn", "sinkhorn_stabilized"):
            theirs, other = seconds(lambda g=gamma, m=method: pot(cost, g, m))
            error = (other.sum(dim=1) * NUM_ROWS - 1).abs().max()
            apart = (other - plan).abs().sum()
            print(
                f"   POT {method}: {theirs / ours:5.1f} times as long, rows off by "
                f"{error:.0e}, plans {apart:.0e} apart",
                end="",
            )
        print(flush=True)


if __name__ == "__main__":
    main()
