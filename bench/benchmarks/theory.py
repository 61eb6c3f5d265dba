"""Bounds of the paper re-run, beside what the paper prints.

Theorem 1, the sharpness sweep and I / log K are experiments:
`ma-sbi reproduce theorem_1 sharpness channels`.

python bench/benchmarks/theory.py                       # all but C2ST: some minutes
python bench/benchmarks/theory.py --only rope evidence  # some tables
python bench/benchmarks/theory.py --c2st                # adds C2ST on SLCP: six minutes
python bench/benchmarks/theory.py --csv DIR             # writes theory_*.csv there
"""

import argparse
import math
import warnings
from pathlib import Path

import numpy as np
import pandas as pd
import torch
from scipy.optimize import brentq
from scipy.stats import laplace, norm, t
from sklearn.neighbors import KNeighborsRegressor

from ma_sbi import (
    CategoryEncoder,
    ComposedCorrector,
    HashEncoder,
    ShiftCorrector,
    from_callable,
)
from ma_sbi.correctors import Evidence, ResidualPools, Shift
from ma_sbi.metrics import c2st_batch
from ma_sbi_bench.methods import Calibration, Materials, get_method
from ma_sbi_bench.tasks import get_task
from ma_sbi_bench.theory import (
    ModalDeparture,
    announced_tail,
    bounded_bound,
    break_even_information,
    discrete_information,
    exclusive_or,
    expected_gain,
    explained_variance,
    gaussian_transport,
    is_identifiable,
    is_jointly_injective,
    posterior_table,
    sub_gaussian_bound,
    sub_gaussian_proxy,
    symmetric_channel,
    tilted_transport,
    truncation_residual,
    two_point_transport,
)


def lipschitz(rho=0.004, dead_zone=0.02):
    """The Lipschitz form bounds the move of the mean, not the error that it removes."""
    rows = []
    laws = {
        "Rademacher": ModalDeparture([-1.0, 1.0]),
        "three modes, middle 0.5": ModalDeparture([-1.0, 0.0, 1.0], [0.25, 0.5, 0.25]),
    }
    means = {
        "linear, slope 1": lambda x: x,
        "tanh": np.tanh,
        f"flat within {dead_zone}": lambda x: (
            np.sign(x) * np.maximum(np.abs(x) - dead_zone, 0)
        ),
    }
    for law_name, law in laws.items():
        bound = sub_gaussian_bound(law.couple(rho).information, law.proxy)
        # Quadrature over the noise of z, exactly over the modes; y = 0.
        noise, weight = np.polynomial.hermite_e.hermegauss(80)
        weight = weight / weight.sum()
        z = rho * law.modes[:, None] + math.sqrt(1 - rho**2) * noise
        scores = np.log(law.probabilities) - 0.5 * np.square(
            z[..., None] - rho * law.modes
        ) / (1 - rho**2)
        odds = np.exp(scores - scores.max(axis=2, keepdims=True))
        shift = odds @ law.modes / odds.sum(axis=2)
        for mean_name, mu in means.items():
            before, after = mu(law.modes)[:, None], mu(law.modes[:, None] - shift)
            moved = law.probabilities @ (before - after) ** 2 @ weight
            removed = law.probabilities @ (before**2 - after**2) @ weight
            rows.append(
                {
                    "law": law_name,
                    "posterior_mean": mean_name,
                    "move / bound": moved / bound,
                    "error removed / bound": removed / bound,
                }
            )
    return rows


def transport():
    """T2: holds for strongly log-concave laws, fails for Rademacher."""

    def cut_gaussian(x):
        return np.where(np.abs(x) <= 1.5, -0.5 * x**2, -np.inf)

    cases = {
        "Gaussian, moved by 0.5": gaussian_transport(0.5, 1.0),
        "Gaussian, narrowed to 0.5": gaussian_transport(0.0, 0.5),
        "Gaussian, widened to 2": gaussian_transport(0.0, 2.0),
        "Gaussian, moved by 0.5, narrowed to 0.8": gaussian_transport(0.5, 0.8),
        "cut Gaussian, tilted by 0.1": tilted_transport(cut_gaussian, 0.1),
        "cut Gaussian, tilted by 3": tilted_transport(cut_gaussian, 3.0),
        "Rademacher, lean 0.5": two_point_transport(0.5),
        "Rademacher, lean 0.1": two_point_transport(0.1),
        "Rademacher, lean 0.01": two_point_transport(0.01),
    }
    return [
        {
            "case": name,
            **case._asdict(),
            "W2^2 / (2 tau^2 KL)": case.ratio(1.0),
            "mean shift / (2 tau^2 KL)": case.mean_ratio(1.0),
        }
        for name, case in cases.items()
    ]


def tails():
    """Truncation residual over d tau^2, and laws that no constant fits."""
    rows = []
    for cutoff in (1.0, 2.0, 3.0):
        for dim in (1, 2, 5):
            rows.append(
                {
                    "what": f"truncation residual, c = {cutoff:g}, d = {dim}",
                    "value": truncation_residual(cutoff, dim),
                    "paper": math.exp(-(cutoff**2) / 2),
                }
            )

    # The largest mass that a sub-Gaussian law on three points can put just beyond 3 tau.
    def excess(outer):
        return sub_gaussian_proxy([-1, 0, 1], [outer / 2, 1 - outer, outer / 2]) - 1 / 9

    rows.append(
        {
            "what": "truncation residual, three points, c = 3, d = 1",
            "value": 9 * brentq(excess, 1e-4, 0.3),
            "paper": math.exp(-4.5),
        }
    )
    for name, law, thresholds in (
        ("Gaussian", norm(), (1, 3, 8)),
        ("Laplace", laplace(), (1, 10, 100)),
        ("Student 3", t(3), (1, 10, 100)),
    ):
        rows += [
            {
                "what": f"announced tail, {name}, beyond {threshold}",
                "value": announced_tail(law, threshold).ratio,
            }
            for threshold in thresholds
        ]
    coin = ModalDeparture([-1.0, 1.0], dim=5).couple(0.1)
    rows.append(
        {
            "what": "bounded-noise bound over Var(E[delta|z]), five coins, rho 0.1",
            "value": bounded_bound(coin.information, math.sqrt(5)) / coin.explained,
        }
    )
    return rows


def shifts_of(task):
    return torch.stack([regime.shift for regime in task.regimes])


def share_closed(predicted, truth):
    """Share of the squared departure that a prediction removes."""
    return 1 - ((predicted - truth) ** 2).sum().item() / (truth**2).sum().item()


def rope(names=("gaussian_linear", "slcp"), seeds=range(5)):
    """One-hot calibration index, text and RoPE-EMD: share of the squared shift removed."""
    rows = []
    for name in names:
        task = get_task(name)
        test = task.draw(1000, seed=10_000)
        truth = task.shift(test.regime)
        for num in (50, 100, 200, 500, 1000, 2000):
            rows += [
                {"task": name, "n_cal": num, "seed": seed}
                | rope_cell(task, test, truth, num, seed)
                for seed in seeds
            ]
    table = pd.DataFrame(rows).groupby(["task", "n_cal"], sort=False).mean()
    print(table.drop(columns="seed").round(3).to_string())
    return rows


def rope_cell(task, test, truth, num, seed):
    draws = task.draw(num, seed=seed)
    delta = draws.x_obs - draws.x_sim
    index = [f"row {i}" for i in range(num)]
    new_index = [f"row {num + i}" for i in range(len(test.x_obs))]
    closed = {}
    for label, recipe in (("index", "converged"), ("index_paper", "paper")):
        corrector = ShiftCorrector(CategoryEncoder(unseen="zero"), recipe)
        corrector.fit(index, draws.x_obs, draws.x_sim, seed=seed)
        closed[label] = share_closed(corrector.shift(new_index), truth)
        closed[f"{label}_at_calibration"] = share_closed(corrector.shift(index), delta)
    nearest = KNeighborsRegressor(1).fit(draws.x_obs, delta).predict(test.x_obs)
    closed["index_of_nearest"] = share_closed(torch.as_tensor(nearest), truth)
    posterior = from_callable(lambda n, x: task.reference(x, n), batched=True)
    emd = get_method("rope_emd").fit(
        Materials(
            prior=task.prior,
            posterior=posterior,
            simulator=task.simulate,
            calibration=Calibration(draws.x_obs, theta=draws.theta),
        ),
        seed=seed,
    )
    closed["rope_emd"] = share_closed(test.x_obs - emd.corrections(test.x_obs).x[0], truth)
    at_calibration = draws.x_obs - emd.corrections(draws.x_obs).x[0]
    closed["rope_emd_at_calibration"] = share_closed(at_calibration, delta)
    for label, recipe in (("text", "converged"), ("text_paper", "paper")):
        corrector = ShiftCorrector(HashEncoder(), recipe)
        corrector.fit(draws.context, draws.x_obs, draws.x_sim, seed=seed)
        closed[label] = share_closed(corrector.shift(test.context), truth)
    return closed


def noisy_contexts(draws, texts, reliability, seed):
    """Replace a share of the contexts by a text picked at random."""
    rng = np.random.default_rng([seed, 7])
    keep = rng.random(len(draws.context)) < reliability
    noise = rng.integers(len(texts), size=len(keep))
    pairs = zip(draws.context, noise, keep, strict=True)
    return [text if kept else texts[other] for text, other, kept in pairs]


def noisy_fits(task, reliability, seed, num=500):
    """Fit to noisy contexts with both recipes, and to clean ones: shifts of each text."""
    texts = [regime.text for regime in task.regimes]
    draws = task.draw(num, seed=seed)
    noisy = noisy_contexts(draws, texts, reliability, seed)
    fits = {}
    for label, recipe, context in (
        ("converged", "converged", noisy),
        ("paper", "paper", noisy),
        ("clean_fit", "converged", draws.context),
    ):
        corrector = ShiftCorrector(HashEncoder(), recipe)
        corrector.fit(context, draws.x_obs, draws.x_sim, seed=seed)
        fits[label] = corrector.shift(texts)
    return fits


def noisy_context(names=("gaussian_linear", "slcp"), seeds=range(20)):
    """K = 4, n_cal = 500: gap closed against the information of a noisy context."""
    rows = []
    for name in names:
        task = get_task(name)
        truth = shifts_of(task)
        total = truth.square().sum(dim=1).mean()
        for reliability in (0.0, 0.1, 0.25, 0.5, 0.75, 1.0):
            joint = torch.as_tensor(symmetric_channel(4, reliability))
            constant = truth.mean(dim=0).square().sum() / total
            best = constant + (1 - constant) * reliability**2
            for seed in seeds:
                for label, shift in noisy_fits(task, reliability, seed).items():
                    apart = (truth[:, None] - shift[None]).norm(dim=2)
                    closed = 1 - (joint * apart.square()).sum() / total
                    row = {
                        "task": name,
                        "reliability": reliability,
                        "I": discrete_information(joint.numpy()),
                        "best": best.item(),
                        "fit": label,
                        "seed": seed,
                        "gap_closed": closed.item(),
                    }
                    if name == "gaussian_linear":
                        # Posteriors are N(x / 2, 0.05 I): the best classifier in one line.
                        row["c2st_gap_closed"] = gaussian_c2st_gap(truth, apart, joint)
                    rows.append(row)
    show_noisy(rows)
    return rows


def gaussian_c2st_gap(truth, apart, joint):
    def accuracy(distance):
        return norm.cdf(distance.numpy() / 2 / math.sqrt(0.05) / 2)

    before = accuracy(truth.norm(dim=1)).mean() - 0.5
    return 1 - ((joint.numpy() * accuracy(apart)).sum() - 0.5) / before


def show_noisy(rows):
    values = [name for name in ("gap_closed", "c2st_gap_closed") if name in rows[0]]
    frame = pd.DataFrame(rows)
    grouped = frame.groupby(["task", "reliability", "I", "best", "fit"], sort=False)
    table = grouped[values].agg(["mean", lambda part: 1.96 * part.std() / len(part) ** 0.5])
    table.columns = [
        f"{name}{'' if what == 'mean' else ' +-'}" for name, what in table.columns
    ]
    print(table.round(3).to_string())


def noisy_c2st(seeds=range(2), num_cases=24, num_draws=500):
    """The same on SLCP by C2ST of exact posteriors; paper: 5.2 % at 0, -36 % at 0.25."""
    task = get_task("slcp")
    texts = [regime.text for regime in task.regimes]
    rows = []
    for seed in seeds:
        test = task.draw(num_cases, seed=1000 + seed)
        reference = task.reference(test.x_sim, num_draws, seed=1)

        def score(x, reference=reference):
            return c2st_batch(
                task.reference(x, num_draws, seed=2), reference, recipe="fast"
            )

        npe = score(test.x_obs)
        for reliability in (0.0, 0.25, 0.5, 1.0):
            context = noisy_contexts(test, texts, reliability, 500 + seed)
            codes = torch.tensor([texts.index(text) for text in context])
            for label, shift in noisy_fits(task, reliability, seed).items():
                value = score(test.x_obs - shift[codes])
                rows += [
                    {
                        "seed": seed,
                        "case": case,
                        "reliability": reliability,
                        "fit": label,
                        "npe": npe[case].item(),
                        "c2st": value[case].item(),
                    }
                    for case in range(num_cases)
                ]
    frame = pd.DataFrame(rows)
    frame["gain"] = frame.npe - frame.c2st
    gap = frame.npe.mean() - 0.5
    table = frame.groupby(["reliability", "fit"], sort=False)["gain"].agg(["mean", "sem"])
    table["gap_closed"], table["+-"] = table["mean"] / gap, 1.96 * table["sem"] / gap
    print(f"NPE {frame.npe.mean():.3f}, exact oracle 0.5")
    print(table[["gap_closed", "+-"]].round(3).to_string())
    return rows


def estimation(seeds=range(200), num=60, noise=1.0):
    """Expected gain of fitted regime means, and the information at break-even."""
    truth = np.array([[1.0, 0.0], [0.0, 1.0], [-1.0, 0.0], [0.0, -1.0]])
    # In every direction these four have the variance 1/2 as proxy; noise adds its own.
    proxy = 0.5 + noise**2
    rows = []
    for reliability in (0.0, 0.1, 0.25, 0.5, 1.0):
        joint = symmetric_channel(4, reliability)
        explained = explained_variance(truth, joint)
        residual = 1 - explained + 2 * noise**2
        gains = {"regime means": [], "converged": [], "paper": []}
        for seed in seeds:
            rng = np.random.default_rng([seed, int(100 * reliability)])
            cell = rng.choice(16, num, p=joint.ravel())
            regime, context = np.divmod(cell, 4)
            delta = truth[regime] + noise * rng.standard_normal((num, 2))
            means = np.stack(
                [
                    delta[context == k].mean(0) if (context == k).any() else np.zeros(2)
                    for k in range(4)
                ]
            )
            predicted = {"regime means": means}
            texts = [f"text {k}" for k in range(4)]
            for recipe in ("converged", "paper"):
                if seed >= 30:
                    continue
                x_sim = rng.standard_normal((num, 2))
                corrector = ShiftCorrector(CategoryEncoder(unseen="zero"), recipe)
                corrector.fit([texts[k] for k in context], x_sim + delta, x_sim, seed=seed)
                predicted[recipe] = corrector.shift(texts).numpy()
            for label, shift in predicted.items():
                error = np.square(truth[:, None] - shift).sum(axis=2)
                gains[label].append((joint * (1.0 - error)).sum())
        row = {
            "reliability": reliability,
            "I": discrete_information(joint),
            "break_even_I": break_even_information(4, num, residual, proxy),
            "expected": expected_gain(explained, 4, num, residual),
        }
        for label, values in gains.items():
            row[label] = np.mean(values)
            row[f"{label} +-"] = np.std(values) / math.sqrt(len(values))
        rows.append(row)
    return rows


def evidence(seeds=range(5), num=500, num_test=2000):
    """An uninformative context: the bound for z alone, and what reading x adds."""
    rows = []
    for length in (0.3, 1.0, 2.0):
        task = get_task("gaussian_linear", setting="uninformative", shift_length=length)
        truth = shifts_of(task)
        total = truth.square().sum(dim=1).mean().item() / 4
        # No information: Theorem 1 leaves a constant shift, which is no correction by z.
        best_of_z = truth.mean(dim=0).square().sum().item() / 4 / total

        def log_density(x):
            return -0.5 * (x**2).sum(dim=-1) / 0.2

        for seed in seeds:
            draws, test = task.draw(num, seed=seed), task.draw(num_test, seed=900 + seed)
            row = {"shift_length": length, "seed": seed, "bound_for_z_alone": best_of_z}
            fitted = {
                "fitted_point": ShiftCorrector(HashEncoder()),
                "evidence_weighted": ComposedCorrector(
                    HashEncoder(), Shift(), ResidualPools(256), Evidence(log_density)
                ),
            }
            for label, corrector in fitted.items():
                corrector.fit(draws.context, draws.x_obs, draws.x_sim, seed=seed)
                corrected = corrector.correct(test.x_obs, test.context)
                error = (corrected - test.x_sim).square().sum(dim=1) / 4
                row[label] = 1 - error.mean().item() / total
            rows.append(row)
    table = pd.DataFrame(rows).groupby("shift_length").agg(["mean", "sem"])
    print(table.drop(columns="seed", level=0).round(3).to_string())
    return rows


def identifiability():
    """The exclusive or: not jointly injective, yet theta is certain."""
    world = exclusive_or()
    print(
        f"jointly injective: {is_jointly_injective(world)}; injective for each z: "
        f"{is_identifiable(world)}; smallest posterior of the true theta: "
        f"{posterior_table(world)[world > 0].min():g}"
    )
    return []


TABLES = {
    table.__name__: table
    for table in (
        lipschitz,
        transport,
        tails,
        identifiability,
        evidence,
        estimation,
        rope,
        noisy_context,
        noisy_c2st,
    )
}
# Their functions print a summary; the rows are for the file.
SUMMARISED = {"rope", "noisy_context", "noisy_c2st", "evidence"}


def main():
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("--only", nargs="+", choices=sorted(TABLES), default=None)
    parser.add_argument("--c2st", action="store_true", help="add C2ST on SLCP")
    parser.add_argument("--csv", type=Path, help="folder for one file per table")
    options = parser.parse_args()
    torch.set_num_threads(1)
    warnings.filterwarnings("ignore", message=".*unlike any of the calibration set.*")
    pd.set_option("display.width", 160)
    for name, table in TABLES.items():
        if name not in (options.only or TABLES):
            continue
        if name == "noisy_c2st" and not (options.c2st or options.only):
            continue
        print(f"\n== {name}: {table.__doc__.splitlines()[0]}")
        rows = table()
        if rows and name not in SUMMARISED:
            print(pd.DataFrame(rows).round(4).to_string(index=False, na_rep=""))
        if rows and options.csv:
            options.csv.mkdir(parents=True, exist_ok=True)
            file = options.csv / f"theory_{name}.csv"
            pd.DataFrame(rows).to_csv(file, index=False, float_format="%.6g")


if __name__ == "__main__":
    main()
