"""The paper's drift-diffusion line: posterior-mean MSE on theta, and the gap closed.

One flow on 100,000 simulations, 500 fresh test observations and 200 draws each, for both
departures (`ddm` shifts the summary, `ddm_trials` the responses) and three sizes of the
calibration set. `affine` corrects by a linear map of x for each context, `shuffled` is the
corrector fitted to contexts in random order. Prints the paper's values beside ours.

    python bench/benchmarks/ddm_line.py
"""

import argparse
import time
from functools import partial

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
from ma_sbi.metrics import gap_closed, posterior_mean_error
from ma_sbi_bench.tasks import get_task

# MSE of MA-SBI, NPE and Oracle by size of the calibration set.
PAPER = {
    100: {"NPE": 0.0489, "MA-SBI, paper recipe": 0.0180, "Oracle": 0.0192},
    500: {"NPE": 0.0481, "MA-SBI, paper recipe": 0.0190, "Oracle": 0.0192},
    2000: {"NPE": 0.0491, "MA-SBI, paper recipe": 0.0187, "Oracle": 0.0184},
}
PAPER_GAP_CLOSED = {100: "103.9 %", 500: "100.6 %", 2000: "98.8 %"}
NUM_TEST, NUM_DRAWS = 500, 200


def correctors(calibration, seed):
    fit = partial(_fit, calibration, seed)
    converged = fit("converged", calibration.context)
    marginal, conditional = decompose(converged, calibration.context)
    source = torch.Generator().manual_seed(seed)
    order = torch.randperm(len(calibration.context), generator=source).tolist()
    shuffled = [calibration.context[index] for index in order]
    return {
        "MA-SBI": converged,
        "MA-SBI, paper recipe": fit("paper", calibration.context),
        "affine": ComposedCorrector(HashEncoder(), Affine(), Ridge(), Point()).fit(
            calibration.context, calibration.x_obs, calibration.x_sim, seed=seed
        ),
        "marginal only": marginal,
        "conditional only": conditional,
        "shuffled": fit("converged", shuffled),
    }


def _fit(calibration, seed, recipe, context):
    corrector = ShiftCorrector(HashEncoder(), recipe)
    return corrector.fit(context, calibration.x_obs, calibration.x_sim, seed=seed)


def explained(task, seed):
    """Share of the departure's variance that the regime explains (the paper's R^2)."""
    draws = task.draw(2000, seed=seed)
    delta = draws.x_obs - draws.x_sim
    means = torch.stack([delta[draws.regime == k].mean(0) for k in range(4)])[draws.regime]
    return (
        1 - (delta - means).square().sum() / (delta - delta.mean(0)).square().sum()
    ).item()


def evaluate(task, posterior, counts, seed):
    test = task.draw(NUM_TEST, seed=seed + 2000)

    def error(sample, *arguments):
        draws = sample(NUM_DRAWS, *arguments, seed=seed)
        return posterior_mean_error(draws.cpu(), test.theta)

    uncorrected = {
        "prior mean": (test.theta - task.prior.mean).square().mean(dim=1),
        "NPE": error(posterior.sample, test.x_obs),
        "Oracle": error(posterior.sample, test.x_sim),
    }
    for num_cal in counts:
        errors = dict(uncorrected)
        calibration = task.draw(num_cal, seed=seed + 1000)
        for name, corrector in correctors(calibration, seed).items():
            corrected = CorrectedPosterior(posterior, corrector)
            errors[name] = error(corrected.sample, test.x_obs, test.context)
        print(
            f" n_cal = {num_cal}: gap closed in the paper {PAPER_GAP_CLOSED.get(num_cal)}"
        )
        report(errors, PAPER.get(num_cal, {}))


def report(errors, paper):
    for name, value in errors.items():
        closed = gap_closed(errors["NPE"], value, errors["Oracle"])
        print(
            f"  {name:22s} {value.mean():.4f} +- {value.std() / NUM_TEST**0.5:.4f}"
            f"   gap closed {closed!s:26s} paper {paper.get(name, float('nan')):.4f}",
            flush=True,
        )


def main(
    flow: str, num_simulations: int, num_cal: list[int], seed: int, device: str | None
) -> None:
    torch.set_num_threads(1)
    tasks = [get_task("ddm"), get_task("ddm_trials")]
    train = tasks[0].draw(num_simulations, seed=seed)
    start = time.perf_counter()
    posterior = fit_flow(
        tasks[0].prior,
        train.theta,
        train.x_sim,
        flow=flow,
        batch_size=1000,
        seed=seed,
        device=device,
    )
    print(f"{flow} trained in {time.perf_counter() - start:.0f} s")
    for task in tasks:
        share = explained(task, seed)
        print(f"\n{task.name}: the regime explains {share:.3f} of x_obs - x_sim")
        evaluate(task, posterior, num_cal, seed)


if __name__ == "__main__":
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--flow", choices=["nsf", "maf"], default="nsf")
    parser.add_argument("--simulations", type=int, default=100_000)
    parser.add_argument("--calibration", type=int, nargs="+", default=[100, 500, 2000])
    parser.add_argument("--seed", type=int, default=0)
    parser.add_argument("--device")
    given = parser.parse_args()
    main(given.flow, given.simulations, given.calibration, given.seed, given.device)
