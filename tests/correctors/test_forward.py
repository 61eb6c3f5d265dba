"""Departures that are learned forwards and inverted on simulations."""

import warnings

import pytest
import torch
from sklearn.exceptions import NotFittedError

from ma_sbi.correctors import (
    FewPairs,
    ForwardCorrector,
    OtherUnits,
    UnseenContext,
    way_back,
)

NOTES = ["The instrument is new.", "The instrument is worn."]


def normal(num, dim, seed):
    return torch.randn(num, dim, generator=torch.Generator().manual_seed(seed))


def pairs(depart, num=100, dim=3, seed=0):
    """Alternate between nothing and a departure."""
    x_sim = normal(num, dim, seed)
    worn = torch.arange(num) % 2 == 1
    x_obs = torch.where(worn[:, None], depart(x_sim), x_sim)
    return [NOTES[int(one)] for one in worn], x_obs, x_sim


def test_a_shift_is_undone_exactly():
    data = pairs(lambda x: x + 2)
    corrector = ForwardCorrector(normal(1000, 3, 9)).fit(*data)
    new = normal(50, 3, 5)
    for note, shift in zip(NOTES, (0, 2), strict=True):
        # Most candidates: a few are there in case that the note is wrong.
        middle = corrector.corrections(new + shift, note).x.median(dim=0).values
        torch.testing.assert_close(middle, new, atol=1e-3, rtol=0)


def test_observations_may_be_negative_where_simulations_are_not():
    x_sim, pool, new = (normal(num, 3, num).abs() for num in (100, 1000, 50))
    corrector = ForwardCorrector(pool).fit(["-"] * 100, x_sim - 5, x_sim)
    torch.testing.assert_close(corrector.correct(new - 5, "-"), new, atol=1e-3, rtol=0)


def test_simulations_in_order_are_no_trouble():
    context, x_obs, x_sim = pairs(lambda x: 2 * x)
    pool = normal(4000, 3, 9)
    pool = pool[pool[:, 0].argsort()]
    corrector = ForwardCorrector(pool).fit(context, x_obs, x_sim)
    new = normal(50, 3, 5)
    torch.testing.assert_close(corrector.correct(2 * new, NOTES[1]), new, atol=0.01, rtol=0)


def test_a_departure_that_no_linear_map_undoes_is_undone():
    data = pairs(lambda x: x / (1 + x.abs()), num=200)
    corrector = ForwardCorrector(normal(3000, 3, 9)).fit(*data)
    new = normal(500, 3, 5)
    left = corrector.correct(new / (1 + new.abs()), NOTES[1]) - new
    # The best linear map, fitted to the answers, is the bar.
    seen = torch.cat([torch.ones(500, 1), new / (1 + new.abs())], dim=1)
    best = new - seen @ torch.linalg.lstsq(seen, new).solution
    assert left.square().mean() < best.square().mean() / 4


@pytest.mark.slow
def test_many_columns_that_vary_together_can_bend():
    def signals(num, seed):
        return normal(num, 1, seed) + 0.05 * normal(num, 60, seed + 1)

    x_sim, pool, new = signals(200, 0), signals(2000, 10), signals(500, 20)
    corrector = ForwardCorrector(pool).fit(["-"] * 200, x_sim / (1 + x_sim.abs()), x_sim)
    seen = new / (1 + new.abs())
    left = corrector.correct(seen, "-") - new
    seen = torch.cat([torch.ones(500, 1), seen], dim=1)
    best = new - seen @ torch.linalg.lstsq(seen, new).solution
    assert left.square().mean() < best.square().mean() / 2


def test_candidates_are_draws_of_x_sim_given_x_obs():
    # x_sim ~ N(0, 1) and x_obs = x_sim + N(0, 1/4): given x_obs, x_sim is normal with mean
    # 0.8 x_obs and variance 0.2.
    num = 400
    x_sim = normal(num, 2, 0)
    x_obs = x_sim + 0.5 * normal(num, 2, 1)
    corrector = ForwardCorrector(normal(3000, 2, 9)).fit(["-"] * num, x_obs, x_sim)
    new = normal(500, 2, 5)
    found = corrector.corrections(new, "-")
    # The mean rests on the pairs' residuals: their variance has an error of 7 %, so that
    # the slope has one of 0.8 * 0.2 * 0.07 and the variance one of 0.2 * 0.8 * 0.07; four
    # errors, and the regression's own.
    slope = (found.x.mean(dim=0) * new).sum() / new.square().sum()
    assert slope.item() == pytest.approx(0.8, abs=4 * 0.8 * 0.2 * 0.07 + 0.03)
    variance = found.x.var(dim=0).mean().item()
    assert variance == pytest.approx(0.2, abs=4 * 0.2 * 0.8 * 0.07 + 0.02)
    torch.testing.assert_close(found.log_weight.exp().sum(dim=0), torch.ones(500))


def test_candidates_spread_where_the_noise_is():
    # The noise grows with x: 0.02 below zero, 0.5 above.
    def observe(x, noise):
        return x + torch.where(x > 0, 0.5, 0.02) * noise

    num = 400
    x_sim = 3 * normal(num, 1, 0)
    x_obs = observe(x_sim, normal(num, 1, 1))
    corrector = ForwardCorrector(3 * normal(3000, 1, 9)).fit(["-"] * num, x_obs, x_sim)
    low, high = corrector.corrections([[-3.0], [3.0]], "-").x.std(dim=0)[:, 0]
    assert high > 3 * low


def test_a_context_without_pairs_of_its_own_gets_the_map_of_all():
    x_sim = normal(100, 2, 0)
    corrector = ForwardCorrector(normal(1000, 2, 9)).fit(["-"] * 100, x_sim + 1, x_sim)
    new = normal(10, 2, 5)
    with pytest.warns(UnseenContext):
        corrected = corrector.correct(new + 1, "something else")
    torch.testing.assert_close(corrected, new, atol=1e-3, rtol=0)


def test_a_context_that_is_wrong_is_not_ruled_out():
    # Two regimes, 2 and -2 away. A note that is wrong leaves candidates near the truth.
    num = 99
    x_sim = normal(num, 1, 0)
    sign = 2 * (torch.arange(num) % 2) - 1.0
    notes = [NOTES[int(one > 0)] for one in sign]
    corrector = ForwardCorrector(normal(1000, 1, 9)).fit(
        notes, x_sim + 2 * sign[:, None], x_sim
    )
    found = corrector.corrections([[2.0]], NOTES[0])
    near = found.x[:, 0, 0].abs() < 1
    weight = found.log_weight[:, 0].exp()
    assert weight.sum().item() == pytest.approx(1.0)
    # The note says that 4 was meant. One row in a hundred says otherwise.
    assert 0.002 < weight[near].sum() < 0.0101


def test_few_pairs_of_a_context_do_not_outweigh_all():
    context, x_obs, x_sim = pairs(lambda x: x)
    context[0] = "once"
    corrector = ForwardCorrector(normal(1000, 3, 9)).fit(context, x_obs + 1, x_sim)
    torch.testing.assert_close(
        corrector.correct(torch.ones(1, 3), "once"), torch.zeros(1, 3), atol=1e-3, rtol=0
    )


def test_an_observation_is_corrected_alike_in_any_batch():
    data = pairs(lambda x: x / (1 + x.abs()))
    corrector = ForwardCorrector(normal(1000, 3, 9)).fit(*data, seed=1)
    x, notes = data[1][:6], data[0][:6]
    together = corrector.corrections(x, notes).x
    alone = corrector.corrections(x[3:4], notes[3:4]).x
    torch.testing.assert_close(together[:, 3:4], alone, atol=1e-4, rtol=1e-4)


def test_the_same_seed_gives_the_same_fit_and_another_does_not():
    context, x_obs, x_sim = pairs(lambda x: x)
    x_obs = x_obs + 0.3 * normal(100, 3, 3)
    first, second, other = (
        ForwardCorrector(normal(1000, 3, 9)).fit(context, x_obs, x_sim, seed=seed)
        for seed in (1, 1, 2)
    )
    found = [one.corrections(x_obs, context).x for one in (first, second, other)]
    assert torch.equal(found[0], found[1])
    assert not torch.equal(found[0], found[2])


def test_counts_are_not_imagined_below_zero():
    rate = 2 * torch.rand(700, 8, generator=torch.Generator().manual_seed(0))
    counts = torch.poisson(rate, generator=torch.Generator().manual_seed(1))
    x_sim, pool = counts[:100], counts[100:]
    # Seen with noise around few counts: what is imagined would often be negative.
    x_obs = (x_sim + normal(100, 8, 2).round()).clamp(min=0)
    corrector = ForwardCorrector(pool).fit(["-"] * 100, x_obs, x_sim)
    assert corrector.imagined_[None].x_obs.mean(dim=0).min() > x_obs.mean(dim=0).min() / 2


def test_no_candidate_is_negative_where_simulations_never_are():
    rate = 5 * torch.rand(700, 6, generator=torch.Generator().manual_seed(0))
    counts = torch.poisson(rate, generator=torch.Generator().manual_seed(1))
    x_sim, pool = counts[:100], counts[100:]
    x_obs = x_sim + normal(100, 6, 2)
    corrector = ForwardCorrector(pool).fit(["-"] * 100, x_obs, x_sim)
    assert corrector.corrections(x_obs, "-").x.min() == 0


def test_an_observation_unlike_all_others_is_corrected_about_as_much_as_they_are():
    x_sim = normal(100, 3, 0)
    corrector = ForwardCorrector(normal(1000, 3, 9)).fit(
        ["-"] * 100, x_sim / (1 + x_sim.abs()), x_sim
    )
    far = torch.tensor([[1000.0, 0.0, 0.0]])
    # No simulation is beyond 5, so that none was moved by half as much as this.
    assert (corrector.correct(far, "-") - far).abs().max() < 10


def test_a_constant_column_may_be_rounded_differently():
    x_sim, pool = normal(100, 2, 0).double(), normal(1000, 2, 9)
    x_sim[:, 1] = pool[:, 1] = 0.1  # in double, and in single precision
    corrector = ForwardCorrector(pool).fit(["-"] * 100, x_sim + 1, x_sim)
    torch.testing.assert_close(
        corrector.correct([[1.0, 1.1]], "-"), torch.tensor([[0.0, 0.1]]), atol=1e-3, rtol=0
    )


def test_bad_input_gets_a_sentence():
    context, x_obs, x_sim = pairs(lambda x: x + 1)
    pool = normal(1000, 3, 9)
    with pytest.raises(ValueError, match="499 simulations are too few"):
        ForwardCorrector(pool[:499]).fit(context, x_obs, x_sim)
    elsewhere = pool + torch.tensor([0.0, 100.0, 0.0])
    with pytest.raises(
        ValueError, match=r"do not overlap with x_sim: in column 1 .* units"
    ):
        ForwardCorrector(elsewhere).fit(context, x_obs, x_sim)
    with pytest.raises(ValueError, match="in column 0 they lie between 1 and 1"):
        ForwardCorrector(torch.ones(1000, 3)).fit(context, x_obs, x_sim)
    with pytest.raises(ValueError, match="same columns"):
        ForwardCorrector(pool[:, :2]).fit(context, x_obs, x_sim)
    with pytest.raises(ValueError, match="num_candidates must be a positive integer"):
        ForwardCorrector(pool, 0).fit(context, x_obs, x_sim)
    with pytest.raises(NotFittedError, match="call fit first"):
        ForwardCorrector(pool).corrections(x_obs, context)


@pytest.mark.parametrize("num", [1, 2, 7])
def test_few_pairs_tell_a_shift_and_a_warning_says_so(num):
    x_sim, pool = normal(num, 3, 0), normal(1000, 3, 9)
    with pytest.warns(FewPairs, match=f"{num} pairs for 3 columns: at most a shift"):
        corrector = ForwardCorrector(pool).fit(["-"] * num, x_sim + 2, x_sim)
    new = normal(5, 3, 5)
    torch.testing.assert_close(corrector.correct(new + 2, "-"), new, atol=1e-3, rtol=0)


def test_a_linear_map_of_more_columns_than_pairs_is_warned_of():
    dim = 30
    x_sim, pool = normal(20, dim, 0), normal(1000, dim, 9)
    turned = torch.linalg.qr(normal(dim, dim, 1)).Q
    with pytest.warns(FewPairs, match="20 pairs for 30 columns"):
        ForwardCorrector(pool).fit(["-"] * 20, x_sim + 0.3 * x_sim @ turned, x_sim)
    with warnings.catch_warnings():
        warnings.simplefilter("error", FewPairs)
        ForwardCorrector(pool).fit(["-"] * 20, x_sim + 1, x_sim)


@pytest.mark.parametrize("factor", [0.1, 10.0])
def test_simulations_in_other_units_are_warned_of_where_ranges_overlap(factor):
    data = pairs(lambda x: x + 2)
    with pytest.warns(OtherUnits, match="spread far more or less than x_sim: in column 0"):
        ForwardCorrector(factor * normal(1000, 3, 9)).fit(*data)


def test_contexts_that_were_not_seen_are_counted():
    corrector = ForwardCorrector(normal(1000, 3, 9)).fit(*pairs(lambda x: x + 2))
    with pytest.warns(UnseenContext, match="2 of 3 rows .* not seen .* map of all pairs"):
        corrector.correct(normal(3, 3, 5), [NOTES[0], "new", "newer"])
    with warnings.catch_warnings():
        warnings.simplefilter("error")
        corrector.correct(normal(3, 3, 5), NOTES[1])


def test_candidates_explain_what_was_observed(monkeypatch):
    # Every other day's count is added to that of the next day. Whatever the days were,
    # their sums were seen.
    source = torch.Generator().manual_seed(0)
    level = 5 + torch.randn(1200, 1, generator=source)
    counts = torch.poisson(
        (level + 0.5 * torch.randn(1200, 6, generator=source)).exp(), generator=source
    )
    seen = torch.zeros_like(counts)
    seen[:, 1::2] = counts[:, ::2] + counts[:, 1::2]
    x_sim, x_obs = counts.log1p(), seen.log1p()
    left = []
    for num_steps in (0, way_back.NUM_STEPS):
        monkeypatch.setattr(way_back, "NUM_STEPS", num_steps)
        corrector = ForwardCorrector(x_sim[100:1100]).fit(
            ["-"] * 100, x_obs[:100], x_sim[:100]
        )
        found = corrector.corrections(x_obs[1100:], "-").x.expm1()
        sums = found[..., ::2] + found[..., 1::2]
        left.append((sums.log1p() - x_obs[1100:, 1::2]).abs().median())
    # Most sums are then exact; the regression alone is off by 3 to 5 %.
    assert left[1] < 0.1 * left[0]


def test_candidates_are_not_moved_after_noise():
    x_sim = normal(400, 2, 0)
    corrector = ForwardCorrector(normal(2000, 2, 9))
    corrector.fit(["-"] * 400, x_sim + normal(400, 2, 1), x_sim)
    new = normal(300, 2, 5)
    seen = new + normal(300, 2, 6)
    # Given x_obs, x_sim has the mean x_obs / 2; moved, it would be x_obs less some noise.
    # The bound is half way between.
    middle = corrector.correct(seen, "-")
    slope = (middle * seen).sum() / seen.square().sum()
    assert abs(slope - 0.5) < 0.25


@pytest.mark.parametrize("logarithms", [False, True])
def test_candidates_of_counts_are_counts(logarithms):
    rate = 20 * torch.rand(900, 6, generator=torch.Generator().manual_seed(0))
    counts = torch.poisson(rate, generator=torch.Generator().manual_seed(1))
    x = counts.log1p() if logarithms else counts
    x_sim, pool = x[:100], x[100:]
    # Half of each count is reported in the next column.
    split = 0.5 * counts + 0.5 * torch.nn.functional.pad(counts, (1, 0))[:, :-1]
    x_obs = (split.log1p() if logarithms else split)[:100]
    corrector = ForwardCorrector(pool).fit(["-"] * 100, x_obs, x_sim)
    found = corrector.corrections(x_obs, "-").x
    found = found.expm1() if logarithms else found
    torch.testing.assert_close(found, found.round(), atol=1e-3, rtol=1e-5)


def test_numbers_that_are_not_whole_are_not_rounded():
    pressure = 101_325 + normal(900, 2, 0)
    x_sim, pool = pressure[:100], pressure[100:]
    corrector = ForwardCorrector(pool).fit(["-"] * 100, x_sim + 5, x_sim)
    torch.testing.assert_close(corrector.correct(pool + 5, "-"), pool, atol=0.05, rtol=0)


@pytest.mark.parametrize(("middle", "scale"), [(0.0, 1e-3), (1.0, 1e-3), (0.0, 1e-8)])
def test_small_numbers_are_not_rounded(middle, scale):
    x_sim, pool, new = (
        middle + scale * normal(num, 3, num).abs().double() for num in (100, 1000, 50)
    )
    corrector = ForwardCorrector(pool).fit(["-"] * 100, x_sim + 2 * scale, x_sim)
    corrected = corrector.correct(new + 2 * scale, "-").double()
    torch.testing.assert_close(
        corrected, new, atol=max(1e-3 * scale, 2e-7 * middle), rtol=0
    )


def test_a_column_of_large_numbers_beside_counts_is_not_rounded():
    counts = torch.poisson(torch.full((900, 3), 4.0), generator=torch.manual_seed(0))
    pressure = 101_325 + 0.2 * normal(900, 1, 0)
    x = torch.cat([counts, pressure], dim=1)
    corrector = ForwardCorrector(x[100:]).fit(["-"] * 100, x[:100] + 5, x[:100])
    torch.testing.assert_close(corrector.correct(x + 5, "-"), x, atol=0.05, rtol=0)


def test_an_observation_far_above_all_logarithms_has_finite_candidates():
    counts = torch.poisson(torch.full((900, 3), 4.0), generator=torch.manual_seed(0))
    x = counts.log1p()
    corrector = ForwardCorrector(x[100:]).fit(["-"] * 100, x[:100] / 2, x[:100])
    assert corrector.corrections([[1000.0, 1.0, 1.0]], "-").x.isfinite().all()


def test_fewer_simulations_than_candidates_will_do():
    data = pairs(lambda x: x / (1 + x.abs()))
    corrector = ForwardCorrector(normal(500, 3, 9), num_candidates=200).fit(*data)
    assert corrector.corrections(data[1], data[0]).x.isfinite().all()
