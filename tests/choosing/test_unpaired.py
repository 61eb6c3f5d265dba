"""Without pairs, the likeliest shifts are tried beside those of the means."""

import math

import pytest
import torch
from torch.distributions import Normal

from ma_sbi import fit_corrector
from ma_sbi.correctors import MatchingAssumption

BY_CONTEXT = "likeliest shift by context"
SHIFTS = {"high": 1.0, "low": -1.0}


def log_density(x):
    """Two narrow clusters, far apart: means tell little of a shift."""
    each = torch.stack([Normal(side, 0.2).log_prob(x[:, 0]) for side in (-3.0, 3.0)])
    return each.logsumexp(dim=0) - math.log(2)


def simulate(n):
    return 3.0 * (2 * torch.randint(2, (n, 1)) - 1) + 0.2 * torch.randn(n, 1)


def fit(num_rows, **options):
    notes = list(SHIFTS) * num_rows
    x_obs = simulate(2 * num_rows) + torch.tensor(list(SHIFTS.values()) * num_rows)[:, None]
    return fit_corrector(notes, x_obs, seed=0, **options)


def weights(corrector):
    return {one.name: one.weight for one in corrector.why.tried}


def spread(corrector, note):
    found = corrector.corrections([[0.0]], note)
    weight, x = found.log_weight.exp()[:, 0], found.x[:, 0, 0]
    mean = (weight * x).sum()
    return -mean.item(), (weight * (x - mean).square()).sum().sqrt().item()


@pytest.mark.parametrize("num_rows", [20, 80])
def test_the_likeliest_shift_is_chosen_with_its_error(num_rows):
    pool = simulate(4000)
    corrector = fit(num_rows, simulations=pool, density=log_density)
    assert weights(corrector)[BY_CONTEXT] > 0.9
    error = 0.2 / num_rows**0.5
    for note, true in SHIFTS.items():
        shift, said = spread(corrector, note)
        assert abs(shift - true) < 4.5 * error  # means have an error fifteen times as large
        assert said == pytest.approx(error, rel=0.5)


def test_with_many_observations_it_is_a_point():
    corrector = fit(600, simulations=simulate(4000), density=log_density)
    assert corrector.why.inference == "point"
    assert weights(corrector)[BY_CONTEXT] > 0.99


def test_without_a_density_or_with_pairs_it_is_not_tried():
    pool = simulate(2000)
    assert BY_CONTEXT not in weights(fit(20, simulations=pool))
    x_sim = simulate(40)
    paired = fit_corrector(["a", "b"] * 20, x_sim + 0.5, x_sim, density=log_density, seed=0)
    assert BY_CONTEXT not in weights(paired)


def test_observations_in_other_units_are_named():
    pool = simulate(2000)
    near, far = (
        fit_corrector(
            ["a", "b"] * 30,
            scale * simulate(60),
            simulations=pool,
            density=log_density,
            seed=0,
        )
        for scale in (1.0, 1000.0)
    )
    assert any("do not overlap" in said for said in far.why.reasons)
    assert not any("do not overlap" in said for said in near.why.reasons)
    # What cannot be compared is left as it is.
    x = torch.full((3, near.dim_x), 700.0)
    assert far.correct(x, ["a"] * 3).equal(x)


@pytest.mark.parametrize("scale", [0.1, 10.0])
def test_a_spread_that_no_shift_explains_is_named(scale):
    pool = simulate(2000)
    with pytest.warns(MatchingAssumption, match=r"\(column 0\), which no shift explains"):
        fit_corrector(["a", "b"] * 30, scale * simulate(60), simulations=pool, seed=0)


def test_observations_far_from_every_simulation_are_named():
    pool = simulate(2000)
    with pytest.warns(MatchingAssumption, match="do not overlap: in column 0"):
        far = fit_corrector(["a", "b"] * 30, simulate(60) - 273, simulations=pool, seed=0)
    assert any("do not overlap" in said for said in far.why.reasons)


def test_what_is_assumed_without_pairs_is_said():
    with pytest.warns(MatchingAssumption, match="a true effect is removed"):
        found = fit(20, simulations=simulate(2000))
    assert any(
        "same distribution under every context" in said for said in found.why.reasons
    )
