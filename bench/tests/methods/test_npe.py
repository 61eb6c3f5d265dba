"""Tests for ma_sbi_bench.methods.npe and ma_sbi_bench.methods.ma_sbi."""

import pytest
import torch

from bench.tests.methods.worlds import materials, observe
from ma_sbi import (
    BootstrapCorrector,
    CategoryEncoder,
    CorrectedPosterior,
    MatchingCorrector,
)
from ma_sbi_bench.methods import MASBI, NPE, Oracle, Prior
from tests.some_posteriors import PRIOR

THETA, X_SIM, X_OBS, CONTEXT = observe(6, seed=4)


@pytest.mark.parametrize("diffusion", [False, True], ids=["flow", "ddpm"])
def test_npe_is_the_trained_posterior_and_the_oracle_reads_the_simulation(diffusion):
    given = materials(diffusion=diffusion)
    plain = given.posterior.sample(20, X_OBS, seed=1)
    assert torch.equal(NPE().fit(given).sample(20, X_OBS, seed=1), plain)
    assert NPE().reads == "x_obs"
    assert Oracle().reads == "x_sim"
    assert torch.equal(Oracle().fit(given).sample(20, X_OBS, seed=1), plain)


@pytest.mark.parametrize(
    "corrector",
    [
        None,
        BootstrapCorrector(CategoryEncoder()),
        pytest.param(
            MatchingCorrector(CategoryEncoder()),
            marks=pytest.mark.filterwarnings("ignore::UserWarning"),
        ),
    ],
    ids=["shift", "bootstrap", "matching"],
)
def test_ma_sbi_is_the_corrected_posterior(corrector):
    given = materials()
    method = MASBI(corrector).fit(given, seed=2)
    corrected = CorrectedPosterior(given.posterior, method.corrector_)
    draws = corrected.sample(50, X_OBS, CONTEXT, seed=3)
    torch.testing.assert_close(method.sample(50, X_OBS, CONTEXT, seed=3), draws)
    torch.testing.assert_close(
        method.log_prob(draws, X_OBS, CONTEXT), corrected.log_prob(draws, X_OBS, CONTEXT)
    )


def test_matching_needs_simulations_instead_of_pairs():
    assert MASBI(MatchingCorrector(CategoryEncoder())).needs == {
        "posterior",
        "context",
        "simulations",
    }


def test_the_prior_has_its_own_density():
    method = Prior().fit(materials())
    expected = PRIOR.log_prob(THETA).expand(1, -1)
    assert torch.equal(method.log_prob(THETA[None], X_OBS), expected)
