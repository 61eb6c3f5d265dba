"""Tests for ma_sbi.choosing.exchange."""

import pytest
import torch

from ma_sbi.choosing import exchange
from ma_sbi.choosing.exchange import exchange_test
from ma_sbi.choosing.features import describe
from ma_sbi.diagnostics.thresholds import THRESHOLDS

NUM_SETS = 200
SHIFTS = torch.tensor([[1.0, 0.0], [-0.5, 0.8], [-0.5, -0.8]], dtype=torch.float64)


def rows(seed, num=150, num_simulations=1, heavy=False):
    """One observation and simulations at the same theta; labels; their features."""
    rng = torch.Generator().manual_seed(seed)
    theta = 2 * torch.randn(num, 1, 2, generator=rng, dtype=torch.float64)
    noise = torch.randn(num, 1 + num_simulations, 2, generator=rng, dtype=torch.float64)
    if heavy:
        # Cauchy: the mean of such noise does not exist.
        noise = noise / torch.randn(noise.shape, generator=rng, dtype=noise.dtype)
    codes = torch.arange(num) % 3
    return theta + noise, codes, describe([f"regime {one}" for one in codes])


@pytest.mark.parametrize("heavy", [False, True], ids=["normal", "heavy tails"])
@pytest.mark.parametrize("num_simulations", [1, 3])
def test_the_level_holds_where_observations_are_simulations(
    num_simulations, heavy, monkeypatch
):
    monkeypatch.setattr(exchange, "NUM_EXCHANGES", 99)
    found = []
    for seed in range(NUM_SETS):
        every, _, features = rows(seed, 30, num_simulations, heavy)
        found.append(exchange_test(every[:, 0], every[:, 1:], features, seed).p_value)
    below = sum(p <= 0.2 for p in found) / NUM_SETS
    # At most 20 % of sets, 10 % if one of the two tests says what the other does.
    error = (0.2 * 0.8 / NUM_SETS) ** 0.5
    assert 0.1 - 3 * error < below < 0.2 + 3 * error


DEPARTURES = {
    # The mean over contexts is zero.
    "shift": lambda x, codes: x + SHIFTS[codes],
    "gain": lambda x, codes: 2 * x,
    "gain by context": lambda x, codes: torch.tensor([1.8, 1.0, 0.3])[codes][:, None] * x,
    "noise": lambda x, codes: (
        x + 4 * torch.randn(x.shape, generator=torch.Generator().manual_seed(0))
    ),
}


@pytest.mark.parametrize("num_simulations", [1, 3])
@pytest.mark.parametrize("name", DEPARTURES)
def test_a_departure_is_seen(name, num_simulations):
    assert SHIFTS.mean(dim=0).abs().max() < 1e-12
    for seed in range(3):
        every, codes, features = rows(seed, num_simulations=num_simulations)
        x_obs = DEPARTURES[name](every[:, 0], codes)
        p_value = exchange_test(x_obs, every[:, 1:], features, seed).p_value
        assert p_value <= THRESHOLDS.exchange


def test_a_shift_by_context_is_not_seen_without_the_context():
    every, codes, features = rows(0)
    x_obs = every[:, 0] + SHIFTS[codes]
    nothing = torch.ones(len(codes), 1)
    assert exchange_test(x_obs, every[:, 1:], nothing, 0).p_value > THRESHOLDS.exchange
    assert exchange_test(x_obs, every[:, 1:], features, 0).p_value <= THRESHOLDS.exchange


def test_the_seed_decides_and_the_global_generator_does_not():
    every, _, features = rows(0, 40)
    before = torch.get_rng_state()
    first, again = (exchange_test(every[:, 0], every[:, 1:], features, 3) for _ in range(2))
    assert first == again
    assert torch.equal(torch.get_rng_state(), before)


def test_what_shrinks_observations_takes_them_away_from_simulations():
    rng = torch.Generator().manual_seed(0)
    every = torch.randn(400, 3, 2, generator=rng)
    features = torch.ones(400, 1)
    before, after, shifted = (
        exchange_test(x, every[:, 1:], features, 0)
        for x in (every[:, 0], 0.5 * every[:, 0], every[:, 0] + 0.5)
    )
    assert before.p_value > 0.01
    assert before.distance < 0.05  # of chance, whose mean is subtracted
    assert min(after.distance, shifted.distance) > 0.1
    assert max(after.p_value, shifted.p_value) <= THRESHOLDS.exchange
