"""Experiments on real data, with losses that are made up."""

import pickle

import numpy as np
import pytest
import torch

from ma_sbi.protocols import Corrections
from ma_sbi_bench.engine.budget import Budget
from ma_sbi_bench.engine.cell import Cell, Measurement
from ma_sbi_bench.engine.store import Store
from ma_sbi_bench.real.covid.table import COVID
from ma_sbi_bench.real.experiment import Part, RealExperiment, conditional_part
from ma_sbi_bench.real.instructions.table import INSTRUCTIONS

TOY = RealExperiment(
    name="toy",
    title="Toy",
    note="",
    names={"a": "first", "b": "second"},
    head="data",
    methods=("NPE", "better"),
    parts=(Part("all", "NPE", "better", "point"),),
    about=("day",),
    group="day",
    unit="nats",
    digits=2,
    block=2,
    file=lambda task: "none",
    settings=lambda budget, task, method, seed: None,
    world=lambda cell: {},
    prepare=lambda world, seed, models: None,
    measure=lambda study, cell: [],
    describe=lambda study, cell: {},
)


@pytest.fixture
def rows(tmp_path):
    """Two data sets; one has no baseline yet."""
    store, days = Store(tmp_path), np.arange(40.0)
    cells = [
        Cell("toy", 1, method, task=task, seed=seed)
        for task, methods in {"a": TOY.methods, "b": TOY.methods[1:]}.items()
        for method in methods
        for seed in range(2)
    ]
    for cell in cells:
        loss = days % 2 + cell.seed - 0.5 * (cell.method == "better")
        measured = [Measurement("loss", tuple(loss))]
        if cell.method == "NPE":
            measured.append(Measurement("day", tuple(days)))
        store.write(cell, measured, 1.0)
    return store.rows(cells)


def test_losses_are_means_over_seeds_of_data_that_have_a_baseline(rows):
    losses = TOY.losses(rows)
    assert set(losses) == {"a"}
    assert losses["a"]["day"].tolist() == list(range(40))
    np.testing.assert_allclose(losses["a"]["NPE"], np.arange(40) % 2 + 0.5)
    np.testing.assert_allclose(losses["a"]["better"], np.arange(40) % 2)


def test_a_mean_loss_is_drawn_in_blocks_of_neighbours(rows):
    note = "{}, {}: {} days".format
    lines = TOY.loss_lines(rows, lambda task, method, table: note(task, method, len(table)))
    baseline, better = lines
    assert [line.labels["method"] for line in (baseline, better)] == ["NPE", "better"]
    assert baseline.labels["data"] == "first"
    assert baseline.note == "a, NPE: 40 days"
    # Losses alternate: two neighbours have the mean, and leave no noise.
    assert baseline.raw.low == pytest.approx(1.0)
    assert baseline.raw.high == pytest.approx(1.0)
    (part,) = TOY.part_lines(rows)
    assert part.raw.value == pytest.approx(0.5)


def test_methods_are_compared_with_one_that_has_losses(rows):
    losses = TOY.losses(rows)["a"]
    assert {name: gain.gain for name, gain in TOY.gains(losses, "NPE").items()} == {
        "better": pytest.approx(0.5)
    }
    assert TOY.gains(losses.drop(columns="NPE"), "NPE") == {}


def test_the_figure_has_a_panel_for_data_that_have_all_parts(rows):
    assert len(TOY.part_figure("parts", rows)["parts"].axes) == 1
    assert TOY.part_figure("parts", rows[rows["task"] == "b"]) == {}


def test_the_parts_of_a_shift_add_up_to_it():
    x, zero = torch.arange(6.0).reshape(3, 2), torch.zeros(1, 3)
    whole = Corrections(x[None] - 5.0, zero, zero)
    marginal = Corrections(x[None] - 2.0, zero, zero)
    conditional = conditional_part(x, whole, marginal)
    torch.testing.assert_close(conditional.x, x[None] - 3.0)


@pytest.mark.parametrize("experiment", [COVID, INSTRUCTIONS], ids=lambda one: one.name)
def test_a_description_can_be_sent_to_another_process(experiment):
    sent = pickle.loads(pickle.dumps(experiment))  # noqa: S301 (our own)
    assert [cell.key for cell in sent.cells(Budget())] == [
        cell.key for cell in experiment.cells(Budget())
    ]
