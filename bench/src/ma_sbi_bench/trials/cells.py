"""Cells of trials: what is tried, and the options that a method has in every table.

A trial that two tables list is run once: its cell is named ``"trial"``, after neither.
"""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

from ma_sbi_bench.engine.budget import Budget
from ma_sbi_bench.engine.cell import Cell
from ma_sbi_bench.trials.published import NUM_PUBLISHED

__all__ = [
    "BY_MEAN",
    "CONTINUOUS",
    "EXACT_MEAN",
    "GUIDED",
    "ONLY_BACKBONE",
    "SMALLEST_Z",
    "can_be_tried",
    "form_and_options",
    "trial_cell",
]

VERSION = 1
# Of what is called the paper's, since its hash is no longer scaled to unit length; the
# numbers of other rows are what they were.
VERSIONS = dict.fromkeys(
    (
        *("ma_sbi_paper", "ma_sbi_paper_marginal", "ma_sbi_paper_conditional"),
        *("ma_sbi_network", "context_to_theta_paper", "context_to_x_paper"),
    ),
    2,
)
BY_MEAN = ("sir_delay", "sir_delay_million", "ddm", "ddm_small_shifts")
"""Tasks that are judged by the posterior mean, as in the paper; others by C2ST."""
CONTINUOUS = "slcp_continuous"
"""The task whose departure grows with a number: each observation is seen at several."""
SMALLEST_Z = 0.3
"""Intensities below are left out of means: there the paper's NPE is near its oracle."""
EXACT_MEAN = "exact mean"
"""In place of a backbone: the posterior mean of the Gaussian linear task, exactly."""
# Bayes' rule cannot be computed from the summary of many trials.
WITHOUT_EXACT = ("ddm", "ddm_small_shifts")

ONLY_BACKBONE = {
    "classifier_free": "ddpm",
    "classifier_free_guided": "ddpm",
    "prior_guide": "ddpm",
    "prior_guide_jacobian": "ddpm",
    "npe_rs": "maf",
}
"""Methods that are tried with one backbone: their own is most like it, or they need it."""
GUIDED = frozenset(form for form, backbone in ONLY_BACKBONE.items() if backbone == "ddpm")
"""Forms that guide the sampler of a diffusion model."""

# They draw from no diffusion model, so that they have no steps to choose.
WITHOUT_STEPS = ("prior", "exact")

SETTINGS: dict[str, dict[str, Any]] = {
    # As the paper ran them: twelve test rows at a time.
    "rope_paper": {"together": 12},
    "rope_paper_ot_only": {"together": 12},
    # It is trained on the observations to be analysed; its authors use 1000 simulations.
    "npe_rs": {"unlabelled": "test", "most_simulations": 10_000},
    "rnpe": {"most_simulations": 50_000},
    "frisbi": {"unlabelled": 1000},
    # Simulations that the density is trained on; one density for all trials of a seed.
    "ma_sbi_default": {"density": 20_000},
    "ma_sbi_shuffled": {"context": "shuffled"},
    "index, new row": {"form": "ma_sbi_index", "context": "index"},
    "index, nearest row": {"form": "ma_sbi_index", "context": "nearest"},
    **dict.fromkeys(
        ("ma_sbi_paper_256", "ma_sbi_unit_hash", "ma_sbi_unit_hash_256"),
        {"form": "ma_sbi_network"},
    ),
}
OPTIONS: dict[str, dict[str, Any]] = {
    "frisbi": {"num_draws": 40},
    "ma_sbi_paper_256": {"hidden": 256},
    "ma_sbi_unit_hash": {"encoder": "hash", "hidden": 128},
    "ma_sbi_unit_hash_256": {"encoder": "hash", "hidden": 256},
}
# Chains in many dimensions: fewer of them, on a flow that is ten times as fast.
SHORT_CHAINS = {"density": "maf", "num_chains": 60, "num_steps": 600}
MANY_DIMENSIONS = ("slcp", *BY_MEAN)
QUICK_ROPE = {"num_simulations": 100, "num_steps": 100}
QUICK_OPTIONS: dict[str, dict[str, Any]] = {
    "fmcpe": {"epochs": 20},
    "frisbi": {"num_draws": 5, "epochs": 10, "num_simulations": 200},
    "npe_rs": {"max_epochs": 10},
    "rnpe": {"density": "maf", "num_chains": 20, "num_steps": 50},
    "prior_guide": {"num_langevin": 1},
    "prior_guide_jacobian": {"num_langevin": 1},
    "rope_sinkhorn": {"grid": [0.1, 1.0]},
    "rope_sinkhorn_aligned": {"grid": [0.1, 1.0]},
    **dict.fromkeys(("rope", "rope_star", "rope_ot_only", "rope_calibration"), QUICK_ROPE),
    **dict.fromkeys(("rope_paper", "rope_paper_ot_only"), QUICK_ROPE),
}


def can_be_tried(task: str, backbone: str, method: str) -> bool:
    """Tell whether a method exists on a task, with a backbone."""
    if method == "exact" and task in WITHOUT_EXACT:
        return False
    return ONLY_BACKBONE.get(method, backbone) == backbone


def trial_cell(
    budget: Budget,
    task: str,
    backbone: str,
    method: str,
    *,
    seed: int = 0,
    num_calibration: int = 500,
    form: str | None = None,
    options: Mapping[str, Any] | None = None,
    task_options: Mapping[str, Any] | None = None,
    observation: int | None = None,
    regime: int | None = None,
    **settings: Any,
) -> Cell:
    """Make the cell of a trial.

    Args:
        budget: What may be spent.
        task: Name of the task.
        backbone: Kind of posterior.
        method: Label of the row.
        seed: Seed of the posterior, the calibration set and the noise.
        num_calibration: Number of calibration rows.
        form: Name in ``FORMS``; the label if None.
        options: Options of the method, besides those that it has everywhere.
        task_options: Options of the task, such as its setting.
        observation: The only observation that is tested.
        regime: The only regime that is tested.
        **settings: ``context`` (``"shuffled"``, ``"index"`` or ``"nearest"``),
            ``reliability`` of the context, ``left_out`` (a regime that calibration never
            visits), ``unlabelled`` (how many rows), ``together`` (rows sampled at once),
            ``most_simulations``, ``keep_draws`` (draws that are kept), ``published``
            (whether the observations are sbibm's own).

    Some cases (``cases="some"``) are each observation in one regime, in turn, or the first
    half of the rows.
    """
    if backbone == EXACT_MEAN:
        known = {"task": dict(task_options or {})}
        return Cell("decomposition", 1, method, task, backbone, settings=known)
    if task == CONTINUOUS:
        return _continuous_cell(budget, backbone, method, seed)
    method_settings = form_and_options(budget, task, method, options or {})
    settings = SETTINGS.get(method, {}) | settings | method_settings
    chosen: str = form or method_settings["form"]
    settings["form"] = chosen
    sizes: dict[str, Any] = budget.sizes(task)
    sizes.pop("observations" if task in BY_MEAN else "rows")
    if settings.get("published"):
        # Each of them in every regime, as the paper has them.
        sizes["observations"] = NUM_PUBLISHED
    elif regime is None and observation is None:
        sizes["cases"] = "some"
        if task in BY_MEAN:
            sizes["draws"] = 200  # enough for a mean
    return Cell(
        "trial",
        # Those on sbibm's observations were once compared with exact draws of others.
        VERSIONS.get(chosen, VERSION) + bool(settings.get("published")),
        method,
        task,
        backbone,
        seed,
        num_calibration,
        observation,
        regime,
        settings=sizes
        | {
            "task": dict(task_options or {}),
            "simulations": budget.simulations(task),
            "training": budget.training.get(backbone, {}),
        }
        | _sampling(budget, backbone, chosen)
        | settings,
    )


def _sampling(budget: Budget, backbone: str, form: str) -> dict[str, int]:
    """Say in how many steps draws are made, where these are not those of the training."""
    if backbone not in budget.sampling_steps or form in WITHOUT_STEPS:
        return {}
    return {"sampling_steps": budget.sampling_steps[backbone]}


def form_and_options(
    budget: Budget, task: str, method: str, options: Mapping[str, Any] | None = None
) -> dict[str, Any]:
    """Give the settings that decide which method a row has.

    Args:
        budget: What may be spent.
        task: Name of the task.
        method: Label of the row.
        options: Options of the method, besides those that it has everywhere.
    """
    form = SETTINGS.get(method, {}).get("form", method)
    return {"form": form, "options": _options(budget, task, method, options or {})}


def _options(
    budget: Budget, task: str, method: str, own: Mapping[str, Any]
) -> dict[str, Any]:
    """Add the options of one trial to those that its method has everywhere."""
    options = dict(OPTIONS.get(method, {}))
    if method == "rnpe" and task in MANY_DIMENSIONS:
        options |= SHORT_CHAINS
    if budget.quick:
        options |= QUICK_OPTIONS.get(method, {})
    if "epsilon" in own:  # a grid is there to choose it
        options.pop("grid", None)
    return options | dict(own)


def _continuous_cell(budget: Budget, backbone: str, method: str, seed: int) -> Cell:
    """Make the cell of a trial over intensities, as many as the paper has."""
    sizes = {"observations": 3, "intensities": 20, "draws": 500}
    if budget.quick:
        sizes = {"observations": 2, "intensities": 4, "draws": 100}
    num_sets = 3 if budget.quick else 10
    own = SETTINGS[method] if method == "ma_sbi_default" else {}
    return Cell(
        "continuous_context",
        VERSIONS.get(method, VERSION),
        method,
        CONTINUOUS,
        backbone,
        seed,
        num_calibration=500 if budget.quick else 2000,
        settings={
            **sizes,
            # The error of the shift is the same with any posterior: one is enough.
            "calibration_sets": num_sets if backbone == "ddpm" else 1,
            "simulations": budget.simulations("slcp"),
            "training": budget.training.get(backbone, {}),
            **_sampling(budget, backbone, method),
            **own,
        },
    )
