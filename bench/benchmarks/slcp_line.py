"""The paper's SLCP line: C2ST of NPE, MA-SBI and Oracle, 3 observations x 4 regimes.

100,000 simulations, 500 calibration triples, 500 draws; sbibm's first three observations
where MA_SBI_DATA names a folder with them, else three fresh ones. Prints the paper's values
beside ours, the recovered shifts' error, and the times.

    python bench/benchmarks/slcp_line.py maf ddpm nsf
"""

import argparse
import os
import time
from functools import partial
from pathlib import Path

import numpy as np
import torch

from ma_sbi import CorrectedPosterior, HashEncoder, ShiftCorrector, fit_ddpm, fit_flow
from ma_sbi.metrics import c2st_batch, gap_closed, log_score
from ma_sbi_bench.tasks import get_task

PAPER = {
    "maf": {"NPE": 0.758, "MA-SBI": 0.719, "Oracle": 0.714},
    "ddpm": {"NPE": 0.784, "MA-SBI": 0.745, "Oracle": 0.742},
}
FIT = {
    "maf": partial(fit_flow, flow="maf", batch_size=1000),
    "nsf": partial(fit_flow, flow="nsf", batch_size=1000),
    "ddpm": fit_ddpm,
    "ddpm_rescaled": partial(fit_ddpm, schedule="rescaled"),
}
NUM_DRAWS = 500


def observations(task):
    folder = os.environ.get("MA_SBI_DATA")
    if folder is None:
        draws = task.draw(3, seed=77)
        return draws.theta, draws.x_sim
    data = np.load(Path(folder) / "sbibm" / "slcp.npz")
    return (torch.from_numpy(data[name][:3]) for name in ("true_parameters", "observation"))


def seconds(function):
    start = time.perf_counter()
    result = function()
    return result, time.perf_counter() - start


def main(
    backbones: list[str], num_simulations: int, num_cal: int, seed: int, device: str | None
) -> None:
    torch.set_num_threads(1)
    task = get_task("slcp")
    train = task.draw(num_simulations, seed=seed)
    calibration = task.draw(num_cal, seed=seed + 1000)
    theta, x = observations(task)
    num_regimes = len(task.regimes)
    theta, x_sim = theta.repeat(num_regimes, 1), x.repeat(num_regimes, 1)
    regime = torch.arange(num_regimes).repeat_interleave(len(x))
    x_obs, context = task.depart(x_sim, regime), task.contexts(regime)
    reference = task.reference(x, NUM_DRAWS, seed=seed).repeat(1, num_regimes, 1)
    correctors, fit_times = {}, {}
    for recipe in ("converged", "paper"):
        corrector = ShiftCorrector(HashEncoder(), recipe)
        correctors[recipe], fit_times[recipe] = seconds(
            lambda corrector=corrector: corrector.fit(
                calibration.context, calibration.x_obs, calibration.x_sim, seed=seed
            )
        )
    for name in backbones:
        posterior, training = seconds(
            lambda name=name: FIT[name](
                task.prior, train.theta, train.x_sim, seed=seed, device=device
            )
        )
        draws = {"NPE": posterior.sample(NUM_DRAWS, x_obs, seed=seed)}
        corrected = CorrectedPosterior(posterior, correctors["converged"])
        draws["MA-SBI"], sampling = seconds(
            lambda c=corrected: c.sample(NUM_DRAWS, x_obs, context, seed=seed)
        )
        papers = CorrectedPosterior(posterior, correctors["paper"])
        draws["MA-SBI, paper recipe"] = papers.sample(NUM_DRAWS, x_obs, context, seed=seed)
        draws["Oracle"] = posterior.sample(NUM_DRAWS, x_sim, seed=seed)
        scores = {key: c2st_batch(value.cpu(), reference) for key, value in draws.items()}
        print(f"\n{name}: trained in {training:.0f} s, 12 x 500 draws in {sampling:.2f} s")
        for key, value in scores.items():
            paper = PAPER.get(name, {}).get(key, float("nan"))
            error = value.std() / len(value) ** 0.5
            print(f"  {key:22s} C2ST {value.mean():.3f} +- {error:.3f}   paper {paper:.3f}")
        for key in ("MA-SBI", "MA-SBI, paper recipe"):
            closed = gap_closed(scores["NPE"], scores[key], scores["Oracle"])
            print(f"  {key}: gap closed {closed}")
        if hasattr(posterior, "log_prob"):
            values = {
                "NPE": log_score(posterior, theta, x_obs),
                "MA-SBI": log_score(corrected, theta, x_obs, context=context),
                "Oracle": log_score(posterior, theta, x_sim),
            }
            print(
                "  log score", {key: round(v.mean().item(), 3) for key, v in values.items()}
            )
        print(f"  corrector fit: {fit_times}", flush=True)


if __name__ == "__main__":
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("backbones", nargs="+", choices=sorted(FIT))
    parser.add_argument("--simulations", type=int, default=100_000)
    parser.add_argument("--calibration", type=int, default=500)
    parser.add_argument("--seed", type=int, default=0)
    parser.add_argument("--device")
    given = parser.parse_args()
    main(given.backbones, given.simulations, given.calibration, given.seed, given.device)
