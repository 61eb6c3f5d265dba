"""Tests for ma_sbi.posteriors.support."""

import pytest
import torch
from sbi.utils import BoxUniform
from sbi.utils.sbiutils import within_support as sbis
from torch.distributions import Independent, LogNormal, MultivariateNormal, Normal, Uniform

from ma_sbi.posteriors.support import is_bounded, within_support


class Disc:
    """A prior of the user's own, which has a density and no support."""

    def log_prob(self, theta):
        return torch.where(theta.norm(dim=-1) < 1, 0.0, -torch.inf)


ONES = torch.ones(2)
PRIORS = {
    "box of sbi": (BoxUniform(-ONES, ONES), True),
    "box of torch": (Independent(Uniform(-ONES, ONES), 1), True),
    "a batch, not one event": (Uniform(-ONES, ONES), True),
    "lognormal": (Independent(LogNormal(0 * ONES, ONES), 1), True),
    "no support": (Disc(), True),
    "normal": (Independent(Normal(0 * ONES, ONES), 1), False),
    "multivariate normal": (MultivariateNormal(0 * ONES, torch.eye(2)), False),
}


@pytest.mark.parametrize("name", PRIORS)
def test_inside_means_what_it_means_in_sbi(name):
    prior, _ = PRIORS[name]
    theta = 3 * torch.randn(4, 50, 2)
    assert torch.equal(within_support(prior, theta), sbis(prior, theta))


@pytest.mark.parametrize("name", PRIORS)
def test_only_priors_with_bounds_are_bounded(name):
    prior, bounded = PRIORS[name]
    assert is_bounded(prior) == bounded


def test_no_prior_has_no_bounds():
    assert not is_bounded(None)
