"""The grid sampler against densities with known draws."""

import math

import pytest
import torch
from scipy.stats import beta, kstest, norm, uniform

from ma_sbi_bench.tasks.grid_sampler import (
    integrate_on_grid,
    integrate_on_turned_grid,
    sample_on_grid,
    sample_on_turned_grid,
)

NUM = 4000


def source(seed=0):
    return torch.Generator().manual_seed(seed)


def box(low, high):
    return torch.tensor(low).double(), torch.tensor(high).double()


def test_one_dimensional_draws_follow_a_beta_law():
    draws = sample_on_grid(
        lambda point: (point.log() + 4 * (1 - point).log())[..., 0],
        *box([[0.0]], [[1.0]]),
        NUM,
        cells=(16,),
        steps=64,
        generator=source(),
    )
    assert kstest(draws.flatten(), beta(2, 5).cdf).pvalue > 1e-3


@pytest.mark.parametrize("cells", [8, 32])
def test_the_metropolis_steps_remove_the_error_of_the_grid(cells):
    # Cells of a quarter to one standard deviation, a correlation of 0.8.
    precision = torch.linalg.inv(torch.tensor([[1.0, 0.8], [0.8, 1.0]]).double())
    draws = sample_on_grid(
        lambda point: -torch.einsum("...i,ij,...j", point, precision, point) / 2,
        *box([[-4.0, -4.0]], [[4.0, 4.0]]),
        NUM,
        cells=(cells, cells),
        steps=64,
        generator=source(),
    )[:, 0]
    assert kstest(draws[:, 0], "norm").pvalue > 1e-3
    assert kstest((draws[:, 1] - 0.8 * draws[:, 0]) / 0.6, "norm").pvalue > 1e-3


def test_a_needle_in_a_large_box_is_found():
    centre = torch.tensor([[37.123456, -2.0], [-999.0, 0.5]]).double()
    draws = sample_on_grid(
        lambda point: -((point - centre) ** 2).sum(dim=-1) / (2 * 1e-8),
        *box([[-1000.0, -1000.0]] * 2, [[1000.0, 1000.0]] * 2),
        NUM,
        cells=(32, 32),
        steps=64,
        generator=source(),
    )
    for row in range(2):
        for axis in range(2):
            noise = (draws[:, row, axis] - centre[row, axis]) / 1e-4
            assert kstest(noise, "norm").pvalue > 1e-3


def test_every_row_has_its_own_density_and_box():
    low, high = box([[0.0], [10.0], [-5.0]], [[1.0], [12.0], [-4.0]])
    draws = sample_on_grid(
        lambda point: torch.zeros(point.shape[:2]).double(),
        low,
        high,
        NUM,
        cells=(16,),
        steps=64,
        generator=source(),
    )
    for row in range(3):
        law = (low[row].item(), (high - low)[row].item())
        assert kstest(draws[:, row, 0], uniform(*law).cdf).pvalue > 1e-3


def test_draws_do_not_repeat():
    draws = sample_on_grid(
        lambda point: -point[..., 0].square() / 2,
        *box([[-5.0]], [[5.0]]),
        NUM,
        cells=(8,),
        steps=64,
        generator=source(),
    )
    assert draws.unique().numel() == NUM


def test_a_density_that_is_zero_everywhere_is_refused_by_row():
    with pytest.raises(ValueError, match="1 of 2 rows .first: row 1"):
        sample_on_grid(
            lambda point: torch.where(
                torch.tensor([True, False]), point[..., 0], -torch.inf
            ),
            *box([[0.0], [0.0]], [[1.0], [1.0]]),
            NUM,
            cells=(8,),
            steps=64,
        )


def test_the_integral_of_a_normal_that_is_cut_off_is_its_mass():
    found = integrate_on_grid(
        lambda point: -point.square().sum(dim=-1) / 2,
        *box([[0.0, -50.0], [1.0, 0.0]], [[50.0, 50.0], [50.0, 50.0]]),
        cells=(32, 32),
    )
    right = 2 * math.pi * torch.tensor([0.5, norm.sf(1.0) / 2])
    torch.testing.assert_close(found, right.log().double(), rtol=0, atol=1e-5)


def test_the_integral_of_nothing_is_zero():
    found = integrate_on_grid(
        lambda point: torch.full(point.shape[:2], -torch.inf).double(),
        *box([[0.0]], [[1.0]]),
        cells=(16,),
    )
    assert found.tolist() == [-math.inf]


# Correlations of 0.995 and -0.99, means off the centre of the box, factors 1 and e.
RIDGES = torch.tensor([[[1.0, 1.99], [1.99, 4.0]], [[1.0, -0.99], [-0.99, 1.0]]]).double()
MEANS = torch.tensor([[1.0, -2.0], [0.0, 0.5]]).double()


def ridge(point):
    precision = torch.linalg.inv(RIDGES)
    deviation = point - MEANS
    distance = torch.einsum("nbi,bij,nbj->nb", deviation, precision, deviation)
    return torch.tensor([0.0, 1.0]) - distance / 2


def test_a_turned_grid_resolves_narrow_ridges():
    draws = sample_on_turned_grid(
        ridge,
        *box([[-20.0, -20.0]] * 2, [[20.0, 20.0]] * 2),
        NUM,
        cells=(48, 48),
        steps=16,
        generator=source(),
    )
    for row in range(2):
        root = torch.linalg.cholesky(RIDGES[row])
        white = torch.linalg.solve(root, (draws[:, row] - MEANS[row]).T)
        for column in white:
            assert kstest(column, "norm").pvalue > 1e-3
        assert abs(torch.corrcoef(white)[0, 1].item()) < 4 / NUM**0.5


def test_the_integral_on_a_turned_grid_is_that_of_the_normal_law():
    found = integrate_on_turned_grid(
        ridge, *box([[-20.0, -20.0]] * 2, [[20.0, 20.0]] * 2), cells=(48, 48)
    )
    right = math.log(2 * math.pi) + RIDGES.det().log() / 2 + torch.tensor([0.0, 1.0])
    torch.testing.assert_close(found, right, rtol=0, atol=1e-4)
