"""Tests for ma_sbi.correctors.cross_fitting."""

import warnings

import numpy as np
import pandas as pd
import pytest
import torch
from sklearn.exceptions import NotFittedError

from ma_sbi import (
    BootstrapCorrector,
    CategoryEncoder,
    CorrectedPosterior,
    HashEncoder,
    MatchingCorrector,
    ShiftCorrector,
    cross_fit,
    from_callable,
    mixture,
)
from ma_sbi.correctors import UnseenContext
from tests.correctors.worlds import shifted_world

pytestmark = pytest.mark.filterwarnings("ignore:every calibration row")

CONTEXT = ["a", "a", "a", "b", "b"]
X_OBS = torch.tensor([[1.0], [2.0], [4.0], [8.0], [16.0]])
X_SIM = torch.zeros(5, 1)


def residuals_of(corrector, row, x=X_OBS, context=CONTEXT):
    found = corrector.corrections(x, context)
    kept = found.log_weight[:, row] > -torch.inf
    return sorted((x[row] - found.x[kept, row]).flatten().tolist())


def test_leaving_one_out_no_row_sees_its_own_residual():
    corrector = cross_fit(BootstrapCorrector(CategoryEncoder())).fit(CONTEXT, X_OBS, X_SIM)
    assert residuals_of(corrector, 0) == [2.0, 4.0]
    assert residuals_of(corrector, 2) == [1.0, 2.0]
    assert residuals_of(corrector, 3) == [16.0]
    assert corrector.num_training_.tolist() == [4] * 5


def test_past_only_no_row_sees_its_present_or_future():
    time = pd.to_datetime(
        ["2020-01-01", "2020-01-15", "2020-01-15", "2020-01-01", "2020-02-01"]
    )
    with pytest.warns(UserWarning, match="2 of 5 rows have no other row"):
        corrector = cross_fit(BootstrapCorrector(CategoryEncoder()), time=time).fit(
            CONTEXT, X_OBS, X_SIM
        )
    assert residuals_of(corrector, 0) == [0.0]
    assert residuals_of(corrector, 1) == residuals_of(corrector, 2) == [1.0]
    assert residuals_of(corrector, 4) == [8.0]
    assert corrector.num_training_.tolist() == [0, 2, 2, 0, 4]


def test_rows_of_a_group_do_not_learn_from_each_other():
    groups = ["GBR", "GBR", "USA", "USA", "NZL"]
    corrector = cross_fit(BootstrapCorrector(CategoryEncoder()), groups=groups)
    corrector.fit(CONTEXT, X_OBS, X_SIM)
    assert residuals_of(corrector, 0) == [4.0]
    assert residuals_of(corrector, 2) == [1.0, 2.0]
    both = cross_fit(
        BootstrapCorrector(CategoryEncoder()), groups=groups, time=[1, 2, 2, 1, 3]
    )
    with pytest.warns(UserWarning, match="2 of 5 rows"):
        both.fit(CONTEXT, X_OBS, X_SIM)
    # A label that no earlier row of another group has draws from all of them.
    with pytest.warns(UnseenContext):
        assert residuals_of(both, 2) == [1.0]


def test_each_row_is_what_a_fit_to_the_others_says():
    world = shifted_world(20, noise=1.0, dim_x=2)
    corrector = cross_fit(ShiftCorrector(HashEncoder())).fit(*world[:3])
    found = corrector.correct(world.x_obs, world.context)
    for row in (0, 7, 19):
        others = [index for index in range(20) if index != row]
        alone = ShiftCorrector(HashEncoder()).fit(
            [world.context[index] for index in others],
            world.x_obs[others],
            world.x_sim[others],
        )
        expected = alone.correct(world.x_obs[[row]], [world.context[row]])
        torch.testing.assert_close(found[[row]], expected)


def test_a_row_has_no_influence_on_its_own_correction():
    world = shifted_world(12, noise=1.0, dim_x=2)
    moved = world.x_obs.clone()
    moved[3] += 100.0
    shifts = []
    for x_obs in (world.x_obs, moved):
        corrector = cross_fit(ShiftCorrector(HashEncoder()))
        corrector.fit(world.context, x_obs, world.x_sim)
        shifts.append(x_obs - corrector.correct(x_obs, world.context))
    torch.testing.assert_close(shifts[0][3], shifts[1][3], atol=1e-4, rtol=1e-4)
    assert not torch.allclose(shifts[0][7], shifts[1][7], atol=1.0)


def test_it_serves_a_corrected_posterior(exact_gaussian):
    world = shifted_world(12, noise=1.0, dim_x=3)
    corrector = cross_fit(BootstrapCorrector(HashEncoder())).fit(*world[:3])
    corrected = CorrectedPosterior(exact_gaussian, corrector)
    draws = corrected.sample(5, world.x_obs, world.context, seed=0)
    assert draws.shape == (5, 12, 3)
    assert torch.isfinite(draws).all()
    density = corrected.log_prob(draws, world.x_obs, world.context)
    assert torch.isfinite(density).all()


def test_matching_learns_from_the_whole_pool_in_every_copy():
    world = shifted_world(12, dim_x=2)
    with pytest.warns(UserWarning, match="matching takes every difference") as caught:
        corrector = cross_fit(MatchingCorrector(HashEncoder())).fit(
            world.context, world.x_obs, simulations=torch.randn(100, 2)
        )
    assert len(caught) == 1
    assert corrector.correct(world.x_obs, world.context).shape == (12, 2)


def test_other_observations_are_refused():
    corrector = cross_fit(ShiftCorrector(CategoryEncoder()))
    with pytest.raises(NotFittedError, match="not fitted yet"):
        corrector.corrections(X_OBS, CONTEXT)
    corrector.fit(CONTEXT, X_OBS, X_SIM)
    with pytest.raises(ValueError, match="corrects only the observations it was fitted to"):
        corrector.corrections(X_OBS[:2], CONTEXT[:2])
    with pytest.raises(ValueError, match="corrects only the observations it was fitted to"):
        corrector.corrections(X_OBS.flip(0), CONTEXT)
    with pytest.raises(ValueError, match="context differs from theirs"):
        corrector.corrections(X_OBS, CONTEXT[::-1])


def test_the_encoder_reads_every_context_once():
    read = []

    class Counting(HashEncoder):
        def transform(self, context):
            read.extend(context)
            return super().transform(context)

    corrector = cross_fit(BootstrapCorrector(Counting()))
    corrector.fit(CONTEXT, X_OBS, X_SIM).corrections(X_OBS, CONTEXT)
    assert sorted(read) == ["a", "b"]


def test_a_label_that_appears_late_is_known():
    time = [1, 2, 3, 4, 5]
    corrector = cross_fit(BootstrapCorrector(CategoryEncoder()), time=time)
    with pytest.warns(UserWarning, match="1 of 5 rows"):
        corrector.fit(CONTEXT, X_OBS, X_SIM)
    with pytest.warns(UnseenContext, match=r"1 of 5 rows have a context that none"):
        assert residuals_of(corrector, 3) == [1.0, 2.0, 4.0]


@pytest.mark.parametrize(
    ("option", "message"),
    [
        ({"time": [1, 2]}, "time must have one entry per observation: expected 5, got 2"),
        ({"groups": "GBR"}, "groups must have one entry .* got a single value"),
        ({"time": [1.0, 2.0, np.nan, 3.0, 4.0]}, "time must not be missing, got 1 gaps"),
        ({"groups": ["a", None, "b", "b", None]}, "groups must not be missing, got 2"),
    ],
    ids=["short", "scalar", "gap", "None"],
)
def test_times_and_groups_belong_to_rows(option, message):
    corrector = cross_fit(ShiftCorrector(CategoryEncoder()), **option)
    with pytest.raises(ValueError, match=message):
        corrector.fit(CONTEXT, X_OBS, X_SIM)


def test_the_corrector_that_was_passed_stays_unfitted():
    plain = ShiftCorrector(CategoryEncoder())
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")
        cross_fit(plain).fit(CONTEXT, X_OBS, X_SIM)
    assert not hasattr(plain, "fitted_")


def test_a_corrected_posterior_shows_it_all_rows_at_once(monkeypatch):
    """A corrected posterior works through rows in blocks, which it could not place."""
    monkeypatch.setattr(mixture, "ROWS_AT_ONCE", 7)
    rng = torch.Generator().manual_seed(0)
    x_sim = torch.randn(20, 2, generator=rng)
    notes = ["high", "low"] * 10
    x_obs = x_sim + torch.tensor([[1.0, 0.0], [-1.0, 0.0]]).repeat(10, 1)
    fitted = cross_fit(ShiftCorrector(CategoryEncoder())).fit(notes, x_obs, x_sim)
    posterior = from_callable(lambda num, x: x.expand(num, -1, -1), batched=True)
    draws = CorrectedPosterior(posterior, fitted).sample(3, x_obs, notes, seed=0)
    torch.testing.assert_close(draws[0], fitted.correct(x_obs, notes))
