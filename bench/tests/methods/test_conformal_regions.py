"""Conformal regions on top of the methods of the bench."""

import math

import pytest

from bench.tests.methods.worlds import fitted, observe
from ma_sbi import conformal

SPREAD = 4  # standard errors


# Of every kind: correcting, retrained and neither, with a density and without.
@pytest.mark.slow
@pytest.mark.parametrize(
    "name",
    ["npe", "ma_sbi", "rope_emd", "nnpe", "concat", "frisbi", "npe_rs"]
    + ["context_to_theta", "fmcpe"],
)
def test_regions_on_top_of_a_method_cover(name):
    theta, _, x_obs, context = observe(100, seed=11)
    regions = conformal(fitted(name), theta, x_obs, context, alpha=0.2)
    new_theta, _, new_x, new_context = observe(400, seed=12)
    covered = regions.contains(new_theta[None], new_x, new_context).float().mean()
    # Given the pairs, the coverage is Beta(81, 20); the test adds its binomial noise.
    error = math.sqrt(0.8 * 0.2 * (1 / 102 + 1 / 400))
    assert abs(covered - 81 / 101) < SPREAD * error
