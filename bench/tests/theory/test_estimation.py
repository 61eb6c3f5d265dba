"""Tests for ma_sbi.theory.estimation."""

import numpy as np
import pytest

from ma_sbi_bench.theory import (
    break_even_information,
    estimation_error,
    expected_gain,
    explained_variance,
    sub_gaussian_bound,
    symmetric_channel,
    triples_needed,
)


def test_error_of_balanced_regime_means_is_the_closed_form():
    rng = np.random.default_rng(0)
    num_regimes, per_regime, dim, repeats = 3, 8, 2, 4000
    noise = rng.standard_normal((repeats, num_regimes, per_regime, dim))
    errors = np.square(noise.mean(axis=2)).sum(axis=2).mean(axis=1)
    expected = estimation_error(num_regimes, num_regimes * per_regime, float(dim))
    assert abs(errors.mean() - expected) < 4 * errors.std() / np.sqrt(repeats)


def test_gain_of_fitted_means_is_explained_variance_less_the_error():
    """Random counts cost a factor of about 1 + K / n beside Monte Carlo noise."""
    rng = np.random.default_rng(1)
    truth = np.array([-1.5, -0.5, 0.5, 1.5])
    joint, num, repeats = symmetric_channel(4, 0.5), 200, 2000
    explained = explained_variance(truth, joint)
    residual = truth @ truth / 4 - explained + 1.0
    gains = []
    for _ in range(repeats):
        regime, context = np.divmod(rng.choice(16, num, p=joint.ravel()), 4)
        delta = truth[regime] + rng.standard_normal(num)
        means = np.array([delta[context == k].mean() for k in range(4)])
        gains.append((joint * (truth[:, None] ** 2 - (truth[:, None] - means) ** 2)).sum())
    slack = 4 * np.std(gains) / np.sqrt(repeats)
    slack += 2 * 4 / num * estimation_error(4, num, residual)
    assert abs(np.mean(gains) - expected_gain(explained, 4, num, residual)) < slack


def test_at_break_even_the_bound_equals_the_error():
    information = break_even_information(4, 100, residual_variance=3.0, proxy_variance=0.7)
    assert sub_gaussian_bound(information, 0.7) == pytest.approx(
        estimation_error(4, 100, 3.0)
    )


@pytest.mark.parametrize("share", [0.0, 0.5, 0.9, 0.99])
def test_triples_needed_are_the_fewest_that_reach_the_share(share):
    num = triples_needed(5, residual_variance=3.3, explained_variance=0.7, share=share)
    reached = expected_gain(0.7, 5, num, 3.3) / 0.7
    before = expected_gain(0.7, 5, num - 1, 3.3) / 0.7
    assert before < share <= reached + 1e-9


def test_without_noise_one_triple_per_regime_is_enough():
    assert triples_needed(7, residual_variance=0.0, explained_variance=1.0) == 7


def test_a_context_that_explains_nothing_has_no_answer():
    with pytest.raises(ValueError, match="no number of triples is enough"):
        triples_needed(4, residual_variance=1.0, explained_variance=0.0)


@pytest.mark.parametrize(
    ("call", "message"),
    [
        (lambda: estimation_error(0, 10, 1.0), "num_regimes must be a positive integer"),
        (lambda: estimation_error(4, 10, -1.0), "residual_variance must be"),
        (lambda: estimation_error(4, 10, float("nan")), "residual_variance must be"),
        (lambda: break_even_information(4, 10, 1.0, 0.0), "proxy_variance must be"),
        (lambda: triples_needed(4, 1.0, 1.0, share=1.0), "share must be"),
    ],
)
def test_bad_input_is_refused(call, message):
    with pytest.raises(ValueError, match=message):
        call()
