"""Tests for ma_sbi.choosing.likeliest: under normal densities, departures are known."""

import torch
from torch.distributions import Normal

from ma_sbi.choosing.likeliest import NEGLIGIBLE, likeliest_departures
from ma_sbi.correctors import ShiftLikelihood

NORMAL = Normal(0.0, 1.0)


def departures(x_obs, codes, pool):
    likelihood = ShiftLikelihood.of(lambda x: NORMAL.log_prob(x).sum(dim=1), pool)
    return likeliest_departures(likelihood, x_obs, codes)


def draw(*shape):
    return torch.randn(*shape, dtype=torch.float64)


def test_departures_are_the_observations_less_the_mean_simulation():
    # By context or in one step from the shift of all: of a normal density both are exact.
    codes = torch.tensor([0] * 30 + [1] * 4 + [2] * 6)
    x_obs, pool = draw(40, 2) + 0.5 * codes[:, None], draw(3000, 2)
    found = departures(x_obs, codes, pool)
    torch.testing.assert_close(found, x_obs - pool.mean(dim=0), atol=0.02, rtol=0.02)


def test_an_error_that_does_not_matter_is_left_out():
    # Half a nat for a column and a row, of which a thousandth may be lost.
    enough = round(0.5 / NEGLIGIBLE) + 10
    codes = torch.tensor([0] * enough + [1] * 20)
    x_obs, pool = draw(len(codes), 1), draw(3000, 1)
    found = departures(x_obs, codes, pool)
    many, few = found[codes == 0], found[codes == 1]
    assert (many == many[0]).all()
    # To a tenth of the standard error.
    expected = x_obs[codes == 0].mean() - pool.mean()
    assert (many[0] - expected).abs() < 0.1 / enough**0.5
    assert few.std() > 0.5
