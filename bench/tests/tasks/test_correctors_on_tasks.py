"""The library's correctors on every task whose departure is a shift."""

import pytest
import torch

from ma_sbi import BootstrapCorrector, HashEncoder, ShiftCorrector
from ma_sbi_bench.tasks import TASKS, ShiftTask, get_task

tasks = {name: get_task(name) for name in sorted(TASKS)}
shift_tasks = [
    name for name, one in tasks.items() if isinstance(one, ShiftTask) and one.regimes
]


@pytest.mark.parametrize("name", shift_tasks)
def test_on_synthetic_shifts_it_equals_the_point_corrector(name):
    task = get_task(name)
    calibration, test = task.draw(40, seed=0), task.draw(8, seed=1)
    data = (calibration.context, calibration.x_obs, calibration.x_sim)
    bootstrap = BootstrapCorrector(HashEncoder()).fit(*data)
    point = ShiftCorrector(HashEncoder()).fit(*data)
    found = bootstrap.corrections(test.x_obs, test.context)
    expected = point.correct(test.x_obs, test.context)
    scale = calibration.x_obs.abs().max().item()
    torch.testing.assert_close(
        found.x, expected.expand_as(found.x), atol=2e-6 * scale, rtol=1e-5
    )
    assert bootstrap.preflight().recommendation == "point"
