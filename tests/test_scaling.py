"""Tests for ma_sbi.scaling."""

import math

import pytest
import torch

from ma_sbi.networks import Standardise
from ma_sbi.scaling import column_scale, median_distance


def test_the_scale_of_a_column_is_its_standard_deviation():
    values = torch.randn(50, 3, dtype=torch.float64)
    torch.testing.assert_close(column_scale(values), values.std(dim=0))


@pytest.mark.parametrize("num_rows", [1, 4])
def test_a_constant_column_has_scale_one(num_rows):
    assert torch.equal(column_scale(torch.full((num_rows, 2), 7.0)), torch.ones(2))
    assert torch.equal(
        Standardise.of(torch.full((num_rows, 2), 7.0))(torch.full((1, 2), 8.0)),
        torch.ones(1, 2),
    )


def test_the_median_distance_ignores_equal_points_and_gaps():
    points = torch.tensor([[0.0, 0.0], [0.0, 0.0], [3.0, 4.0], [math.nan, 0.0]])
    assert median_distance(points) == 5.0
    assert median_distance(points[:2]) == 1.0
