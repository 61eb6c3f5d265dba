"""The corrected posterior in sbi's own tools."""

import pickle

import matplotlib as mpl
import numpy as np
import pytest
import torch
from sbi.analysis import conditional_pairplot, pairplot
from sbi.diagnostics import check_sbc, check_tarp, run_sbc, run_tarp
from sbi.diagnostics.lc2st import LC2ST
from sbi.inference.posteriors import EnsemblePosterior
from sbi.inference.posteriors.base_posterior import NeuralPosterior
from sklearn.feature_extraction.text import TfidfVectorizer

from ma_sbi import (
    CategoryEncoder,
    CorrectedPosterior,
    HashEncoder,
    ShiftCorrector,
    from_sbi,
)
from tests.some_posteriors import NOISE, PRIOR, sbi_npe, simulations
from tests.test_posterior_laws import Candidates

mpl.use("Agg")

CONTEXTS = ["reads high", "reads low"]
SHIFTS = torch.tensor([[0.6, 0.0, -0.4], [-0.6, 0.5, 0.0]])


def world(n, seed):
    theta, x_sim = simulations(n, seed)
    # Away from the edges, where the small network is at its best.
    keep = theta.abs().max(dim=1).values < 1.6
    theta, x_sim = theta[keep], x_sim[keep]
    regime = torch.arange(len(theta)) % 2
    context = [CONTEXTS[i] for i in regime]
    return theta, x_sim + SHIFTS[regime], x_sim, context


@pytest.fixture(scope="module")
def corrected():
    _, x_obs, x_sim, context = world(40, seed=1)
    corrector = ShiftCorrector(CategoryEncoder()).fit(context, x_obs, x_sim)
    return CorrectedPosterior(from_sbi(sbi_npe()), corrector)


@pytest.fixture
def given(corrected):
    return corrected.given("reads high")


X = torch.tensor([[0.9, 0.2, -0.5]])


def test_given_is_a_neural_posterior(given):
    assert isinstance(given, NeuralPosterior)


def test_given_draws_with_sbis_shapes(given):
    assert given.sample((5,), x=X).shape == (5, 3)
    assert given.sample((2, 3), x=X).shape == (2, 3, 3)
    assert given.sample_batched((5,), x=X.repeat(4, 1)).shape == (5, 4, 3)


def test_given_refuses_several_observations_in_sample(given):
    with pytest.raises(ValueError, match="sample_batched"):
        given.sample((5,), x=X.repeat(2, 1))


def test_given_log_prob_is_sbis_at_the_corrected_x(given):
    theta = PRIOR.sample((20,))
    expected = sbi_npe().log_prob(theta, x=X - SHIFTS[:1])
    # sbi and we each estimate the leakage from 10,000 draws.
    torch.testing.assert_close(given.log_prob(theta, x=X), expected, atol=0.05, rtol=0)


EDGE = torch.tensor([[1.9, 0.0, 0.0]])


def test_given_normalises_or_not_as_sbi_does(given):
    theta = torch.tensor([[1.8, 0.1, 0.0], [2.5, 0.0, 0.0]])
    x = EDGE + SHIFTS[:1]
    expected = sbi_npe().log_prob(theta, x=EDGE, norm_posterior=False)
    raw = given.log_prob(theta, x=x, norm_posterior=False)
    torch.testing.assert_close(raw, expected)
    batched = given.log_prob_batched(theta[:, None], x, norm_posterior=False)
    torch.testing.assert_close(batched[:, 0], expected)
    factor = given.leakage_correction(x=x)
    theirs = sbi_npe().leakage_correction(x=EDGE)
    # Both are shares of 10,000 draws; four standard errors of their difference.
    assert abs(factor - theirs) < 4 * (2 * 0.25 / 10_000) ** 0.5
    normalised = given.log_prob(
        theta, x=x, leakage_correction_params={"num_rejection_samples": 10_000}
    )
    # Each log share has at most the error of that of a half by 10,000 draws.
    error = (2 / 10_000) ** 0.5
    torch.testing.assert_close(normalised, raw - factor.log(), atol=4 * error, rtol=0.0)


def test_the_leakage_of_a_mixture_is_averaged_over_candidates():
    corrector = Candidates([[0.0] * 3, [1.0] * 3], [0.25, 0.75])
    mixture = CorrectedPosterior(from_sbi(sbi_npe()), corrector).given("any")
    shares = [from_sbi(sbi_npe()).acceptance(x, 1000) for x in (EDGE, EDGE - 1)]
    expected = 0.25 * shares[0] + 0.75 * shares[1]
    found = mixture.leakage_correction(EDGE, num_rejection_samples=1000)
    # The draws of the second candidate follow others; four standard errors.
    torch.testing.assert_close(found, expected, atol=4 * 0.5 / 1000**0.5, rtol=0)


def test_given_moves_and_keeps_its_default_x(corrected):
    for moved in (corrected.given("reads high"), corrected.packed(CONTEXTS)):
        x = X if moved.__class__.__name__ == "SBIPosterior" else moved.pack(X, CONTEXTS[:1])
        moved.set_default_x(x)
        before = moved.log_prob(torch.zeros(1, 3))
        moved.to("cpu")
        torch.testing.assert_close(moved.log_prob(torch.zeros(1, 3)), before)
    unmovable = type("Own", (), {"sample": corrected.posterior.sample})()
    own = CorrectedPosterior(unmovable, corrected.corrector).given("reads high")
    with pytest.raises(ValueError, match="a Own cannot be moved"):
        own.to("cpu")


def test_given_takes_a_number_of_draws_as_well(given):
    assert given.sample(5, x=X).shape == (5, 3)


def test_given_map_is_sbis_at_the_corrected_x(given):
    base = sbi_npe().set_default_x(X - SHIFTS[:1])
    expected = base.map(num_iter=100, num_to_optimize=20)
    base.set_default_x(X)
    given.set_default_x(X)
    found = given.map(num_iter=100, num_to_optimize=20)
    assert found.shape == (1, 3)
    torch.testing.assert_close(found, expected, atol=0.05, rtol=0)


def test_given_refuses_several_observations_in_log_prob(given):
    with pytest.raises(ValueError, match="one observation is expected, got 2"):
        given.log_prob(torch.zeros(1, 3), x=X.repeat(2, 1))


def test_given_refuses_a_context_that_the_encoder_cannot_read(corrected):
    with pytest.raises(ValueError, match="label 'sideways' was not in the data"):
        corrected.given("sideways")


def test_given_can_be_pickled_like_any_sbi_posterior(given):
    copied = pickle.loads(pickle.dumps(given))  # noqa: S301 (our own bytes)
    theta = torch.zeros(2, 3)
    torch.testing.assert_close(copied.log_prob(theta, x=X), given.log_prob(theta, x=X))


def test_making_it_leaves_the_global_generator_alone(corrected):
    before = torch.get_rng_state()
    corrected.given("reads high")
    corrected.packed(CONTEXTS)
    assert torch.equal(torch.get_rng_state(), before)


def test_given_potential_has_gradients(given):
    theta = torch.zeros(2, 3, requires_grad=True)
    given.potential(theta, x=X, track_gradients=True).sum().backward()
    assert (theta.grad != 0).any()


OPTIONS = {"num_posterior_samples": 100, "show_progress_bar": False}


def sbc_p_value(posterior, theta, x):
    ranks, dap = run_sbc(theta, x, posterior, **OPTIONS)
    checks = check_sbc(ranks, theta, dap, num_posterior_samples=100)
    return checks["ks_pvals"].min()


def tarp_area(posterior, theta, x):
    # References on the low side of theta: TARP is then sure to see a bias.
    ecp, alpha = run_tarp(theta, x, posterior, references=theta - 1.0, **OPTIONS)
    return check_tarp(ecp, alpha)[0]


@pytest.mark.slow
def test_given_passes_sbc_and_tarp_where_the_uncorrected_posterior_fails(corrected):
    theta, x_obs, x_sim, context = world(300, seed=2)
    high = torch.tensor([entry == "reads high" for entry in context])
    theta, x_obs, x_sim = theta[high], x_obs[high], x_sim[high]
    given = corrected.given("reads high")
    zero = Candidates([[0.0] * 3], [1.0])
    plain = CorrectedPosterior(corrected.posterior, zero).given("reads high")
    assert sbc_p_value(given, theta, x_obs) > 1e-4
    assert sbc_p_value(plain, theta, x_obs) < 1e-6
    # The small network is not perfect: what counts is how it does without a departure.
    best = tarp_area(plain, theta, x_sim)
    assert abs(tarp_area(given, theta, x_obs) - best) < 0.03
    assert abs(tarp_area(plain, theta, x_obs) - best) > 0.06


@pytest.mark.slow
def test_packed_passes_sbc_and_tarp_over_mixed_contexts(corrected):
    theta, x_obs, x_sim, context = world(300, seed=4)
    packed = corrected.packed(context)
    rows = packed.pack(x_obs, context)
    zero = Candidates([[0.0] * 3], [1.0])
    plain = CorrectedPosterior(corrected.posterior, zero).given("any")
    assert sbc_p_value(packed, theta, rows) > 1e-4
    best = tarp_area(plain, theta, x_sim)
    assert abs(tarp_area(packed, theta, rows) - best) < 0.03


@pytest.mark.parametrize(
    ("encoder", "width"),
    [(CategoryEncoder(), 2), (HashEncoder(), 64), (TfidfVectorizer(), 3)],
    ids=["category", "hash", "tfidf"],
)
def test_packed_rows_carry_their_own_context(encoder, width):
    theta, x_obs, x_sim, context = world(300, seed=3)
    corrector = ShiftCorrector(encoder).fit(context, x_obs, x_sim)
    corrected = CorrectedPosterior(from_sbi(sbi_npe()), corrector)
    packed = corrected.packed(CONTEXTS)
    rows = packed.pack(x_obs, context)
    assert rows.shape == (len(x_obs), 3 + width + 1)
    torch.testing.assert_close(
        packed.correct(rows).x[0], corrector.correct(x_obs, context), rtol=0, atol=0
    )
    theta = theta[None]
    torch.testing.assert_close(
        packed.log_prob_batched(theta, rows), corrected.log_prob(theta, x_obs, context)
    )


def test_packed_refuses_contexts_it_does_not_know_and_rows_that_are_not_packed(
    corrected,
):
    packed = corrected.packed(["reads high"])
    with pytest.raises(ValueError, match="row 1 was not among those"):
        packed.pack(X.repeat(2, 1), CONTEXTS)
    with pytest.raises(ValueError, match="are not packed"):
        packed.sample_batched((2,), torch.zeros(1, 1))
    with pytest.raises(ValueError, match="are not packed"):
        packed.sample_batched((2,), torch.full((1, 6), 7.0))


def test_packed_works_for_correctors_without_an_encoder():
    corrector = Candidates([[0.5] * 3, [-0.5] * 3], [0.5, 0.5])
    corrected = CorrectedPosterior(from_sbi(sbi_npe()), corrector)
    packed = corrected.packed(CONTEXTS)
    rows = packed.pack(X.repeat(2, 1), CONTEXTS)
    assert packed.sample_batched((6,), rows).shape == (6, 2, 3)


def test_lc2st_tells_packed_rows_from_those_of_other_contexts(corrected):
    theta, x_obs, _, context = world(300, seed=5)
    packed = corrected.packed(context)
    rows = packed.pack(x_obs, context)
    wrong = packed.pack(x_obs, [*context[1:], context[0]])
    apart = []
    for drawn_at in (rows, wrong):
        draws = packed.sample_batched((1,), drawn_at)[0]
        test = LC2ST(theta, rows, draws, num_trials_null=1, classifier="random_forest")
        test.train_on_observed_data()
        apart.append(
            [
                test.get_statistic_on_observed_data(
                    packed.sample((100,), x=drawn_at[[i]]), rows[[i]]
                )
                for i in range(12)
            ]
        )
    right, other = np.mean(apart, axis=1)
    # Over six seeds their difference is 0.083, with a deviation of 0.017.
    assert right < other


def test_sbi_plots_accept_the_draws_and_the_posterior(given):
    draws = given.sample((200,), x=X)
    figure, _ = pairplot(draws, limits=[[-2, 2]] * 3)
    mpl.pyplot.close(figure)
    given.set_default_x(X)
    figure, _ = conditional_pairplot(
        given, condition=draws[0], limits=[[-2.0, 2.0]] * 3, resolution=10
    )
    mpl.pyplot.close(figure)


def test_given_is_part_of_an_sbi_ensemble(corrected):
    ensemble = EnsemblePosterior([corrected.given(entry) for entry in CONTEXTS])
    assert ensemble.sample((10,), x=X, show_progress_bars=False).shape == (10, 3)


def test_the_correction_acts_on_raw_x_before_an_embedding_net():
    from tests.some_posteriors import sbi_embedded

    _, x_obs, x_sim, context = world(40, seed=1)
    corrector = ShiftCorrector(CategoryEncoder()).fit(context, x_obs, x_sim)
    corrected = CorrectedPosterior(from_sbi(sbi_embedded()), corrector)
    theta = x_sim[:6][None] + NOISE * torch.randn(4, 6, 3)
    expected = from_sbi(sbi_embedded()).log_prob(theta, x_sim[:6])
    found = corrected.log_prob(theta, x_obs[:6], context[:6])
    torch.testing.assert_close(found, expected, atol=0.05, rtol=1e-3)
