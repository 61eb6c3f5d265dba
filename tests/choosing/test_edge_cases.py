"""Data at the edge of what ``fit_corrector`` is made for."""

import json
import warnings

import pytest
import torch
from torch.distributions import Independent, Normal, Uniform

from ma_sbi import HashEncoder, fit_corrector, from_callable
from ma_sbi.nan import NotANumber

NOTES = ["high", "low"] * 30


def uniform_posterior():
    """A posterior whose density is zero outside a box around x."""

    def law(x):
        return Independent(Uniform(x - 0.5, x + 0.5, validate_args=False), 1)

    def log_prob(theta, x):
        return law(x).base_dist.log_prob(theta).sum(dim=-1)

    return from_callable(lambda num, x: law(x).sample((num,)), log_prob, batched=True)


def normal_posterior():
    def law(x):
        return Independent(Normal(0.8 * x, 0.5), 1)

    return from_callable(
        lambda num, x: law(x).sample((num,)), lambda t, x: law(x).log_prob(t), batched=True
    )


def in_box(x):
    """Log density of a uniform law on a box."""
    return torch.where((x.abs() < 5).all(dim=-1), 0.0, -torch.inf)


@pytest.fixture
def rows():
    """Departures that vary so much that no fit predicts them."""
    rng = torch.Generator().manual_seed(0)
    x_sim = torch.randn(60, 2, generator=rng)
    x_sim[0] = 30.0  # unlike any other row
    return x_sim + 3 * torch.randn(60, 2, generator=rng), x_sim


def assert_finite(corrector, x):
    weights = [one["weight"] for one in json.loads(corrector.why.to_json())["tried"]]
    assert sum(weights) == pytest.approx(1)
    assert corrector.correct(x, NOTES).isfinite().all()


def test_densities_of_zero_under_every_proposal(rows):
    x_obs, x_sim = rows
    corrector = fit_corrector(NOTES, x_obs, x_sim, posterior=uniform_posterior(), seed=0)
    assert_finite(corrector, x_obs)


@pytest.mark.parametrize("paired", [True, False])
def test_a_density_with_bounds(rows, paired):
    x_obs, x_sim = rows
    given = {"x_sim": x_sim} if paired else {"simulations": x_sim}
    corrector = fit_corrector(NOTES, x_obs, density=in_box, seed=0, **given)
    assert_finite(corrector, x_obs)
    if paired:
        assert any("evidence of x" in reason for reason in corrector.why.reasons)
        assert "nan" not in str(corrector.why)


def test_a_posterior_that_is_not_a_number_far_away(rows):
    x_obs, x_sim = rows
    usual = normal_posterior()

    def log_prob(theta, x):
        density = usual.log_prob(theta, x)
        return torch.where((x.abs() > 4).any(dim=1), torch.nan, density)

    posterior = from_callable(lambda num, x: usual.sample(num, x), log_prob, batched=True)
    with pytest.warns(NotANumber, match="at x_sim, log densities"):
        corrector = fit_corrector(NOTES, x_obs, x_sim, posterior=posterior, seed=0)
    assert_finite(corrector, x_obs)


@pytest.mark.parametrize("num_rows", [1, 2, 15])
def test_too_few_rows_with_a_posterior(rows, num_rows):
    x_obs, x_sim = (x[:num_rows] for x in rows)
    notes = NOTES[:num_rows]
    corrector = fit_corrector(notes, x_obs, x_sim, posterior=normal_posterior(), seed=0)
    assert torch.equal(corrector.correct(x_obs, notes), x_obs)
    assert "too few" in corrector.why.reasons[-1]


def test_what_is_the_same_under_every_context_does_not_read_missing_ones():
    rng = torch.Generator().manual_seed(0)
    x_sim = torch.randn(60, 2, generator=rng)
    notes = [None, "note"] * 30
    x_obs = 2 * x_sim + torch.tensor([[0.0], [0.3]]).repeat(30, 1)
    corrector = fit_corrector(notes, x_obs, x_sim, seed=0)
    (affine,) = (part.corrector for part in corrector.parts if part.name == "affine")
    first, second = (affine.correct(x_obs[:1], [note]) for note in notes[:2])
    assert torch.allclose(first, second, atol=1e-5)


def test_rows_that_share_theta_are_not_another_population():
    """Five rows of each group at one theta: tested as 100 rows, 15 of 40 were rejected."""
    rng = torch.Generator().manual_seed(0)
    doubted = 0
    for seed in range(8):
        theta = torch.randn(20, 2, generator=rng).repeat_interleave(5, dim=0)
        x_sim = theta + 0.1 * torch.randn(100, 2, generator=rng)
        corrector = fit_corrector(
            ["a", "b"] * 50,
            x_sim + torch.tensor([[1.0, 0.0], [0.0, 0.0]]).repeat(50, 1),
            x_sim,
            density=lambda x: Independent(Normal(torch.zeros(2), 1.005), 1).log_prob(x),
            simulations=1.005 * torch.randn(1000, 2, generator=rng),
            groups=torch.arange(100) // 5,
            seed=seed,
        )
        doubted += any("another population" in why for why in corrector.why.reasons)
    # One of 8 at the level 0.005 has a probability of 4 %, two of 0.07 %.
    assert doubted <= 1


def test_fewer_rows_than_columns_are_named():
    rng = torch.Generator().manual_seed(0)
    x_sim = torch.randn(20, 25, generator=rng)
    why = fit_corrector(NOTES[:20], x_sim + 1, x_sim, seed=0).why
    assert any(said.startswith("20 rows for 25 columns: ") for said in why.reasons)
    why = fit_corrector(NOTES[:20], x_sim[:, :20] + 1, x_sim[:, :20], seed=0).why
    assert not any("columns" in said for said in why.reasons)


def test_a_new_context_is_said_to_be_new_where_all_rows_had_the_same():
    rng = torch.Generator().manual_seed(0)
    x_sim = torch.randn(40, 2, generator=rng)
    found = fit_corrector(["Bubbles in the cell."] * 40, x_sim + 1, x_sim, seed=0)
    assert any("every row has the same context" in said for said in found.why.reasons)
    with pytest.warns(
        UserWarning, match="1 of 1 rows have a context that calibration has not"
    ):
        found.correct(x_sim[:1], "All good.")
    with warnings.catch_warnings():
        warnings.simplefilter("error")
        found.correct(x_sim[:1], "Bubbles in the cell.")


def test_too_few_rows_say_that_the_context_is_not_read():
    x_sim = torch.randn(5, 2, generator=torch.Generator().manual_seed(0))
    text = str(fit_corrector(NOTES[:5], x_sim + 1, x_sim).why)
    assert "context not read" in text


def test_an_encoder_that_is_a_class_is_refused():
    with pytest.raises(ValueError, match=r"write HashEncoder\(\)"):
        fit_corrector(NOTES, torch.zeros(60, 1), torch.zeros(60, 1), encoder=HashEncoder)


def test_what_so_few_rows_do_not_allow_is_named():
    x_sim = torch.randn(18, 1, generator=torch.Generator().manual_seed(0))
    why = fit_corrector(NOTES[:18], x_sim + 1, x_sim, seed=0).why
    (said,) = (reason for reason in why.reasons if "too few to try" in reason)
    assert said == (
        "18 rows are too few to try: affine, affine by regression, learned forwards"
    )
    assert not {"affine", "learned forwards"} & {one.name for one in why.tried}
