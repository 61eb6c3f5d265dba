"""Tests for ma_sbi.posteriors.density against closed forms."""

import math
import os

import pytest
import torch
from torch.distributions import Independent, LogNormal, MultivariateNormal

from ma_sbi import fit_density, load_density, load_posterior
from ma_sbi.correctors.inference import Evidence
from ma_sbi.posteriors import density as module
from ma_sbi.posteriors.columns import Columns, cells
from ma_sbi.posteriors.heavy_tailed import HeavyTailed
from ma_sbi.protocols import Corrections

MEAN = torch.tensor([1000.0, -2.0, 0.0])
ROOT = torch.tensor([[5.0, 0.0, 0.0], [0.3, 0.4, 0.0], [0.0, -0.02, 0.01]])
GAUSSIAN = MultivariateNormal(MEAN, scale_tril=ROOT)
SMALL = {"num_transforms": 1, "hidden": (8,), "max_epochs": 2, "patience": 2}


def draw(n, seed=1):
    rng = torch.Generator().manual_seed(seed)
    return MEAN + torch.randn(n, 3, generator=rng) @ ROOT.T


def small_fit(x, **options):
    with pytest.warns(UserWarning, match="max_epochs=2"):
        return fit_density(x, **{**SMALL, "seed": 0, **options})


@pytest.fixture(scope="module", params=["nsf", "maf"])
def gaussian(request):
    return fit_density(draw(4000), flow=request.param, seed=0)


class TestGaussian:
    def test_the_density_is_learned(self, gaussian):
        x = draw(4000, seed=2)
        gap = GAUSSIAN.log_prob(x) - gaussian.log_prob(x)
        # Over six fits 0.028 (nsf) and 0.011 (maf), with deviations of 0.005 and 0.002.
        assert gap.mean() < 0.06

    def test_the_held_out_loss_is_the_entropy_and_what_is_missing(self, gaussian):
        x = draw(4000, seed=2)
        loss = -gaussian.log_prob(x)
        # Held out were 400 other simulations, whose losses vary by about 1.2 nats.
        error = loss.std().item() * (1 / 400 + 1 / 4000) ** 0.5
        assert abs(gaussian.held_out_loss - loss.mean().item()) < 4 * error
        assert f"{gaussian.held_out_loss:.3f} nats" in repr(gaussian)

    def test_draws_have_the_moments_of_the_simulations(self, gaussian):
        draws = gaussian.sample(4000, seed=0)
        assert draws.shape == (4000, 3)
        white = torch.linalg.solve_triangular(ROOT, (draws - MEAN).T, upper=False).T
        # Over twelve fits at most 0.09 and 0.08.
        assert white.mean(dim=0).abs().max() < 0.2
        assert (white.std(dim=0) - 1).abs().max() < 0.2

    def test_rows_do_not_depend_on_their_block(self, gaussian, monkeypatch):
        x = draw(50)
        at_once = gaussian.log_prob(x.double())
        monkeypatch.setattr(module, "BLOCK_ENTRIES", 21)
        # The flow computes in single precision.
        torch.testing.assert_close(gaussian(x.double()), at_once, atol=1e-4, rtol=0)

    def test_it_weighs_candidates(self, gaussian):
        x = torch.stack([draw(6), draw(6) + torch.tensor([0.0, 0.0, 0.3])])
        same = torch.full((2, 6), math.log(0.5))
        weighted = Evidence(gaussian)(Corrections(x, same, torch.zeros(2, 6)))
        # Seven deviations of the last column given the others, ten of itself.
        assert (weighted.log_weight[0] > math.log(0.9)).all()

    def test_the_gradient_is_that_of_the_density(self, gaussian):
        x = draw(200, seed=3).double()
        value, gradient = gaussian.log_prob_and_gradient(x)
        torch.testing.assert_close(value, gaussian(x))
        scale = torch.tensor([5.0, 0.5, 0.02]).double()
        step = torch.diag(1e-2 * scale)
        quotient = torch.stack([gaussian(x + one) - gaussian(x - one) for one in step], 1)
        # In units of the columns: splines have kinks in their slopes, which a difference
        # over a hundredth of a deviation blurs.
        error = (quotient / 2e-2 - gradient * scale).abs()
        assert error.median() < 0.02
        assert gradient.abs().max() > 1 / scale[2]

    def test_far_away_the_gradient_is_finite(self, gaussian):
        far = MEAN.double() + 1e6 * torch.randn(20, 3)
        assert gaussian.log_prob_and_gradient(far)[1].isfinite().all()

    @pytest.mark.parametrize("scale", [1e2, 1e6, 1e30])
    def test_far_away_it_is_finite_and_falls(self, gaussian, scale):
        x = MEAN.double() + scale * torch.tensor([5.0, 0.5, 0.02]) * torch.randn(20, 3)
        near, far = gaussian(x), gaussian(MEAN + 10 * (x - MEAN))
        assert torch.isfinite(near).all()
        assert torch.isfinite(far).all()
        assert (far <= near).all()
        # A power of the distance: 4 log(10) until all points are equally far.
        expected = 4 * math.log(10) if scale < 1e10 else 0.0
        torch.testing.assert_close(
            near - far, torch.full((20,), expected).double(), atol=0.05, rtol=0
        )

    def test_the_largest_numbers_do_no_harm(self, gaussian):
        for dtype in (torch.float32, torch.float64):
            sign = torch.tensor([[1.0, -1.0, 1.0], [0.0, 0.0, -1.0]], dtype=dtype)
            assert torch.isfinite(gaussian(sign * torch.finfo(dtype).max)).all()


def test_the_type_of_x_is_kept():
    density = small_fit(draw(200))
    x = draw(5)
    assert density(x).dtype == torch.float32
    assert density(x.double()).dtype == torch.float64
    assert density(x.tolist()).dtype == torch.float32
    torch.testing.assert_close(density(x.numpy()), density(x))
    assert not density(x.requires_grad_()).requires_grad


@pytest.mark.parametrize("dim", [1, 3])
@pytest.mark.parametrize("flow", ["nsf", "maf"])
def test_a_saved_density_is_the_same(dim, flow, tmp_path):
    x = draw(200)[:, :dim]
    density, path = small_fit(x, flow=flow), tmp_path / "density"
    density.save(path)
    before = torch.get_rng_state()
    loaded = load_density(path)
    assert torch.equal(torch.get_rng_state(), before)
    assert torch.equal(loaded(x), density(x))
    assert torch.equal(loaded.sample(20, seed=1), density.sample(20, seed=1))
    assert repr(loaded) == repr(density)
    with pytest.raises(ValueError, match="holds a density.*load_density"):
        load_posterior(path)


class TestSeveralFlows:
    def test_densities_are_averaged(self):
        together, alone = self.fit()
        x = draw(50, seed=2).double()
        expected = torch.stack([one(x) for one in alone]).logsumexp(dim=0) - math.log(2)
        torch.testing.assert_close(together(x), expected, rtol=1e-5, atol=1e-5)
        assert not torch.allclose(alone[0](x), alone[1](x), atol=0.01)

    def test_a_draw_is_from_one_of_them(self):
        together, alone = self.fit()
        found = set()
        for seed in range(20):
            x = together.sample(1, seed=seed)
            found.add(tuple(torch.equal(x, one.sample(1, seed=seed)) for one in alone))
        assert found == {(True, False), (False, True)}

    def test_a_saved_density_is_the_same(self, tmp_path):
        together, _ = self.fit()
        together.save(tmp_path / "flows")
        x = draw(20)
        assert torch.equal(load_density(tmp_path / "flows")(x), together(x))

    def fit(self):
        """Return a density of two flows, and that of each."""
        together = small_fit(draw(200), num_flows=2)
        alone = [
            module.SimulationDensity(
                torch.nn.ModuleList([flow]),
                together.columns,
                together.heavy,
                settings=together.settings,
            )
            for flow in together.flows
        ]
        return together, alone


def test_same_seed_same_density_and_the_global_generator_is_left_alone():
    x = draw(200).round(decimals=1)
    before = torch.get_rng_state()
    first, second, other = (small_fit(x, seed=seed) for seed in (5, 5, 6))
    draws = first.sample(10, seed=0)
    assert torch.equal(torch.get_rng_state(), before)
    assert torch.equal(first(x), second(x))
    assert not torch.equal(first(x), other(x))
    assert torch.equal(draws, second.sample(10, seed=0))


def test_nothing_is_printed_or_written(tmp_path, monkeypatch, capsys):
    monkeypatch.chdir(tmp_path)
    small_fit(draw(200))
    assert os.listdir() == []
    assert capsys.readouterr() == ("", "")


def test_training_works_where_gradients_are_switched_off():
    with torch.no_grad():
        small_fit(draw(200))


class TestSharedValues:
    def test_a_cell_reaches_half_way_to_the_next_values(self):
        x = torch.tensor([0.0, 0.0, 1.0, 1.0, 4.0, 4.0, 9.0])[:, None]
        lower, upper = cells(x)
        assert lower[:, 0].tolist() == [-0.5, -0.5, 0.5, 0.5, 2.5, 2.5, 9.0]
        assert upper[:, 0].tolist() == [0.5, 0.5, 2.5, 2.5, 6.5, 6.5, 9.0]

    def test_an_atom_among_continuous_values_gets_a_cell_of_some_width(self):
        x = torch.cat([torch.zeros(600), torch.rand(400) + 1e-6])[:, None]
        lower, upper = cells(x)
        width = (upper - lower)[0].item()
        # A density of 2 per standard deviation, for a mass of 0.6.
        assert width == pytest.approx(0.6 * x.std().item() / 2, rel=1e-3)
        assert torch.equal(lower[600:], x[600:])

    def test_a_cell_has_the_probability_of_its_count(self):
        rng = torch.Generator().manual_seed(1)
        chance = torch.tensor([0.7, 0.2, 0.1])
        count = torch.multinomial(chance, 2000, replacement=True, generator=rng)
        continuous = count + torch.randn(2000, generator=rng)
        x = torch.stack([count, continuous], dim=1)
        density = fit_density(x, patience=4, seed=0)
        across, along = torch.linspace(-0.45, 2.45, 30), torch.linspace(-6, 8, 100)
        mass = density(torch.cartesian_prod(across, along)).exp().reshape(3, -1).sum(dim=1)
        # The edges of cells are soft: over eight fits 0.67, 0.21 and 0.10, each with a
        # deviation of at most 0.018.
        mass = mass * 0.1 * (14 / 99)
        torch.testing.assert_close(mass, chance, atol=0.03 + 4 * 0.018, rtol=0)

    def test_a_copy_of_a_column_does_not_blow_up(self):
        x = draw(300)[:, :1].repeat(1, 2)
        density = small_fit(x)
        assert torch.isfinite(density(x + torch.tensor([0.0, 1.0]))).all()


class TestLongTails:
    x = torch.tensor([1.0, 30.0]) + torch.tensor([1.0, 0.1]) * torch.stack(
        [torch.linspace(-4, 4, 101).exp(), torch.linspace(-2, 2, 101)], dim=1
    )

    def columns(self):
        x = self.x.double()
        return Columns.of(x, x, rounding=1e-12)

    def test_they_are_found_and_standardised(self):
        columns = self.columns()
        assert columns.long.tolist() == [True, False]
        z = columns.standardise(self.x.double())
        torch.testing.assert_close(z.mean(dim=0), torch.zeros(2).double())
        assert z.abs().max() < 3
        torch.testing.assert_close(columns.invert(z), self.x.double())

    def test_the_determinant_is_that_of_autograd(self):
        columns = self.columns()
        for row in self.x.double()[::20]:
            jacobian = torch.autograd.functional.jacobian(
                lambda x: columns.standardise(x[None])[0], row
            )
            torch.testing.assert_close(
                columns.log_abs_det(row[None])[0], torch.linalg.slogdet(jacobian).logabsdet
            )

    @pytest.mark.slow
    def test_the_density_is_learned(self):
        exact = Independent(LogNormal(torch.zeros(2), 2 * torch.ones(2)), 1)
        rng = torch.Generator().manual_seed(1)
        x = (2 * torch.randn(6000, 2, generator=rng)).exp()
        density = fit_density(x[:3000], seed=0)
        # Over six fits 0.10 with a deviation of 0.02; 0.6 without a logarithmic scale.
        assert (exact.log_prob(x) - density(x))[3000:].mean() < 0.2


class TestConstantColumns:
    def test_it_is_ignored_where_it_is_equal(self):
        x = draw(300)
        padded = torch.cat([x, torch.full((300, 1), 2.0)], dim=1)
        plain, wide = small_fit(x), small_fit(padded)
        torch.testing.assert_close(wide(padded), plain(x))
        assert torch.equal(wide.sample(5, seed=0)[:, 3], torch.full((5,), 2.0))
        assert wide.dim_x == 4

    def test_leaving_it_costs_more_the_farther_it_is(self):
        x = draw(300)
        x[:, 2] = 2.0
        density = small_fit(x)
        off = x[:4].double()
        off[:, 2] += torch.tensor([0.0, 0.02, 2.0, 2e9])
        lost = density(x[:4].double()) - density(off)
        expected = torch.tensor([0.0, 1.0, 100.0, 1e11], dtype=torch.float64)
        torch.testing.assert_close(lost, expected.square().log1p())

    def test_one_that_varies_only_by_rounding_is_constant(self):
        x = torch.full((100, 1), 0.1) * (1 + 1e-7 * torch.randn(100, 1))
        with pytest.raises(ValueError, match="all 100 rows are equal"):
            fit_density(x)
        columns = Columns.of(*2 * (x.double(),), rounding=1e-12)
        assert columns.varies.all()


class TestHeavyTails:
    @pytest.fixture
    def heavy(self):
        rng = torch.Generator().manual_seed(0)
        root = torch.tensor([[2.0, 0.0], [1.0, 0.5]], dtype=torch.float64)
        return HeavyTailed.around(torch.randn(500, 2, generator=rng).double() @ root.T)

    def test_in_one_dimension_it_is_flat_and_then_falls_like_a_square(self):
        heavy = HeavyTailed.around(torch.tensor([[1.0], [5.0]], dtype=torch.float64))
        x = torch.tensor([3.0, 1.5, 5.0, 7.0, -17.0], dtype=torch.float64)
        expected = torch.tensor([1.0, 1.0, 1.0, 1 / 4, 1 / 100], dtype=torch.float64) / 8
        found = heavy.log_prob(heavy.distance(x[:, None])).exp()
        torch.testing.assert_close(found, expected)

    def test_it_integrates_to_one(self, heavy):
        # Two thirds of the mass lie beyond the radius R, 2 R / (3 r) beyond r.
        grid = torch.cartesian_prod(*2 * (torch.linspace(-60, 60, 1201).double(),))
        distance = heavy.distance(grid)
        near = distance < 2 * heavy.radius
        mass = heavy.log_prob(distance[near]).exp().sum().item() * 0.1**2
        assert mass == pytest.approx(2 / 3, abs=0.005)

    def test_points_far_away_are_moved_back_on_their_line(self, heavy):
        points = torch.tensor([[1.0, 0.5], [100.0, 40.0]], dtype=torch.float64)
        near, far = heavy.bound(points)
        torch.testing.assert_close(near, points[0])
        assert heavy.distance(far[None]).item() == pytest.approx(heavy.radius.item())
        moved, original = far - heavy.center, points[1] - heavy.center
        torch.testing.assert_close(moved / moved.norm(), original / original.norm())

    def test_in_many_dimensions_it_has_no_peak(self):
        rng = torch.Generator().manual_seed(0)
        x = torch.randn(2000, 100, generator=rng)
        density = small_fit(x, flow="maf")
        # The exact log density at the mean is -91.9, that of a Cauchy density 88.7.
        assert density(x.mean(dim=0, keepdim=True)).item() < -80


class TestBadInput:
    def test_too_few(self):
        with pytest.raises(ValueError, match="at least 100 simulations, got 99"):
            fit_density(draw(99))

    def test_simulations_that_are_not_finite(self):
        x = draw(200)
        x[7, 2] = torch.nan
        with pytest.raises(ValueError, match="x must be finite.*row 7"):
            fit_density(x)

    def test_three_dimensions(self):
        with pytest.raises(ValueError, match="non-empty matrix"):
            fit_density(torch.randn(100, 2, 2))

    def test_text(self):
        with pytest.raises(ValueError, match="x must hold numbers"):
            fit_density([["a"]] * 100)

    @pytest.mark.parametrize(
        ("options", "match"),
        [
            ({"flow": "gaussian"}, "flow must be one of"),
            ({"num_transforms": 0}, "num_transforms must be a positive integer"),
            ({"num_flows": 0}, "num_flows must be a positive integer"),
            ({"hidden": (8, 0)}, "hidden must be a positive integer"),
            ({"max_epochs": 0}, "max_epochs must be a positive integer"),
            ({"patience": 0}, "patience must be a positive integer"),
            ({"batch_size": 0.5}, "batch_size must be a positive integer"),
            ({"learning_rate": 0.0}, "learning_rate must be a positive number"),
            ({"validation_fraction": 1.0}, "validation_fraction must lie between"),
        ],
        ids=lambda value: next(iter(value)) if isinstance(value, dict) else "",
    )
    def test_options(self, options, match):
        with pytest.raises(ValueError, match=match):
            fit_density(draw(200), **options)

    def test_x_to_be_evaluated(self):
        density = small_fit(draw(200))
        with pytest.raises(ValueError, match="x must have 3 columns, got 2"):
            density(torch.zeros(4, 2))
        with pytest.raises(ValueError, match="x must be finite"):
            density(torch.full((4, 3), torch.nan))
        with pytest.raises(ValueError, match="num_samples must be a positive integer"):
            density.sample(0)

    def test_another_file(self, tmp_path):
        (tmp_path / "text").write_text("not tensors")
        with pytest.raises(ValueError, match="not a file that ma-sbi saved"):
            load_density(tmp_path / "text")


@pytest.mark.skipif(not torch.cuda.is_available(), reason="needs a CUDA device")
def test_everything_happens_on_the_device_asked_for(tmp_path):
    x = draw(500).round(decimals=1)
    density = small_fit(x, device="cuda")
    assert density.device.type == "cuda"
    assert density.sample(4, seed=1).device.type == "cuda"
    assert torch.equal(density.sample(4, seed=1), density.sample(4, seed=1))
    assert density(x).device.type == "cpu"  # that of x
    assert density(x.cuda()).device.type == "cuda"
    density.save(tmp_path / "density")
    loaded = load_density(tmp_path / "density")
    torch.testing.assert_close(loaded(x), density(x), atol=1e-3, rtol=1e-4)


def test_draws_from_long_tails_are_like_simulations():
    rng = torch.Generator().manual_seed(0)
    x = torch.randn(1000, 3, generator=rng).mul(2).exp()
    density = small_fit(x)
    # Once in a thousand times the broad density would reach beyond float32.
    draws = density.sample(20_000, seed=0).double()
    distance = density.heavy.distance(density.columns.standardise(draws))
    assert distance.max() < 1.001 * density.heavy.radius
    assert (distance > density.heavy.radius / 2).any()
