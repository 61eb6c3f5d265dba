"""A posterior in closed form that tests of the library share."""

import pytest
import torch
from torch.distributions import MultivariateNormal


class ExactGaussian:
    """The exact posterior of theta ~ N(0, 0.1 I), x ~ N(theta, 0.1 I)."""

    prior = MultivariateNormal(torch.zeros(3), 0.1 * torch.eye(3))

    def _posterior(self, x):
        return MultivariateNormal(x / 2, 0.05 * torch.eye(3))

    def sample(self, num_samples, x, *, seed=None):
        with torch.random.fork_rng(enabled=seed is not None):
            if seed is not None:
                torch.manual_seed(seed)
            return self._posterior(x).sample((num_samples,))

    def log_prob(self, theta, x):
        return self._posterior(x).log_prob(theta)


@pytest.fixture
def exact_gaussian():
    return ExactGaussian()
