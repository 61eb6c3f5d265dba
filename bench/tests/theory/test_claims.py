"""Claims of the theory that involve correctors, on a task with exact posteriors."""

import pytest
import torch

from ma_sbi import CategoryEncoder, ComposedCorrector, HashEncoder, ShiftCorrector
from ma_sbi.correctors import Evidence, ResidualPools, Shift
from ma_sbi_bench.tasks import get_task


def share_removed(corrected, draws):
    """Share of the excess error of the posterior mean, x / 2, that a correction removes."""
    left = (corrected - draws.x_sim).square().sum(dim=1).mean()
    return 1 - (left / (draws.x_obs - draws.x_sim).square().sum(dim=1).mean()).item()


def constant_share(task):
    """What a constant shift removes: all that reading an empty z can give."""
    shifts = torch.stack([regime.shift for regime in task.regimes])
    mean = shifts.mean(dim=0).square().sum()
    return (mean / shifts.square().sum(dim=1).mean()).item()


def test_evidence_beats_the_bound_of_theorem_1_where_z_tells_nothing():
    task = get_task("gaussian_linear", setting="uninformative", shift_length=2.0)
    draws, test = task.draw(400, seed=0), task.draw(1000, seed=1)

    def log_density(x):
        return -0.5 * x.square().sum(dim=-1) / 0.2

    point = ShiftCorrector(HashEncoder())
    evidence = ComposedCorrector(
        HashEncoder(), Shift(), ResidualPools(256), Evidence(log_density)
    )
    removed = {}
    for name, corrector in (("point", point), ("evidence", evidence)):
        corrector.fit(draws.context, draws.x_obs, draws.x_sim, seed=0)
        removed[name] = share_removed(corrector.correct(test.x_obs, test.context), test)
    # Regimes are stratified, so the bound is exact for the test rows.
    assert removed["point"] <= constant_share(task) + 1e-6
    assert removed["evidence"] > 0.95


@pytest.mark.parametrize("num", [50, 400])
def test_a_calibration_index_says_nothing_at_a_new_row(num):
    """It learns the rows by heart, and for any other has only their average to offer."""
    task = get_task("gaussian_linear")
    draws, test = task.draw(num, seed=0), task.draw(400, seed=1)
    corrector = ShiftCorrector(CategoryEncoder(unseen="zero"))
    index = [f"row {i}" for i in range(num)]
    corrector.fit(index, draws.x_obs, draws.x_sim)
    new = [f"row {num + i}" for i in range(len(test.x_obs))]
    shift = corrector.shift(new)
    average = (draws.x_obs - draws.x_sim).mean(dim=0)
    torch.testing.assert_close(shift, average.expand_as(shift), atol=1e-5, rtol=0)
    # Stratified regimes differ by one row at most, so the average is the mean shift.
    seen = share_removed(test.x_obs - shift, test)
    assert seen == pytest.approx(constant_share(task), abs=0.01)
