"""Coverage of conformal regions, where the law of the coverage is known.

theta ~ N(0, 1), x ~ N(theta, 0.5^2): the exact posterior is N(0.8 x, 0.2).
"""

import math

import pytest
import torch
from torch.distributions import Independent, Normal

from ma_sbi import CategoryEncoder, CorrectedPosterior, ShiftCorrector, from_callable
from ma_sbi.conformal_regions import conformal

SCALE = math.sqrt(0.2)
SPREAD = 4  # standard errors


def world(n):
    theta = torch.randn(n, 1)
    return theta, theta + 0.5 * torch.randn(n, 1)


def gaussian(shift=0.0, scale=SCALE, *, density=True):
    def law(x):
        return Independent(Normal(0.8 * x + shift, scale), 1)

    return from_callable(
        lambda num, x: law(x).sample((num,)),
        (lambda theta, x: law(x).log_prob(theta)) if density else None,
        batched=True,
    )


POSTERIORS = {
    "right": gaussian(),
    "biased": gaussian(shift=0.5),
    "overconfident": gaussian(scale=SCALE / 3),
    "draws_only": gaussian(shift=0.5, density=False),
}


def coverage(make, draw, repeats, num_test=50):
    """Average the coverage over calibration sets; give its standard error, too."""
    values = torch.empty(repeats)
    with torch.random.fork_rng():
        torch.manual_seed(0)
        for repeat in range(repeats):
            regions, (theta, x) = make(), draw(num_test)
            values[repeat] = regions.contains(theta[None], x).float().mean()
    return values.mean().item(), values.std().item() / math.sqrt(repeats)


@pytest.mark.parametrize("name", POSTERIORS)
@pytest.mark.parametrize(("n", "alpha"), [(19, 0.1), (25, 0.3)])
def test_the_average_coverage_is_that_of_the_order_statistic(name, n, alpha):
    found, error = coverage(
        lambda: conformal(POSTERIORS[name], *world(n), alpha=alpha, num_draws=100),
        world,
        repeats=50 if name == "draws_only" else 300,
    )
    exact = math.ceil((n + 1) * (1 - alpha)) / (n + 1)
    assert 1 - alpha <= exact <= 1 - alpha + 1 / (n + 1)
    assert abs(found - exact) < SPREAD * error


def test_a_credible_region_of_the_biased_posterior_covers_less():
    # What the layer repairs: without it the interval of 90 % misses.
    theta, x = world(4000)
    inside = (theta - 0.8 * x - 0.5).abs() < 1.645 * SCALE
    assert inside.float().mean() < 0.75


def test_each_regime_is_covered_where_one_cut_for_all_fails():
    posterior = gaussian()
    noise = torch.tensor([1.0, 4.0])  # the second regime is four times as uncertain

    def draw(n):
        x, regime = torch.randn(n, 1), torch.arange(n) % 2
        return 0.8 * x + SCALE * noise[regime, None] * torch.randn(n, 1), x, regime

    torch.manual_seed(0)
    covered = {"split": [], "per_regime": []}
    for _ in range(150):
        theta, x, regime = draw(58)  # 29 each: 27 of 30
        new_theta, new_x, new = draw(100)
        for by, values in covered.items():
            regions = conformal(posterior, theta, x, regime.tolist(), by=by)
            inside = regions.contains(new_theta[None], new_x, new.tolist())[0].float()
            values.append([inside[new == k].mean() for k in (0, 1)])
    split, per_regime = (torch.tensor(values) for values in covered.values())
    error = per_regime.std(dim=0) / math.sqrt(150)
    assert ((per_regime.mean(dim=0) - 0.9).abs() < SPREAD * error).all()
    assert split.mean(dim=0)[0] > 0.97
    assert split.mean(dim=0)[1] < 0.87


def test_a_new_regime_and_a_small_one_get_the_whole_space():
    theta, x = world(40)
    regime = ["many"] * 35 + ["few"] * 5
    regions = conformal(gaussian(), theta, x, regime, by="per_regime")
    cut = regions.cut(x[:3], ["many", "few", "new"])
    assert cut.isfinite().tolist() == [True, False, False]
    far = torch.full((1, 3, 1), 1e3)
    assert regions.contains(far, x[:3], ["many", "few", "new"]).tolist() == [
        [False, True, True]
    ]


def shifted_world(center):
    """The posterior N(0, 1) is right at x <= 0, too narrow above."""

    def draw(n):
        x = center + torch.randn(n, 1)
        return (1 + 2 * x.clamp(min=0)) * torch.randn(n, 1), x

    return draw


@pytest.mark.parametrize("known", [True, False], ids=["known", "classifier"])
def test_weights_restore_the_coverage_that_a_shift_of_x_takes(known):
    narrow = from_callable(
        lambda num, x: torch.randn(num, len(x), 1),
        lambda theta, x: Independent(Normal(torch.zeros_like(x), 1.0), 1).log_prob(theta),
        batched=True,
    )
    before, after = shifted_world(0.0), shifted_world(1.0)

    def make(by, **options):
        return lambda: conformal(narrow, *before(200), by=by, **options)

    def weighted():
        weight = {"weight": lambda x: x[:, 0].exp()} if known else {"x_test": after(400)[1]}
        return make("weighted", **weight)()

    split, error = coverage(make("split"), after, repeats=150)
    assert split < 0.9 - 2 * SPREAD * error
    found, error = coverage(weighted, after, repeats=150)
    # Estimated weights carry no exact guarantee: two points for the classifier.
    assert found > 0.9 - SPREAD * error - (0.0 if known else 0.02)


@pytest.mark.slow
def test_local_cuts_cover_on_average_and_where_one_cut_for_all_fails():
    narrow = from_callable(
        lambda num, x: torch.randn(num, len(x), 1),
        lambda theta, x: Independent(Normal(torch.zeros_like(x), 1.0), 1).log_prob(theta),
        batched=True,
    )
    draw = shifted_world(0.0)
    covered = {"split": [], "localized": []}
    torch.manual_seed(0)
    for seed in range(100):
        theta, x = draw(400)
        new_theta, new_x = draw(400)
        for by, values in covered.items():
            regions = conformal(narrow, theta, x, by=by, seed=seed)
            inside = regions.contains(new_theta[None], new_x)[0].float()
            values.append([inside.mean(), inside[new_x[:, 0] > 1].mean()])
    split, local = (torch.tensor(values) for values in covered.values())
    error = local.std(dim=0) / math.sqrt(100)
    # Exact on average, up to one of the pairs near.
    assert 0.9 - SPREAD * error[0] < local.mean(dim=0)[0] < 0.92 + SPREAD * error[0]
    assert split.mean(dim=0)[1] < 0.75
    assert local.mean(dim=0)[1] > 0.82


def test_the_widest_neighbourhood_is_the_split():
    theta, x = world(50)
    split = conformal(gaussian(), theta, x)
    wide = conformal(gaussian(), theta, x, by="localized", bandwidth=1e4)
    # The weight of the new pair itself is that of its own draw, and at most one.
    assert (wide.cut(x) <= split.cut(x)).all()
    assert wide.cut(x).isfinite().all()


def test_in_many_columns_local_weights_do_not_vanish():
    theta, x = torch.randn(50, 1), torch.randn(50, 2000)
    wide = from_callable(
        lambda num, x: torch.randn(num, len(x), 1),
        lambda theta, x: Independent(Normal(0 * x[:, :1], 1.0), 1).log_prob(theta),
        batched=True,
    )
    local, split = (conformal(wide, theta, x, by=by) for by in ("localized", "split"))
    # All pairs are as far: hardly less than the split's cut, and not the least score.
    assert (local.cut(x[:3]) > split.scores.median()).all()


def test_equal_weights_are_the_split():
    theta, x = world(50)
    split = conformal(gaussian(), theta, x)
    threes = conformal(
        gaussian(), theta, x, by="weighted", weight=lambda x: 3 + 0 * x[:, 0]
    )
    assert torch.equal(split.cut(x), threes.cut(x))


def test_the_cut_is_the_order_statistic():
    theta, x = world(29)
    regions = conformal(gaussian(), theta, x, alpha=0.1)
    exact = gaussian()
    scores = -exact.log_prob(theta[None], x)[0]
    assert regions.cut(x[:1]).item() == pytest.approx(scores.sort().values[26].item())


def test_regions_are_nested_in_alpha():
    theta, x = world(60)
    regions = conformal(gaussian(), theta, x, alpha=0.05)
    grid = torch.linspace(-4, 4, 201)[:, None, None].expand(-1, 60, -1)
    inside = [regions.at(alpha).contains(grid, x) for alpha in (0.05, 0.1, 0.3, 0.6)]
    for larger, smaller in zip(inside, inside[1:], strict=False):
        assert (larger | ~smaller).all()
        assert larger.sum() > smaller.sum()


def test_a_bias_makes_the_region_larger_and_correcting_it_smaller():
    torch.manual_seed(0)
    theta, x = world(400)
    grid = torch.linspace(-6, 6, 1201)[:, None, None]

    def length(posterior):
        regions = conformal(posterior, theta, x)
        return regions.contains(grid, x[:1]).sum().item() * 0.01

    exact = 2 * 1.645 * SCALE
    # The 90 % quantile of |N(0.5, 0.2)| is 1.074: found by solving its distribution.
    assert length(gaussian()) == pytest.approx(exact, rel=0.15)
    assert length(gaussian(shift=0.5)) == pytest.approx(2 * 1.074, rel=0.15)


def test_draws_lie_inside_and_are_repeatable():
    theta, x = world(60)
    for posterior in (gaussian(shift=0.5), gaussian(density=False)):
        regions = conformal(posterior, theta, x, alpha=0.5)
        draws = regions.sample(300, x[:4], seed=1)
        assert draws.shape == (300, 4, 1)
        assert regions.contains(draws, x[:4]).all()
        assert torch.equal(draws, regions.sample(300, x[:4], seed=1))


def test_no_draw_inside_is_an_error():
    theta, x = world(60)
    far = from_callable(  # draws where its own density is nearly zero
        lambda num, x: 50 + torch.zeros(num, len(x), 1),
        lambda theta, x: Independent(Normal(0.8 * x, SCALE), 1).log_prob(theta),
        batched=True,
    )
    with pytest.raises(ValueError, match="only 0 lie in the region of observation 0"):
        conformal(far, theta, x).sample(2, x[:2], seed=0)


def test_regions_of_a_corrected_posterior_cover():
    theta, x = world(500)
    notes = ["reads high", "all is well"] * 250
    x_obs = x + torch.tensor([[2.0], [0.0]]).repeat(250, 1)
    corrector = ShiftCorrector(CategoryEncoder()).fit(notes[:100], x_obs[:100], x[:100])
    corrected = CorrectedPosterior(gaussian(), corrector)
    regions = conformal(corrected, theta[:100], x_obs[:100], notes[:100], alpha=0.2)
    covered = regions.contains(theta[None, 100:], x_obs[100:], notes[100:]).float().mean()
    # Given the pairs, the coverage is Beta(81, 20); the test adds its binomial noise.
    error = math.sqrt(0.8 * 0.2 * (1 / 102 + 1 / 400))
    assert abs(covered - 81 / 101) < SPREAD * error


@pytest.mark.parametrize(
    ("options", "message"),
    [
        ({"alpha": 0.01}, "at least 99 pairs"),
        ({"alpha": 1.5}, "between 0 and 1"),
        ({"by": "mondrian"}, "must be one of"),
        ({"by": "per_regime"}, "context of each pair"),
        ({"by": "weighted"}, "either weight"),
        ({"by": "localized", "bandwidth": -1.0}, "bandwidth must be"),
        ({"by": "weighted", "weight": lambda x: -x[:, 0].abs()}, "non-negative"),
    ],
    ids=["few", "alpha", "variant", "context", "weights", "bandwidth", "negative"],
)
def test_bad_input_is_refused_with_a_sentence(options, message):
    theta, x = world(20)
    with pytest.raises(ValueError, match=message):
        conformal(gaussian(), theta, x, **options)


def test_the_least_number_of_pairs_is_enough():
    theta, x = world(9)
    assert conformal(gaussian(), theta, x, alpha=0.1).cut(x).isfinite().all()
    with pytest.raises(ValueError, match="at least 9 pairs"):
        conformal(gaussian(), theta[:8], x[:8], alpha=0.1)
