"""Tests for ma_sbi.demo and its figure."""

import pytest
import torch
from torch.distributions import Normal

from ma_sbi.demo import COMPARED, NOTES, Beacons, plot_posteriors, run_demo

WORLD = Beacons()
NUM_DRAWS = 20_000


def test_the_world_is_repeatable_and_leaves_the_global_generator_alone():
    before = torch.get_rng_state()
    first, again, other = (WORLD.draw(20, seed=seed) for seed in (3, 3, 4))
    for one, two, three in zip(first[:3], again[:3], other[:3], strict=True):
        assert torch.equal(one, two)
        assert not torch.equal(one, three)
    x = first.x_sim
    assert torch.equal(WORLD.reference(x, 5, seed=0), WORLD.reference(x, 5, seed=0))
    assert torch.equal(torch.get_rng_state(), before)


def test_notes_take_turns_and_say_how_far_the_distances_are_off():
    rows = WORLD.draw(20, seed=0)
    assert [rows.notes.count(note) for note in NOTES] == [5] * len(NOTES)
    for note, shift in NOTES.items():
        these = torch.tensor([one == note for one in rows.notes])
        off = rows.x_obs[these] - rows.x_sim[these]
        torch.testing.assert_close(off, torch.tensor(shift).expand_as(off))


def test_distances_are_euclidean_with_the_stated_noise():
    theta = torch.tensor([[0.5, 0.8]]).expand(NUM_DRAWS, 2)
    x = WORLD.simulate(theta, seed=0)
    error = WORLD.noise / NUM_DRAWS**0.5
    expected = torch.tensor([2.0**0.5, 1.0])  # beacons at (-0.5, -0.2) and (0.5, -0.2)
    assert ((x.mean(dim=0) - expected).abs() < 5 * error).all()
    assert ((x.std(dim=0) - WORLD.noise).abs() < 5 * error / 2**0.5).all()


# Distances to a position off the line of the beacons, on it, and none that fits both.
X = torch.tensor([[1.0, 0.7], [0.5, 0.5], [0.4, 0.3]])


def test_the_exact_posterior_is_symmetric_about_the_line_of_the_beacons():
    north = WORLD.reference(X, NUM_DRAWS, seed=1)[..., 1] + 0.2
    error = north.std(dim=0) / NUM_DRAWS**0.5
    assert (north.mean(dim=0).abs() < 5 * error).all()


def test_the_exact_posterior_has_the_moments_that_weighted_prior_draws_have():
    theta = WORLD.prior.sample((1_000_000,))
    distance = (theta[:, None] - WORLD.beacons).norm(dim=-1)
    draws = WORLD.reference(X, NUM_DRAWS, seed=2)
    for row, x in enumerate(X):
        weight = Normal(distance, WORLD.noise).log_prob(x).sum(dim=1).softmax(dim=0)
        effective = 1 / weight.square().sum()
        for statistic in (lambda t: t[:, 0], lambda t: (t[:, 1] + 0.2).square()):
            values = statistic(theta)
            mean = weight @ values
            deviation = (weight @ (values - mean).square()).sqrt()
            error = deviation * (1 / effective + 1 / NUM_DRAWS).sqrt()
            assert (statistic(draws[:, row]).mean() - mean).abs() < 5 * error


def test_the_exact_posterior_stays_in_the_square():
    corner = WORLD.simulate(torch.tensor([[1.0, 1.0]]), seed=0)
    assert WORLD.reference(corner, 2000, seed=0).abs().max() <= 1.0


@pytest.fixture(scope="module")
def result():
    return run_demo(num_simulations=500, num_draws=200, max_epochs=2, num_observations=2)


@pytest.mark.slow
def test_the_log_gives_the_oracle_back_however_little_was_trained(result):
    assert result.shift_error < 1e-5
    draws = result.draws
    assert draws["MA-SBI"].shape == (200, len(NOTES), 2, 2)
    torch.testing.assert_close(draws["MA-SBI"], draws["Oracle"], atol=1e-3, rtol=0)
    # Under the first note nothing is wrong, under the others the distances are.
    torch.testing.assert_close(draws["NPE"][:, 0], draws["Oracle"][:, 0])
    assert (draws["NPE"][:, 1:] - draws["Oracle"][:, 1:]).abs().mean() > 0.01


def test_every_method_is_scored_under_every_note(result):
    assert list(result.c2st) == list(COMPARED)
    for scores in result.c2st.values():
        assert scores.shape == (len(NOTES), 2)
        assert ((scores >= 0) & (scores <= 1)).all()
    assert result.gap_closed(0).blank


def test_the_figure_has_a_row_per_method_and_a_column_per_note(result):
    first = {name: values[:, :, 0] for name, values in result.draws.items()}
    figure = plot_posteriors(first, list(NOTES), limits=(-1, 1), names=("east", "north"))
    assert len(figure.axes) == len(COMPARED) * len(NOTES)
    assert figure.axes[0].get_ylabel() == "north"
    assert figure.axes[-1].get_xlabel() == "east"
