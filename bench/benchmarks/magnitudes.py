"""How large the departures of SIR and DDM must be to explain as much as in the paper.

Run once, on a seed that nothing else uses; no other result entered the choice. The paper
prints, for each task, how much of the variance of observations and of departures the
context explains (Table "Exclusion Test"). Of SIR the exposure is varied, up to the whole
population of a million, in logarithms and in plain counts; of DDM the scale of the shifts.
What comes nearest in x_obs is written into the tasks.

    python bench/benchmarks/magnitudes.py > bench/benchmarks/results/magnitudes.csv
"""

import csv
import sys
from collections.abc import Iterator

import torch

from ma_sbi.diagnostics import held_out_r2
from ma_sbi.diagnostics.exclusion import held_out_r2_error
from ma_sbi_bench.paper.printed import printed
from ma_sbi_bench.tasks import Task, get_task

SEED = 900_001
NUM_ROWS = 40_000
EXPOSURES = (1_000, 3_000, 10_000, 30_000, 100_000, 300_000, 1_000_000)
SCALES = (0.1, 0.2, 0.25, 0.28, 0.29, 0.3, 0.31, 0.32, 0.35, 0.4, 0.5, 0.7, 1.0)
COLUMNS = ("task", "varied", "value", "variable", "r2", "error", "paper")


def worlds() -> Iterator[tuple[str, str, float, Task]]:
    """Make every task with every magnitude."""
    for scale, label in (("log", "SIR"), ("counts", "SIR, plain counts")):
        for exposure in EXPOSURES:
            task = get_task("sir_delay", scale=scale, exposure=exposure)
            yield label, "exposure", exposure, task
    for factor in SCALES:
        yield "DDM", "shift_scale", factor, get_task("ddm", shift_scale=factor)


def main() -> None:
    torch.set_num_threads(1)
    writer = csv.writer(sys.stdout, lineterminator="\n")
    writer.writerow(COLUMNS)
    for label, varied, value, task in worlds():
        draws = task.draw(NUM_ROWS, seed=SEED)
        of = {"obs": draws.x_obs, "delta": draws.x_obs.double() - draws.x_sim.double()}
        for variable, values in of.items():
            found = held_out_r2(values, draws.context, seed=SEED)
            error = held_out_r2_error(values, draws.context, seed=SEED)
            paper = printed("exclusion", f"r2_{variable}", task=label.partition(",")[0])
            numbers = (f"{found:.4f}", f"{error:.4f}", paper.value if paper else "")
            writer.writerow((label, varied, value, variable, *numbers))
        sys.stdout.flush()


if __name__ == "__main__":
    main()
