"""The paper's SIR line: posterior-mean MSE on log theta under four reporting patterns.

A spline flow on 50,000 simulations, fresh observations in all four patterns, calibration
sets of three sizes with several seeds each. Prints the mean squared error, its excess over
the exact posterior given the delayed data, and the share of two gaps closed: from NPE to
the Oracle (the paper's) and from NPE to the exact answer.

    python bench/benchmarks/sir_line.py daily surveys
"""

import argparse
import time

import numpy as np
import torch

from ma_sbi import (
    ComposedCorrector,
    CorrectedPosterior,
    HashEncoder,
    ShiftCorrector,
    decompose,
    fit_flow,
)
from ma_sbi.correctors import Affine, Point, Ridge
from ma_sbi.metrics import excess_error, gap_closed, posterior_mean_error
from ma_sbi_bench.tasks import get_task

PAPER = {"NPE": 40.41, "shift, paper recipe": 4.55, "Oracle": 0.002}
PAPER_CLOSED = {100: 54.0, 500: 92.5, 2000: 95.8}
NUM_DRAWS = 500
# An exploding flow may leave float32; log theta is cut here, far from any plausible value.
FARTHEST = 1e30


def correctors(calibration, seed):
    context, x_obs, x_sim = calibration.context, calibration.x_obs, calibration.x_sim
    shuffled = np.random.default_rng(seed).permutation(context).tolist()

    def shift(recipe, words=context):
        return ShiftCorrector(HashEncoder(), recipe).fit(words, x_obs, x_sim, seed=seed)

    def affine(words):
        composed = ComposedCorrector(HashEncoder(), Affine(), Ridge(), Point())
        return composed.fit(words, x_obs, x_sim, seed=seed)

    converged = shift("converged")
    return {
        "shift, marginal only": decompose(converged, context).marginal,
        "shift, shuffled context": shift("converged", shuffled),
        "shift, paper recipe": shift("paper"),
        "shift, converged": converged,
        "affine, shuffled context": affine(shuffled),
        "affine": affine(context),
    }


def line(layout, num_simulations, num_test, num_seeds, seed):
    task = get_task("sir_delay", layout=layout)
    train = task.draw(num_simulations, seed=seed)
    test = task.draw(num_test, seed=seed + 1)
    start = time.perf_counter()
    posterior = fit_flow(task.prior, train.theta, train.x_sim, batch_size=500, seed=seed)
    trained = time.perf_counter() - start
    start = time.perf_counter()
    exact = task.reference(test.x_obs, NUM_DRAWS, regime=test.regime, seed=seed)
    solved = time.perf_counter() - start
    print(f"\n{layout}: trained in {trained:.0f} s, exact answers in {solved:.0f} s")

    cut = []

    def error(draws):
        cut.append(((draws > FARTHEST) | (draws < 1 / FARTHEST)).float().mean().item())
        draws = draws.clamp(1 / FARTHEST, FARTHEST)
        excess = excess_error(draws, exact, test.theta, transform=torch.log)
        return posterior_mean_error(draws, test.theta, transform=torch.log), excess

    def row(name, errors, excesses):
        closed = gap_closed(npe.expand_as(errors), errors, oracle.expand_as(errors))
        to_exact = gap_closed(npe.expand_as(errors), errors, least.expand_as(errors))
        paper = f"   paper {PAPER[name]:g}" if name in PAPER else ""
        mean = excesses.mean(dim=0)
        noise = mean.std().item() / len(mean) ** 0.5
        print(
            f"  {name:26s} MSE {errors.mean():9.4f}   excess {excesses.mean():9.4f} +- "
            f"{noise:.4f}   to Oracle {closed}   to exact {to_exact}{paper}",
            flush=True,
        )

    prior_mean = task.prior.base_dist.loc.exp().expand(1, num_test, -1)
    least = posterior_mean_error(exact, test.theta, transform=torch.log)[None]
    npe, npe_excess = error(posterior.sample(NUM_DRAWS, test.x_obs, seed=seed))
    oracle, oracle_excess = error(posterior.sample(NUM_DRAWS, test.x_sim, seed=seed))
    npe, oracle = npe[None], oracle[None]
    row("prior mean", *(value[None] for value in error(prior_mean)))
    row("NPE", npe, npe_excess[None])
    row("Oracle", oracle, oracle_excess[None])
    row("exact given delayed data", least, torch.zeros_like(least))
    for index in range(len(task.regimes)):
        rows = test.regime == index
        means = [values[0, rows].mean().item() for values in (npe, oracle, least)]
        print(f"    {task.regimes[index].name}: NPE, Oracle, exact", np.round(means, 4))
    for num_cal in (100, 500, 2000):
        print(f"  n_cal = {num_cal}; paper closes {PAPER_CLOSED[num_cal]} %")
        results = {}
        for repeat in range(num_seeds):
            calibration = task.draw(num_cal, seed=seed + 1000 + repeat)
            for name, corrector in correctors(calibration, repeat).items():
                corrected = CorrectedPosterior(posterior, corrector)
                draws = corrected.sample(NUM_DRAWS, test.x_obs, test.context, seed=seed)
                results.setdefault(name, []).append(error(draws))
        for name, pairs in results.items():
            row(name, *(torch.stack(values) for values in zip(*pairs, strict=True)))
    print(f"  largest share of draws cut at {FARTHEST:g}: {max(cut):.2g}")


if __name__ == "__main__":
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("layouts", nargs="+", choices=["daily", "surveys"])
    parser.add_argument("--simulations", type=int, default=50_000)
    parser.add_argument("--test", type=int, default=300)
    parser.add_argument("--seeds", type=int, default=3)
    parser.add_argument("--seed", type=int, default=0)
    given = parser.parse_args()
    torch.set_num_threads(1)
    for layout in given.layouts:
        line(layout, given.simulations, given.test, given.seeds, given.seed)
