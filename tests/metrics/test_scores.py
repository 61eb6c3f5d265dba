"""Tests for ma_sbi.metrics.scores."""

import pytest
import torch
from torch.distributions import Normal

from ma_sbi.metrics import excess_error, log_score, posterior_mean_error


class GaussianPosterior:
    """The exact posterior of theta ~ N(0, 1), x ~ N(theta + shift, 1)."""

    def log_prob(self, theta, x, context=0.0):
        shift = torch.as_tensor(context).reshape(-1, 1)
        return Normal((x - shift) / 2, 0.5**0.5).log_prob(theta).sum(dim=-1)


@pytest.fixture
def truth():
    generator = torch.Generator().manual_seed(0)
    theta = torch.randn(500, 3, generator=generator)
    return theta, theta + torch.randn(500, 3, generator=generator)


def test_log_score_is_the_density_of_the_true_parameters(truth):
    theta, x = truth
    expected = -1.5 * torch.log(torch.tensor(torch.pi)) - (theta - x / 2).square().sum(1)
    torch.testing.assert_close(log_score(GaussianPosterior(), theta, x), expected)


def test_log_score_passes_the_context_on(truth):
    theta, x = truth
    context = torch.linspace(-1, 1, len(x))
    corrected = log_score(GaussianPosterior(), theta, x + context[:, None], context=context)
    torch.testing.assert_close(corrected, log_score(GaussianPosterior(), theta, x))


def test_log_score_prefers_the_exact_posterior(truth):
    theta, x = truth
    exact = log_score(GaussianPosterior(), theta, x)
    for shift in (-0.5, 0.5):
        shifted = log_score(GaussianPosterior(), theta, x, context=shift)
        gain = exact - shifted
        assert gain.mean() > 3 * gain.std() / len(gain) ** 0.5


def test_log_score_keeps_minus_infinity():
    class Nowhere:
        def log_prob(self, theta, x):
            return torch.full(theta.shape[:2], -torch.inf)

    assert log_score(Nowhere(), [[0.0]], [[0.0]]).item() == -torch.inf


def test_log_score_needs_a_density():
    with pytest.raises(TypeError, match="must have a log_prob .* got object"):
        log_score(object(), [[0.0]], [[0.0]])


def test_log_score_needs_pairs():
    with pytest.raises(ValueError, match="got 2 and 1 rows"):
        log_score(GaussianPosterior(), [[0.0], [1.0]], [[0.0]])


def test_log_score_names_a_wrong_shape():
    class Flat:
        def log_prob(self, theta, x):
            return torch.zeros(len(x))

    with pytest.raises(ValueError, match=r"shape \(1, 2\) .* got \(2,\)"):
        log_score(Flat(), [[0.0], [1.0]], [[0.0], [1.0]])


def test_posterior_mean_error_is_bias_squared_over_dimensions():
    centred = torch.tensor([-1.0, 0.0, 1.0])[:, None, None]
    theta = torch.tensor([[1.0, 2.0], [3.0, 4.0]])
    bias = torch.tensor([[0.0, 2.0], [1.0, 1.0]])
    error = posterior_mean_error(theta + bias + centred, theta)
    torch.testing.assert_close(error, torch.tensor([2.0, 1.0]))


@pytest.mark.parametrize(
    ("samples", "theta", "message"),
    [
        (torch.zeros(4, 2), torch.zeros(4, 2), r"\(num_samples, batch, dim\)"),
        (torch.zeros(4, 3, 2), torch.zeros(2, 2), "expected 3, got 2"),
        (torch.zeros(4, 3, 2), torch.zeros(3, 1), "theta must have 2 columns, got 1"),
        (torch.full((4, 3, 2), torch.inf), torch.zeros(3, 2), "samples must be finite"),
    ],
    ids=["axes", "rows", "columns", "infinite"],
)
def test_posterior_mean_error_rejects_bad_input(samples, theta, message):
    with pytest.raises(ValueError, match=message):
        posterior_mean_error(samples, theta)


def test_posterior_mean_error_may_be_taken_of_logarithms():
    log_draws = torch.tensor([[[-1.0, 0.0]], [[3.0, 2.0]]])
    log_theta = torch.tensor([[0.0, 1.0]])
    error = posterior_mean_error(log_draws.exp(), log_theta.exp(), transform=torch.log)
    torch.testing.assert_close(error, torch.tensor([0.5]))


def test_a_transform_that_leaves_the_numbers_is_named():
    with pytest.raises(ValueError, match="transformed samples must be finite"):
        posterior_mean_error(torch.zeros(4, 3, 2), torch.ones(3, 2), transform=torch.log)


def test_the_exact_posterior_has_no_excess_and_others_have_their_squared_distance(truth):
    theta, x = truth
    exact = x[None] / 2
    assert excess_error(exact, exact, theta).eq(0).all()
    # The error of the exact mean is independent of x, so only the distance is left.
    excess = excess_error(exact + 0.3 * x, exact, theta)
    squared = (0.3 * x).square().mean(dim=1)
    gap = excess - squared
    assert gap.mean().abs() < 4 * gap.std() / len(gap) ** 0.5
    assert excess.mean() > 4 * excess.std() / len(excess) ** 0.5
