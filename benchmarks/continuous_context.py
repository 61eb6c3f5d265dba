"""The paper's continuous context: SLCP under a shift that grows with a number in the log.

100,000 simulations, 2000 calibration triples with z ~ U(0, 1), a DDPM; evaluated on
z = linspace(0, 1, 20) times sbibm's first three observations where MA_SBI_DATA names a
folder with them, else three fresh ones; 500 draws each. C2ST is measured against the
exact posterior of what the simulator gave.

The paper has, for the hashed text and z >= 0.3, a mean gap closed of 96.8 % and a mean
relative error of the shift of 12.3 %; below, NPE and Oracle are less than 0.03 apart. It
does not name the grid's ends, and says that the values of z are not seen in training. The
text has two digits, so there are 101 texts, and 2000 triples hold nearly all of them;
"unseen texts" leaves out the triples whose text is on the grid. The paper's mean may be
over ratios, one per z; it is printed beside the ratio of means, which is what the project
calls gap closed. The interval takes all cases for independent, but they share three
observations, so it is too narrow.

    python benchmarks/continuous_context.py --figure continuous_context.png
"""

import argparse
import os
import time
from functools import partial
from pathlib import Path

import numpy as np
import torch
from matplotlib.figure import Figure

from ma_sbi import (
    CorrectedPosterior,
    HashEncoder,
    NumberEncoder,
    ShiftCorrector,
    decompose,
    fit_ddpm,
    fit_flow,
)
from ma_sbi.metrics import c2st_batch, gap_closed, log_score
from ma_sbi.tasks import get_task

PAPER_CLOSED, PAPER_ERROR, PAPER_SMALL_GAP = 96.8, 12.3, 0.03
FIT = {"maf": partial(fit_flow, flow="maf", batch_size=1000), "ddpm": fit_ddpm}
NUM_DRAWS, NUM_Z, SMALLEST_Z = 500, 20, 0.3
# Smaller errors (in %) are drawn here.
FLOOR = 0.01
# Colour, line and marker; the same in both panels.
STYLE = {
    "NPE": ("#d62728", "-", "o"),
    "MA-SBI": ("#1f77b4", "-", "o"),
    "MA-SBI, unseen texts": ("#17becf", "--", "v"),
    "MA-SBI, paper recipe": ("#ff7f0e", "-", "s"),
    "MA-SBI, number": ("#9467bd", "--", "D"),
    "shuffled context": ("0.35", ":", "x"),
    "marginal only": ("0.6", "--", "+"),
    "Oracle": ("#2ca02c", "-", "^"),
}


def observations(task):
    folder = os.environ.get("MA_SBI_DATA")
    if folder is None:
        draws = task.draw(3, seed=77)
        return draws.theta, draws.x_sim
    data = np.load(Path(folder) / "sbibm" / "slcp.npz")
    return (torch.from_numpy(data[name][:3]) for name in ("true_parameters", "observation"))


def fit_correctors(calibration, texts, seed):
    """Fit one corrector per row of the table; ``texts`` are those of the grid."""
    context = calibration.context
    shuffled = np.random.default_rng(seed).permutation(context).tolist()
    everything = torch.arange(len(context))
    unseen = torch.tensor([text not in texts for text in context]).nonzero().flatten()

    def fit(words, recipe="converged", encoder=None, rows=everything):
        corrector = ShiftCorrector(encoder or HashEncoder(), recipe)
        words = [words[row] for row in rows.tolist()]
        return corrector.fit(
            words, calibration.x_obs[rows], calibration.x_sim[rows], seed=seed
        )

    converged = fit(context)
    seen = len(texts & set(context))
    print(
        f"{len(set(context))} distinct texts in {len(context)} triples; of the grid's "
        f"{len(texts)} texts {seen} are among them; {len(unseen)} triples have other texts"
    )
    return {
        "MA-SBI": converged,
        "MA-SBI, unseen texts": fit(context, rows=unseen),
        "MA-SBI, paper recipe": fit(context, "paper"),
        "MA-SBI, number": fit(calibration.regime.tolist(), encoder=NumberEncoder()),
        "shuffled context": fit(shuffled),
        "marginal only": decompose(converged, context).marginal,
    }


def print_per_z(title, z, values, factor, digits):
    print(f"\n{title}\n     z " + " ".join(f"{name[:20]:>20s}" for name in values))
    for row, intensity in enumerate(z.tolist()):
        cells = (f"{factor * column[row]:20.{digits}f}" for column in values.values())
        print(f"  {intensity:.2f} " + " ".join(cells))


def mean_of_ratios(npe, value, oracle):
    """Average the gap closed at each z, which needs a gap at each z."""
    gap = (npe - oracle).mean(dim=1)
    if (gap <= 0).any():
        return f"– (no gap at {int((gap <= 0).sum())} z)"
    return f"{100 * ((npe - value).mean(dim=1) / gap).mean():.1f} %"


def print_summary(z, scores, errors):
    large, small = z >= SMALLEST_Z, z < SMALLEST_Z
    npe, oracle = scores["NPE"], scores["Oracle"]
    print(f"\nmeans over the {int(large.sum())} z >= {SMALLEST_Z}")
    for name, value in scores.items():
        line = f"  {name:22s} C2ST {value[large].mean():.3f}"
        if name in errors:
            cases = (part[large].flatten() for part in (npe, value, oracle))
            line += (
                f"   gap closed {gap_closed(*cases)}   mean of ratios "
                f"{mean_of_ratios(npe[large], value[large], oracle[large])}   error of the "
                f"shift {100 * errors[name][large].mean():.1f} %"
            )
        print(line)
    print(
        f"  paper, text            gap closed {PAPER_CLOSED} %   error of the shift "
        f"{PAPER_ERROR} %"
    )
    for index, gap in enumerate((npe - oracle)[large].mean(dim=0).tolist()):
        print(f"  NPE - Oracle on observation {index + 1}: {gap:+.3f}")
    gap = (npe - oracle)[small]
    print(
        f"NPE - Oracle over the {len(gap)} z < {SMALLEST_Z}: mean {gap.mean():+.4f}, "
        f"largest of a z {gap.mean(dim=1).max():+.4f}, largest of a case "
        f"{gap.max():+.3f}; paper < {PAPER_SMALL_GAP}"
    )


def draw_figure(path, z, scores, errors):
    """Draw C2ST and the relative error of the shift over z."""
    figure = Figure(figsize=(11, 4.8), layout="constrained")
    left, right = figure.subplots(1, 2)
    for axis, columns in (
        (left, {name: value.mean(dim=1) for name, value in scores.items()}),
        (right, {name: (100 * value).clamp(min=FLOOR) for name, value in errors.items()}),
    ):
        axis.axvspan(0, SMALLEST_Z, color="0.94", zorder=0, lw=0)
        for name, value in columns.items():
            colour, line, marker = STYLE[name]
            axis.plot(z, value, line, color=colour, marker=marker, ms=4, lw=1.4, label=name)
        axis.set(xlabel="intensity z", xlim=(-0.02, 1.02))
        axis.spines[["top", "right"]].set_visible(False)
        axis.grid(axis="y", color="0.9", lw=0.6)
        axis.set_axisbelow(True)
    left.set_ylabel("C2ST, mean over three observations")
    left.set_title("(a) Distance to the exact posterior", loc="left", fontsize=10)
    right.hlines(PAPER_ERROR, SMALLEST_Z, 1, color="black", lw=1, label="paper")
    right.set_yscale("log")
    right.yaxis.set_major_formatter("{x:g}")
    right.set_ylabel(
        rf"$\|\hat\delta - \delta\| \,/\, \|\delta\|$ in %, at least {FLOOR:g}"
    )
    right.set_title("(b) Error of the recovered shift", loc="left", fontsize=10)
    handles, labels = left.get_legend_handles_labels()
    papers = right.get_legend_handles_labels()[0][-1]
    figure.legend(
        [*handles, papers],
        [*labels, f"paper, mean error over z ≥ {SMALLEST_Z}"],
        loc="outside lower center",
        ncols=3,
        frameon=False,
        fontsize=9,
    )
    Path(path).parent.mkdir(parents=True, exist_ok=True)
    figure.savefig(path, dpi=150)


def main(backbone, num_simulations, num_cal, seed, device, figure):
    torch.set_num_threads(1)
    task = get_task("slcp_continuous")
    train = task.draw(num_simulations, seed=seed)
    calibration = task.draw(num_cal, seed=seed + 1000)
    theta, x = observations(task)
    num_x = len(x)
    # Cases run over observations first: unflatten(0, (NUM_Z, num_x)) is one row per z.
    z = torch.linspace(0, 1, NUM_Z)
    theta, x_sim = theta.repeat(NUM_Z, 1), x.repeat(NUM_Z, 1)
    regime = z.repeat_interleave(num_x)
    x_obs, texts = task.depart(x_sim, regime), task.contexts(regime)
    reference = task.reference(x, NUM_DRAWS, seed=seed).repeat(1, NUM_Z, 1)

    correctors = fit_correctors(calibration, set(texts), seed)
    contexts = {name: texts for name in correctors} | {"MA-SBI, number": regime.tolist()}
    true_shift = task.depart(torch.zeros(NUM_Z, task.dim_x), z)
    errors = {
        name: (corrector.shift(contexts[name][::num_x]) - true_shift).norm(dim=1)
        / true_shift.norm(dim=1).where(z > 0, torch.nan)
        for name, corrector in correctors.items()
    }
    start = time.perf_counter()
    posterior = FIT[backbone](
        task.prior, train.theta, train.x_sim, seed=seed, device=device
    )
    print(f"{backbone}: trained in {time.perf_counter() - start:.0f} s", flush=True)

    corrected = {name: CorrectedPosterior(posterior, c) for name, c in correctors.items()}
    draws = {"NPE": posterior.sample(NUM_DRAWS, x_obs, seed=seed)}
    for name, method in corrected.items():
        draws[name] = method.sample(NUM_DRAWS, x_obs, contexts[name], seed=seed)
    draws["Oracle"] = posterior.sample(NUM_DRAWS, x_sim, seed=seed)
    start = time.perf_counter()
    scores = {
        name: c2st_batch(value.cpu(), reference, recipe="fast").unflatten(0, (NUM_Z, num_x))
        for name, value in draws.items()
    }
    print(f"{len(scores)} x {len(x_obs)} C2ST in {time.perf_counter() - start:.0f} s")

    per_z = {name: value.mean(dim=1) for name, value in scores.items()}
    print_per_z("C2ST, mean over three observations", z, per_z, 1, 3)
    print_per_z("relative error of the shift in %", z, errors, 100, 2)
    print_summary(z, scores, errors)
    if hasattr(posterior, "log_prob"):
        values = {"NPE": log_score(posterior, theta, x_obs)}
        for name, method in corrected.items():
            values[name] = log_score(method, theta, x_obs, context=contexts[name])
        values["Oracle"] = log_score(posterior, theta, x_sim)
        large = regime >= SMALLEST_Z
        print(f"log score of the true parameters, mean over z >= {SMALLEST_Z}")
        for name, value in values.items():
            print(f"  {name:22s} {value[large].mean():.3f}")
    if figure is not None:
        draw_figure(figure, z, scores, errors)


if __name__ == "__main__":
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("backbone", nargs="?", default="ddpm", choices=sorted(FIT))
    parser.add_argument("--simulations", type=int, default=100_000)
    parser.add_argument("--calibration", type=int, default=2000)
    parser.add_argument("--seed", type=int, default=0)
    parser.add_argument("--device")
    parser.add_argument("--figure", help="where to write the figure (PNG)")
    given = parser.parse_args()
    main(
        given.backbone,
        given.simulations,
        given.calibration,
        given.seed,
        given.device,
        given.figure,
    )
