"""Tests for ma_sbi_bench.methods.materials."""

import numpy as np
import pytest
import torch
from sbi.utils import BoxUniform
from torch.distributions import Uniform

from ma_sbi_bench.methods import Calibration, Materials, Simulations
from tests.some_posteriors import PRIOR, flow_posterior, sbi_npe

ROWS = torch.zeros(5, 3)


def test_has_names_what_is_there():
    materials = Materials(
        prior=PRIOR, calibration=Calibration(ROWS, theta=ROWS), unlabelled=ROWS
    )
    assert materials.has == {"x_obs", "theta*", "unlabelled"}
    assert materials.dim_x == 3


def test_what_is_not_there_cannot_be_taken():
    with pytest.raises(ValueError, match="simulator="):
        Materials(prior=PRIOR).simulate(ROWS)


@pytest.mark.parametrize(
    ("build", "message"),
    [
        (lambda: Simulations(ROWS, ROWS[:4]), "5 and 4 rows"),
        (lambda: Calibration(ROWS, theta=ROWS[:4]), "calibration.theta"),
        (lambda: Calibration(ROWS, x_sim=torch.zeros(5, 2)), "3 columns"),
        (lambda: Calibration(ROWS, context=["a"]), "one entry per observation"),
        (lambda: Calibration(ROWS / 0), "finite"),
        (
            lambda: Materials(
                prior=PRIOR, calibration=Calibration(ROWS), unlabelled=torch.zeros(5, 2)
            ),
            "unlabelled: 2",
        ),
        (
            lambda: Materials(prior=PRIOR, simulations=Simulations(ROWS[:, :2], ROWS)),
            "like the prior",
        ),
        (lambda: Materials(prior=PRIOR, posterior=sbi_npe()), "from_sbi"),
        (
            lambda: Materials(prior=PRIOR, posterior=sbi_npe().posterior_estimator),
            "from_zuko",
        ),
        (lambda: Materials(prior=Uniform(-ROWS[0], ROWS[0] + 1)), "prior|Prior"),
        (lambda: Materials(prior=3.0), "torch distribution"),
        (lambda: Materials(prior=PRIOR, calibration={"x_obs": ROWS}), "Calibration"),
        (lambda: Materials(prior=PRIOR, simulator=ROWS), "function of theta"),
        (
            lambda: Materials(prior=PRIOR, calibration=Calibration(ROWS, theta=ROWS + 9)),
            "5 of 5 calibration.theta .*row 0",
        ),
        (
            lambda: Materials(
                prior=BoxUniform(-ROWS[0] - 9, ROWS[0] + 9), posterior=flow_posterior()
            ),
            "supports differ",
        ),
    ],
)
def test_what_does_not_fit_together_is_refused(build, message):
    with pytest.raises(ValueError, match=message):
        build()


def test_a_simulator_without_a_seed_is_seeded_from_outside():
    materials = Materials(prior=PRIOR, simulator=lambda theta: torch.randn(len(theta), 2))
    first, second = (materials.draw_prior(4, seed=3) for _ in range(2))
    assert torch.equal(first.x, second.x)
    assert torch.equal(first.theta, second.theta)


def test_a_simulator_that_draws_from_numpy_is_seeded_and_numpy_left_alone():
    def simulator(theta):
        return np.asarray(theta) + np.random.randn(*theta.shape)  # noqa: NPY002

    materials = Materials(prior=PRIOR, simulator=simulator)
    before = np.random.get_state()[1].copy()  # noqa: NPY002
    first, second = (materials.draw_prior(4, seed=3) for _ in range(2))
    assert torch.equal(first.x, second.x)
    assert (np.random.get_state()[1] == before).all()  # noqa: NPY002


def test_simulations_may_be_a_pair():
    assert Materials(prior=PRIOR, simulations=(ROWS, ROWS)).has == {"simulations"}


def test_a_simulator_that_loses_rows_is_refused():
    materials = Materials(prior=PRIOR, simulator=lambda theta: theta[1:])
    with pytest.raises(ValueError, match="one row per theta"):
        materials.simulate(ROWS)
