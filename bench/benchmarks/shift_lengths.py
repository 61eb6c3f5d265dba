"""How long shifts must be for NPE and Oracle to stand as far apart as in the paper.

Run once, on seeds that nothing else uses; no other result entered the choice. The backbone
is the paper's DDPM; observations are fresh draws from the prior predictive, none of
sbibm's. The length whose mean C2ST gap is nearest to the paper's (Table "Raw metric
values") is written into the task.

    python bench/benchmarks/shift_lengths.py slcp
    python bench/benchmarks/shift_lengths.py two_moons
"""

import argparse

import torch

from ma_sbi import fit_ddpm
from ma_sbi.metrics import c2st_batch
from ma_sbi_bench.tasks import get_task

SEED = 900_001
NUM_OBSERVATIONS = 12
NUM_DRAWS = 500
GRID = {
    # task: (simulations, lengths, the paper's NPE minus Oracle)
    "slcp": (100_000, (0.8, 1.0, 1.2, 1.4, 1.6), 0.784 - 0.742),
    "two_moons": (10_000, (0.02, 0.05, 0.1, 0.12, 0.15, 0.2), 0.924 - 0.716),
}


def main(name: str) -> None:
    torch.set_num_threads(1)
    num_simulations, lengths, target = GRID[name]
    task = get_task(name)
    train = task.draw(num_simulations, seed=SEED)
    posterior = fit_ddpm(task.prior, train.theta, train.x_sim, seed=SEED)
    test = task.draw(NUM_OBSERVATIONS, seed=SEED + 1)
    reference = task.reference(test.x_sim, NUM_DRAWS, seed=SEED)

    def score(x: torch.Tensor) -> torch.Tensor:
        draws = posterior.sample(NUM_DRAWS, x, seed=SEED)
        repeats = len(x) // NUM_OBSERVATIONS
        return c2st_batch(draws, reference.repeat(1, repeats, 1))

    oracle = score(test.x_sim)
    print(f"{name}: Oracle {oracle.mean():.3f}, the paper's gap {target:.3f}", flush=True)
    for length in lengths:
        shifts = [r.shift for r in get_task(name, shift_length=length).regimes]
        npe = score(torch.cat([test.x_sim + shift for shift in shifts]))
        gap = (npe.reshape(len(shifts), -1) - oracle).mean(dim=0)
        error = gap.std() / len(gap) ** 0.5
        print(
            f"  length {length:.2f}: NPE {npe.mean():.3f}, gap {gap.mean():.3f} "
            f"+- {error:.3f}",
            flush=True,
        )


if __name__ == "__main__":
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("task", choices=sorted(GRID))
    main(parser.parse_args().task)
