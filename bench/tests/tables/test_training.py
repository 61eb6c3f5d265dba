"""What training costs: every posterior once, by the time that is kept beside it."""

import pandas as pd
import pytest

from ma_sbi_bench.engine.budget import Budget
from ma_sbi_bench.engine.models import Models
from ma_sbi_bench.tables.registry import EXPERIMENTS
from ma_sbi_bench.tables.training import TRAINING_SECONDS, lines

QUICK = Budget(quick=True)
TRAINING = EXPERIMENTS["training"]


def test_every_posterior_that_a_cell_of_the_paper_needs_is_there_once():
    needed = {
        posterior.key
        for one in EXPERIMENTS.values()
        if one.place
        for cell in one.cells(Budget())
        for posterior in one.backbones(cell)
    }
    cells = TRAINING.cells(Budget())
    assert len(cells) == len(needed) > 30
    assert {TRAINING.backbones(cell)[0].key for cell in cells} == needed


def test_a_cell_says_what_the_training_took(tmp_path):
    models = Models(tmp_path)
    cell = min(TRAINING.cells(QUICK), key=lambda one: one.settings["simulations"])
    (posterior,) = TRAINING.backbones(cell)
    with pytest.raises(ValueError, match=f"remove {posterior.key}.posterior"):
        TRAINING.run(cell, models)
    models.posterior(posterior)
    (measured,) = TRAINING.run(cell, models)
    assert measured.metric == TRAINING_SECONDS
    assert measured.values == (models.training(posterior)["cpu_seconds"],)
    assert measured.recipe == "cpu"


def test_lines_add_up_what_is_alike():
    rows = pd.DataFrame(
        {
            "task": ["slcp", "slcp", "ddm"],
            "backbone": "maf",
            "settings": [{"simulations": 1000}] * 3,
            "value": [60.0, 180.0, 30.0],
        }
    )
    slcp, ddm = lines(rows)
    assert (slcp.raw.value, slcp.labels["trained"]) == (120.0, 2)
    assert (slcp.labels["minutes in all"], ddm.labels["minutes in all"]) == (4.0, 0.5)
