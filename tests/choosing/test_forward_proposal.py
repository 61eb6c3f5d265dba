"""Departures that are learned forwards, as one of the things that can be chosen."""

from dataclasses import replace

import numpy as np
import pytest
import torch

from ma_sbi import fit_corrector
from ma_sbi.choosing import PROPOSALS
from ma_sbi.choosing.calibration import read_calibration
from ma_sbi.choosing.noise import find_noise
from ma_sbi.correctors.forward import OtherUnits

NAME = "learned forwards"
NOTES = ["The detector is new.", "The detector saturates."]


def normal(num, dim, seed):
    return torch.randn(num, dim, generator=torch.Generator().manual_seed(seed))


def saturated(num, seed=0):
    """Alternate between nothing and saturation, of a signal in four columns."""
    x_sim = normal(num, 4, seed)
    old = torch.arange(num) % 2 == 1
    x_obs = torch.where(old[:, None], x_sim / (1 + x_sim.abs()), x_sim)
    return [NOTES[int(one)] for one in old], x_obs, x_sim


def weights(corrector):
    return {one.name: one.weight for one in corrector.why.tried}


@pytest.fixture(scope="module")
def chosen():
    return fit_corrector(*saturated(100), simulations=normal(2000, 4, 9), seed=0)


def test_it_is_chosen_where_nothing_else_is_right(chosen):
    assert weights(chosen)[NAME] > 0.9


def test_it_tells_which_maps_it_found(chosen):
    (told,) = (one for one in chosen.why.reasons if one.startswith(NAME))
    assert "curve in every column (1 of 2 contexts)" in told
    assert told.endswith("(all rows together)")


def test_it_is_closer_than_what_could_be_chosen_without(chosen):
    before = fit_corrector(*saturated(100), seed=0)
    assert NAME not in weights(before)
    context, x_obs, x_sim = saturated(400, seed=5)
    left = [
        (one.correct(x_obs, context) - x_sim).square().mean() for one in (chosen, before)
    ]
    assert left[0] < left[1] / 2


def test_a_shift_is_left_to_a_shift():
    context, _, x_sim = saturated(60)
    shift = torch.tensor([float(note == NOTES[1]) for note in context])
    x_obs = x_sim + shift[:, None]
    found = weights(fit_corrector(context, x_obs, x_sim, simulations=normal(1000, 4, 9)))
    assert NAME in found
    assert found[NAME] < 0.05


def test_it_is_tried_under_a_single_context():
    _, x_obs, x_sim = saturated(40)
    found = fit_corrector(["-"] * 40, x_obs, x_sim, simulations=normal(1000, 4, 9))
    assert NAME in weights(found)


def test_draws_of_a_density_are_simulations_too():
    class Density:
        def __call__(self, x):
            return -0.5 * x.square().sum(dim=1)

        def sample(self, num, *, seed=None):
            return normal(num, 4, 9)

    found = fit_corrector(*saturated(40), density=Density(), seed=0)
    assert NAME in weights(found)


def test_it_needs_pairs_and_a_pool():
    proposal = PROPOSALS[NAME]
    data, _ = read_calibration(*saturated(40), None, None)
    whole = replace(data, pool=normal(1000, 4, 9))
    assert proposal.suits(whole)
    assert not proposal.suits(data)
    assert not proposal.suits(replace(whole, paired=False))
    assert not proposal.suits(whole.take(np.arange(19)))
    assert not proposal.is_forward


@pytest.mark.parametrize(
    ("simulations", "words"),
    [
        (normal(1000, 4, 9) + 100, "do not overlap with x_sim"),
        (normal(100, 4, 9), "100 simulations are too few"),
    ],
    ids=["apart", "few"],
)
def test_simulations_that_cannot_be_used_are_named(simulations, words):
    found = fit_corrector(*saturated(40), simulations=simulations, seed=0)
    assert NAME not in weights(found)
    assert any(words in reason for reason in found.why.reasons)


def test_simulations_that_spread_differently_are_named_and_used():
    # A column of rare counts is nearly constant in some rows, and in some folds of them.
    context, x_obs, x_sim = saturated(60)
    pool = normal(1000, 4, 9) * torch.tensor([8.0, 1.0, 1.0, 1.0])
    with pytest.warns(OtherUnits, match="in column 0 they lie between"):
        found = fit_corrector(context, x_obs, x_sim, simulations=pool, seed=0)
    assert NAME in weights(found)
    assert any("in column 0 they lie between" in one for one in found.why.reasons)


def test_it_is_not_tried_where_x_sim_has_noise_of_its_own():
    theta = normal(200, 4, 0)
    x_obs, x_sim, pool = (theta + normal(200, 4, seed) for seed in (1, 2, 3))
    more = pool.repeat(5, 1) + 0.1 * normal(1000, 4, 4)
    found = fit_corrector(["-"] * 200, x_obs, x_sim, simulations=more, seed=0)
    assert any("noise of its own" in reason for reason in found.why.reasons)
    assert NAME not in weights(found)


def test_a_departure_that_a_map_foresees_is_no_noise():
    # A lag moves x to other columns: x_obs varies as x_sim does, and differs from it by as
    # much as independent draws would.
    x_sim = normal(100, 6, 0).double()
    x_obs = x_sim.roll(1, dims=1)
    codes = torch.zeros(100, dtype=torch.long)
    assert not find_noise(x_obs, x_sim[:, None], codes).found
    independent = normal(100, 6, 1).double()
    assert find_noise(independent, x_sim[:, None], codes).found
