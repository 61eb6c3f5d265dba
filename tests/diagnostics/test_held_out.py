"""Held-out predictions against cross_fit, and intervals against repeated worlds."""

import numpy as np
import pytest
import torch

from ma_sbi import CategoryEncoder, HashEncoder, ShiftCorrector, cross_fit
from ma_sbi.correctors import decompose
from ma_sbi.diagnostics import hold_out
from tests.correctors.worlds import shifted_world


def regimes(n, rng, *, informative=True, dim_x=3, noise=0.5):
    """Four regimes with fixed shifts, in a world of unit simulations."""
    shifts = 0.5 * torch.randn(4, dim_x, generator=torch.Generator().manual_seed(1)) + 0.4
    regime = torch.randint(4, (n,), generator=rng)
    named = regime if informative else torch.randint(4, (n,), generator=rng)
    x_sim = torch.randn(n, dim_x, generator=rng)
    x_obs = x_sim + shifts[regime] + noise * torch.randn(n, dim_x, generator=rng)
    return [f"regime {one}" for one in named.tolist()], x_obs, x_sim


def test_predictions_are_those_of_cross_fit():
    world = shifted_world(60, noise=0.3)
    corrector = ShiftCorrector(HashEncoder())
    held = hold_out(
        world.context, world.x_obs, world.x_sim, corrector=corrector, folds=5, seed=0
    )
    # The folds are recovered from what rows of a fold share: the mean of all others.
    _, fold = np.unique(held.marginal[:, 0].numpy().round(9), return_inverse=True)
    assert len(set(fold)) == 5
    reference = cross_fit(corrector, groups=fold).fit(
        world.context, world.x_obs, world.x_sim, seed=0
    )
    expected = world.x_obs - reference.correct(world.x_obs, world.context)
    # cross_fit answers in float32.
    torch.testing.assert_close(
        (held.predicted * held.scale).float(), expected, atol=1e-5, rtol=1e-5
    )


def test_the_common_part_is_that_of_decompose():
    world = shifted_world(40, noise=0.3)
    held = hold_out(world.context, world.x_obs, world.x_sim, folds=10, seed=0)
    fold = held.marginal[0]
    rest = (held.marginal != fold).any(dim=1)
    contexts = [
        text for text, keep in zip(world.context, rest.tolist(), strict=True) if keep
    ]
    fitted = ShiftCorrector(CategoryEncoder()).fit(
        contexts, world.x_obs[rest], world.x_sim[rest]
    )
    mean = decompose(fitted, contexts).marginal.mean
    torch.testing.assert_close(
        (held.common[0] * held.scale).float(), mean, atol=1e-4, rtol=1e-4
    )


def test_a_group_is_never_split():
    world = shifted_world(60)
    groups = np.repeat(np.arange(6), 10)
    held = hold_out(world.context, world.x_obs, world.x_sim, groups=groups, folds=3, seed=0)
    marginal = held.marginal.reshape(6, 10, -1)
    torch.testing.assert_close(marginal, marginal[:, :1].expand_as(marginal))


def test_the_interval_of_groups_is_that_of_their_sums():
    """Five copies of each row are no more evidence than one."""
    context, x_obs, x_sim = regimes(60, torch.Generator().manual_seed(0))
    once = hold_out(context, x_obs, x_sim, folds=20, seed=0)
    many = hold_out(
        context * 5,
        x_obs.repeat(5, 1),
        x_sim.repeat(5, 1),
        folds=20,
        groups=list(range(60)) * 5,
        seed=0,
    )
    widths = [
        (one.high - one.low)
        for held in (once, many)
        for one in [held.gain(held.loss(0.0), held.loss(held.marginal))]
    ]
    assert widths[1] == pytest.approx(widths[0], rel=0.05)


@pytest.mark.slow
@pytest.mark.parametrize("informative", [True, False])
def test_intervals_cover_the_mean_of_repeated_worlds(informative):
    rng = torch.Generator().manual_seed(0)
    shares = []
    for repeat in range(40):
        held = hold_out(*regimes(80, rng, informative=informative), folds=4, seed=repeat)
        shares.append(held.gain(held.loss(held.marginal), held.loss(held.predicted)))
    mean = np.mean([one.value for one in shares])
    covered = np.mean([one.low <= mean <= one.high for one in shares])
    # Three standard errors of 40 trials of 0.95.
    assert covered >= 0.95 - 3 * (0.95 * 0.05 / 40) ** 0.5


def test_the_number_of_free_shifts_is_found():
    """Numbers on which the departure depends not at all cost the mean alone."""
    rng = torch.Generator().manual_seed(0)
    x_sim = torch.randn(400, 4, generator=rng)
    x_obs = x_sim + torch.randn(400, 4, generator=rng)
    found = hold_out(torch.rand(400, generator=rng), x_obs, x_sim, seed=0)
    assert 1 <= found.num_shifts < 8
    # 4 columns of unit noise in units of the simulations; standard error of a mean of 400.
    assert found.residual_variance == pytest.approx(4.0, abs=4 * 8**0.5 / 400**0.5)


def test_a_constant_context_adds_nothing():
    _, x_obs, x_sim = regimes(50, torch.Generator().manual_seed(0))
    held = hold_out(["same"] * 50, x_obs, x_sim, seed=0)
    torch.testing.assert_close(held.predicted, held.marginal, atol=1e-6, rtol=1e-6)


def test_missing_contexts_are_read():
    context, x_obs, x_sim = regimes(50, torch.Generator().manual_seed(0))
    held = hold_out([None, *context[1:]], x_obs, x_sim, seed=0)
    assert held.predicted.isfinite().all()


def test_the_callers_generator_stays():
    before = torch.get_rng_state()
    hold_out(*regimes(20, torch.Generator().manual_seed(0)), seed=0)
    assert torch.equal(before, torch.get_rng_state())


@pytest.mark.parametrize(
    ("change", "message"),
    [
        ({"rows": 3}, "at least 10 rows, got 3"),
        ({"groups": [0, 1] * 10}, "at least 3 groups, got 2"),
        ({"groups": [0, 1]}, "groups must have one entry per observation"),
        ({"folds": 1}, "folds must be at least 2"),
    ],
    ids=["rows", "groups", "length", "folds"],
)
def test_bad_input_is_named(change, message):
    context, x_obs, x_sim = regimes(20, torch.Generator().manual_seed(0))
    rows = change.pop("rows", 20)
    with pytest.raises(ValueError, match=message):
        hold_out(context[:rows], x_obs[:rows], x_sim[:rows], seed=0, **change)
