"""What the correction costs: corrected over plain, 12 observations x 500 draws.

python benchmarks/overhead.py
"""

import time

import torch

from ma_sbi import CorrectedPosterior, HashEncoder, ShiftCorrector, fit_ddpm, fit_flow
from ma_sbi.demo import Beacons

REPEATS = 25


def median_seconds(*functions):
    times = []
    for _ in range(REPEATS):
        # Taken in turns, so that a busy moment of the machine hits all alike.
        row = []
        for function in functions:
            start = time.perf_counter()
            function()
            row.append(time.perf_counter() - start)
        times.append(row)
    return torch.tensor(times).median(dim=0).values.tolist()


def main():
    torch.set_num_threads(1)
    world = Beacons()
    train = world.draw(2000, seed=0)
    data = (world.prior, train.theta, train.x_sim)
    posteriors = {
        "MAF, 8 transforms": fit_flow(*data, flow="maf", max_epochs=2, seed=0),
        "NSF, 5 transforms": fit_flow(*data, flow="nsf", max_epochs=2, seed=0),
        "DDPM, 200 steps": fit_ddpm(*data, epochs=1, seed=0),
    }
    posteriors["DDPM, 20 steps"] = posteriors["DDPM, 200 steps"].deterministic(20)
    calibration = world.draw(500, seed=1)
    corrector = ShiftCorrector(HashEncoder())
    start = time.perf_counter()
    corrector.fit(calibration.notes, calibration.x_obs, calibration.x_sim)
    print(f"corrector fit, 500 triples: {1e3 * (time.perf_counter() - start):.1f} ms")
    test = world.draw(12, seed=2)
    for name, posterior in posteriors.items():
        corrected = CorrectedPosterior(posterior, corrector)
        plain, ours = median_seconds(
            lambda posterior=posterior: posterior.sample(500, test.x_obs, seed=0),
            lambda corrected=corrected: corrected.sample(
                500, test.x_obs, test.notes, seed=0
            ),
        )
        print(
            f"{name}: plain {1e3 * plain:.1f} ms, corrected {1e3 * ours:.1f} ms, "
            f"overhead {100 * (ours / plain - 1):+.1f} %"
        )


if __name__ == "__main__":
    main()
