"""What recording the steps of training brings on a GPU, and what draws wait for there.

Runs with ``--device cuda`` only, in about five minutes.
"""

from __future__ import annotations

import warnings
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from typing import Any

import torch

from benchmarks.speed.flow_training import FITS, PRIOR, by_us, simulations
from benchmarks.speed.timing import Effort, Row, row_of

TABLES = ("flow, 60 epochs", "flow by epoch", "ddpm", "density", "drawing")
NUM, BATCH_SIZE = 100_000, 1024
MANY_EPOCHS, FEW_EPOCHS = 60, 3
ONE_BY_ONE = "kernels one by one"
AS_BEFORE = "kernels one by one, Adam of before"


@contextmanager
def one_by_one(*, as_before: bool = False) -> Iterator[None]:
    """Record no steps; with torch's default Adam, too, if asked."""
    from ma_sbi.posteriors import diffusion, flow_training, training

    held = [(one, one.replayed, one.adam) for one in (diffusion, flow_training, training)]
    for module, _, _ in held:
        module.replayed = lambda function, device, **_: function
        if as_before:
            fused = True if module is diffusion else None
            module.adam = lambda weights, rate, device, fused=fused, **_: torch.optim.Adam(
                weights, lr=rate, fused=fused
            )
    try:
        yield
    finally:
        for module, replayed, adam in held:
            module.replayed, module.adam = replayed, adam


def without_recording(
    fit: Callable[..., Any], *, as_before: bool = False
) -> Callable[..., Any]:
    """Give the same function, which records no steps."""

    def run(*args: Any) -> Any:
        with one_by_one(as_before=as_before):
            return fit(*args)

    return run


def rows(effort: Effort) -> Iterator[Row]:
    """Time all of it."""
    if effort.device == "cpu":
        return
    warnings.simplefilter("ignore")
    yield from long_flows(effort)
    for flow in ("maf", "nsf"):
        yield from flows(effort, flow)
    yield from others(effort)
    yield from drawing(effort)


def long_flows(effort: Effort) -> Iterator[Row]:
    """Time all epochs of fit_flow at once."""
    new = simulations(10_000, seed=1)
    for flow in ("maf", "nsf"):
        found = {}

        def train(flow: str = flow, found: dict[str, Any] = found) -> None:
            data = simulations(NUM, seed=0)
            found["it"] = by_us(flow, *data, BATCH_SIZE, MANY_EPOCHS, effort.device)

        seconds = effort.time(train)
        reached = -found["it"](*new).mean().item()
        what = f"{flow}, batches of {BATCH_SIZE}"
        yield Row(f"flow, {MANY_EPOCHS} epochs", what, NUM, "", seconds, reached=reached)


def flows(effort: Effort, flow: str) -> Iterator[Row]:
    """Compare fit_flow with others, and with itself without recording; per epoch."""
    data = simulations(NUM, seed=0)
    ours, *fits = {
        "fit_flow": by_us,
        "a bare zuko loop": FITS["a bare zuko loop"],
        ONE_BY_ONE: without_recording(by_us),
        AS_BEFORE: without_recording(by_us, as_before=True),
        "sbi's trainer": FITS["sbi's trainer"],
    }.items()
    by_us(flow, *(one[:3_000] for one in data), 256, 1, effort.device)  # warms
    found: dict[str, Any] = {}

    def run(name: str, fit: Callable[..., Any]) -> None:
        found[name] = fit(flow, *data, BATCH_SIZE, FEW_EPOCHS, effort.device)

    turns = [
        [effort.time(lambda one=one: run(*one)) / FEW_EPOCHS for one in (ours, *fits)]
        for _ in range(3)
    ]
    new = simulations(10_000, seed=1)
    loss = {name: -log_prob(*new).mean().item() for name, log_prob in found.items()}
    what = f"{flow}, batches of {BATCH_SIZE}, {FEW_EPOCHS} epochs"
    for place, (name, _) in enumerate(fits, start=1):
        both = [[turn[0], turn[place]] for turn in turns]
        yield row_of("flow by epoch", what, NUM, name, both, loss["fit_flow"], loss[name])


def others(effort: Effort) -> Iterator[Row]:
    """Compare the diffusion model and the density with themselves without recording."""
    from ma_sbi import fit_ddpm, fit_density

    theta, x = simulations(NUM, seed=0)
    few = x[: NUM // 5]

    def ddpm() -> object:
        settings = {"epochs": FEW_EPOCHS, "batch_size": 256, "device": effort.device}
        return fit_ddpm(PRIOR, theta, x, **settings)  # type: ignore[arg-type]

    def density(flow: Any) -> Callable[[], object]:
        return lambda: fit_density(
            few,
            flow=flow,
            max_epochs=FEW_EPOCHS,
            patience=FEW_EPOCHS + 1,
            seed=0,
            device=effort.device,
        )

    for part, what, fit, size in (
        ("ddpm", f"fit_ddpm, batches of 256, {FEW_EPOCHS} epochs", ddpm, NUM),
        ("density", f"nsf, {FEW_EPOCHS} epochs", density("nsf"), len(few)),
        ("density", f"maf, {FEW_EPOCHS} epochs", density("maf"), len(few)),
    ):
        other = without_recording(fit, as_before=True)
        yield effort.compare(part, what, fit, AS_BEFORE, other, size=size, warm=False)


def drawing(effort: Effort) -> Iterator[Row]:
    """Time draws for twelve observations: from one to ten thousand of each."""
    from ma_sbi import fit_ddpm, fit_flow

    theta, x = (one[:3_000] for one in simulations(NUM, seed=0))
    given = {"seed": 0, "device": effort.device}
    model = fit_ddpm(PRIOR, theta, x, epochs=1, **given)  # type: ignore[arg-type]
    samplers: dict[str, Any] = {
        "ancestral, 200": model,
        "deterministic, 20": model.deterministic(20),
    }
    for flow in ("maf", "nsf"):
        samplers[flow] = fit_flow(PRIOR, theta, x, flow=flow, max_epochs=1, **given)  # type: ignore[arg-type]
    for name, sampler in samplers.items():
        for num in (1, 100, 1_000, 10_000):
            yield effort.compare(
                "drawing",
                name,
                lambda num=num, of=sampler: of.sample(num, x[:12], seed=1),
                "at 12",
                lambda of=sampler: of.sample(1, x[:12], seed=1),
                size=12 * num,
            )
