"""Tests for ma_sbi_bench.real.backbones."""

import dataclasses
import json

import pytest

from ma_sbi_bench.engine.budget import Budget
from ma_sbi_bench.engine.cell import Cell
from ma_sbi_bench.engine.models import Models
from ma_sbi_bench.real.backbones import backbone_of
from ma_sbi_bench.real.covid.study import fortnight_backbone
from ma_sbi_bench.real.instructions.load import RESPONSE_TIMES_FILE
from ma_sbi_bench.real.instructions.study import NUM_TRIALS, trials_backbone
from ma_sbi_bench.real.source import missing_file
from ma_sbi_bench.tasks.fortnight import FortnightSimulator

QUICK = Budget(quick=True)


@pytest.mark.parametrize("define", [fortnight_backbone, trials_backbone])
def test_a_cell_gives_back_the_posterior_that_it_was_made_with(define):
    posterior = define(Budget(), 3)
    settings = json.loads(json.dumps({"posterior": dataclasses.asdict(posterior)}))
    found = backbone_of(Cell("covid", 1, "NPE", settings=settings))
    assert found == posterior
    assert found.key == posterior.key


def test_what_differs_is_trained_apart():
    keys = {
        fortnight_backbone(Budget(), 0).key,
        fortnight_backbone(Budget(), 1).key,
        fortnight_backbone(QUICK, 0).key,
        fortnight_backbone(Budget(), 0, known_dispersion=True).key,
        trials_backbone(Budget(), 0).key,
    }
    assert len(keys) == 5


def test_a_known_dispersion_is_no_parameter(tmp_path):
    posterior = fortnight_backbone(QUICK, 0, known_dispersion=True)
    trained = Models(tmp_path).posterior(posterior)
    x = FortnightSimulator().simulate([[5.0, 0.0, 2.0]], seed=0)
    assert trained.sample(2, x, seed=0).shape == (2, 1, 2)


def test_response_times_are_of_as_many_trials_as_the_study_shows():
    assert trials_backbone(Budget(), 0).world_options == {"num_trials": NUM_TRIALS}


def test_a_missing_file_is_named(monkeypatch, tmp_path):
    monkeypatch.delenv("MA_SBI_DATA", raising=False)
    assert "MA_SBI_DATA" in missing_file(RESPONSE_TIMES_FILE)
    monkeypatch.setenv("MA_SBI_DATA", str(tmp_path))
    assert RESPONSE_TIMES_FILE in missing_file(RESPONSE_TIMES_FILE)
    (tmp_path / "rt").mkdir()
    (tmp_path / RESPONSE_TIMES_FILE).touch()
    assert missing_file(RESPONSE_TIMES_FILE) == ""
