"""Mutual information against closed forms."""

import math

import numpy as np
import pytest
import torch
from scipy.integrate import quad
from scipy.stats import norm

from ma_sbi import HashEncoder, NumberEncoder
from ma_sbi.diagnostics import departures, mutual_information
from ma_sbi.diagnostics.estimators import ksg, ross

SPREAD = 4  # standard errors


def gaussian(n, dim, rho, seed):
    rng = np.random.default_rng(seed)
    a = rng.standard_normal((n, dim))
    b = rho * a + math.sqrt(1 - rho**2) * rng.standard_normal((n, dim))
    return a, b, -0.5 * dim * math.log(1 - rho**2)


def value(a, b, seed=0, **options):
    return mutual_information(a, b, num_permutations=0, seed=seed, **options).value


def two_labels(distance):
    """Return the exact information between a fair label and N(distance * label, 1)."""

    def integrand(x):
        own, other = norm.pdf(x), norm.pdf(x - distance)
        return own * math.log(2 * own / (own + other))

    return quad(integrand, -10, 10 + distance)[0]


@pytest.mark.slow
@pytest.mark.parametrize("rho", [0.5, 0.9])
def test_gaussian_pairs_are_within_five_percent_on_average(rho):
    # One estimate cannot be: the best possible one at 0.5 has a deviation of 4.9 %.
    found = []
    for seed in range(6):
        a, b, truth = gaussian(5000, 1, rho, seed)
        found.append(value(a, b, seed))
    error = np.std(found, ddof=1) / math.sqrt(len(found))
    assert abs(np.mean(found) - truth) < 0.05 * truth
    assert abs(np.mean(found) - truth) < SPREAD * error


@pytest.mark.slow
@pytest.mark.parametrize("rho", [0.5, 0.7, 0.9])
def test_five_dimensions_are_within_five_percent_where_the_plain_estimator_is_not(rho):
    found = []
    for seed in range(5):
        a, b, truth = gaussian(5000, 5, rho, seed)
        found.append(value(a, b, seed))
    assert abs(np.mean(found) - truth) < 0.05 * truth
    assert ksg(a, b) < 0.87 * truth


@pytest.mark.slow
def test_weak_correlations_in_five_dimensions_are_off_by_little():
    for rho in (0.0, 0.2):
        a, b, truth = gaussian(5000, 5, rho, 1)
        assert abs(value(a, b) - truth) < 0.05


def test_units_rotations_and_monotone_maps_change_nothing_much():
    a, b, _ = gaussian(1000, 2, 0.8, 0)
    turn = np.linalg.qr(np.random.default_rng(0).standard_normal((2, 2)))[0]
    plain = value(a, b)
    assert value(a * [1e-6, 1e6], b + 1e3) == pytest.approx(plain, abs=0.01)
    assert value(a @ turn, b) == pytest.approx(plain, abs=0.1)
    # An exponential of a Gaussian has tails that would ruin distances.
    assert value(np.exp(3 * a), b) == pytest.approx(plain, abs=0.01)


def test_dependence_without_correlation_is_seen():
    # z is the size of delta, delta = +-z: knowing it leaves one bit of log 2.
    rng = np.random.default_rng(0)
    delta = rng.standard_normal((3000, 1))
    size = np.abs(delta[:, 0]) * np.exp(0.1 * rng.standard_normal(3000))
    sign_known = value(np.abs(delta), size)
    assert abs(np.corrcoef(delta[:, 0], size)[0, 1]) < 0.1
    # Information is that of the size, since the sign is independent of all else.
    assert value(delta, size) == pytest.approx(sign_known, rel=0.1)


def test_what_two_uncorrelated_coordinates_share_is_counted_once():
    # The second coordinate is a function of the first: it adds nothing.
    rng = np.random.default_rng(0)
    level = rng.standard_normal(3000)
    noisy = level + 0.5 * rng.standard_normal(3000)
    both = np.column_stack([level, np.abs(level)])
    seen = np.column_stack([noisy, np.abs(noisy)])
    truth = -0.5 * math.log(1 - 1 / 1.25)
    pairs = ksg(both[:, :1], seen[:, :1]) + ksg(both[:, 1:], seen[:, 1:])
    assert pairs > 1.3 * truth
    assert value(both, seen) == pytest.approx(truth, rel=0.2)


@pytest.mark.parametrize("distance", [0.0, 1.0, 3.0])
def test_labels_against_the_exact_integral(distance):
    rng = np.random.default_rng(0)
    label = rng.integers(2, size=5000)
    delta = distance * label + rng.standard_normal(5000)
    found = mutual_information(delta[:, None], label, num_permutations=0, seed=0)
    error = (found.high - found.low) / 3.9  # 1.96 on either side
    assert found.estimator == "ross"
    assert abs(found.value - two_labels(distance)) < SPREAD * max(error, 0.002)


def test_many_dimensions_against_labels():
    # Along one axis only: the information is that of the axis.
    rng = np.random.default_rng(0)
    label = rng.integers(2, size=3000)
    delta = rng.standard_normal((3000, 14))
    delta[:, 3] += 3.0 * label
    # Neighbours in 14 dimensions lose some of it: over twelve draws the mean was 0.037
    # below the truth, the deviation 0.006.
    found, deviation = value(delta, label), 0.006
    assert -0.037 - SPREAD * deviation < found - two_labels(3.0) < SPREAD * deviation


@pytest.mark.parametrize("dim", [1, 3])
def test_a_departure_fixed_by_the_regime_gives_the_entropy_of_the_regime(dim):
    rng = np.random.default_rng(0)
    regime = rng.choice(3, size=2000, p=[0.6, 0.3, 0.1])
    share = np.bincount(regime) / 2000
    entropy = -(share * np.log(share)).sum()
    shift = rng.standard_normal((3, dim))[regime]
    found = mutual_information(shift, regime, num_permutations=20, seed=0)
    assert found.value == pytest.approx(entropy, abs=0.002)
    assert found.upper_bound == pytest.approx(entropy, abs=0.002)
    assert found.p_value == pytest.approx(1 / 21)
    assert found.estimator == "plug-in"


def test_a_regime_without_departure_is_an_atom_among_continuous_ones():
    # delta = 0 in one regime, far away and spread in the other: all of log 2 is known.
    rng = np.random.default_rng(0)
    regime = np.arange(1000) % 2
    delta = regime[:, None] * (5 + rng.standard_normal((1000, 2)))
    found = mutual_information(delta, regime, num_permutations=0, seed=0)
    assert found.estimator == "ross"
    assert found.value == pytest.approx(math.log(2), abs=0.002)


def test_rounding_errors_are_not_departures():
    x = 100 * torch.randn(500, 3, generator=torch.Generator().manual_seed(0))
    regime = torch.arange(500) % 2
    delta = departures(x + 0.5 * regime[:, None], x)
    # Rounding alone makes several departures of one.
    assert len(((x + 0.5) - x).unique()) > 1
    assert len(delta[regime == 1].unique(dim=0)) == 1
    found = mutual_information(delta, regime, num_permutations=0, seed=0)
    assert found.estimator == "plug-in"
    assert found.value == pytest.approx(math.log(2), abs=0.01)


def test_departures_that_are_small_beside_the_largest_entry_are_kept():
    """Heavy tails: the largest of these is 1e6, the departures are of size one."""
    rng = np.random.default_rng(0)
    x = np.exp(3 * rng.standard_normal((2000, 1)))
    x[0] = 1e6
    delta = rng.choice([-1.0, 1.0], size=(2000, 1))
    np.testing.assert_allclose(departures(x + delta, x), delta, atol=1e-8)
    # What float32 makes of a constant shift is still rounding.
    single = torch.from_numpy(x).float()
    assert len(departures(single + 64, single).unique()) == 1


def test_a_discrete_departure_against_a_number_is_bounded_by_its_entropy():
    rng = np.random.default_rng(0)
    number = rng.standard_normal(2000)
    found = mutual_information((number > 0)[:, None], number, num_permutations=0, seed=0)
    assert found.value == pytest.approx(math.log(2), abs=0.01)


@pytest.mark.slow
def test_the_interval_covers():
    hits = 0
    for seed in range(60):
        a, b, truth = gaussian(250, 1, 0.7, seed)
        found = mutual_information(a, b, num_permutations=0, seed=seed)
        hits += found.low <= truth <= found.high
    # Binomial: 60 intervals of 95 % miss more than 9 with probability 0.1 %.
    assert hits >= 51


def test_the_null_has_its_level():
    small = 0
    for seed in range(100):
        rng = np.random.default_rng(seed)
        label = rng.integers(3, size=100)
        found = mutual_information(
            rng.standard_normal((100, 1)), label, num_permutations=19, seed=seed
        )
        small += found.p_value <= 0.05
    # Exactly 5 %: 5 expected, deviation 2.2; none at all would be as wrong as many.
    assert 0 < small < 5 + SPREAD * 2.2


def test_information_in_a_weak_context_differs_from_none():
    small = 0
    for seed in range(10):
        rng = np.random.default_rng(seed)
        label = rng.integers(2, size=1000)
        delta = 0.5 * label[:, None] + rng.standard_normal((1000, 1))
        found = mutual_information(delta, label, num_permutations=99, seed=seed)
        small += found.p_value <= 0.05
    # Without information five or more of ten are that small once in 16,000 times.
    assert small >= 5


def test_missing_numbers_are_a_label_of_their_own():
    rng = np.random.default_rng(0)
    number = rng.standard_normal(4000)
    delta = number[:, None] + rng.standard_normal((4000, 1))
    gone = rng.random(4000) < 0.4
    context = np.where(gone, np.nan, number)
    found = mutual_information(delta, context, num_permutations=0, seed=0)
    share = 1 - gone.mean()
    assert found.value == pytest.approx(share * 0.5 * math.log(2), abs=0.03)
    # Where entries are missing because of the departure, their absence tells of it.
    told = np.where(delta[:, 0] > 0, np.nan, rng.standard_normal(4000))
    assert value(delta, told) == pytest.approx(math.log(2), abs=0.03)


def test_without_permutations_there_is_no_p_value():
    number = np.random.default_rng(0).standard_normal(200)
    for context in (number, np.where(number > 1, np.nan, number)):
        found = mutual_information(number[::-1], context, num_permutations=0, seed=0)
        assert math.isnan(found.p_value)


def test_more_neighbours_than_rows_are_all_rows():
    a, b, _ = gaussian(60, 2, 0.8, 0)
    options = {"num_permutations": 5, "seed": 0}
    most = mutual_information(a, b, num_neighbours=59, **options)
    assert mutual_information(a, b, num_neighbours=1000, **options) == most


def test_between_two_numbers_there_are_at_most_forty_neighbours():
    a, b, _ = gaussian(11_000, 1, 0.5, 0)
    options = {"num_permutations": 0, "seed": 0}
    usual, forty, more = (
        mutual_information(a, b, num_neighbours=num, **options).value
        for num in (None, 40, 44)
    )
    assert usual == forty != more


def test_missing_texts_are_a_label_of_their_own():
    context = ["calm", None, "calm", ""] * 25
    delta = np.array([0.0, 1.0, 0.0, 1.0] * 25)[:, None]
    assert value(delta, context) == pytest.approx(math.log(2), abs=0.02)


def test_rare_labels_are_merged_and_said_so():
    label = ["a"] * 50 + ["b"] * 50 + [f"odd {i}" for i in range(10)]
    delta = np.random.default_rng(0).standard_normal((110, 1))
    found = mutual_information(delta, label, num_permutations=0, seed=0)
    assert found.num_rare == 10
    assert found.upper_bound < math.log(3)


def test_few_rows_per_label_do_not_break_it():
    rng = np.random.default_rng(0)
    label = np.repeat(np.arange(6), 5)
    delta = 10.0 * label[:, None] + rng.standard_normal((30, 1))
    found = mutual_information(delta, label, num_permutations=50, seed=0)
    assert 1.2 < found.value <= found.upper_bound
    assert found.p_value < 0.05


@pytest.mark.parametrize(
    ("delta", "context"),
    [
        (np.zeros((50, 2)), np.arange(50) % 2),
        (np.random.default_rng(0).random((50, 2)), ["same"] * 50),
    ],
    ids=["delta", "context"],
)
def test_what_never_changes_tells_nothing(delta, context):
    found = mutual_information(delta, context, seed=0)
    assert (found.value, found.high, found.p_value) == (0.0, 0.0, 1.0)


def test_a_constant_column_changes_nothing():
    a, b, _ = gaussian(300, 1, 0.8, 0)
    padded = np.hstack([np.full((300, 1), 7.0), a])
    assert value(padded, b) == value(a, b)


def test_correlations_between_clusters_do_not_tell_more_than_the_cluster():
    # Four clusters in three dimensions on either side: log 4 is all there is to know.
    rng = np.random.default_rng(0)
    cluster = rng.integers(4, size=2000)
    left, right = 5 * rng.standard_normal((2, 4, 3))
    noise = 0.1 * rng.standard_normal((2, 2000, 3))
    found = value(left[cluster] + noise[0], right[cluster] + noise[1])
    assert found == pytest.approx(math.log(4), rel=0.05)


def test_texts_that_never_repeat_need_an_encoder():
    rng = np.random.default_rng(0)
    high = rng.random(400) < 0.5
    words = np.where(high, "a strong upward drift", "calm")
    notes = [f"{word}, run {i}" for i, word in enumerate(words)]
    delta = 3.0 * high[:, None] + rng.standard_normal((400, 1))
    with pytest.raises(ValueError, match="do not repeat: pass encoder="):
        mutual_information(delta, notes)
    found = mutual_information(
        delta, notes, encoder=HashEncoder(), num_permutations=50, seed=0
    )
    assert found.value == pytest.approx(two_labels(3.0), abs=0.15)
    assert found.p_value < 0.05


def test_a_number_through_its_encoder_is_the_same_number():
    a, b, _ = gaussian(500, 1, 0.8, 0)
    encoded = value(a, b[:, 0], encoder=NumberEncoder())
    assert encoded == pytest.approx(value(a, b[:, 0]), abs=1e-3)


def test_the_same_seed_gives_the_same_and_leaves_generators_alone():
    a, b, _ = gaussian(200, 2, 0.5, 0)
    before = torch.get_rng_state(), np.random.get_state()[1].copy()  # noqa: NPY002
    first, second = (mutual_information(a, b, num_permutations=5, seed=3) for _ in range(2))
    assert first == second
    assert torch.equal(before[0], torch.get_rng_state())
    assert (before[1] == np.random.get_state()[1]).all()  # noqa: NPY002


def test_the_plain_estimators():
    a, b, truth = gaussian(5000, 1, 0.9, 0)
    assert ksg(a, b) == pytest.approx(truth, rel=0.06)
    label = np.arange(5000) % 2
    assert ross(3.0 * label[:, None] + a[:, :1], label) == pytest.approx(
        two_labels(3.0), rel=0.06
    )


@pytest.mark.parametrize(
    ("delta", "context", "message"),
    [
        (np.zeros((3, 2)), [1, 2, 3], "at least 20 rows, got 3"),
        (np.full((30, 1), np.nan), [1] * 30, "finite"),
        (np.zeros((30, 1)), [1] * 29, "expected 30"),
    ],
)
def test_bad_input_is_refused(delta, context, message):
    with pytest.raises(ValueError, match=message):
        mutual_information(delta, context)
