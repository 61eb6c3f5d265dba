"""Our exact posteriors against the published reference draws of sbibm."""

import os
from pathlib import Path

import numpy as np
import pytest
import torch
from sbi.utils.metrics import c2st

from ma_sbi_bench.tasks import SLCP, GaussianLinear, SIRDelay, TwoMoons
from ma_sbi_bench.tasks.epidemic import solve_sir

pytestmark = [
    pytest.mark.slow,
    pytest.mark.skipif(
        "MA_SBI_DATA" not in os.environ,
        reason="needs MA_SBI_DATA, the folder that holds sbibm/*.npz",
    ),
]

NUM = 5000
SIR = SIRDelay("surveys", scale="counts")
TASKS = [GaussianLinear(dim=10), SLCP(), TwoMoons(), SIR]
# Named otherwise in sbibm.
FILES = {"sir_delay": "sir"}
every_task = pytest.mark.parametrize("task", TASKS, ids=lambda task: task.name)
every_observation = pytest.mark.parametrize("index", range(10))


def arrays_of(task):
    name = FILES.get(task.name, task.name)
    return np.load(Path(os.environ["MA_SBI_DATA"]) / "sbibm" / f"{name}.npz")


def published(task, index):
    """One observation ``(1, dim_x)`` and sbibm's draws ``(10000, dim_theta)``."""
    with arrays_of(task) as arrays:
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


@every_observation
def test_sir_has_their_means_and_covariances(index):
    x, theirs = published(SIR, index)
    ours = SIR.reference(x, NUM, seed=index)[:, 0]
    middle = theirs.mean(dim=0).double()
    ours, theirs = (draws.double() - middle for draws in (ours, theirs))
    for first, second in ((1, 0), (0, 1), (2, 0), (0, 2), (1, 1)):
        found, right = (
            draws[:, 0] ** first * draws[:, 1] ** second for draws in (ours, theirs)
        )
        error = (found.var() / len(found) + right.var() / len(right)).sqrt()
        assert (found.mean() - right.mean()).abs() < 4 * error


def test_sir_observations_fit_their_true_parameters():
    with arrays_of(SIR) as arrays:
        x, theta = (
            torch.from_numpy(arrays[name]).double()
            for name in ("observation", "true_parameters")
        )
    share = solve_sir(theta, 153).infected[:, ::17]
    mean, variance = 1000 * share, 1000 * share * (1 - share)
    often = mean > 5
    statistic = ((x - mean).square() / variance)[often].sum().item()
    freedom = int(often.sum())
    # Four standard deviations of a chi-square variable.
    assert freedom > 30
    assert abs(statistic - freedom) < 4 * (2 * freedom) ** 0.5
    assert (x[~often] <= mean[~often] + 4 * mean[~often].sqrt() + 2).all()
