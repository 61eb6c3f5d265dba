"""Tests for ma_sbi.simulation."""

import numpy as np
import pytest
import torch

from ma_sbi.simulation import sample_prior, simulate
from tests.some_posteriors import PRIOR

THETA = torch.zeros(5, 2)

SIMULATORS = {
    "takes a seed": lambda theta, seed: (
        theta + torch.randn(5, 2, generator=torch.Generator().manual_seed(seed))
    ),
    "draws with torch": lambda theta: theta + torch.randn(5, 2),
    "draws with numpy": lambda theta: theta.numpy() + np.random.normal(size=(5, 2)),  # noqa: NPY002
}


@pytest.mark.parametrize("name", SIMULATORS)
def test_a_seed_makes_simulations_repeatable(name):
    first, again, other = (
        simulate(SIMULATORS[name], THETA, seed=seed) for seed in (3, 3, 4)
    )
    assert torch.equal(first, again)
    assert not torch.equal(first, other)
    assert first.dtype == torch.float32


@pytest.mark.parametrize("name", SIMULATORS)
def test_the_callers_generators_are_left_alone(name):
    in_torch, in_numpy = torch.get_rng_state(), np.random.get_state()[1]  # noqa: NPY002
    simulate(SIMULATORS[name], THETA, seed=3)
    sample_prior(PRIOR, 3, seed=0)
    assert torch.equal(torch.get_rng_state(), in_torch)
    np.testing.assert_array_equal(np.random.get_state()[1], in_numpy)  # noqa: NPY002


def test_without_a_seed_simulations_follow_the_callers_generator():
    torch.manual_seed(5)
    found = simulate(SIMULATORS["draws with torch"], THETA)
    torch.manual_seed(5)
    assert torch.equal(found, torch.randn(5, 2))


def test_a_prior_is_drawn_from_repeatably():
    assert torch.equal(sample_prior(PRIOR, 4, seed=1), sample_prior(PRIOR, 4, seed=1))
    assert sample_prior(PRIOR, 4, seed=1).shape == (4, 3)
    with pytest.raises(ValueError, match="num must be a positive integer"):
        sample_prior(PRIOR, 0)


@pytest.mark.parametrize(
    ("simulated", "said"),
    [
        (torch.zeros(4, 2), "one row per theta: expected 5, got 4"),
        (torch.full((5, 2), torch.nan), "must be finite"),
        (torch.zeros(5, 3), "must have 2 columns, got 3"),
    ],
    ids=["rows", "nan", "columns"],
)
def test_a_simulator_that_returns_something_else_is_refused(simulated, said):
    with pytest.raises(ValueError, match=said):
        simulate(lambda theta: simulated, THETA, dim_x=2)
