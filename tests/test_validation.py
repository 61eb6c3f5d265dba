"""Tests for ma_sbi.validation, ma_sbi.randomness and ma_sbi.posteriors.training_range."""

import numpy as np
import pandas as pd
import pytest
import torch

from ma_sbi.posteriors.training_range import (
    MomentRange,
    OutsideTrainingRange,
    TrainingRange,
)
from ma_sbi.randomness import derive, generator, seeded
from ma_sbi.validation import as_count, as_matrix


@pytest.mark.parametrize(
    "values",
    [
        [[1, 2], [3, 4]],
        np.array([[1.0, 2.0], [3.0, 4.0]]),
        pd.DataFrame({"a": [1, 3], "b": [2, 4]}),
        torch.tensor([[1, 2], [3, 4]]),
    ],
    ids=["list", "array", "frame", "tensor"],
)
def test_every_form_of_a_matrix_becomes_float32(values):
    matrix = as_matrix(values, "x")
    assert matrix.dtype == torch.float32
    assert matrix.tolist() == [[1.0, 2.0], [3.0, 4.0]]


def test_a_vector_is_one_observation_unless_observations_are_scalars():
    assert as_matrix([1.0, 2.0, 3.0], "x").shape == (1, 3)
    assert as_matrix([1.0, 2.0, 3.0], "x", dim=1).shape == (3, 1)


@pytest.mark.parametrize("value", [0, -3, 2.5, True], ids=repr)
def test_what_is_no_count_is_refused(value):
    with pytest.raises(ValueError, match="n must be a positive integer"):
        as_count(value, "n")


def test_a_seed_is_repeatable_and_local():
    before = torch.get_rng_state()
    with seeded(3):
        first = torch.rand(2)
    assert torch.equal(torch.get_rng_state(), before)
    with seeded(3):
        assert torch.equal(torch.rand(2), first)
    assert torch.equal(torch.rand(2, generator=generator(3)), first)


def test_no_seed_draws_from_the_global_generator():
    torch.manual_seed(5)
    with seeded(None):
        first = torch.rand(2)
    torch.manual_seed(5)
    assert torch.equal(torch.rand(2), first)
    torch.manual_seed(5)
    own = torch.rand(2, generator=generator(None))
    torch.manual_seed(5)
    assert torch.equal(torch.rand(2, generator=generator(None)), own)


def test_the_range_knows_correlated_directions():
    x = torch.randn(2000, 1) * torch.tensor([[1.0, 1.0]]) + 0.01 * torch.randn(2000, 2)
    inside, across = torch.tensor([[2.0, 2.0]]), torch.tensor([[2.0, -2.0]])
    found = TrainingRange.of(x).outside(torch.cat([inside, across]))
    assert found.tolist() == [False, True]


def test_the_range_of_a_constant_column_is_that_constant():
    x = torch.cat([torch.randn(100, 1), torch.ones(100, 1)], dim=1)
    found = TrainingRange.of(x).outside(torch.tensor([[0.0, 1.0], [0.0, 2.0]]))
    assert found.tolist() == [False, True]


def test_moments_alone_give_no_false_alarm_for_correlated_coordinates():
    # A common factor moves all 100 coordinates together; lengths would look enormous.
    x = torch.randn(2000, 1) + 0.1 * torch.randn(2000, 100)
    bounds = MomentRange.of_moments(x.mean(dim=0), x.std(dim=0))
    assert not bounds.outside(x).any()
    assert bounds.outside(torch.full((1, 100), 12.0)).all()


def test_the_warning_counts_the_rows():
    bounds = TrainingRange.of(torch.randn(100, 2))
    with pytest.warns(OutsideTrainingRange, match="2 of 3 observations .first: row 1"):
        bounds.warn(torch.tensor([[0.0, 0.0], [90.0, 0.0], [0.0, 90.0]]))


def test_derived_seeds_are_repeatable_and_differ_by_purpose():
    assert derive(1, "a") == derive(1, "a")
    assert len({derive(1, "a"), derive(1, "b"), derive(2, "a"), 1}) == 4
    assert derive(None, "a") is None
