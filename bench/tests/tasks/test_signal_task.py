"""The distorted signal: its posterior and its distortions."""

import math

import pytest
import torch

from ma_sbi_bench.tasks.signal import LONGEST_LAG, NOISE, Signal

BROKEN = 3


def test_the_posterior_is_that_of_a_linear_gaussian_model():
    task = Signal()
    x = task.draw(2, seed=0).x_sim
    waves = task.simulate(torch.eye(4), seed=1) - task.simulate(torch.zeros(4, 4), seed=1)
    precision = waves @ waves.T / NOISE**2 + torch.eye(4)
    mean = torch.linalg.solve(precision, (x @ waves.T).T / NOISE**2).T
    draws = task.reference(x, 4000, seed=0)
    spread = torch.linalg.inv(precision).diag().sqrt()
    # Five standard errors of eight means and of eight deviations.
    assert ((draws.mean(dim=0) - mean).abs() < 5 * spread / math.sqrt(4000)).all()
    assert ((draws.std(dim=0) / spread - 1).abs() < 5 / math.sqrt(8000)).all()


def test_the_density_is_that_of_the_draws():
    task = Signal()
    x = task.draw(1, seed=0).x_sim
    draws = task.reference(x, 4000, seed=0)[:, 0]
    found = torch.distributions.MultivariateNormal(draws.mean(dim=0), draws.T.cov())
    difference = task.reference_log_prob(draws[:100], x) - found.log_prob(draws[:100])
    assert difference.abs().mean() < 0.1


def test_waves_are_cosines():
    first, second = (Signal().simulate(torch.eye(4) * scale, seed=0) for scale in (0, 1))
    time = torch.arange(24)
    for k, wave in enumerate(second - first, start=1):
        expected = torch.cos(math.pi * k * time / 24)
        torch.testing.assert_close(wave, expected, atol=1e-5, rtol=0)


@pytest.mark.parametrize("distortion", ["shift", "gain", "lag", "saturation"])
def test_a_new_instrument_distorts_nothing_and_a_broken_one_does(distortion):
    task = Signal(distortion)
    x = task.draw(5, seed=0).x_sim
    assert torch.equal(task.depart(x, 0), x)
    assert not torch.equal(task.depart(x, BROKEN), x)


def test_distortions_are_as_stated():
    x = Signal().draw(5, seed=0).x_sim
    torch.testing.assert_close(Signal("gain").depart(x, BROKEN), 2 * x)
    torch.testing.assert_close(Signal("saturation").depart(x, BROKEN), x / (1 + x.abs()))
    late = Signal("lag").depart(x, BROKEN)
    torch.testing.assert_close(late[:, LONGEST_LAG:], x[:, :-LONGEST_LAG])
    assert torch.equal(late[:, :LONGEST_LAG], x[:, :1].expand(-1, LONGEST_LAG))
    ramp = Signal("shift").depart(x, BROKEN) - x
    torch.testing.assert_close(ramp[:, [0, -1]], torch.tensor([[-1.0, 1.0]]).expand(5, 2))


def test_a_distortion_that_is_not_known_is_refused():
    with pytest.raises(ValueError, match="distortion must be one of shift"):
        Signal("echo")
