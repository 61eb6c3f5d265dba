"""Laws that hold for every posterior: our backbones and everything adapted."""

import warnings

import pytest
import torch
from torch.distributions import Exponential, Independent, Normal

from ma_sbi import (
    CorrectedPosterior,
    check,
    fit_corrector,
    from_bayesflow,
    from_callable,
    from_sbi,
    from_zuko,
)
from ma_sbi.correctors import BaseCorrector
from ma_sbi.posteriors import LeakyPosterior
from ma_sbi.protocols import Corrections
from tests.some_posteriors import DENSE, NOISE, POSTERIORS, PRIOR, exact

X = torch.tensor([[0.5, -0.5, 0.0], [1.0, 1.0, -1.0], [0.0, 0.3, -0.8], [-1.2, 0, 1]])

every_posterior = pytest.mark.parametrize("name", POSTERIORS)
every_density = pytest.mark.parametrize("name", DENSE)


class Candidates(BaseCorrector):
    """A corrector with fixed shifts and weights, whatever the context."""

    def __init__(self, shifts, weights):
        self.shifts, self.weights = torch.tensor(shifts), torch.tensor(weights)

    def corrections(self, x, context):
        shape = (len(self.shifts), len(x))
        return Corrections(
            x=x - self.shifts[:, None],
            log_weight=self.weights.log()[:, None].expand(shape),
            log_abs_det=torch.zeros(shape),
        )


@every_posterior
def test_draws_have_the_shape_and_type_of_the_protocol(name):
    draws = POSTERIORS[name]().sample(7, X, seed=0)
    assert draws.shape == (7, 4, 3)
    assert draws.dtype == torch.float32
    assert torch.isfinite(draws).all()


@every_posterior
def test_same_seed_same_draws_and_the_global_generator_is_left_alone(name):
    posterior = POSTERIORS[name]()
    before = torch.get_rng_state()
    first, second = (posterior.sample(5, X, seed=3) for _ in range(2))
    assert torch.equal(first, second)
    assert not torch.equal(first, posterior.sample(5, X, seed=4))
    assert torch.equal(torch.get_rng_state(), before)


@every_posterior
def test_draws_follow_the_observation(name):
    draws = POSTERIORS[name]().sample(400, X, seed=0)
    # The networks are tiny: they must leave the prior (deviation 1.15) well behind. How
    # exact a properly trained backbone is, the tests of the backbones say.
    assert (draws.mean(dim=0) - X).abs().max() < 1.15 / 4
    assert draws.std(dim=0).max() < 1.15 / 2


@every_posterior
def test_a_batch_has_the_law_of_its_rows(name):
    posterior = POSTERIORS[name]()
    num = 400
    together = posterior.sample(num, X, seed=0).mean(dim=0)
    alone = torch.stack(
        [posterior.sample(num, row[None], seed=9).mean(dim=0)[0] for row in X]
    )
    # Difference of two means, 12 comparisons: 4.5 standard errors.
    error = (2 / num) ** 0.5 * 1.7 * NOISE
    assert (together - alone).abs().max() < 4.5 * error


@every_posterior
def test_draws_stay_inside_the_prior_at_its_edge(name):
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")
        draws = POSTERIORS[name]().sample(50, torch.tensor([[1.9, 1.9, 1.9]]), seed=0)
    assert PRIOR.support.check(draws).all()


@every_posterior
@pytest.mark.parametrize(
    ("x", "message"),
    [
        (torch.full((1, 3), torch.nan), "x must be finite"),
        (torch.zeros(0, 3), "non-empty matrix"),
        (torch.zeros(2, 3, 3), "non-empty matrix"),
    ],
    ids=["nan", "empty", "three_dimensional"],
)
def test_bad_observations_are_refused(name, x, message):
    with pytest.raises(ValueError, match=message):
        POSTERIORS[name]().sample(2, x)


@every_posterior
def test_a_wrong_width_is_refused(name):
    posterior = POSTERIORS[name]()
    if posterior.dim_x is None:
        pytest.skip("this posterior does not know the width of x")
    with pytest.raises(ValueError, match="x must have 3 columns, got 5"):
        posterior.sample(2, torch.zeros(1, 5))


@every_posterior
@pytest.mark.parametrize("num_samples", [0, -1, 1.5, True, (2, 0)], ids=repr)
def test_a_bad_number_of_draws_is_refused(name, num_samples):
    with pytest.raises(ValueError, match="num_samples must be a positive integer"):
        POSTERIORS[name]().sample(num_samples, X)


@every_posterior
def test_many_draws_are_made_in_several_passes(name, monkeypatch):
    posterior = POSTERIORS[name]()
    monkeypatch.setattr(posterior, "max_rows", 8)
    assert posterior.sample(5, X, seed=0).shape == (5, 4, 3)


@every_posterior
def test_a_zero_shift_changes_nothing(name):
    posterior = POSTERIORS[name]()
    corrected = CorrectedPosterior(posterior, Candidates([[0.0] * 3], [1.0]))
    assert torch.equal(
        corrected.sample(5, X, "any", seed=1), posterior.sample(5, X, seed=1)
    )


@every_posterior
def test_a_mixture_has_the_mean_of_its_weighted_candidates(name):
    posterior = POSTERIORS[name]()
    shifts, weights = [[0.5] * 3, [-0.3] * 3], [0.25, 0.75]
    corrected = CorrectedPosterior(posterior, Candidates(shifts, weights))
    num = 1000
    draws = corrected.sample(num, X[2:3], "any", seed=0)
    parts = [
        posterior.sample(num, X[2:3] - torch.tensor(shift), seed=0).mean(dim=0)
        for shift in shifts
    ]
    expected = 0.25 * parts[0] + 0.75 * parts[1]
    # Spread of the mixture: between candidates 0.35, within about 0.25.
    error = (0.35**2 + 2 * 0.25**2) ** 0.5 / num**0.5
    assert (draws.mean(dim=0) - expected).abs().max() < 4 * error


@every_posterior
def test_mixture_draws_are_not_grouped_by_candidate(name):
    posterior = POSTERIORS[name]()
    corrected = CorrectedPosterior(
        posterior, Candidates([[0.8] * 3, [-0.8] * 3], [0.5, 0.5])
    )
    draws = corrected.sample(400, torch.zeros(1, 3), "any", seed=0)[:, 0, 0]
    upper = draws > 0
    runs = 1 + (upper[1:] != upper[:-1]).sum().item()
    # 400 fair coins make 200.5 runs, standard deviation 10.
    assert abs(runs - 200.5) < 45


def test_the_choice_of_candidate_is_independent_of_the_draw():
    posterior = POSTERIORS["from_callable_batched"]()
    corrected = CorrectedPosterior(
        posterior, Candidates([[0.8] * 3, [-0.8] * 3], [0.5, 0.5])
    )
    draws = corrected.sample(4000, torch.zeros(1, 3), "any", seed=0)[:, 0]
    upper = draws[:, 0] > 0
    noise = draws - torch.where(upper, 0.8, -0.8)[:, None]
    difference = noise[upper].mean(dim=0) - noise[~upper].mean(dim=0)
    # Two means of about 2000 draws each; five standard errors.
    assert difference.abs().max() < 5 * NOISE * (2 / 2000) ** 0.5


@every_density
def test_density_has_the_shape_of_the_protocol_and_is_minus_infinity_outside(name):
    posterior = DENSE[name]()
    theta = PRIOR.sample((6, 4))
    theta[0] = 5.0
    log_prob = posterior.log_prob(theta, X)
    assert log_prob.shape == (6, 4)
    assert (log_prob[0] == -torch.inf).all()
    assert torch.isfinite(log_prob[1:]).all()
    assert not log_prob.requires_grad


@every_density
def test_density_integrates_to_one_over_the_prior(name):
    posterior = DENSE[name]()
    # An x at the edge of the support, where a plain density would leak.
    x = torch.tensor([[1.8, 0.0, 0.0]])
    num = 40_000
    wide = Independent(Normal(x, 3 * NOISE), 1)
    theta = wide.sample((num,))
    weight = (posterior.log_prob(theta, x) - wide.log_prob(theta)).exp()[:, 0]
    error = weight.std() / num**0.5
    assert abs(weight.mean() - 1) < 4 * error + 0.02  # 0.02: the leakage estimate's own


@every_posterior
def test_a_shape_takes_the_place_of_a_number_of_draws(name):
    posterior = POSTERIORS[name]()
    draws = posterior.sample(6, X, seed=0)
    assert torch.equal(posterior.sample((6,), X, seed=0), draws)
    two = posterior.sample(torch.Size([2, 3]), X, seed=0)
    assert torch.equal(two, draws.reshape(2, 3, 4, 3))
    corrected = CorrectedPosterior(posterior, Candidates([[0.0] * 3], [1.0]))
    assert torch.equal(corrected.sample((2, 3), X, "any", seed=0), two)


@pytest.mark.parametrize("name", [one for one in DENSE if one != "from_bayesflow"])
def test_density_is_differentiable_in_theta(name):
    theta = torch.zeros(3, 4, 3, requires_grad=True)
    DENSE[name]().log_prob(theta, X).sum().backward()
    assert torch.isfinite(theta.grad).all()
    assert (theta.grad != 0).any()


@every_density
def test_mixture_density_is_the_weighted_sum(name):
    posterior = DENSE[name]()
    shifts, weights = [[0.1] * 3, [-0.2] * 3], [0.25, 0.75]
    corrected = CorrectedPosterior(posterior, Candidates(shifts, weights))
    theta = X + 0.1 * torch.randn(5, 4, 3)
    parts = [
        posterior.log_prob(theta, X - torch.tensor(shift)).exp() * weight
        for shift, weight in zip(shifts, weights, strict=True)
    ]
    torch.testing.assert_close(
        corrected.log_prob(theta, X, "any").exp(), sum(parts), rtol=0.02, atol=1e-5
    )


@every_density
@pytest.mark.parametrize(
    ("theta", "message"),
    [
        (torch.zeros(4, 3), "theta must have shape"),
        (torch.zeros(1, 4, 2), "theta must have 3 dimensions"),
        (torch.full((1, 4, 3), torch.nan), "theta must not be NaN"),
    ],
    ids=["matrix", "narrow", "nan"],
)
def test_a_bad_theta_is_refused(name, theta, message):
    with pytest.raises(ValueError, match=message):
        DENSE[name]().log_prob(theta, X)


def test_a_posterior_that_leaks_everything_returns_in_bounded_time():
    posterior = POSTERIORS["from_callable"]()
    with pytest.warns(LeakyPosterior, match="nearly all draws lie outside"):
        draws = posterior.sample(200, torch.tensor([[3.5, 0.0, 0.0]]), seed=0)
    assert PRIOR.support.check(draws).all()
    # The truncated density falls off as exp(-37 (2 - theta_1)) from the edge.
    assert 1.9 < draws[:, 0, 0].mean() < 2.0
    # A few candidates share all the weight, so the mean is rough; its deviation of 0.22 is
    # far from the 1.2 of candidates that are not weighted.
    assert draws[:, 0, 1].std() < 0.6


def test_draws_far_outside_are_told_once_for_all_rows_and_candidates():
    x = torch.tensor([[3.5, 0.0, 0.0], [0.0, 0.0, 0.0], [3.6, 0.0, 0.0]])
    candidates = Candidates([[0.0, 0.0, 0.0], [-0.1, 0.0, 0.0]], [0.8, 0.2])
    corrected = CorrectedPosterior(POSTERIORS["from_callable"](), candidates)
    with warnings.catch_warnings(record=True) as caught:
        warnings.simplefilter("always")
        corrected.sample(20, x, "any", seed=0)
    (said,) = [one for one in caught if one.category is LeakyPosterior]
    assert "row" not in str(said.message)


@pytest.mark.parametrize("how", ["check", "fit"])
def test_draws_far_outside_are_told_once_by_what_asks_often(how):
    posterior = POSTERIORS["from_callable"]()
    x_sim = torch.randn(40, 3, generator=torch.Generator().manual_seed(0)).clamp(-1, 1)
    x_sim[::10, 0] = 3.5
    notes, x_obs = ["high", "fine"] * 20, x_sim + 0.1
    with warnings.catch_warnings(record=True) as caught:
        warnings.simplefilter("always")
        if how == "check":
            check(x_obs, notes, x_sim=x_sim, posterior=posterior, seed=0)
        else:
            fit_corrector(notes, x_obs, x_sim, posterior=posterior, seed=0)
    assert len([one for one in caught if one.category is LeakyPosterior]) == 1


def test_a_posterior_that_leaks_everything_and_has_no_density_says_so():
    posterior = from_callable(lambda n, x: torch.full((n, 3), 9.0), prior=PRIOR)
    with pytest.raises(ValueError, match="no density to resample by"):
        posterior.sample(5, X)


def test_what_is_missing_is_resampled_by_the_density_over_the_prior():
    # q = N(-3, 0.5^2) cut to the positive half-line, under a prior that is not flat.
    prior = Independent(Exponential(torch.tensor([5.0])), 1)
    leaky = Normal(torch.tensor([-3.0]), 0.5)
    posterior = from_callable(
        lambda n, x: leaky.sample((n,)),
        lambda theta, x: leaky.log_prob(theta).sum(dim=-1),
        prior=prior,
    )
    with pytest.warns(LeakyPosterior):
        draws = posterior.sample(4000, torch.zeros(1, 1), seed=0)
    # Mean of the cut normal, by its hazard at 6 deviations; its deviation is as big.
    assert abs(draws.mean() - 0.0792) < 5 * 0.08 / 1000**0.5


def counting_posterior():
    """Return the exact posterior, and a list of how many draws were asked of it."""
    counts = []

    def draw(num_samples, x):
        counts.append(num_samples * len(x))
        return exact(x).sample((num_samples,))

    return from_callable(draw, batched=True, prior=PRIOR), counts


def test_a_few_leaky_rows_do_not_make_all_rows_pay():
    posterior, counts = counting_posterior()
    x = torch.zeros(1000, 3)
    x[:5] = 1.9
    posterior.sample(5, x, seed=0)
    assert sum(counts) < 2 * 5 * 1000


@pytest.mark.parametrize("num_candidates", [2, 50])
def test_a_mixture_draws_little_more_than_it_needs(num_candidates):
    posterior, counts = counting_posterior()
    shifts = torch.linspace(-0.5, 0.5, num_candidates)[:, None].expand(-1, 3).tolist()
    mixture = Candidates(shifts, [1 / num_candidates] * num_candidates)
    draws = CorrectedPosterior(posterior, mixture).sample(1000, X, "any", seed=0)
    assert draws.shape == (1000, 4, 3)
    assert sum(counts) < 3 * 1000 * 4


def test_functions_that_return_another_shape_are_refused():
    posterior = from_callable(lambda n, x: torch.zeros(n, 2, 3), batched=True)
    with pytest.raises(ValueError, match=r"must return shape .*got \(5, 2, 3\)"):
        posterior.sample(5, X)
    posterior = from_callable(
        lambda n, x: torch.zeros(n, 3), lambda theta, x: torch.zeros(7)
    )
    with pytest.raises(ValueError, match=r"one value per theta, shape \(2, 4\)"):
        posterior.log_prob(torch.zeros(2, 4, 3), X)
    posterior = from_callable(lambda n, x: torch.full((n, 3), torch.nan))
    with pytest.raises(ValueError, match="finite draws"):
        posterior.sample(2, X)


def in_the_other_order(num_samples, x):
    return exact(x).sample((num_samples,)).transpose(0, 1)


@pytest.mark.parametrize(
    ("batched", "batch", "found"),
    [(True, 5, r"\(5, 6, 3\) for 6 draws of 5"), (False, 3, r"\(3, 4\) for 4 draws of 3")],
    ids=["as many draws as observations", "as many draws as parameters"],
)
def test_the_other_order_of_dimensions_is_refused_where_sizes_agree(batched, batch, found):
    posterior = from_callable(in_the_other_order, batched=batched)
    with pytest.raises(ValueError, match=f"got {found}"):
        posterior.sample(batch, torch.zeros(batch, 3))


@pytest.mark.parametrize("num_samples", [3, 4, 5])
def test_rows_in_the_place_of_parameters_are_refused_where_sizes_agree(num_samples):
    x = torch.arange(9.0).reshape(3, 3)
    posterior = from_callable(
        lambda n, x: x.T[None] + torch.zeros(n, 3, len(x)), batched=True
    )
    with pytest.raises(ValueError, match=r"must return shape \(num_samples, batch"):
        posterior.sample(num_samples, x)
    right = from_callable(lambda n, x: x + torch.zeros(n, *x.shape), batched=True)
    assert torch.equal(right.sample(num_samples, x), x.expand(num_samples, 3, 3))


def test_a_density_in_the_other_order_is_refused_where_sizes_agree():
    posterior = from_callable(
        lambda n, x: exact(x).sample((n,)),
        lambda theta, x: exact(x).log_prob(theta).T,
        batched=True,
    )
    with pytest.raises(ValueError, match=r"shape \(5, 4\) in all, got \(4, 5\)"):
        posterior.log_prob(torch.zeros(4, 4, 3), X)


@pytest.mark.parametrize("batched", [True, False])
def test_a_function_in_the_right_order_works_where_sizes_agree(batched):
    posterior = from_callable(lambda n, x: exact(x).sample((n,)), batched=batched)
    x = 10 * torch.eye(3)
    draws = posterior.sample(3, x, seed=0)
    assert (draws - x).abs().max() < 6 * NOISE  # 27 draws


def test_a_function_with_fewer_parameters_than_the_prior_is_refused():
    posterior = from_callable(lambda n, x: torch.zeros(n, 2), prior=PRIOR)
    with pytest.raises(ValueError, match="must return 3 parameters, as the prior has"):
        posterior.sample(5, X)


@pytest.mark.parametrize("adapt", [from_sbi, from_zuko, from_callable, from_bayesflow])
def test_adapters_refuse_what_they_cannot_adapt(adapt):
    words = ["a posterior", "x"] if adapt is from_bayesflow else ["a posterior"]
    with pytest.raises(ValueError, match="expects|must be a function"):
        adapt(*words)
