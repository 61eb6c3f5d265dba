"""What `ma_sbi.check` says where the right answer is known beforehand.

    python bench/benchmarks/check.py --csv bench/benchmarks/results/check.csv

The default seed was not looked at while thresholds of the check were chosen.

Worlds: five tasks whose context names the regime, is independent of it, is right half of
the time, or has no departure to explain; contexts that depend on theta; and the COVID and
instruction data (with MA_SBI_DATA), where policies and instructions change theta itself.
The answer expected of each was written down before the first run:

- informative, a shift: "use"; informative, but the departure depends on x (the delays of
  sir_delay): "use with care", since a shift is the wrong family;
- uninformative: "use the marginal part only" where the mean departure is a tenth of the
  whole or more, "do not use" where it is less than a hundredth, else either;
- right half of the time: "use with care", as it helps and leaves much of the departure;
- no departure: "do not use"; a leak: "do not use";
- real data with predictions for x_sim, which depend on the context as theta does: "do not
  use"; without x_sim nothing can be tested: "use with care".
"""

import argparse
import time
import warnings

import numpy as np
import pandas as pd
import torch
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

TASKS = ("gaussian_linear", "slcp", "two_moons", "sir_delay", "ddm")
LEAKS = ("sign of theta_1", "|theta_3| large", "quartile of theta_1", "spread of theta")
NUM_ROWS = 1000
RESPONSE_TIMES = ("forstmann2008", "cavanagh2011_dbs")
TRIALS_PER_CELL = 100


def worlds(seed, simulations):
    """Yield name, kind, the verdicts that are right, and what `check` is given."""
    for name in TASKS:
        yield from task_worlds(name, seed)
        yield from leak_worlds(name, seed)
    try:
        for name, context, x_sim, x_obs in real_data(simulations):
            given = {"x_obs": x_obs, "context": context}
            yield name, "predicted", {"do not use"}, given | {"x_sim": x_sim}
            yield name, "no x_sim", {"use with care"}, given
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
    shift_fits = name != "sir_delay"
    for setting in ("informative", "uninformative", "well_specified"):
        draws = get_task(name, setting=setting).draw(NUM_ROWS, seed=seed)
        given = draws._asdict()
        given.pop("regime")
        right = {
            "informative": {"use"} if shift_fits else {"use with care"},
            "uninformative": marginal_verdicts(draws),
            "well_specified": {"do not use"},
        }[setting]
        yield name, setting, right, given
        if setting == "informative":
            rng = np.random.default_rng(seed)
            right_half = rng.random(NUM_ROWS) < 0.5
            other = rng.permutation(draws.context)
            noisy = np.where(right_half, draws.context, other).tolist()
            kind, right = "right half of the time", {"use with care"}
            yield name, kind, right, given | {"context": noisy}


def marginal_verdicts(draws):
    """Say what is right if the context explains nothing, from the true departures."""
    delta = (draws.x_obs - draws.x_sim) / draws.x_sim.std(dim=0).clamp(min=1e-9)
    share = delta.mean(dim=0).square().sum() / delta.square().sum(dim=1).mean()
    verdicts = set()
    if share > 0.01:
        verdicts.add("use the marginal part only")
    if share < 0.1:
        verdicts.add("do not use")
    return verdicts


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
        yield name, f"leak: {kind}", {"do not use"}, given
        yield name, f"leak, theta: {kind}", {"do not use"}, given | {"theta": draws.theta}


def main(given):
    torch.set_num_threads(1)
    warnings.filterwarnings("ignore")
    rows = []
    for name, kind, right, data in worlds(given.seed, given.simulations):
        start = time.perf_counter()
        found = check(**data, seed=given.seed)
        rows.append(
            {
                "data": name,
                "context": kind,
                "n": len(data["x_obs"]),
                "right": " or ".join(sorted(right)),
                "verdict": found.verdict,
                "as expected": found.verdict in right,
                "reason": found.reasons[0],
                "seconds": round(time.perf_counter() - start, 1),
            }
        )
        shown = [str(value) for value in list(rows[-1].values())]
        print(" | ".join(shown), flush=True)
    frame = pd.DataFrame(rows)
    print(f"{frame['as expected'].sum()} of {len(frame)} as expected")
    if given.csv:
        frame.to_csv(given.csv, index=False)


if __name__ == "__main__":
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--seed", type=int, default=1)
    parser.add_argument("--csv")
    parser.add_argument(
        "--simulations", type=int, default=50_000, help="behind the posteriors of real data"
    )
    main(parser.parse_args())
