"""Response times under instructions: what a matched correction does to real people.

The paper: on Evans & Hawkins' two feedback delays the variant changes the loss by -2.8 %,
"indistinguishable from NPE". Their files live on OSF only; without them this runs on
Forstmann et al. (2008), Ratcliff & Rouder (1998) and Cavanagh et al. (2011), whose regimes
are instructions or stimulation, and on simulated people without any departure.

Prints nats per held-out trial, the gain of true over shuffled regimes with its interval
over shuffles, and what happens to the boundary. Needs MA_SBI_DATA.

    python benchmarks/instructions.py
"""

import argparse
import time
import warnings
from pathlib import Path

import pandas as pd
import torch

from ma_sbi import fit_flow, load_flow
from ma_sbi.datasets import load_evans_hawkins, load_response_times
from ma_sbi.studies.instructions import (
    InstructionStudy,
    cut_cells,
    simulated_cells,
)
from ma_sbi.metrics import paired_gain
from ma_sbi.tasks import DDM

# The two regimes that the effect on theta is taken between.
CONTRASTS = {
    "forstmann2008": ("speed", "accuracy"),
    "ratcliff_rouder1998_exp1": ("speed", "accuracy"),
    "cavanagh2011_dbs": ("dbs_on", "dbs_off"),
}
METHODS = ("NPE", "matched", "stochastic", "stochastic, pooled")
NUM_TRIALS = 100


def trained(task, folder, seed):
    path = folder / f"posterior_seed{seed}"
    if path.exists():
        return load_flow(path, task.prior)
    draws = task.draw(50_000, seed=seed)
    start = time.perf_counter()
    posterior = fit_flow(
        task.prior,
        draws.theta,
        draws.x_sim,
        flow="maf",
        num_transforms=5,
        batch_size=1000,
        learning_rate=1e-3,
        seed=seed,
    )
    print(f"trained the posterior in {time.perf_counter() - start:.0f} s")
    posterior.save(path)
    return posterior


def show(name, study, contrast, num_shuffles):
    cells = study.cells
    trials = cells.table["num_held_out"].sum()
    subjects = cells.table["subject"].nunique()
    print(f"\n{name}: {len(cells)} cells of {subjects} subjects, {trials} held-out trials")
    npe = study.losses(study.corrections("NPE"))
    rows = []
    for method in METHODS:
        corrections = study.corrections(method)
        losses = study.losses(corrections)
        row = {"method": method, "nats/trial": round(losses.mean(), 4)}
        if method != "NPE":
            row["over NPE"] = str(paired_gain(npe, losses))
        if method in ("matched", "stochastic"):
            gain, low, high = study.gain_over_shuffled(method, num_shuffles=num_shuffles)
            row["true over shuffled"] = f"{gain:+.4f} [{low:+.4f}, {high:+.4f}]"
        effect = study.effect(corrections, *contrast)
        for parameter, (size, error) in zip(effect.index, effect.to_numpy(), strict=True):
            row[f"effect on {parameter}"] = f"{size:+.3f} ({error:.3f})"
        rows.append(row)
    print(f"effects are {contrast[0]} minus {contrast[1]}, with standard errors")
    print(pd.DataFrame(rows).fillna("").to_string(index=False))


def data_sets():
    for name, contrast in CONTRASTS.items():
        yield name, load_response_times(name), contrast
    try:
        trials = load_evans_hawkins()
    except (OSError, ValueError) as error:
        print(f"evans_hawkins: not run, no figure is claimed ({error})")
        return
    first, second = sorted(trials["regime"].unique())
    yield "evans_hawkins", trials, (first, second)


def main(folder, num_shuffles, seed):
    torch.set_num_threads(1)
    folder.mkdir(parents=True, exist_ok=True)
    task = DDM(NUM_TRIALS)
    posterior = trained(task, folder, seed)
    for name, trials, contrast in data_sets():
        print(f"\n{name}")
        cells = cut_cells(trials, NUM_TRIALS, seed=seed)
        with warnings.catch_warnings():
            warnings.simplefilter("ignore")
            study = InstructionStudy(cells, task, posterior, seed=seed)
            show(name, study, contrast, num_shuffles)
            if name != "forstmann2008":
                continue
            # The same subjects without any departure: their first posterior draw.
            subjects = cells.table.drop_duplicates("subject").index
            theta = posterior.sample(1, study.x[subjects], seed=seed)[0]
            imitation = simulated_cells(cells, theta, seed=seed)
            study = InstructionStudy(imitation, task, posterior, seed=seed)
            show("simulated, no departure", study, contrast, num_shuffles)


if __name__ == "__main__":
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--folder", type=Path, default=Path("build/instructions"))
    parser.add_argument("--shuffles", type=int, default=20)
    parser.add_argument("--seed", type=int, default=0)
    arguments = parser.parse_args()
    main(arguments.folder, arguments.shuffles, arguments.seed)
