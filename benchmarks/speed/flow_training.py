"""fit_flow against a bare loop over a zuko flow, and against sbi's trainer.

All train equally many epochs on the same simulations. Seconds are per epoch. The loss is
that of rows that none has seen, in nats, so that the same time buys the same.
"""

from __future__ import annotations

import io
import warnings
from collections.abc import Iterator
from contextlib import redirect_stdout
from functools import partial
from typing import Any

import torch
import zuko
from sbi.inference import NPE
from sbi.neural_nets import posterior_nn
from torch import Tensor
from torch.distributions import MultivariateNormal

from benchmarks.speed.timing import Effort, Row, row_of
from tests.no_tracker import NoTracker

TABLES = ("flow",)
DIM = 5
PRIOR = MultivariateNormal(torch.zeros(DIM), torch.eye(DIM))
HIDDEN = (64, 64)
TRANSFORMS = {"nsf": 5, "maf": 8}
HELD_OUT = 0.1
# Nine tenths are whole batches: fit_flow and sbi leave out what is left over.
NUM = 5_689
LEARNING_RATE = 5e-4


def simulations(num: int, seed: int) -> tuple[Tensor, Tensor]:
    """Draw theta, and x that is not normal given theta."""
    rng = torch.Generator().manual_seed(seed)
    theta = torch.randn(num, DIM, generator=rng)
    noise = torch.randn(num, DIM, generator=rng)
    return theta, theta + 0.3 * theta.square() + (0.2 + 0.2 * theta.sigmoid()) * noise


def bare(
    flow: str, theta: Tensor, x: Tensor, batch_size: int, epochs: int, device: str
) -> Any:
    """Train a zuko flow in the shortest loop that stops nowhere and keeps nothing."""
    theta, x = theta.to(device), x.to(device)
    mean, deviation = theta.mean(dim=0), theta.std(dim=0)
    x_mean, x_deviation = x.mean(dim=0), x.std(dim=0)
    scaled, scaled_x = (theta - mean) / deviation, (x - x_mean) / x_deviation
    # As many bins as sbi's networks have, which fit_flow uses.
    kinds = {"nsf": partial(zuko.flows.NSF, bins=10), "maf": zuko.flows.MAF}
    network = kinds[flow](DIM, DIM, transforms=TRANSFORMS[flow], hidden_features=HIDDEN).to(
        device
    )
    optimiser = torch.optim.Adam(network.parameters(), lr=LEARNING_RATE)
    num_held_out = len(x) - int((1 - HELD_OUT) * len(x))
    for _ in range(epochs):
        order = torch.randperm(len(x) - num_held_out, device=device) + num_held_out
        for rows in order.split(batch_size):
            loss = -network(scaled_x[rows]).log_prob(scaled[rows]).mean()
            optimiser.zero_grad()
            loss.backward()
            torch.nn.utils.clip_grad_norm_(network.parameters(), 5.0)
            optimiser.step()
        with torch.no_grad():
            held_out = network(scaled_x[:num_held_out]).log_prob(scaled[:num_held_out])
            held_out.mean().item()

    def log_prob(theta: Tensor, x: Tensor) -> Tensor:
        rows = (theta.to(device) - mean) / deviation, (x.to(device) - x_mean) / x_deviation
        with torch.no_grad():
            return network(rows[1]).log_prob(rows[0]) - deviation.log().sum()

    return log_prob


def by_sbi(
    flow: str, theta: Tensor, x: Tensor, batch_size: int, epochs: int, device: str
) -> Any:
    """Train the same network with sbi's trainer."""
    network = posterior_nn(
        f"zuko_{flow}", num_transforms=TRANSFORMS[flow], hidden_features=HIDDEN
    )
    prior = MultivariateNormal(
        *(one.to(device) for one in (PRIOR.mean, PRIOR.covariance_matrix))
    )
    trainer = NPE(prior, network, device=device, tracker=NoTracker())
    trainer.append_simulations(theta, x)
    with redirect_stdout(io.StringIO()):
        trained = trainer.train(
            training_batch_size=batch_size,
            learning_rate=LEARNING_RATE,
            validation_fraction=HELD_OUT,
            stop_after_epochs=epochs + 1,
            max_num_epochs=epochs - 1,
        )

    def log_prob(theta: Tensor, x: Tensor) -> Tensor:
        with torch.no_grad():
            return trained.log_prob(theta[None].to(device), x.to(device))[0]

    return log_prob


def by_us(
    flow: str, theta: Tensor, x: Tensor, batch_size: int, epochs: int, device: str
) -> Any:
    """Train with fit_flow."""
    from ma_sbi import fit_flow

    trained = fit_flow(
        PRIOR,
        theta,
        x,
        flow=flow,  # type: ignore[arg-type]
        hidden=HIDDEN,
        learning_rate=LEARNING_RATE,
        batch_size=batch_size,
        patience=epochs + 1,
        max_epochs=epochs,
        validation_fraction=HELD_OUT,
        device=device,
    )
    return lambda theta, x: trained.log_prob(theta[None], x)[0]


FITS = {"fit_flow": by_us, "a bare zuko loop": bare, "sbi's trainer": by_sbi}


def rows(effort: Effort) -> Iterator[Row]:
    """Time all flows and sizes of batches."""
    warnings.simplefilter("ignore")
    epochs = 2 if effort.quick else 10
    for flow in TRANSFORMS:
        for batch_size in (256, 1024):
            yield from compare(effort, flow, NUM, batch_size, epochs)


def compare(
    effort: Effort, flow: str, num: int, batch_size: int, epochs: int
) -> Iterator[Row]:
    """Train all in turns, and average the losses that they reach."""
    data = simulations(num, seed=0)
    trained: dict[str, list[Any]] = {name: [] for name in FITS}

    def train(name: str) -> None:
        log_prob = FITS[name](flow, *data, batch_size, epochs, effort.device)
        trained[name].append(log_prob)

    least = 3 if effort.quick else 5
    turns = effort.turns_of(*(partial(train, name) for name in FITS), least=least)
    new = simulations(10_000, seed=1)
    loss = {
        name: sum(-log_prob(*new).mean().item() for log_prob in some) / len(some)
        for name, some in trained.items()
    }
    for place, other in list(enumerate(FITS))[1:]:
        both = [[one[0] / epochs, one[place] / epochs] for one in turns]
        what = f"{flow}, batches of {batch_size}"
        yield row_of("flow", what, num, other, both, loss["fit_flow"], loss[other])
