"""Experiments on real data, with losses that are made up."""

import numpy as np
import pytest

from ma_sbi_bench.engine.budget import Budget
from ma_sbi_bench.engine.cell import Measurement
from ma_sbi_bench.engine.store import Store
from ma_sbi_bench.real.experiment import RealExperiment
from ma_sbi_bench.real.parts import Part


class Toy(RealExperiment):
    """Two data sets; one has no baseline yet."""

    name = "toy"
    title = "Toy"
    names = {"a": "first", "b": "second"}  # noqa: RUF012 (as the others have it)
    head = "data"
    methods = ("NPE", "better")
    parts = (Part("all", "NPE", "better", "point"),)
    about = ("day",)
    group = "day"
    block = 2
    unit = "nats"
    digits = 2

    def cells(self, budget):
        methods = {"a": self.methods, "b": self.methods[1:]}
        return [
            self.cell(method, task=task, seed=seed)
            for task in methods
            for method in methods[task]
            for seed in range(2)
        ]

    def run(self, cell, laboratory):
        days = np.arange(40.0)
        loss = days % 2 + cell.seed - 0.5 * (cell.method == "better")
        measured = [Measurement("loss", tuple(loss))]
        if cell.method == "NPE":
            measured.append(Measurement("day", tuple(days)))
        return measured

    def lines(self, rows):
        return [*self.loss_lines(rows), *self.part_lines(rows)]

    def loss_note(self, task, method, losses):
        return f"{len(losses)} days"


@pytest.fixture
def rows(tmp_path):
    store, cells = Store(tmp_path), Toy().cells(Budget())
    for cell in cells:
        store.write(cell, Toy().run(cell, None), 1.0)
    return store.rows(cells)


def test_losses_are_means_over_seeds_of_data_that_have_a_baseline(rows):
    losses = Toy().losses(rows)
    assert set(losses) == {"a"}
    assert losses["a"]["day"].tolist() == list(range(40))
    np.testing.assert_allclose(losses["a"]["NPE"], np.arange(40) % 2 + 0.5)
    np.testing.assert_allclose(losses["a"]["better"], np.arange(40) % 2)


def test_a_mean_loss_is_drawn_in_blocks_of_neighbours(rows):
    baseline, better, part = Toy().lines(rows)
    assert [line.labels["method"] for line in (baseline, better)] == ["NPE", "better"]
    assert baseline.labels["data"] == "first"
    assert baseline.note == "40 days"
    # Losses alternate: two neighbours have the mean, and leave no noise.
    assert baseline.raw.low == pytest.approx(1.0)
    assert baseline.raw.high == pytest.approx(1.0)
    assert part.raw.value == pytest.approx(0.5)


def test_the_figure_has_a_panel_for_data_that_have_all_parts(rows):
    assert len(Toy().part_figure(rows).axes) == 1
    assert Toy().part_figure(rows[rows["task"] == "b"]) is None
