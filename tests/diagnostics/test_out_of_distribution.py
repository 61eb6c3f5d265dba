"""Both tests are exact: p-values of well-specified observations are uniform."""

import pytest
import torch
from sbi.diagnostics.misspecification import compute_rbf_mmd_median_heuristic
from scipy import stats

from ma_sbi.diagnostics import out_of_distribution
from ma_sbi.diagnostics.out_of_distribution import Likeness

REPEATS = 120
# A uniform sample gives a smaller one once in a thousand cases.
UNLIKELY = 1e-3


def unpaired(rng):
    """Skewed simulations, which a Gaussian mixture describes badly."""
    draws = torch.randn(140, 3, generator=rng).exp()
    return draws[:40], draws[40:]


def paired(rng):
    signal = torch.randn(60, 3, generator=rng)
    noise = 0.3 * torch.randn(2, 60, 3, generator=rng)
    return signal + noise[0], signal + noise[1]


@pytest.mark.parametrize("world", [unpaired, paired])
def test_p_values_of_what_is_well_specified_are_uniform(world):
    rng = torch.Generator().manual_seed(0)
    found = [
        out_of_distribution(
            *world(rng), paired=world is paired, num_permutations=99, seed=seed
        ).before
        for seed in range(REPEATS)
    ]
    for name in ("mmd_p_value", "log_prob_p_value"):
        values = [getattr(one, name) for one in found]
        assert stats.kstest(values, "uniform").pvalue > UNLIKELY, name
    single = [one.row_p_values[0].item() for one in found]
    assert stats.kstest(single, "uniform").pvalue > UNLIKELY


def test_a_departure_is_seen_before_and_not_after():
    rng = torch.Generator().manual_seed(0)
    x_sim = torch.randn(500, 4, generator=rng)
    x_obs = torch.randn(100, 4, generator=rng)
    found = out_of_distribution(x_obs + 1.0, x_sim, corrected=x_obs, seed=0)
    assert found.before.mmd_p_value == pytest.approx(1 / 1000)
    assert found.before.log_prob_p_value < 1e-6
    assert found.before.mmd > 10 * abs(found.after.mmd)
    assert found.after.p_value > 0.01
    assert "before correction" in str(found)
    assert "after correction" in str(found)


def test_pairs_show_what_pools_do_not():
    x_sim = torch.randn(200, 4, generator=torch.Generator().manual_seed(0))
    x_obs = x_sim + 0.1
    assert out_of_distribution(x_obs, x_sim, seed=0).before.mmd_p_value > 0.05
    pairs = out_of_distribution(x_obs, x_sim, paired=True, seed=0).before
    assert pairs.mmd_p_value == pytest.approx(1 / 1000)


def test_a_perfect_correction_is_never_rejected():
    x_sim = torch.randn(200, 4, generator=torch.Generator().manual_seed(0))
    found = out_of_distribution(x_sim + 1, x_sim, corrected=x_sim, paired=True, seed=0)
    assert found.after.log_prob_p_value == 1.0
    assert found.after.mmd_p_value > 0.05


def test_one_row_is_ranked_among_simulations():
    """The p-value of one row is its exact rank under the density that was passed."""
    rng = torch.Generator().manual_seed(0)
    x_sim = torch.randn(999, 1, generator=rng)
    found = out_of_distribution(
        [[2.0]], x_sim, log_density=lambda x: -x.square().sum(dim=1), seed=0
    ).before
    expected = (1 + (x_sim.abs() >= 2).sum().item()) / 1000
    assert found.log_prob_p_value == pytest.approx(expected)
    assert found.mmd is None
    assert found.p_value == found.log_prob_p_value
    assert "MMD" not in str(found)


def test_the_share_of_rows_outside_is_five_percent():
    rng = torch.Generator().manual_seed(0)
    draws = torch.randn(8000, 2, generator=rng)
    found = out_of_distribution(draws[:4000], draws[4000:], seed=0).before
    # Four standard errors: of 4000 rows, and of a quantile of 2000 simulations.
    error = (0.05 * 0.95 * (1 / 4000 + 1 / 2000)) ** 0.5
    assert found.outside == pytest.approx(0.05, abs=4 * error)


def test_the_mmd_is_that_of_sbi_without_its_bias():
    rng = torch.Generator().manual_seed(0)
    x_sim, x_obs = (
        torch.randn(400, 3, generator=rng),
        torch.randn(300, 3, generator=rng) + 0.5,
    )
    scaled = [one / x_sim.std(dim=0) for one in (x_obs, x_sim)]
    biased = compute_rbf_mmd_median_heuristic(*scaled).item()
    # Diagonals add about 1/n + 1/m; sbi's width is the median between the samples alone.
    found = out_of_distribution(x_obs, x_sim, seed=0).before.mmd
    assert found == pytest.approx(biased - 1 / 400 - 1 / 300, rel=0.3)


def test_the_same_seed_gives_the_same_answer_and_leaves_the_generator():
    x_sim = torch.randn(100, 2, generator=torch.Generator().manual_seed(0))
    before = torch.get_rng_state()
    found = [out_of_distribution(x_sim[:30] + 0.3, x_sim, seed=5).before for _ in range(2)]
    assert found[0].mmd_p_value == found[1].mmd_p_value
    assert torch.equal(found[0].row_p_values, found[1].row_p_values)
    assert torch.equal(before, torch.get_rng_state())


@pytest.mark.parametrize(
    ("options", "message"),
    [
        ({"x_sim": torch.zeros(5, 2)}, "at least 20 simulations"),
        ({"x_sim": torch.zeros(30, 3)}, "same columns"),
        ({"paired": True}, "must be as many"),
        ({"corrected": torch.zeros(3, 2)}, "one row per observation"),
        ({"log_density": lambda x: x}, "one number per row"),
        ({"num_permutations": 0}, "num_permutations must be a positive integer"),
    ],
    ids=["few", "columns", "pairs", "corrected", "density", "permutations"],
)
def test_bad_input_is_named(options, message):
    x_sim = options.pop("x_sim", torch.randn(30, 2))
    with pytest.raises(ValueError, match=message):
        out_of_distribution(torch.randn(10, 2), x_sim, **options)


@pytest.mark.parametrize(("outside", "said"), [(0.06, "yes"), (0.16, "not all")])
def test_many_rows_outside_are_not_said_to_look_like_simulations(outside, said):
    # 16 % of 160 rows outside stood beside "yes".
    found = Likeness(0.0, 0.045, 0.34, torch.ones(160), outside)
    assert str(found).startswith(said)
