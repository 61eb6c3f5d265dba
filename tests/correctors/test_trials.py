"""Several trials per observation: each is corrected, and a set posterior takes them.

theta ~ N(0, I), trials ~ N(theta, I): theta | T trials ~ N(sum / (T + 1), I / (T + 1)).
"""

from functools import lru_cache, partial

import pytest
import torch
from sbi.inference import NPE
from sbi.neural_nets import posterior_nn
from sbi.neural_nets.embedding_nets import FCEmbedding, PermutationInvariantEmbedding
from torch.distributions import MultivariateNormal

from ma_sbi import (
    CategoryEncoder,
    CorrectedPosterior,
    ShiftCorrector,
    cross_fit,
    from_sbi,
    load_corrector,
    per_trial,
)
from tests.no_tracker import NoTracker
from tests.test_posterior_laws import Candidates

MOST = 4
PRIOR = MultivariateNormal(torch.zeros(2), torch.eye(2))
NOTES = ["high", "well"]
SHIFTS = torch.tensor([[3.0, -2.0], [0.0, 0.0]])


def observe(n, num_trials):
    theta = PRIOR.sample((n,))
    return theta, theta[:, None] + torch.randn(n, num_trials, 2)


def corrector():
    x_sim = torch.randn(40, 2)
    x_obs = x_sim + SHIFTS.repeat(20, 1)
    return ShiftCorrector(CategoryEncoder()).fit(NOTES * 20, x_obs, x_sim)


@lru_cache
def set_posterior():
    """Train on sets of one to four trials; what is lacking is NaN, as sbi wants it."""
    with torch.random.fork_rng():
        torch.manual_seed(0)
        theta, x = observe(3000, MOST)
        lacking = torch.arange(MOST) >= torch.randint(1, MOST + 1, (3000, 1))
        x[lacking] = torch.nan
        embedding = PermutationInvariantEmbedding(
            FCEmbedding(2, output_dim=8, num_layers=1, num_hiddens=16),
            trial_net_output_dim=8,
            num_layers=1,
            num_hiddens=16,
            output_dim=8,
        )
        network = posterior_nn("mdn", z_score_x="none", embedding_net=embedding)
        trainer = NPE(PRIOR, network, tracker=NoTracker(), show_progress_bars=False)
        trainer.append_simulations(theta, x, exclude_invalid_x=False)
        trainer.train(learning_rate=5e-3, max_num_epochs=20, show_train_summary=False)
        return from_sbi(trainer.build_posterior())


@pytest.mark.parametrize("num_trials", [1, 3, 7])
def test_every_trial_is_corrected_with_the_context_of_its_observation(num_trials):
    x = torch.randn(2, num_trials, 2)
    found = per_trial(corrector(), dim_x=2).correct(x, NOTES)
    torch.testing.assert_close(found.reshape(x.shape), x - SHIFTS[:, None])


def test_candidates_of_trials_are_combined_independently():
    shifts, weights = [[0.0], [1.0]], [0.25, 0.75]
    mixture = per_trial(Candidates(shifts, weights), dim_x=1, num_candidates=1000)
    found = mixture.corrections(torch.zeros(3, 2), "any")
    assert found.x.shape == (1000, 3, 2)
    torch.testing.assert_close(found.log_weight.exp().sum(dim=0), torch.ones(3))
    first, second = (found.x[:, 0] < -0.5).float().T
    # Spread evenly: each share is exact up to a step; together they are a product.
    assert abs(first.mean() - 0.75) <= 1e-3
    assert abs(second.mean() - 0.75) <= 1e-3
    # Standard deviation of a hypergeometric share of 1000.
    assert abs((first * second).mean() - 0.75**2) < 5 * 0.25 * 0.75 / 1000**0.5
    assert torch.equal(found.x[:, 0], found.x[:, 2])


def test_one_trial_keeps_the_candidates_as_they_are():
    inner = Candidates([[0.0], [1.0]], [0.25, 0.75])
    found = per_trial(inner, dim_x=1).corrections(torch.zeros(3, 1), "any")
    expected = inner.corrections(torch.zeros(3, 1), "any")
    for one, other in zip(found[:3], expected[:3], strict=True):
        assert torch.equal(one, other)


@pytest.mark.parametrize("num_trials", [1, 2, MOST])
def test_a_set_posterior_is_corrected_for_any_number_of_trials(num_trials):
    corrected = CorrectedPosterior(set_posterior(), per_trial(corrector(), dim_x=2))
    _, x_sim = observe(30, num_trials)
    x_obs = x_sim + SHIFTS.repeat(15, 1)[:, None]
    notes = NOTES * 15
    draws = corrected.sample(200, x_obs, notes, seed=0)
    assert torch.allclose(draws, set_posterior().sample(200, x_sim, seed=0), atol=1e-3)
    exact = x_sim.sum(dim=1) / (num_trials + 1)
    error = (draws.mean(dim=0) - exact).square().mean().sqrt()
    # Over six seeds of training 0.17, deviation 0.04. The mean of the prior would be off by
    # (T / (T + 1)) ** 0.5, 0.7 or more.
    assert error < 0.35
    given = corrected.given("high").sample((5,), x=x_obs[:1])
    assert given.shape == (5, 2)
    theta = torch.zeros(1, 2)
    torch.testing.assert_close(
        corrected.given("high").log_prob(theta, x=x_obs[:1]),
        corrected.log_prob(theta[:, None], x_obs[:1], "high")[:, 0],
    )


def test_a_set_posterior_knows_its_trials():
    flat = torch.randn(3, 2 * MOST)
    posterior = set_posterior()
    together = posterior.sample(4, flat.reshape(3, MOST, 2), seed=0)
    assert torch.equal(posterior.sample(4, flat, seed=0), together)
    shuffled = flat.reshape(3, MOST, 2).flip(1)
    assert torch.allclose(posterior.sample(4, shuffled, seed=0), together, atol=1e-4)
    for bad in (torch.zeros(1, MOST + 1, 2), torch.zeros(1, 3)):
        with pytest.raises(ValueError, match="with at most 4 trials, as in training"):
            posterior.sample(4, bad)
    with pytest.raises(ValueError, match="x_train is not supported"):
        from_sbi(posterior.posterior, x_train=flat)


def test_a_matrix_of_trials_is_not_taken_for_observations():
    posterior, trials = set_posterior(), torch.randn(MOST, 2)
    corrected = CorrectedPosterior(posterior, per_trial(corrector(), 2))
    for call in (posterior.sample, partial(corrected.sample, context="high")):
        with pytest.raises(ValueError, match="pass x.None. for the first"):
            call(5, trials)
        assert call(5, trials[None]).shape == (5, 1, 2)
        assert call(5, trials[:, None]).shape == (5, MOST, 2)


def test_given_a_note_trials_are_one_observation_as_in_sbi():
    trials = torch.randn(MOST, 2)
    given = CorrectedPosterior(set_posterior(), per_trial(corrector(), 2)).given("high")
    assert given.sample((20,), x=trials).shape == (20, 2)
    assert set_posterior().posterior.sample((20,), x=trials).shape == (20, 2)
    theta = torch.zeros(3, 2)
    expected = given.log_prob(theta, x=trials[None])
    torch.testing.assert_close(given.log_prob(theta, x=trials), expected)
    torch.testing.assert_close(given.set_default_x(trials).log_prob(theta), expected)
    # Observations of one trial each are rows of two columns inside.
    assert given.sample_batched((5,), trials[:, None]).shape == (5, MOST, 2)
    assert given.leakage_correction(trials[:, None]).shape == (MOST,)


def test_one_observation_of_several_dimensions_needs_no_batch():
    with torch.random.fork_rng():
        torch.manual_seed(0)
        theta = PRIOR.sample((60,))
        x = theta[:, None] + torch.randn(60, 3, 2)
        embedding = torch.nn.Sequential(torch.nn.Flatten(), torch.nn.Linear(6, 4))
        network = posterior_nn("mdn", z_score_x="none", embedding_net=embedding)
        trainer = NPE(PRIOR, network, tracker=NoTracker(), show_progress_bars=False)
        trainer.append_simulations(theta, x).train(
            max_num_epochs=1, show_train_summary=False
        )
    posterior = from_sbi(trainer.build_posterior())
    assert posterior.sample(5, x[0]).shape == (5, 1, 2)
    one, same = (posterior.sample(5, given, seed=0) for given in (x[0], x[:1]))
    assert torch.equal(one, same)


def test_a_corrector_of_trials_is_saved(tmp_path):
    saved = per_trial(corrector(), 2, num_candidates=7)
    saved.save(tmp_path / "c.safetensors")
    loaded = load_corrector(tmp_path / "c.safetensors")
    x = torch.randn(2, 6)
    torch.testing.assert_close(loaded.correct(x, NOTES), saved.correct(x, NOTES))
    assert (loaded.dim_x, loaded.num_candidates) == (2, 7)


@pytest.mark.parametrize(
    ("call", "message"),
    [
        (lambda: per_trial("no corrector", 2), "must offer corrections"),
        (lambda: per_trial(corrector(), 0), "dim_x must be a positive integer"),
        (
            lambda: per_trial(corrector(), 2).correct(torch.zeros(1, 5), "high"),
            "a multiple of 2 columns",
        ),
    ],
    ids=["corrector", "dim", "width"],
)
def test_what_does_not_fit_is_refused(call, message):
    with pytest.raises(ValueError, match=message):
        call()


def test_it_needs_every_row_where_its_corrector_does():
    cross_fitted = cross_fit(ShiftCorrector(CategoryEncoder()))
    assert per_trial(cross_fitted, 2).needs_every_row
    assert not per_trial(corrector(), 2).needs_every_row
