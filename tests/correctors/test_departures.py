"""Tests for ma_sbi.correctors.departures through the composed corrector."""

import pytest
import torch

from ma_sbi import CategoryEncoder, ComposedCorrector, HashEncoder, NumberEncoder
from ma_sbi.correctors import Affine, Network, Point, Ridge, Shift
from tests.correctors.worlds import TEXTS, shifted_world


def affine_world(n, seed=0):
    world = shifted_world(n, dim_x=4, seed=seed)
    rng = torch.Generator().manual_seed(99)
    matrices = 0.3 * torch.randn(len(TEXTS), 4, 4, generator=rng)
    added = torch.einsum("nij,nj->ni", matrices[world.regime], world.x_sim)
    return world._replace(x_obs=world.x_obs + added), matrices


def test_an_affine_departure_is_undone_with_its_jacobian():
    world, matrices = affine_world(400)
    corrector = ComposedCorrector(HashEncoder(), Affine(), Ridge(), Point())
    corrector.fit(*world[:3])
    test, _ = affine_world(40, seed=0)
    candidates = corrector.corrections(test.x_obs, test.context)
    torch.testing.assert_close(candidates.x[0], test.x_sim, atol=1e-4, rtol=1e-4)
    forward = torch.eye(4) + matrices[test.regime]
    expected = -torch.linalg.slogdet(forward).logabsdet
    torch.testing.assert_close(candidates.log_abs_det[0], expected, atol=1e-4, rtol=0)


def test_log_abs_det_matches_autograd():
    world, _ = affine_world(200)
    corrector = ComposedCorrector(HashEncoder(), Affine(), Ridge(), Point())
    corrector.fit(*world[:3])
    encoding = torch.tensor(corrector.encoder_.transform([TEXTS[1]])).double()
    coefficients = corrector.fitted_(encoding).coefficients
    x = torch.randn(1, 4, dtype=torch.float64)
    jacobian = torch.autograd.functional.jacobian(
        lambda row: corrector.departure_.undo(row[None], coefficients)[0][0, 0], x[0]
    )
    log_abs_det = corrector.departure_.undo(x, coefficients)[1][0, 0]
    torch.testing.assert_close(torch.linalg.slogdet(jacobian).logabsdet, log_abs_det)


@pytest.mark.slow
def test_a_network_can_fit_an_affine_departure():
    world, _ = affine_world(400)
    fitting = Network(epochs=300, batch_size=64)
    corrector = ComposedCorrector(HashEncoder(), Affine(), fitting, Point())
    corrected = corrector.fit(*world[:3], seed=0).correct(world.x_obs, world.context)
    before = (world.x_obs - world.x_sim).norm()
    assert (corrected - world.x_sim).norm() < 0.05 * before


def test_a_departure_that_depends_on_x_has_no_shift():
    world, _ = affine_world(100)
    corrector = ComposedCorrector(HashEncoder(), Affine(), Ridge(), Point())
    with pytest.raises(ValueError, match="Affine departures depend on x"):
        corrector.fit(*world[:3]).shift(TEXTS)


def test_the_composition_of_a_shift_is_the_shift_corrector():
    world = shifted_world(40)
    corrector = ComposedCorrector(HashEncoder(), Shift(), Ridge(), Point())
    shift = corrector.fit(*world[:3]).shift(TEXTS)
    torch.testing.assert_close(shift, world.shifts, atol=1e-4, rtol=0)


def test_more_columns_than_triples_are_solved_through_the_rows():
    # 60 numbers x 5 basis functions against 60 triples: the smaller Gram matrix is used,
    # and the answer must be that of the larger one.
    rng = torch.Generator().manual_seed(0)
    z = torch.rand(60, generator=rng)
    x_sim = torch.randn(60, 4, generator=rng)
    x_obs = x_sim * (1 + z[:, None]) + 0.1 * torch.randn(60, 4, generator=rng)

    def corrected(copies):
        corrector = ComposedCorrector(NumberEncoder(), Affine(), Ridge(), Point())
        corrector.fit(z.repeat(copies), x_obs.repeat(copies, 1), x_sim.repeat(copies, 1))
        return corrector.correct(x_obs, z)

    # One copy goes through the rows; four copies hold the same information with a quarter
    # of the noise, through the columns.
    assert (corrected(1) - x_sim).norm() < 0.2 * (x_obs - x_sim).norm()
    assert (corrected(4) - x_sim).norm() < 0.2 * (x_obs - x_sim).norm()


def test_slopes_are_regularised_where_there_are_more_of_them_than_rows():
    # 60 columns of which each context damps all alike, 40 triples: least squares would
    # follow the noise wherever new observations differ from the old.
    rng = torch.Generator().manual_seed(0)
    gain = torch.tensor([[0.5], [1.5]])

    def world(n):
        level = torch.randn(n, 1, generator=rng)
        x_sim = level + 0.3 * torch.randn(n, 60, generator=rng)
        return x_sim * gain.repeat(n // 2, 1), x_sim

    context = ["damped", "amplified"]
    corrector = ComposedCorrector(CategoryEncoder(), Affine(), Ridge(), Point())
    corrector.fit(context * 20, *world(40))
    x_obs, x_sim = world(400)
    left = (corrector.correct(x_obs, context * 200) - x_sim).square().mean()
    assert left < 0.5 * (x_obs - x_sim).square().mean()
