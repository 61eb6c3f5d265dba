"""RoPE where the posterior is exact, and its embeddings."""

from dataclasses import replace

import pytest
import torch
from torch import nn

from bench.tests.methods import gaussian, worlds
from ma_sbi import from_sbi
from ma_sbi_bench.methods import NPE, Prior, RoPE, Simulations, get_method
from ma_sbi_bench.methods.embedding import (
    embedding_of,
    fine_tune,
    simulated_embedding,
    trainable_copy,
)
from ma_sbi_bench.methods.transport import semi_balanced_plan
from tests.some_posteriors import sbi_embedded

SEVERAL = 5  # standard errors
IDENTITY = {"embedding": nn.Identity(), "fine_tune": False}


def fitted(**options):
    return RoPE(**{**IDENTITY, **options}).fit(gaussian.materials(), seed=0)


def test_balanced_posteriors_average_to_the_prior():
    """Sec. 4 of the paper: (1/N_o) sum_i q(theta | x_i) is the prior, at tau = 1."""
    num = 2_000
    x = gaussian.draw(num, 1)[1]
    rope = fitted()
    weight = rope.corrections(x).log_weight.exp()
    assert weight.shape == (num, num)
    torch.testing.assert_close(
        weight.mean(dim=1), torch.full((num,), 1 / num), rtol=1e-4, atol=0
    )
    draws = rope.sample(20, x, seed=0).reshape(-1, 2)
    # Simulations are independent, draws are not: at most N_s of them count.
    standard_error = gaussian.SHRINKAGE**0.5 / num**0.5
    assert (draws.mean(dim=0).abs() < SEVERAL * standard_error).all()
    assert ((draws.var(dim=0) - 1).abs() < SEVERAL * (2 / num) ** 0.5).all()


def test_gamma_moves_the_posterior_from_the_trained_one_to_the_prior():
    theta, x = gaussian.draw(500, 1)
    given = gaussian.materials()

    def lpp(method):
        return method.fit(given, seed=0).log_prob(theta[None], x).mean().item()

    npe, prior = lpp(NPE()), lpp(Prior())
    sweep = [lpp(RoPE(**IDENTITY, gamma=gamma)) for gamma in (0.1, 0.5, 1.0, 5.0, 1e4)]
    assert npe > sweep[0]
    assert sweep == sorted(sweep, reverse=True)
    gap = npe - prior
    assert npe - sweep[0] < 0.1 * gap
    assert abs(sweep[-1] - prior) < 0.02 * gap


def test_the_mixture_is_that_of_the_equation():
    theta, x = gaussian.draw(30, 1)
    rope = fitted(num_simulations=4_000, tau=0.9)
    x_sim = rope.simulations(30).x
    plan = semi_balanced_plan(torch.cdist(x.double(), x_sim.double()), 0.5, 0.9)
    each = gaussian.exact(x_sim).log_prob(theta[:, None]).exp()  # (30, 4000)
    expected = (30 * plan * each).sum(dim=1).log().float()
    # Four times the same theta, so that the posterior is asked in more than one pass.
    log_prob = rope.log_prob(theta.expand(4, -1, -1), x)
    torch.testing.assert_close(log_prob, expected.expand(4, -1), rtol=1e-4, atol=1e-4)
    draws = rope.sample(7_000, x, seed=1)  # more than one pass, too
    mean = 30 * plan.float() @ (gaussian.SHRINKAGE * x_sim)
    standard_error = draws.std(dim=0) / 7_000**0.5
    assert ((draws.mean(dim=0) - mean).abs() < SEVERAL * standard_error).all()


def test_a_dozen_observations_of_one_theta_cannot_all_be_sharp():
    """Balanced transport spreads them over the prior; free columns do not."""
    x = gaussian.simulate(torch.ones(12, 2), seed=1)
    spread = {
        tau: fitted(tau=tau, num_simulations=2_000).sample(500, x, seed=0).std(dim=0).mean()
        for tau in (0.0, 1.0)
    }
    assert spread[1.0] > 0.9
    assert spread[0.0] < 0.8


@pytest.mark.parametrize(("rows", "kind"), [("unlabelled",) * 2, ("calibration", "x_obs")])
def test_other_rows_count_as_if_they_were_in_the_batch(rows, kind):
    x, others = gaussian.draw(5, 1)[1], gaussian.materials().take(kind)
    added = fitted(rows=rows).corrections(x)
    together = fitted().corrections(torch.cat([x, others]))
    assert torch.equal(added.log_weight, together.log_weight[:, :5])
    assert torch.equal(added.x, together.x[:, :5])


def test_the_squared_metric_is_divided_by_the_width():
    x, x_sim = gaussian.draw(5, 1)[1].double(), gaussian.draw(7, 2)[1].double()
    cost = (x[:, None] - x_sim).square().mean(dim=2)
    plan = fitted(metric="squared", tau=0.9).plan(x, x_sim)
    torch.testing.assert_close(plan, semi_balanced_plan(cost, 0.5, 0.9))


def test_standardising_removes_a_common_shift_and_scale():
    x = gaussian.draw(50, 1)[1]
    rope = fitted(standardise=True)
    moved = rope.corrections(3 * x + 5).log_weight
    torch.testing.assert_close(rope.corrections(x).log_weight, moved, rtol=1e-3, atol=1e-3)


def test_fine_tuning_learns_a_shift():
    shift, num = 2.0, 200
    given = gaussian.materials(num, shift=shift)
    fast = {"learning_rate": 0.01, "num_steps": 500}
    rope = RoPE(embedding=nn.Identity(), **fast).fit(given, seed=0)
    theta, x = gaussian.draw(2_000, 1, shift=shift)
    distance = rope.g_(x) - gaussian.simulate(theta, seed=9)
    # Of a median of 160 pairs: 1.25 times the standard error of a mean.
    standard_error = 1.25 * distance.std(dim=0) / (0.8 * num) ** 0.5
    assert (distance.mean(dim=0).abs() < SEVERAL * standard_error).all()
    assert (SEVERAL * standard_error < shift / 2).all()


def test_fine_tuning_keeps_what_was_right_and_leaves_h_alone():
    h = nn.Sequential(nn.Linear(2, 8), nn.Tanh(), nn.Linear(8, 3))
    x = gaussian.draw(50, 1)[1]
    before = h(x).detach()
    kept = fine_tune(trainable_copy(h, x), x, before, num_steps=50, seed=0)
    assert torch.equal(kept(x), before)
    moved = fine_tune(trainable_copy(h, x), x, before + 1, num_steps=50, seed=0)
    assert (moved(x) - before).abs().min() > 0
    assert torch.equal(h(x), before)


@pytest.mark.parametrize("squared", [False, True])
def test_the_norm_is_less_moved_by_an_outlier_than_its_square(squared):
    """A constant g can only shift: to the mean if squared, near the median if not."""
    x, target = torch.zeros(2_000, 1), torch.zeros(2_000, 1)
    target[:400] = 10.0
    g = fine_tune(
        trainable_copy(nn.Linear(1, 1), x, seed=0),
        x,
        target,
        squared=squared,
        learning_rate=0.05,
        seed=0,
    )
    standard_error = 4 / 400**0.5  # of the mean of 400 held-out targets
    expected = 2.0 if squared else 0.0
    assert g(x[:1]).item() == pytest.approx(expected, abs=SEVERAL * standard_error)


def test_a_copy_starts_as_h_with_or_without_parameters():
    x = gaussian.draw(10, 1)[1]
    for h in (nn.Identity(), nn.Linear(2, 4)):
        g = trainable_copy(h, x, seed=0)
        assert torch.equal(g(x), h(x))
        assert all(parameter.requires_grad for parameter in g.parameters())
        assert len(list(g.parameters())) > 0


def test_more_simulations_per_theta_average_the_noise_away():
    given = gaussian.materials(500)
    theta = given.take("theta*")
    mean = simulated_embedding(nn.Identity(), given, num_simulations=25, seed=0)
    ratio = (mean - theta).std() / (gaussian.NOISE / 5)
    assert ratio == pytest.approx(1, abs=SEVERAL / (2 * 1_000) ** 0.5)


def test_the_embedding_is_that_of_the_flow():
    given = worlds.materials()
    x = given.unlabelled
    expected = given.posterior.estimator.embedding_net(x)
    assert torch.equal(embedding_of(given)(x), expected)


def test_the_embedding_of_a_posterior_without_one_is_a_standardisation():
    x = gaussian.draw(1_000, 1)[1] * 3 + 7
    given = replace(gaussian.materials(), simulations=Simulations(x, x))
    embedded = embedding_of(given)(x)
    torch.testing.assert_close(embedded.mean(dim=0), torch.zeros(2), atol=1e-5, rtol=0)
    torch.testing.assert_close(embedded.std(dim=0), torch.ones(2))


def test_the_embedding_of_sbi_takes_flat_observations():
    given = replace(worlds.materials(), posterior=from_sbi(sbi_embedded()))
    assert embedding_of(given)(given.unlabelled).shape == (100, 3)


def test_without_a_seed_draws_and_density_see_the_same_simulations():
    rope = RoPE(**IDENTITY).fit(gaussian.materials())
    x = gaussian.draw(5, 1)[1]
    first, second = rope.corrections(x), rope.corrections(x)
    assert torch.equal(first.x, second.x)
    assert torch.equal(first.log_weight, second.log_weight)
    assert not torch.equal(
        first.x, RoPE(**IDENTITY).fit(gaussian.materials()).corrections(x).x
    )


def test_step_two_alone_needs_the_true_parameters():
    assert "theta*" in RoPE().needs
    assert "theta*" not in get_method("rope_paper_ot_only").needs
    unlabelled_only = replace(gaussian.materials(), calibration=None)
    assert RoPE(**IDENTITY).fit(unlabelled_only, seed=0).sample(3, torch.zeros(2, 2)).shape


@pytest.mark.parametrize(
    ("options", "message"),
    [
        ({"rows": "all"}, "rows"),
        ({"metric": "cosine"}, "metric"),
        ({"gamma": 0.0}, "gamma"),
        ({"tau": 2.0}, "tau"),
        ({"num_simulations": 0}, "num_simulations"),
    ],
)
def test_bad_options_are_refused(options, message):
    with pytest.raises(ValueError, match=message):
        fitted(**options)


def test_too_few_pairs_are_refused():
    with pytest.raises(ValueError, match="at least 5 calibration pairs, got 4"):
        RoPE().fit(gaussian.materials(4), seed=0)
