"""Our exact posteriors against the published reference draws of sbibm."""

import os
from pathlib import Path

import numpy as np
import pytest
import torch
from sbi.utils.metrics import c2st

from ma_sbi.tasks import SLCP, GaussianLinear, TwoMoons

pytestmark = [
    pytest.mark.slow,
    pytest.mark.skipif(
        "MA_SBI_DATA" not in os.environ,
        reason="needs MA_SBI_DATA, the folder that holds sbibm/*.npz",
    ),
]

NUM = 5000
TASKS = [GaussianLinear(dim=10), SLCP(), TwoMoons()]
every_task = pytest.mark.parametrize("task", TASKS, ids=lambda task: task.name)
every_observation = pytest.mark.parametrize("index", range(10))


def published(task, index):
    """One observation ``(1, dim_x)`` and sbibm's draws ``(10000, dim_theta)``."""
    path = Path(os.environ["MA_SBI_DATA"]) / "sbibm" / f"{task.name}.npz"
    with np.load(path) as arrays:
        return (
            torch.from_numpy(arrays["observation"][index : index + 1]),
            torch.from_numpy(arrays["reference_posterior_samples"][index]),
        )


@every_task
@every_observation
def test_a_classifier_cannot_tell_our_draws_from_theirs(task, index, record_property):
    x, theirs = published(task, index)
    ours = task.reference(x, NUM, seed=index)[:, 0]
    score = c2st(ours, theirs[:NUM], classifier="mlp", seed=1).item()
    record_property("c2st", score)
    assert score <= 0.53


@every_observation
def test_slcp_has_four_modes_of_equal_mass(index):
    theta = SLCP().reference(published(SLCP(), index)[0], NUM, seed=index)[:, 0]
    mode = 2 * (theta[:, 2] > 0).long() + (theta[:, 3] > 0).long()
    share = torch.bincount(mode, minlength=4) / NUM
    assert ((share - 0.25).abs() < 3 * (0.25 * 0.75 / NUM) ** 0.5).all()


@every_observation
def test_two_moons_have_equal_mass(index):
    theta = TwoMoons().reference(published(TwoMoons(), index)[0], NUM, seed=index)
    share = (theta.sum(dim=-1) > 0).double().mean().item()
    assert abs(share - 0.5) < 3 * (0.25 / NUM) ** 0.5
