"""Tests for ma_sbi.posteriors.cuda_graphs; what needs a GPU is skipped without one."""

import pytest
import torch

from ma_sbi import fit_ddpm, fit_density, fit_flow
from ma_sbi.posteriors import cuda_graphs
from ma_sbi.posteriors.cuda_graphs import adam, replayed, set_learning_rate

needs_cuda = pytest.mark.skipif(not torch.cuda.is_available(), reason="needs a CUDA device")
CPU = torch.device("cpu")
CUDA = torch.device("cuda")
PRIOR = torch.distributions.MultivariateNormal(torch.zeros(3), torch.eye(3))
FITS = {
    "maf": lambda theta, x: (
        fit_flow(
            PRIOR, theta, x, flow="maf", seed=0, max_epochs=4, patience=5, device="cuda"
        ).estimator
    ),
    "nsf": lambda theta, x: (
        fit_flow(PRIOR, theta, x, seed=0, max_epochs=4, patience=5, device="cuda").estimator
    ),
    "ddpm": lambda theta, x: (
        fit_ddpm(PRIOR, theta, x, seed=0, epochs=4, decay="cosine", device="cuda").network
    ),
    "density": lambda theta, x: (
        fit_density(x, seed=0, max_epochs=4, patience=5, device="cuda").flows
    ),
}


def simulations():
    rng = torch.Generator().manual_seed(0)
    theta = torch.randn(3000, 3, generator=rng)
    return theta, theta + torch.randn(3000, 3, generator=rng)


def test_elsewhere_a_function_is_left_alone():
    assert replayed(torch.sin, CPU) is torch.sin


@pytest.mark.parametrize("device", [CPU, pytest.param(CUDA, marks=needs_cuda)], ids=str)
def test_a_step_of_adam_is_as_long_as_the_rate_set_last(device):
    # The first step of Adam is as long as its rate, whatever the gradient.
    weight = torch.zeros(1, device=device, requires_grad=True)
    optimiser = adam([weight], 0.5, device)
    set_learning_rate(optimiser, 0.25)
    weight.grad = torch.tensor([3.0], device=device)
    optimiser.step()
    assert weight.item() == pytest.approx(-0.25, rel=1e-5)


@needs_cuda
def test_every_call_counts_once_and_sees_its_own_rows():
    values = torch.arange(10.0, device=CUDA)
    total = torch.zeros((), device=CUDA)
    calls = []

    def add(rows):
        calls.append(len(rows))
        total.add_(values[rows].sum())
        return values[rows].sum()

    add_on = replayed(add, CUDA)
    batches = [torch.tensor([i, i + 1], device=CUDA) for i in range(9)]
    batches.insert(2, torch.tensor([9], device=CUDA))  # before it is recorded, and after
    batches.append(torch.tensor([8], device=CUDA))
    sums = [add_on(rows).item() for rows in batches]
    assert sums == [values[rows].sum().item() for rows in batches]
    assert total.item() == sum(sums)
    assert len(calls) == cuda_graphs.WARM_STEPS + 1 + 2


@needs_cuda
@pytest.mark.parametrize("fit", FITS.values(), ids=FITS)
def test_recorded_steps_give_the_weights_of_single_ones(fit, monkeypatch):
    simulated = simulations()
    recorded = fit(*simulated).state_dict()
    again = fit(*simulated).state_dict()
    monkeypatch.setattr(cuda_graphs, "WARM_STEPS", 10**9)
    single = fit(*simulated).state_dict()
    for name, weights in single.items():
        # Sums on a GPU are rounded in no fixed order.
        torch.testing.assert_close(recorded[name], weights, atol=1e-3, rtol=1e-3)
        torch.testing.assert_close(recorded[name], again[name], atol=1e-3, rtol=1e-3)
