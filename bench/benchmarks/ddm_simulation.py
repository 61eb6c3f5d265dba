"""Time to simulate 100,000 x 200 drift-diffusion trials, beside two other ways.

Ours draws exactly, and with the summary gives what the task `ddm` gives. ssm-simulators
(`pip install ssm-simulators`) and a plain vectorised Euler walk take steps of 1 ms; they
run on a fraction of the same parameter sets, and their time is extrapolated. Everything on
one thread.

    python bench/benchmarks/ddm_simulation.py
"""

import argparse
import time

import numpy as np
import torch

from ma_sbi_bench.tasks import get_task
from ma_sbi_bench.tasks.ddm import TRIALS_AT_ONCE, simulate_trials

STEP = 1e-3
LONGEST = 20.0


def ours(theta, num_trials):
    source = torch.Generator().manual_seed(1)
    blocks = [
        simulate_trials(rows, num_trials, source=source)
        for rows in theta.split(TRIALS_AT_ONCE // num_trials)
    ]
    signed = torch.cat([trials.signed_times().float() for trials in blocks])
    return signed.abs(), signed > 0


def ssm_simulators(theta, num_trials):
    from ssms.basic_simulators.simulator import simulator

    v, a, tau = theta.double().numpy().T
    # Its boundaries lie at -a and a.
    parameters = np.stack([v, a / 2, np.full_like(v, 0.5), tau], axis=1)
    result = simulator(
        parameters,
        model="ddm",
        n_samples=num_trials,
        delta_t=STEP,
        max_t=LONGEST,
        random_state=1,
    )
    times, choices = (np.squeeze(result[key]) for key in ("rts", "choices"))
    # Trials come first in its arrays.
    return torch.from_numpy(times).T, torch.from_numpy(choices).T > 0


def euler(theta, num_trials):
    source = torch.Generator().manual_seed(1)
    v, a, tau = (
        column.expand(-1, num_trials).flatten() for column in theta.split(1, dim=1)
    )
    position, step = a / 2, torch.zeros_like(a)
    moving = torch.arange(len(a))
    upper = torch.zeros(len(a), dtype=torch.bool)
    while len(moving) and step.max() * STEP < LONGEST:
        noise = torch.randn(len(moving), generator=source)
        moved = position[moving] + v[moving] * STEP + STEP**0.5 * noise
        position[moving] = moved
        step[moving] += 1
        inside = (moved > 0) & (moved < a[moving])
        upper[moving] = moved >= a[moving]
        moving = moving[inside]
    shape = (len(theta), num_trials)
    return (tau + step * STEP).view(shape), upper.view(shape)


def seconds(function, *arguments):
    start = time.perf_counter()
    result = function(*arguments)
    return result, time.perf_counter() - start


def closed_forms(theta):
    v, a, tau = theta.double().T
    half = v * a / 2
    return tau + a.square() / 4 * torch.tanh(half) / half, torch.sigmoid(2 * half)


def report(name, trials, theta, elapsed, share, whole):
    mean, correct = closed_forms(theta)
    times, choices = trials
    late = (times.double().mean(dim=1) - mean).mean() * 1000
    more = (choices.double().mean(dim=1) - correct).mean()
    extrapolated = elapsed / share
    print(
        f"{name:28s} {extrapolated:9.1f} s {extrapolated / whole:8.1f} x   "
        f"mean time {late:+7.2f} ms, share correct {more:+.4f} against the closed form"
        f"{'' if share == 1 else f'   (run on {share:.1%})'}",
        flush=True,
    )


def main(num_sets: int, num_trials: int) -> None:
    torch.set_num_threads(1)
    task = get_task("ddm", num_trials=num_trials)
    with torch.random.fork_rng():
        torch.manual_seed(0)
        theta = task.prior.sample((num_sets,))
    trials, whole = seconds(ours, theta, num_trials)
    print(f"{num_sets:,} parameter sets x {num_trials} trials, one thread\n")
    report("ours, trials", trials, theta, whole, 1.0, whole)
    _, summarised = seconds(lambda: task.simulate(theta, seed=1))
    name = "ours, trials and summary"
    print(f"{name:28s} {summarised:9.1f} s {summarised / whole:8.1f} x")
    others = {"ssm-simulators, 1 ms": (ssm_simulators, 0.02), "Euler, 1 ms": (euler, 0.005)}
    for name, (simulate, share) in others.items():
        part = theta[: max(1, round(share * num_sets))]
        try:
            trials, elapsed = seconds(simulate, part, num_trials)
        except ModuleNotFoundError:
            print(f"{name:28s} not installed: pip install ssm-simulators")
            continue
        report(name, trials, part, elapsed, len(part) / num_sets, whole)


if __name__ == "__main__":
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--sets", type=int, default=100_000)
    parser.add_argument("--trials", type=int, default=200)
    given = parser.parse_args()
    main(given.sets, given.trials)
