"""Delayed counts against hand-made tables, scipy's laws and quadrature."""

import math

import pytest
import torch
from scipy import stats
from torch.distributions import Binomial, Poisson

from ma_sbi.posteriors.unconstrained import on_real_line
from ma_sbi_bench.tasks import SIRDelay, get_task
from ma_sbi_bench.tasks.count_noise import BinomialNoise, PoissonNoise
from ma_sbi_bench.tasks.epidemic import solve_sir
from ma_sbi_bench.tasks.reporting import reporting_regimes

NO_DELAY, WEEKEND, LAG, FRIDAY = range(4)
MEDIAN = [0.4, 0.125]
LOST = None
NUM = 4000


def arrivals(regime, days):
    """The day on which each day's count appears."""
    days = list(days)
    found = {}
    for day, column in zip(days, regime.delivery.T, strict=True):
        reports = column.nonzero().flatten().tolist()
        found[day] = days[reports[0]] if reports else LOST
    return found


@pytest.mark.parametrize(
    ("regime", "right"),
    [
        (NO_DELAY, [0, 1, 2, 3, 4, 5, 6, 7, 8, 9, 10, 11, 12, 13]),
        (WEEKEND, [0, 1, 2, 3, 4, 7, 7, 7, 8, 9, 10, 11, LOST, LOST]),
        (LAG, [3, 4, 5, 6, 7, 8, 9, 10, 11, 12, 13, LOST, LOST, LOST]),
        (FRIDAY, [4, 4, 4, 4, 4, 11, 11, 11, 11, 11, 11, 11, LOST, LOST]),
    ],
    ids=["no delay", "week-end", "lag", "Friday"],
)
def test_daily_counts_appear_on_these_days(regime, right):
    found = arrivals(reporting_regimes(range(14), lag=3)[regime], range(14))
    assert list(found.values()) == right


@pytest.mark.parametrize(
    ("regime", "right"),
    [
        (NO_DELAY, [0, 17, 34, 51, 68, 85, 102, 119, 136, 153]),
        # Days 34 and 153 are Sundays, 68 is a Saturday.
        (WEEKEND, [0, 17, 51, 51, 85, 85, 102, 119, 136, LOST]),
        (LAG, [17, 34, 51, 68, 85, 102, 119, 136, 153, LOST]),
        # Day 102 is a Friday, so it has its own count beside that of day 85.
        (FRIDAY, [17, 34, 51, 68, 85, 102, 102, 136, 153, LOST]),
    ],
    ids=["no delay", "week-end", "lag", "Friday"],
)
def test_surveys_appear_in_these_reports(regime, right):
    days = range(0, 154, 17)
    assert list(arrivals(SIRDelay("surveys").regimes[regime], days).values()) == right


@pytest.mark.parametrize("layout", ["daily", "surveys"])
def test_no_count_appears_twice_or_before_it_is_made(layout):
    for regime in SIRDelay(layout).regimes:
        assert (regime.delivery.sum(dim=0) <= 1).all()
        assert torch.equal(regime.delivery, regime.delivery.tril())


def test_the_text_of_the_lag_tells_its_length():
    for lag, words in ((1, "one day late"), (9, "9 days late")):
        assert words in SIRDelay(lag=lag).regimes[LAG].text


@pytest.mark.parametrize("layout", ["daily", "surveys"])
def test_both_scales_tell_the_same_counts(layout):
    draws = SIRDelay(layout).draw(40, seed=0)
    counts = SIRDelay(layout, scale="counts").draw(40, seed=0)
    for log, plain in ((draws.x_sim, counts.x_sim), (draws.x_obs, counts.x_obs)):
        torch.testing.assert_close(log.expm1(), plain, rtol=1e-5, atol=1e-5)


@pytest.mark.parametrize("scale", ["log", "counts"])
def test_reports_in_time_are_left_alone(scale):
    task = SIRDelay(scale=scale)
    x = task.draw(10, seed=0).x_sim
    assert torch.equal(task.depart(x, NO_DELAY), x)


def test_the_departure_depends_on_x():
    task = SIRDelay(scale="counts")
    x = task.simulate([MEDIAN, [0.6, 0.1]], seed=0)
    first, second = task.depart(x, FRIDAY) - x
    assert (first - second).abs().max() > 50


def test_a_delay_loses_no_count_but_the_last():
    task = SIRDelay(scale="counts", lag=5)
    x = task.draw(50, seed=0).x_sim
    assert torch.equal(task.depart(x, LAG).sum(dim=1), x[:, :-5].sum(dim=1))
    assert torch.equal(task.depart(x, WEEKEND).sum(dim=1), x[:, :-2].sum(dim=1))


def test_simulated_surveys_are_binomial():
    task = SIRDelay("surveys", scale="counts")
    x = task.simulate(torch.tensor([MEDIAN]).expand(NUM, -1), seed=0).double()
    theta = torch.tensor([MEDIAN], dtype=torch.float32).double()
    share = solve_sir(theta, 153).infected[0, ::17]
    mean, variance = 1000 * share, 1000 * share * (1 - share)
    assert ((x.mean(dim=0) - mean).abs() <= 4.5 * (variance / NUM).sqrt() + 1e-3).all()
    # The variance of a variance is 2 / n of its square, for counts that are not rare.
    often = mean > 5
    ratio = x.var(dim=0)[often] / variance[often]
    assert ((ratio - 1).abs() < 4.5 * (2 / NUM) ** 0.5 * 1.1).all()


def test_simulated_daily_counts_are_poisson():
    task = SIRDelay(scale="counts")
    x = task.simulate(torch.tensor([MEDIAN]).expand(NUM, -1), seed=0).double()
    theta = torch.tensor([MEDIAN], dtype=torch.float32).double()
    rate = 1000 * solve_sir(theta, 154).new[0]
    # Five deviations for 154 days; the skewness of rare counts is allowed for by 1 / n.
    assert ((x.mean(dim=0) - rate).abs() <= 5 * (rate / NUM).sqrt() + 5 / NUM).all()
    often = rate > 5
    ratio = x.var(dim=0)[often] / rate[often]
    assert ((ratio - 1).abs() < 5 * (2 / NUM) ** 0.5 * 1.1).all()


def test_two_binomial_counts_have_the_likelihood_of_their_convolution():
    noise = BinomialNoise(30)
    delivery = torch.tensor([[0.0, 0, 0], [1, 1, 0], [0, 0, 1]], dtype=torch.float64)
    shares = torch.tensor([[0.1, 0.6, 0.3], [0.4, 0.2, 0.5], [1e-6, 0.9, 0.8]])
    shares = shares.double()
    for total in (0, 7, 30, 45, 60):
        report = torch.tensor([[0.0, total, 9.0]], dtype=torch.float64)
        found = noise.log_likelihood(shares[:, None], report, delivery)[:, 0]
        right = []
        for first, second, third in shares.tolist():
            ways = range(max(0, total - 30), min(total, 30) + 1)
            both = sum(
                stats.binom.pmf(j, 30, first) * stats.binom.pmf(total - j, 30, second)
                for j in ways
            )
            right.append(math.log(both) + stats.binom.logpmf(9, 30, third))
        right = torch.tensor(right, dtype=torch.float64)
        # The constant of a row is left out.
        torch.testing.assert_close(found - found[0], right - right[0], rtol=0, atol=1e-9)


def test_added_poisson_counts_are_poisson():
    noise = PoissonNoise(50.0)
    delivery = torch.tensor([[0.0, 0, 0], [1, 1, 0], [0, 0, 0]], dtype=torch.float64)
    shares = torch.tensor([[0.1, 0.6, 0.3], [0.4, 0.2, 0.9]], dtype=torch.float64)
    report = torch.tensor([[0.0, 31.0, 0.0]], dtype=torch.float64)
    found = noise.log_likelihood(shares[:, None], report, delivery)[:, 0]
    right = torch.from_numpy(stats.poisson.logpmf(31, 50 * shares[:, :2].sum(1).numpy()))
    torch.testing.assert_close(found.diff(), right.diff())


class Quadrature:
    """Posterior masses of log theta on a grid, from torch's laws of counts."""

    exposure = 1000

    def __init__(self, task, *ends):
        axes = [torch.linspace(*one, dtype=torch.float64) for one in ends]
        self.task = task
        self.size = [len(axis) for axis in axes]
        grid = torch.cartesian_prod(*axes)
        self.log_area = sum((axis[1] - axis[0]).log() for axis in axes)
        self.points = self.on_log_scale(grid)
        outbreak = solve_sir(self.points.exp(), 154)
        daily = task.layout == "daily"
        self.shares = outbreak.new if daily else outbreak.infected[:, :154:17]
        prior = task.prior.base_dist
        deviation = (self.points - prior.loc) / prior.scale
        self.log_prior = -0.5 * deviation.square().sum(1) + self.log_stretch(grid)

    def on_log_scale(self, grid):
        return grid

    def log_stretch(self, grid):
        return 0.0

    def mass(self, x, regime):
        mass = self.log_joint(x, regime).softmax(dim=0)
        edge = mass.reshape(self.size).clone()
        edge[1:-1, 1:-1] = 0.0
        assert edge.sum() < 1e-6
        return mass

    def log_joint(self, x, regime):
        """Probability of x, times the density of log theta up to its constant."""
        reports = self.task._counts(x.double()).round()
        delivery = self.task.regimes[regime].delivery
        log_mass = self.log_prior.clone()
        for report, row in zip(reports, delivery, strict=True):
            shares = self.shares[:, row > 0].T
            if self.task.layout == "daily" and len(shares):
                rate = self.exposure * shares.sum(dim=0)
                log_mass += Poisson(rate).log_prob(report)
            elif len(shares) == 1:
                log_mass += Binomial(1000, shares[0]).log_prob(report)
            elif len(shares) == 2:
                first, second = (Binomial(1000, share[:, None]) for share in shares)
                j = torch.arange(max(0, int(report) - 1000), min(int(report), 1000) + 1)
                ways = first.log_prob(j) + second.log_prob(report - j)
                log_mass += ways.logsumexp(dim=1)
        return log_mass


class AlongTheRidge(Quadrature):
    """Where all are counted: on a grid of log beta and of the growth beta - gamma.

    The growth is known far better than either rate.
    """

    exposure = 1_000_000

    def on_log_scale(self, grid):
        log_beta, growth = grid.unbind(dim=1)
        return torch.stack([log_beta, (log_beta.exp() - growth).log()], dim=1)

    def log_stretch(self, grid):
        return -self.on_log_scale(grid)[:, 1]


def assert_same_moments(draws, points, mass):
    """First and second moments within four standard errors."""
    middle = mass @ points
    powers = [(1, 0), (0, 1), (2, 0), (0, 2), (1, 1)]
    for first, second in powers:
        feature = (draws - middle)[:, 0] ** first * (draws - middle)[:, 1] ** second
        exact = (points - middle)[:, 0] ** first * (points - middle)[:, 1] ** second
        error = feature.std() / len(draws) ** 0.5
        assert (feature.mean() - mass @ exact).abs() < 4 * error


GRIDS = {
    "daily": ((-1.3, -0.5, 160), (-2.9, -1.2, 90)),
    "surveys": ((-1.02, -0.8, 80), (-2.4, -1.8, 60)),
}


@pytest.mark.parametrize("layout", ["daily", "surveys"])
def test_reference_has_the_moments_of_quadrature_in_every_regime(layout):
    task = SIRDelay(layout)
    regime = torch.arange(4)
    x = task.depart(task.simulate([MEDIAN], seed=3).expand(4, -1), regime)
    draws = task.reference(x, 400, regime=regime, seed=0).log().double()
    quadrature = Quadrature(task, *GRIDS[layout])
    for index in regime.tolist():
        mass = quadrature.mass(x[index], index)
        assert_same_moments(draws[:, index], quadrature.points, mass)


@pytest.mark.slow
@pytest.mark.parametrize("layout", ["daily", "surveys"])
def test_density_and_evidence_are_those_of_quadrature_in_every_regime(layout):
    task = SIRDelay(layout)
    regime = torch.arange(4)
    x = task.depart(task.simulate([MEDIAN], seed=3).expand(4, -1), regime)
    log_evidence = task.log_evidence(x, regime=regime).double()
    quadrature = Quadrature(task, *GRIDS[layout])
    points, log_area = quadrature.points, quadrature.log_area
    for index in regime.tolist():
        log_joint = quadrature.log_joint(x[index], index)
        right = log_joint.logsumexp(dim=0) + log_area - math.log(2 * math.pi * 0.5 * 0.2)
        # Float32 logarithms of counts leave them this exact; relative to -200 or so.
        torch.testing.assert_close(log_evidence[index], right, rtol=1e-4, atol=1e-2)
        likely = log_joint.topk(20).indices
        right = (log_joint.log_softmax(dim=0) - log_area - points.sum(dim=1))[likely]
        found = task.reference_log_prob(points[likely].exp(), x[index], regime=index)
        torch.testing.assert_close(found.double(), right, rtol=0, atol=1e-2)


def test_the_density_of_the_posterior_integrates_to_one():
    task = SIRDelay()
    x = task.simulate([MEDIAN], seed=3)
    axes = [torch.linspace(*ends).double() for ends in GRIDS["daily"]]
    log_theta = torch.cartesian_prod(*axes)
    log_prob = task.reference_log_prob(log_theta.exp(), x).double()
    area = math.prod((axis[1] - axis[0]).item() for axis in axes)
    total = (log_prob + log_theta.sum(dim=1)).exp().sum().item() * area
    assert total == pytest.approx(1.0, abs=2e-3)


RIDGES = {
    "many cases": (MEDIAN, ((-0.945, -0.885, 130), (0.2739, 0.2759, 130))),
    "few cases": ([0.23, 0.175], ((-2.2, -0.95, 200), (0.0505, 0.0605, 250))),
}


@pytest.mark.slow
@pytest.mark.parametrize(("theta", "grid"), RIDGES.values(), ids=RIDGES.keys())
def test_where_all_are_counted_reference_and_evidence_are_those_of_quadrature(theta, grid):
    task = get_task("sir_delay_million")
    regime = torch.arange(4)
    x = task.depart(task.simulate([theta], seed=3).expand(4, -1), regime)
    draws = task.reference(x, 400, regime=regime, seed=0).double()
    draws = torch.stack([draws[..., 0].log(), draws[..., 0] - draws[..., 1]], dim=-1)
    log_evidence = task.log_evidence(x, regime=regime).double()
    quadrature = AlongTheRidge(task, *grid)
    log_beta, log_gamma = quadrature.points.unbind(dim=1)
    points = torch.stack([log_beta, log_beta.exp() - log_gamma.exp()], dim=1)
    for index in regime.tolist():
        assert_same_moments(draws[:, index], points, quadrature.mass(x[index], index))
        log_joint = quadrature.log_joint(x[index], index)
        right = log_joint.logsumexp(dim=0) + quadrature.log_area
        right -= math.log(2 * math.pi * 0.5 * 0.2)
        torch.testing.assert_close(log_evidence[index], right, rtol=0, atol=0.05)


def test_the_tasks_count_a_thousand_people_and_all_of_them():
    # In a fast epidemic nearly all are infected: beta is eight times gamma.
    for name, exposure in (("sir_delay", 1000), ("sir_delay_million", 1_000_000)):
        x = get_task(name, scale="counts").simulate([[0.8, 0.1]], seed=0)
        assert x.sum().item() == pytest.approx(exposure, rel=5 / exposure**0.5)


def test_what_a_regime_cannot_produce_has_no_evidence_in_it():
    task = SIRDelay()
    x = task.simulate([MEDIAN], seed=0)
    log_evidence = torch.cat([task.log_evidence(x, regime=k) for k in (NO_DELAY, WEEKEND)])
    assert torch.isfinite(log_evidence).tolist() == [True, False]
    with pytest.raises(ValueError, match="sir_delay can produce"):
        task.reference_log_prob([MEDIAN], x, regime=WEEKEND)


def test_a_peak_that_may_be_before_or_after_the_report_has_two_modes():
    task = SIRDelay("surveys")
    x = torch.tensor([0, 0, 563, 122, 26, 6, 1, 0, 0, 0]).double().log1p()
    draws = task.reference(x[None], 400, regime=LAG, seed=0)[:, 0].log().double()
    quadrature = Quadrature(task, (-0.6, 0.9, 300), (-2.9, -1.3, 60))
    mass = quadrature.mass(x, LAG)
    assert_same_moments(draws, quadrature.points, mass)
    by_beta = mass.reshape(300, 60).sum(dim=1)
    inner = by_beta[1:-1]
    modes = (inner > by_beta[:-2]) & (inner > by_beta[2:]) & (inner > 0.02)
    assert modes.sum() == 2


def test_a_narrow_mode_is_found_beside_a_broad_one():
    # Before its peak at the second survey, or, less likely, fast and long past it.
    task = SIRDelay("surveys", scale="counts")
    x = torch.tensor([[0.0, 267, 82, 10, 0, 0, 0, 0, 0, 0]])
    # Beside it a row of another regime, with a single mode.
    x = torch.cat([x, task.depart(task.simulate([MEDIAN], seed=0), WEEKEND)])
    regime = torch.tensor([NO_DELAY, WEEKEND])
    draws = task.reference(x, 400, regime=regime, seed=0)[:, 0].log().double()
    quadrature = Quadrature(task, (-0.25, 0.1, 100), (-2.2, -1.5, 80))
    mass = quadrature.mass(x[0], NO_DELAY)
    assert_same_moments(draws, quadrature.points, mass)


@pytest.mark.parametrize("layout", ["daily", "surveys"])
def test_where_all_counts_are_lost_the_posterior_is_the_prior(layout):
    task = SIRDelay(layout, lag=1000)
    draws = task.reference(torch.zeros(1, task.dim_x), 400, regime=LAG, seed=0)[:, 0]
    prior = task.prior.base_dist
    for column, loc, scale in zip(draws.log().T, prior.loc, prior.scale, strict=True):
        assert stats.kstest(column, stats.norm(loc.item(), scale.item()).cdf).pvalue > 1e-3


def test_no_cases_at_all_speak_for_a_slow_epidemic():
    task = SIRDelay()
    draws = task.reference(torch.zeros(1, task.dim_x), 300, seed=0)[:, 0].log()
    assert (draws[:, 0] < math.log(0.4)).all()


def test_counts_need_not_be_whole():
    task = SIRDelay(scale="counts")
    x = task.simulate([MEDIAN], seed=0)
    x = torch.cat([x, x + 0.3 * (x > 5)])
    regime = torch.tensor([LAG, LAG])
    theta = task.reference(task.depart(x, LAG), 50, regime=regime, seed=0)
    assert torch.isfinite(theta).all()


@pytest.mark.parametrize(
    ("layout", "regime", "column", "count"),
    [
        ("daily", None, 3, -1.0),
        ("surveys", None, 3, 1001.0),
        ("daily", WEEKEND, 5, 1.0),
        ("surveys", WEEKEND, 3, 2001.0),
        ("surveys", LAG, 0, 1.0),
    ],
    ids=["negative", "large", "week-end", "two surveys", "too early"],
)
def test_impossible_counts_are_refused_by_row(layout, regime, column, count):
    task = SIRDelay(layout, scale="counts")
    x = torch.zeros(20, task.dim_x)
    x[18, column] = count
    with pytest.raises(ValueError, match=r"sir_delay can produce.*rows \[18\]"):
        task.reference(x, 2, regime=regime)


def test_a_departure_of_negative_counts_is_refused():
    with pytest.raises(ValueError, match=r"rows \[0\]"):
        SIRDelay().depart(torch.full((1, 154), -0.5), LAG)


@pytest.mark.parametrize(
    ("options", "message"),
    [
        ({"layout": "weekly"}, "layout must be one of daily, surveys, got 'weekly'"),
        ({"scale": "sqrt"}, "scale must be one of log, counts, got 'sqrt'"),
        ({"weeks": 0}, "weeks must be a positive integer"),
        ({"lag": 0}, "lag must be a positive integer"),
        ({"exposure": 0.5}, "exposure must be a positive integer"),
        ({"exposure": 2_000_000}, "exposure must be at most 1000000, the population"),
    ],
    ids=["layout", "scale", "weeks", "lag", "nobody", "more than all"],
)
def test_unknown_options_are_refused(options, message):
    with pytest.raises(ValueError, match=message):
        SIRDelay(**options)


def test_negative_rates_are_refused():
    with pytest.raises(ValueError, match="must not be negative"):
        SIRDelay().simulate([[-0.1, 0.1]])


def test_the_prior_is_one_that_networks_can_be_trained_under():
    task = SIRDelay()
    prior, to_real = on_real_line(task.prior, None)
    theta = prior.sample((500,))
    assert prior.event_shape == (2,)
    torch.testing.assert_close(to_real.inv(to_real(theta)), theta)


@pytest.mark.slow
@pytest.mark.parametrize("known", ["x_sim", "x_obs and regime"])
def test_the_truth_has_a_uniform_rank_among_reference_draws_from_surveys(known):
    rows, ranks = 240, 20
    task = SIRDelay("surveys")
    draws = task.draw(rows, seed=11)
    if known == "x_sim":
        posterior = task.reference(draws.x_sim, ranks - 1, seed=12)
    else:
        posterior = task.reference(draws.x_obs, ranks - 1, regime=draws.regime, seed=12)
    for column in (posterior < draws.theta).sum(dim=0).T:
        count = torch.bincount(column, minlength=ranks).double()
        statistic = ((count - rows / ranks) ** 2 / (rows / ranks)).sum().item()
        # Chi-square with 19 degrees of freedom exceeds 50 with probability 1e-4.
        assert statistic < 50
