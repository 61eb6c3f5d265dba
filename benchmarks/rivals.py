"""Table 1 of the paper with every method, and the sweeps it mentions; one seed.

Trains each backbone once per task, fits every method to the same 500 calibration rows and
samples all test rows together. Finished cells are files in `--out`; a run that was stopped
goes on where it was. `table` prints ours beside the paper's, `markdown` the
tables of docs/rivals.md.

    python benchmarks/rivals.py run --workers 2
    python benchmarks/rivals.py table
"""

import argparse
import json
import os
import time
import traceback
import warnings
from dataclasses import replace
from functools import partial
from itertools import groupby
from pathlib import Path

import joblib
import pandas as pd
import torch

from ma_sbi import fit_ddpm, fit_flow, load_ddpm, load_flow
from ma_sbi.correctors import Network
from ma_sbi.methods import METHODS, Calibration, Materials, Simulations, get_method
from ma_sbi.metrics import acauc, c2st_batch, gap_closed, log_score, posterior_mean_error
from ma_sbi.networks import perceptron
from ma_sbi.saving import read
from ma_sbi.tasks import get_task

NUM_CALIBRATION, NUM_UNLABELLED = 500, 2000
NUM_DRAWS = {"C2ST": 500, "MSE of log theta": 200, "MSE": 200}
# As many simulations as the tasks' own figures use (docs/tasks.md).
NUM_SIMULATIONS = {
    "gaussian_linear": 10_000,
    "slcp": 100_000,
    "two_moons": 10_000,
    "sir_delay": 50_000,
    "ddm": 50_000,
}
METRIC = {"sir_delay": "MSE of log theta", "ddm": "MSE"}  # C2ST for the others


def embedding_net(dim_x, dim_theta):
    """Make a network to three summaries per parameter, as many as RoPE's authors take."""
    return perceptron(dim_x, 3 * dim_theta, layers=4, hidden=64)


def fit_embedded(prior, theta, x, *, seed):
    net = embedding_net(x.shape[1], theta.shape[1])
    return fit_flow(
        prior, theta, x, flow="maf", batch_size=1000, embedding_net=net, seed=seed
    )


def load_embedded(path, prior):
    settings, _ = read(path, "flow")
    net = embedding_net(settings["dim_x"], settings["dim_theta"])
    return load_flow(path, prior, embedding_net=net)


BACKBONES = {
    "ddpm": (fit_ddpm, load_ddpm),
    "maf": (partial(fit_flow, flow="maf", batch_size=1000), load_flow),
    "embedded": (fit_embedded, load_embedded),
}
# As the paper ran them: twelve test rows at a time, a network where we have a closed form.
TOGETHER = {"rope_paper": 12, "rope_paper_ot_only": 12}
# Less than all there is, where a method's authors used no more or its training repeats it.
MOST_SIMULATIONS = {"npe_rs": 10_000, "rnpe": 50_000}
MOST_UNLABELLED = {"frisbi": 1000}
OPTIONS = {"frisbi": {"num_draws": 40}}
# Chains in many dimensions: fewer of them, on a flow that is ten times as fast.
FOR_TASK = {
    ("rnpe", name): {"density": "maf", "num_chains": 60, "num_steps": 600}
    for name in ("slcp", "sir_delay", "ddm")
}
# Methods with a backbone of their own run once, with the one that is like it.
ONLY = {
    "classifier_free": "ddpm",
    "classifier_free_guided": "ddpm",
    "prior_guide": "ddpm",
    "prior_guide_jacobian": "ddpm",
    "npe_rs": "maf",
}
PAPER_FORMS = {
    "context_to_theta, paper": (
        "context_to_theta",
        {"fitting": Network(), "spread": "none"},
    ),
    "context_to_x, paper": ("context_to_x", {"fitting": Network()}),
}
# Raw values of Table 9 of the paper, tasks in the order of NUM_SIMULATIONS.
PAPER = {
    "npe": (0.557, 0.784, 0.924, 40.41, 0.0455),
    "nnpe_isotropic": (None, 0.768, 0.967, 1.066, 0.0218),
    "nnpe_matched": (0.558, None, None, None, None),
    "concat": (0.570, 0.951, 0.981, 0.064, 0.0374),
    "rope_emd": (0.544, 0.772, 0.928, 0.091, 0.0366),
    "rope_sinkhorn": (0.547, 0.777, 0.915, 0.770, 0.0451),
    "context_to_theta, paper": (0.962, 0.996, 0.999, None, 0.2423),
    "context_to_x, paper": (0.798, 0.994, 1.000, None, 0.2903),
    "ma_sbi_paper": (0.509, 0.745, 0.726, 4.55, 0.0223),
    "oracle": (0.504, 0.742, 0.716, 0.002, 0.0217),
}
PAPER_CLOSED = {
    "nnpe_isotropic": (-88, 20, -21, 97, 99),
    "nnpe_matched": (-2, None, None, None, None),
    "concat": (-25, -425, -28, 100, 24),
    "rope_emd": (9, 28, -2, 99.8, 80),
    "rope_sinkhorn": (18, 22, 4, 98, 2),
    "context_to_theta, paper": (-776, -448, -36, None, -824),
    "context_to_x, paper": (-462, -374, -37, None, -1025),
    "ma_sbi_paper": (91, 93, 95, 87, 101),
}
# The paper's sweeps on SLCP, with the backbone it used: (label, method, options, unlabelled
# rows).
SWEEPS = {
    "ddpm": [
        *(
            (f"sinkhorn epsilon={value:g}", "rope_sinkhorn", {"epsilon": value}, None)
            for value in (0.01, 0.03, 0.1, 0.3, 1.0, 3.0)
        ),
        *(
            (f"nnpe scale={value:g}", "nnpe_isotropic", {"scale": value}, None)
            for value in (0.03, 0.1, 1.0, 3.0)
        ),
    ],
    "maf": [
        *(
            (f"{name} gamma={value:g}", name, {"gamma": value}, None)
            for name in ("rope", "rope_ot_only")
            for value in (0.1, 0.02)
        ),
        *(
            (f"{name} N_s={value}", name, {"num_simulations": value}, None)
            for name in TOGETHER
            for value in (200, 500, 1000, 5000)
        ),
        *(
            (f"{name} N_o={value}", name, {"rows": "unlabelled"}, value - 12)
            for name in TOGETHER
            for value in (50, 200, 500, 2000)
        ),
    ],
}


def world(name, seed):
    """Make the task, its training, calibration and test rows, and the exact answers."""
    task = get_task(name)
    calibration = task.draw(NUM_CALIBRATION, seed=seed + 1000)
    unlabelled = task.draw(NUM_UNLABELLED, seed=seed + 2000).x_obs
    if name in METRIC:
        return task, calibration, unlabelled, task.draw(120, seed=seed + 1), None
    # Twelve observations in all four regimes, three observations after another.
    once = task.draw(12, seed=seed + 1)
    rows = torch.arange(12).repeat_interleave(len(task.regimes))
    regime = torch.arange(len(task.regimes)).repeat(12)
    x_sim = once.x_sim[rows]
    test = once._replace(
        theta=once.theta[rows],
        x_sim=x_sim,
        x_obs=task.depart(x_sim, regime),
        regime=regime,
        context=task.contexts(regime),
    )
    exact = task.reference(once.x_sim, NUM_DRAWS["C2ST"], seed=seed)[:, rows]
    return task, calibration, unlabelled, test, exact


def base_posterior(name, backbone, seed, num_simulations, out):
    """Train the backbone, or read it back."""
    fit, load = BACKBONES[backbone]
    path = Path(out) / f"{name}-{backbone}-{seed}.posterior"
    task = get_task(name)
    if not path.exists():
        train = task.draw(num_simulations, seed=seed)
        posterior = fit(task.prior, train.theta, train.x_sim, seed=seed)
        posterior.save(path.with_suffix(".partial"))
        path.with_suffix(".partial").rename(path)
    return load(path, task.prior)


def run_cell(cell, out):
    """Fit one method, sample all test rows, score, and write one small file."""
    label, method_name, options, num_unlabelled = cell["method"]
    file = Path(out) / (cell_name(cell) + ".json")
    task, calibration, unlabelled, test, exact = world(cell["task"], cell["seed"])
    train = task.draw(cell["simulations"], seed=cell["seed"])
    options = options | FOR_TASK.get((method_name, cell["task"]), {})
    method = get_method(method_name, **options)
    base = [cell[key] for key in ("task", "backbone", "seed", "simulations")]
    most = MOST_SIMULATIONS.get(method_name)
    materials = Materials(
        prior=task.prior,
        posterior=base_posterior(*base, out) if shows_base(cell) else None,
        simulations=Simulations(train.theta[:most], train.x_sim[:most]),
        simulator=task.simulate,
        calibration=Calibration(
            calibration.x_obs, calibration.context, calibration.x_sim, calibration.theta
        ),
        unlabelled=unlabelled[: num_unlabelled or MOST_UNLABELLED.get(method_name)],
    )
    if "backbone" in method.get_params():
        method.set_params(backbone=BACKBONES[cell["backbone"]][0])
    if method_name == "npe_rs":  # it is trained on the observations to be analysed
        materials = replace(materials, unlabelled=test.x_obs)
    start = time.perf_counter()
    method.fit(materials, seed=cell["seed"])
    fitted = time.perf_counter()
    x = test.x_sim if method.reads == "x_sim" else test.x_obs
    num_draws = NUM_DRAWS[METRIC.get(cell["task"], "C2ST")]
    at_once = TOGETHER.get(method_name, len(x))
    batches = [slice(start, start + at_once) for start in range(0, len(x), at_once)]
    draws = torch.cat(
        [
            method.sample(num_draws, x[rows], test.context[rows], seed=cell["seed"])
            for rows in batches
        ],
        dim=1,
    )
    sampled = time.perf_counter()
    row = {
        "task": cell["task"],
        "backbone": cell["backbone"],
        "method": label,
        "seed": cell["seed"],
        "num_test": len(x),
        "seconds_fit": round(fitted - start, 2),
        "seconds_sample": round(sampled - fitted, 2),
        "acauc": round(acauc(draws, test.theta).mean().item(), 4),
    }
    if method.has_density:
        scores = [
            log_score(method, test.theta[rows], x[rows], context=test.context[rows])
            for rows in batches
        ]
        row["log_score"] = round(torch.cat(scores).mean().item(), 4)
    if exact is None:
        transform = torch.log if cell["task"] == "sir_delay" else None
        if transform is not None:  # an exploding flow may leave float32
            draws = draws.clamp(1e-30, 1e30)
        values = posterior_mean_error(draws, test.theta, transform=transform)
    else:
        values = c2st_batch(draws, exact, recipe="fast")
    row["values"] = [round(value, 5) for value in values.tolist()]
    file.with_suffix(".partial").write_text(json.dumps(row))
    file.with_suffix(".partial").rename(file)


def shows_base(cell):
    """Tell whether a method needs the trained posterior."""
    return not {"posterior", "diffusion"}.isdisjoint(get_method(cell["method"][1]).needs)


def cell_name(cell):
    label = cell["method"][0].replace(" ", "_").replace(",", "").replace("=", "")
    return f"{cell['task']}-{cell['backbone']}-{cell['seed']}-{label}"


def cells(given):
    """List what is to be done."""
    methods = [(name, name, OPTIONS.get(name, {}), None) for name in METHODS]
    methods += [
        (label, name, options, None) for label, (name, options) in PAPER_FORMS.items()
    ]
    for task in given.tasks:
        for backbone in given.backbones:
            chosen = methods + (SWEEPS.get(backbone, []) if task == "slcp" else [])
            for method in chosen:
                wanted = given.methods is None or method[0] in given.methods
                fits = ONLY.get(method[1], backbone) == backbone
                if wanted and fits:
                    yield {
                        "task": task,
                        "backbone": backbone,
                        "method": method,
                        "seed": given.seed,
                        "simulations": min(NUM_SIMULATIONS[task], given.simulations),
                    }


def attempt(function, *arguments):
    """Run on one thread; a failure is reported and stops nothing else."""
    torch.set_num_threads(1)
    warnings.filterwarnings("ignore")
    start = time.perf_counter()
    try:
        function(*arguments)
    except Exception:  # noqa: BLE001 (reported below)
        print(f"FAILED {arguments[:3]}\n{traceback.format_exc()}", flush=True)
        return
    name = cell_name(arguments[0]) if function is run_cell else " ".join(arguments[:2])
    print(f"{name}: {time.perf_counter() - start:.0f} s", flush=True)


def run(given):
    out = Path(given.out)
    out.mkdir(parents=True, exist_ok=True)
    todo = [cell for cell in cells(given) if not (out / f"{cell_name(cell)}.json").exists()]
    keys = ("simulations", "task", "backbone", "seed")
    bases = sorted({tuple(cell[key] for key in keys) for cell in todo}, reverse=True)
    task = joblib.delayed(attempt)
    with joblib.Parallel(given.workers) as parallel:
        # What needs no base does not wait for it.
        parallel(
            [task(base_posterior, *names, num, out) for num, *names in bases]
            + [task(run_cell, cell, out) for cell in todo if not shows_base(cell)]
        )
        parallel(task(run_cell, cell, out) for cell in todo if shows_base(cell))


def collect(out):
    """Read every finished cell, methods in the order of the registry."""
    order = [*METHODS, *PAPER_FORMS, *(s[0] for sweep in SWEEPS.values() for s in sweep)]
    rows = [json.loads(path.read_text()) for path in Path(out).glob("*.json")]
    rows.sort(key=lambda row: (row["task"], row["backbone"], order.index(row["method"])))
    for _, group in groupby(rows, key=lambda row: (row["task"], row["backbone"])):
        group = list(group)
        values = {row["method"]: torch.tensor(row["values"]) for row in group}
        ends = values.get("npe"), values.get("oracle")
        for row in group:
            value = values[row["method"]]
            row["metric"] = METRIC.get(row["task"], "C2ST")
            row["mean"] = round(value.mean().item(), 4)
            row["error"] = round(value.std().item() / len(value) ** 0.5, 4)
            if row["method"] not in ("npe", "oracle") and None not in ends:
                row["gap_closed"] = str(gap_closed(ends[0], value, ends[1]))
            position = list(NUM_SIMULATIONS).index(row["task"])
            for key, known in (("paper", PAPER), ("paper_closed", PAPER_CLOSED)):
                row[key] = known.get(row["method"], [None] * 5)[position]
            yield row


def table(given):
    frame = pd.DataFrame(collect(given.out)).drop(columns=["values", "seed"])
    if given.csv:
        frame.to_csv(given.csv, index=False)
    for (task, backbone), group in frame.groupby(["task", "backbone"], sort=False):
        print(f"\n{task}, {backbone}, {group['metric'].iloc[0]}")
        shown = group.drop(columns=["task", "backbone", "metric"]).set_index("method")
        print(shown.to_string(na_rep=""))


def markdown(given):
    """Print one table per backbone: raw value, gap closed, and the paper's below."""
    frame = pd.DataFrame(collect(given.out))
    for backbone, group in frame.groupby("backbone", sort=False):
        print(f"\n| {backbone} | " + " | ".join(NUM_SIMULATIONS) + " |")
        print("|---" * (len(NUM_SIMULATIONS) + 1) + "|")
        for name in [*METHODS, *PAPER_FORMS]:
            rows = group[group["method"] == name].set_index("task")
            if len(rows):
                cells = [shown(rows, name, task) for task in NUM_SIMULATIONS]
                print(f"| {name} | " + " | ".join(cells) + " |")


def shown(rows, name, task):
    if task not in rows.index:
        return ""
    row, position = rows.loc[task], list(NUM_SIMULATIONS).index(task)
    closed = row["gap_closed"] if isinstance(row["gap_closed"], str) else ""
    closed = f" ({closed.split(' [')[0]})" if closed else ""
    raw, percent = (k.get(name, [None] * 5)[position] for k in (PAPER, PAPER_CLOSED))
    paper = "" if raw is None else f"; *{raw:g}" + (f", {percent:g} %*" if percent else "*")
    return f"{row['mean']:.3f}{closed}{paper}"


if __name__ == "__main__":
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("action", choices=["run", "table", "markdown"])
    parser.add_argument("--tasks", nargs="+", default=list(NUM_SIMULATIONS))
    parser.add_argument("--backbones", nargs="+", default=["ddpm", "maf"])
    parser.add_argument("--methods", nargs="+")
    parser.add_argument("--seed", type=int, default=0)
    parser.add_argument("--workers", type=int, default=2)
    parser.add_argument("--simulations", type=int, default=10**9, help="at most so many")
    parser.add_argument("--out", default="build/rivals")
    parser.add_argument("--csv", help="where `table` writes what it prints")
    arguments = parser.parse_args()
    os.environ.setdefault("OMP_NUM_THREADS", "1")
    {"run": run, "table": table, "markdown": markdown}[arguments.action](arguments)
