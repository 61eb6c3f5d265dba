"""Ten seeds: medians, and the equivalence with the oracle."""

import numpy as np
import pytest

from ma_sbi_bench.engine.budget import Budget
from ma_sbi_bench.engine.cell import Measurement
from ma_sbi_bench.engine.store import Store
from ma_sbi_bench.tables.methods_compared import HIDE_CALIBRATION
from ma_sbi_bench.tables.presentation import PRESENTATIONS

LEVELS = {"npe": 0.80, "oracle": 0.70, "ma_sbi_paper": 0.702, "rope_emd": 0.78}


@pytest.fixture
def lines(tmp_path):
    rng, store = np.random.default_rng(0), Store(tmp_path)
    cells = [c for c in HIDE_CALIBRATION.cells(Budget()) if c.method in LEVELS]
    for cell in cells:
        noise = 0.002 * rng.standard_normal(48)
        values = tuple(LEVELS[cell.method] + noise)
        store.write(cell, [Measurement("c2st", values)], 1.0)
    return PRESENTATIONS["hide_calibration"].lines(store.rows(cells))


def test_ma_sbi_is_equivalent_to_the_oracle_and_npe_is_not(lines):
    tested = {
        (line.labels["backbone"], line.labels["method"]): line
        for line in lines
        if line.metric == "difference of C2ST"
    }
    ours = tested["ddpm", "ma_sbi_paper"]
    assert ours.note.startswith("yes")
    assert ours.raw.value == pytest.approx(0.002, abs=0.001)
    assert ours.verdict == "reproduced"
    assert "(paper < 1e-4)" in ours.note
    assert tested["ddpm", "npe"].note.startswith("not shown")
    assert "paper" not in tested["ddpm", "npe"].note
    assert "(paper 0.999)" in tested["maf", "npe"].note
    assert ("ddpm", "oracle") not in tested
    # The paper prints an interval of its own.
    assert ours.raw.tolerance == pytest.approx(
        np.hypot((ours.raw.high - ours.raw.low) / 2, 0.0025) + 0.0005
    )


def test_medians_are_over_ten_seeds(lines):
    [npe] = [
        line
        for line in lines
        if line.labels["method"] == "npe"
        and line.labels["backbone"] == "maf"
        and line.metric == "C2ST"
    ]
    assert "of 10 seeds" in npe.note
    assert npe.raw.value == pytest.approx(0.80, abs=0.001)
