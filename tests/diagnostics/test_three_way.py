"""The three-way decomposition in a linear Gaussian world, where shares are known.

theta ~ N(0, 1), x ~ N(theta, 1), exact posterior N(x / 2, 1 / 2): a shift d of x moves the
posterior mean by d / 2, so that shares of the departure and of the gap are the same.
"""

import pytest
import torch

from ma_sbi import CategoryEncoder, ComposedCorrector, from_callable
from ma_sbi.correctors import Affine, Point, Ridge
from ma_sbi.diagnostics import three_way, weak_context

PARTS = ("marginal", "conditional", "total")
# Regime means (1.2, 0) and (-0.4, 0): mean 0.4, deviations +-0.8: shares 0.2 and 0.8.
SHIFTS = torch.tensor([[1.2, 0.0], [-0.4, 0.0]])
EXACT = from_callable(
    lambda num, x: x / 2 + torch.randn(num, *x.shape) * 0.5**0.5, batched=True
)


def world(n=400, *, noise=0.0, informative=True):
    rng = torch.Generator().manual_seed(0)
    theta = torch.randn(n, 2, generator=rng)
    x_sim = theta + torch.randn(n, 2, generator=rng)
    regime = torch.arange(n) % 2
    x_obs = x_sim + SHIFTS[regime] + noise * torch.randn(n, 2, generator=rng)
    told = regime if informative else torch.randint(2, (n,), generator=rng)
    return ["on" if one else "off" for one in told], x_obs, x_sim, theta


def test_shares_of_the_departure_are_those_of_the_closed_form():
    context, x_obs, x_sim, _ = world()
    found = three_way(context, x_obs, x_sim, seed=0)
    for part, expected in zip(PARTS, (0.2, 0.8, 1.0), strict=True):
        share = getattr(found, part)
        assert share.value == pytest.approx(expected, abs=0.01)
        assert share.low - 0.01 < expected < share.high + 0.01
    assert found.gap is None
    assert not found.context_adds_nothing.equivalent


def test_shares_of_the_gap_are_the_same_for_an_exact_linear_posterior():
    context, x_obs, x_sim, _ = world()
    found = three_way(context, x_obs, x_sim, posterior=EXACT, seed=0)
    for part, expected in zip(PARTS, (0.2, 0.8, 1.0), strict=True):
        # The same random numbers at every x: the means differ by the shift alone.
        assert getattr(found.gap, part).value == pytest.approx(expected, abs=0.02)
    assert found.gap.to_oracle.equivalent
    assert "of the posterior's gap" in str(found)
    assert "oracle" in str(found)


def test_the_true_theta_gives_the_same_shares_with_more_noise():
    context, x_obs, x_sim, theta = world(2000)
    found = three_way(
        context, x_obs, x_sim, posterior=EXACT, theta=theta, max_rows=2000, seed=0
    )
    for part, expected in zip(PARTS, (0.2, 0.8, 1.0), strict=True):
        closed = getattr(found.gap, part)
        # Intervals are of 95 %, three of them: twice their width is four standard errors.
        width = closed.high - closed.low
        assert abs(closed.value - expected) < max(width, 0.01)


def test_a_context_that_says_nothing_is_shown_not_to_matter():
    context, x_obs, x_sim, _ = world(1000, noise=0.3, informative=False)
    found = three_way(context, x_obs, x_sim, posterior=EXACT, seed=0)
    assert found.context_adds_nothing.equivalent
    assert found.context_adds_nothing.margin == 0.05
    assert abs(found.conditional.value) < 0.02
    assert not found.gap.to_oracle.equivalent
    # Mean 0.16 of 0.16 + 0.64 + 0.18.
    assert found.total.value == pytest.approx(0.16 / 0.98, abs=0.04)


def test_copies_of_rows_are_no_more_evidence():
    """Five copies of each row, one group: intervals and tests are those of one copy."""
    context, x_obs, x_sim, _ = world(60, noise=0.5)
    once = three_way(context, x_obs, x_sim, posterior=EXACT, folds=20, seed=0)
    many = three_way(
        context * 5,
        x_obs.repeat(5, 1),
        x_sim.repeat(5, 1),
        posterior=EXACT,
        folds=20,
        groups=list(range(60)) * 5,
        seed=0,
    )
    widths = [
        [one.high - one.low for one in (found.context_adds_nothing, found.gap.total)]
        for found in (once, many)
    ]
    assert many.context_adds_nothing.num_pairs == 60
    # The bootstrap of the gap knows its width to a few percent.
    assert widths[1] == pytest.approx(widths[0], rel=0.15)


def test_the_test_of_the_context_has_the_interval_of_its_share():
    context, x_obs, x_sim, _ = world(200, noise=0.5)
    found = three_way(context, x_obs, x_sim, seed=0).context_adds_nothing
    share = weak_context(context, x_obs, x_sim, seed=0).conditional
    # The one by the mean of what the corrector predicts, the other by the mean departure.
    assert (found.low, found.high) == pytest.approx((share.low, share.high), abs=0.01)


def test_where_there_is_no_gap_it_is_blank():
    context, _, x_sim, _ = world()
    found = three_way(context, x_sim, x_sim, posterior=EXACT, seed=0)
    assert found.gap.total.blank
    assert found.gap.to_oracle is None
    assert found.total.value == 0.0


def test_an_affine_corrector_is_split_at_its_mean_prediction():
    context, _, x_sim, _ = world()
    corrector = ComposedCorrector(CategoryEncoder(), Affine(), Ridge(), Point())
    found = three_way(context, 2 * x_sim, x_sim, corrector=corrector, seed=0)
    assert found.total.value == pytest.approx(1.0, abs=1e-3)
    assert found.marginal.value < 0.05


@pytest.mark.parametrize(
    ("options", "message"),
    [
        ({"margin": 0.0}, "margin must be a positive number"),
        ({"posterior": EXACT, "theta": torch.zeros(3, 2)}, "theta must have one row"),
        ({"posterior": EXACT, "max_rows": 0}, "max_rows must be a positive integer"),
    ],
    ids=["margin", "theta", "rows"],
)
def test_bad_input_is_named(options, message):
    context, x_obs, x_sim, _ = world(40)
    with pytest.raises(ValueError, match=message):
        three_way(context, x_obs, x_sim, **options)
