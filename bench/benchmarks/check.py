"""What `ma_sbi.check` says where the right answer is known beforehand.

    python bench/benchmarks/check.py --csv bench/benchmarks/results/check.csv

The default seed was not looked at while thresholds of the check were chosen.

Worlds: seven tasks whose context names the regime, is independent of it, is right half of
the time, or has no departure to explain; contexts that depend on theta, for each simulator;
and the COVID and instruction data (with MA_SBI_DATA), where policies and instructions
change theta itself. There is no posterior. True parameters are given, except for real data
and for leaks that must be found in the simulations. The answers in EXPECTED were written
down, each with its reason, before this rule of the check was run on them.
"""

import argparse
import time
import warnings

import numpy as np
import pandas as pd
import torch
from check_tables import TASKS
from exclusion import leaks

from ma_sbi import check, fit_flow
from ma_sbi.simulation import sample_prior
from ma_sbi_bench.real import (
    PAPER_COUNTRIES,
    covid_windows,
    load_covid,
    load_response_times,
)
from ma_sbi_bench.real.covid.study import WindowStudy
from ma_sbi_bench.real.instructions.study import InstructionStudy, cut_cases
from ma_sbi_bench.tasks import DDM, get_task
from ma_sbi_bench.tasks.fortnight import FortnightSimulator

# Tasks whose departure depends on x.
NO_SHIFT = ("sir_delay", "ddm_trials")
# One task for each simulator.
LEAKING = ("gaussian_linear", "slcp", "two_moons", "sir_delay", "ddm")
LEAKS = ("sign of theta_1", "|theta_3| large", "quartile of theta_1", "spread of theta")
EXPECTED = {
    "informative": (
        {"use"},
        "a shift that the context names, seen in pairs that share their noise: there is "
        "nothing to doubt",
    ),
    "informative, no shift": (
        {"use", "use with care"},
        "the departure depends on x, and is learned forwards for each context; care only "
        "if the doubt that is stated is true, such as a weak test of leaks or noise that "
        "cannot be told",
    ),
    "right half of the time": (
        {"use"},
        "a wrong context leaves several candidates, which are weighted: that gains, and "
        "half a truth adds to it",
    ),
    "right half of the time, no shift": (
        {"use", "use with care"},
        "the same; care only if the doubt that is stated is true",
    ),
    "uninformative": (
        {"use the marginal part only"},
        "the departure is one of a few, whatever the context says: weighing them gains, "
        "even where their mean is zero",
    ),
    "well_specified": ({"do not use"}, "nothing departs"),
    "leak": (
        {"use with care"},
        "pairs at the true inputs show the departure row by row, and the context tells "
        "which it is, so it gains; that the context depends on theta is a true doubt",
    ),
    "predicted": (
        {"do not use"},
        "predictions at parameters inferred from x_obs contain the departure, and have "
        "noise of their own",
    ),
    "no x_sim": ({"do not use"}, "there is nothing to compare observations with"),
}
"""For each kind of world, the verdicts that are right, and why."""
NUM_ROWS = 1000
RESPONSE_TIMES = ("forstmann2008", "cavanagh2011_dbs")
TRIALS_PER_CELL = 100


def worlds(seed, simulations):
    """Yield name, context, the kind of answer expected, and what `check` is given."""
    for name in TASKS:
        yield from task_worlds(name, seed)
    for name in LEAKING:
        yield from leak_worlds(name, seed)
    try:
        for name, context, x_sim, x_obs in real_data(simulations):
            given = {"x_obs": x_obs, "context": context}
            yield name, "predicted", "predicted", given | {"x_sim": x_sim}
            yield name, "no x_sim", "no x_sim", given
    except (OSError, ValueError) as error:
        print(f"real data not run: {error}")


def real_data(simulations):
    """Yield name, context, what the posterior of each row predicts of it, and x_obs."""

    def trained(task):
        theta = sample_prior(task.prior, simulations, seed=0)
        return fit_flow(task.prior, theta, task.simulate(theta, seed=0), seed=0)

    windows = covid_windows(load_covid(), PAPER_COUNTRIES)
    fortnight = FortnightSimulator()
    study = WindowStudy(windows, fortnight, trained(fortnight), seed=0)
    yield "covid", windows.table["regime"].astype(str).tolist(), study.predicted, study.x
    ddm = DDM(TRIALS_PER_CELL)
    posterior = trained(ddm)
    for name in RESPONSE_TIMES:
        cells = cut_cases(load_response_times(name), TRIALS_PER_CELL, seed=0)
        study = InstructionStudy(cells, ddm, posterior, seed=0)
        yield name, cells.table["regime"].tolist(), study.predicted, study.x


def task_worlds(name, seed):
    no_shift = ", no shift" if name in NO_SHIFT else ""
    for setting in ("informative", "uninformative", "well_specified"):
        draws = get_task(name, setting=setting).draw(NUM_ROWS, seed=seed)
        given = draws._asdict()
        given.pop("regime")
        informative = setting == "informative"
        yield name, setting, setting + no_shift * informative, given
        if informative:
            rng = np.random.default_rng(seed)
            right_half = rng.random(NUM_ROWS) < 0.5
            other = rng.permutation(draws.context)
            noisy = np.where(right_half, draws.context, other).tolist()
            kind = "right half of the time"
            yield name, kind, kind + no_shift, given | {"context": noisy}


def leak_worlds(name, seed):
    """Make contexts that depend on theta, with a departure that depends on them."""
    draws = get_task(name, setting="well_specified").draw(NUM_ROWS, seed=seed)
    rng = np.random.default_rng(seed)
    planted = leaks(draws.theta.numpy(), rng)
    spread = draws.x_sim.std(dim=0)
    for kind in LEAKS:
        codes = torch.as_tensor(pd.factorize(np.asarray(planted[kind]))[0])
        x_obs = draws.x_sim + codes[:, None] * spread / 2
        given = {"context": planted[kind], "x_sim": draws.x_sim, "x_obs": x_obs}
        # Without theta the leak must be found in the simulations.
        yield name, f"leak: {kind}", "leak", given
        yield name, f"leak, theta: {kind}", "leak", given | {"theta": draws.theta}


def main(given):
    torch.set_num_threads(1)
    warnings.filterwarnings("ignore")
    rows = []
    if given.resume:
        rows = pd.read_csv(given.csv, keep_default_na=False).to_dict("records")
    done = {(row["data"], row["context"]) for row in rows}
    for name, context, kind, data in worlds(given.seed, given.simulations):
        if (name, context) in done:
            continue
        start = time.perf_counter()
        found = check(**data, seed=given.seed)
        right, because = EXPECTED[kind]
        rows.append(
            {
                "data": name,
                "context": context,
                "n": len(data["x_obs"]),
                "right": " or ".join(sorted(right)),
                "because": because,
                "verdict": found.verdict,
                "as expected": found.verdict in right,
                "reasons": " ".join(found.reasons),
                "seconds": round(time.perf_counter() - start, 1),
            }
        )
        print(" | ".join(str(value) for value in rows[-1].values()), flush=True)
        if given.csv:
            pd.DataFrame(rows).to_csv(given.csv, index=False)
    frame = pd.DataFrame(rows)
    print(f"{frame['as expected'].sum()} of {len(frame)} as expected")


if __name__ == "__main__":
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--seed", type=int, default=1)
    parser.add_argument("--csv")
    parser.add_argument(
        "--resume", action="store_true", help="leave out worlds that are in the file"
    )
    parser.add_argument(
        "--simulations", type=int, default=50_000, help="behind the posteriors of real data"
    )
    main(parser.parse_args())
