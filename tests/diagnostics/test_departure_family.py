"""Shifts with noise of every kind, and departures that depend on x."""

import numpy as np
import pytest
import torch

from ma_sbi.diagnostics import departure_family
from ma_sbi.diagnostics.diagnostic import Rows
from ma_sbi.diagnostics.registry import DIAGNOSTICS
from ma_sbi.display.grouping import MISSING
from tests.worlds import World, delayed_waves

N = 300
SHIFTS = torch.tensor([[1.0, 0.0], [0.0, 0.5]]).repeat(N // 2, 1)


def pairs(matrix=None, *, noise_obs=0.0, noise_sim=0.0, seed=0):
    rng = torch.Generator().manual_seed(seed)
    theta = torch.randn(N, 2, generator=rng)
    real = theta if matrix is None else theta @ torch.tensor(matrix)
    x_obs = real + SHIFTS + noise_obs * torch.randn(N, 2, generator=rng)
    return x_obs, theta + noise_sim * torch.randn(N, 2, generator=rng)


NOISES = [(0.0, 0.0), (0.5, 0.0), (0.0, 0.5), (0.5, 0.5), (0.9, 0.4)]
MATRICES = {
    "stretch": [[1.3, 0.0], [0.0, 1.3]],
    "shrink": [[0.7, 0.0], [0.0, 0.7]],
    "mix": [[1.0, 0.4], [0.0, 1.0]],
}


@pytest.mark.parametrize("noises", NOISES, ids=str)
@pytest.mark.parametrize("seed", range(4))
def test_noise_is_not_taken_for_a_departure_that_depends_on_x(noises, seed):
    x_obs, x_sim = pairs(noise_obs=noises[0], noise_sim=noises[1], seed=seed)
    assert departure_family(["a", "b"] * (N // 2), x_obs, x_sim, seed=0).family == "shift"


def test_an_affine_correction_gains_from_noise_alone():
    """Why it takes more than comparing the two correctors."""
    x_obs, x_sim = pairs(noise_obs=0.9)
    found = departure_family(["a", "b"] * (N // 2), x_obs, x_sim, seed=0)
    assert found.affine.low > found.shift.high
    assert found.family == "shift"


@pytest.mark.parametrize("name", MATRICES)
@pytest.mark.parametrize("noise", [0.0, 0.2])
def test_what_depends_on_x_is_found(name, noise):
    x_obs, x_sim = pairs(MATRICES[name], noise_obs=noise, noise_sim=noise)
    found = departure_family(["a", "b"] * (N // 2), x_obs, x_sim, seed=0)
    assert found.family == "affine"
    assert "depends on x" in str(found)


@pytest.mark.parametrize("seed", range(3))
def test_an_exact_shift_is_a_shift(seed):
    rows = World(n=200, seed=seed)
    found = departure_family(rows.context, rows.x_obs, rows.x_sim, seed=0)
    assert found.family == "shift"
    assert found.shift.value == pytest.approx(1.0, abs=1e-4)


def test_a_delay_is_no_shift():
    found = departure_family(*delayed_waves(250), folds=3, seed=0)
    assert found.family == "affine"
    assert found.affine.low > found.shift.high


def test_wide_observations_are_compared_on_some_rows():
    rng = torch.Generator().manual_seed(0)
    x_sim = torch.randn(900, 25, generator=rng)
    groups = list(range(300)) * 3
    found = departure_family(
        ["a", "b"] * 450, x_sim + 1.0, x_sim, groups=groups, folds=3, seed=0
    )
    assert found.shift.value == pytest.approx(1.0, abs=1e-4)
    assert found.family == "shift"


class Shown:
    """What a picture is drawn from: rows without any result."""

    def __init__(self, rows):
        self.rows = rows

    def found(self, name):
        return None


def test_the_picture_sums_up_contexts_that_are_rare():
    x_sim = np.random.default_rng(0).normal(size=(400, 1))
    context = np.array(["often"] * 74 + [f"run {row}" for row in range(326)], dtype=object)
    shift = np.where(context == "often", 0.0, 1.0)[:, None]
    picture = DIAGNOSTICS["family"].draw(Shown(Rows(context, False, x_sim + shift, x_sim)))
    (ax,) = picture.figure.axes
    labels = [label.get_text() for label in ax.get_yticklabels()]
    assert labels[0] == "often (n = 74)"
    assert labels[-1] == "319 other contexts (n = 319)"
    means = next(line for line in ax.lines if line.get_label() == "mean").get_xdata()
    # In standard deviations of x_sim.
    assert means[[0, -1]] == pytest.approx([0.0, 1 / x_sim.std(ddof=1)], abs=1e-9)
    assert "not shown" not in picture.caption


def test_the_picture_shows_rows_without_a_number():
    x_sim = np.random.default_rng(0).normal(size=(60, 1))
    context = np.array([MISSING if row < 6 else 1.0 * row for row in range(60)], object)
    picture = DIAGNOSTICS["family"].draw(Shown(Rows(context, True, x_sim + 1, x_sim)))
    (ax,) = picture.figure.axes
    assert ax.containers[-1].get_label() == "without a number (6)"
