"""Words never seen: what is measured, and lines."""

import numpy as np
import pandas as pd
import pytest
import torch

from bench.tests.engine.finishing import finish
from ma_sbi import HashEncoder
from ma_sbi.correctors import BaseCorrector, RegimeCorrector
from ma_sbi.protocols import Corrections
from ma_sbi_bench.engine.budget import Budget
from ma_sbi_bench.report.tables import make_tables
from ma_sbi_bench.tables import unseen_words_lines as shown
from ma_sbi_bench.tables.unseen_words import (
    APPLIED,
    CALLED,
    CONDITIONS,
    ERROR,
    METHODS,
    UnseenWords,
    called_unrelated,
    measure,
)
from ma_sbi_bench.trials.wordings import NEGATED, UNRELATED, UNSEEN, WORLDS, draw_words

TABLE = UnseenWords()


class Always(BaseCorrector):
    """Takes the same from every x."""

    def __init__(self, shift):
        self.taken = shift

    def corrections(self, x, context):
        return Corrections.certain(x - self.taken)


@pytest.fixture(scope="module")
def finished(tmp_path_factory):
    return finish(TABLE, tmp_path_factory.mktemp("unseen_words"))


def test_every_method_is_tried_in_every_world_and_condition_on_ten_sets():
    cells = TABLE.cells(Budget())
    assert len(cells) == len(WORLDS) * len(CONDITIONS) * len(METHODS)
    assert {cell.settings["sets"] for cell in cells} == {10}
    asked = {(one.num_wordings, one.num_calibration) for one in CONDITIONS.values()}
    assert asked >= {(words, rows) for words in (1, 3, 8) for rows in (100, 500, 2000)}


def test_no_correction_has_an_error_of_one_and_a_part_the_rest():
    words = draw_words("telescope", 20, 3, seed=77)
    words.shifts[:] = words.shifts[0]
    for part in (0.0, 0.75, 1.0):
        found = {(a, b): c for a, b, c in measure(Always(part * words.shifts[0]), words)}
        assert found[ERROR, UNSEEN] == pytest.approx(1 - part, abs=1e-6)
        assert found[APPLIED, NEGATED] == pytest.approx(part, abs=1e-6)
        assert (ERROR, UNRELATED) not in found
        assert (CALLED, UNRELATED) not in found


def test_what_regimes_call_unrelated_is_found_inside_of_a_choice():
    words = draw_words("telescope", 100, 3, seed=77)
    alone = RegimeCorrector(HashEncoder()).fit(words.context, words.x_obs, words.x_sim)

    class Part:
        corrector = alone

    class Choice(Always):
        parts = (Part,)

    texts = words.texts[UNRELATED]
    expected = alone.regime_probability(texts)[1]
    assert torch.equal(called_unrelated(alone, texts), expected)
    assert torch.equal(called_unrelated(Choice(0.0), texts), expected)


def test_methods_share_their_sets_and_seen_wordings_are_corrected_exactly(finished):
    assert set(finished["method"]) == {"ridge, spelling", "regimes, spelling"}
    seen = finished[(finished["metric"] == ERROR) & (finished["recipe"] == "seen")]
    assert len(seen) == 4
    for values in seen["values"]:
        assert len(values) == 2
        assert np.max(values) < 1e-3


def made_up(error, caught):
    """Rows of regimes by meaning, in two worlds."""
    rows = [
        {
            "method": shown.OURS[0],
            "task": world,
            "settings": {"condition": "3 wordings, 500 triples"},
            "metric": metric,
            "recipe": kind,
            "values": np.array([value - 0.01, value + 0.01]),
        }
        for world in WORLDS[:2]
        for metric, kind, value in (
            (ERROR, UNSEEN, error),
            (CALLED, UNRELATED, caught),
            (CALLED, UNSEEN, 1 - caught),
        )
    ]
    return pd.DataFrame(rows)


def test_bars_are_reached_or_missed():
    for error, caught, notes in (
        (0.19, 0.96, ["reached"] * 3),
        (0.21, 0.79, ["missed"] * 3),
    ):
        bars = [
            one for one in shown.lines(made_up(error, caught)) if one.table == shown.BARS
        ]
        assert [one.note for one in bars] == notes
        assert bars[0].raw.value == pytest.approx(error)


def test_lines_become_tables(finished):
    lines = shown.lines(finished)
    assert {one.table for one in lines} == {shown.ERRORS}
    assert make_tables(lines)
