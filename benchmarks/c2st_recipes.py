"""Compare the C2ST recipes: does `fast` agree with sbi's `mlp`, and is it faster?

    python benchmarks/c2st_recipes.py [--workers N] [--repeats N] [--speed-only]

Agreement runs over shifts, scales, correlations, mixtures and crescents in 2, 5 and 10
dimensions at 500 and 1000 draws. The last column is the yardstick: how far `mlp` is
from itself under another seed. Speed is CPU time on one thread, so that other work on
the machine does not count.
"""

from __future__ import annotations

import argparse
import time
from collections.abc import Iterator

import torch
from torch import Tensor

from ma_sbi.metrics import c2st_batch

Pair = tuple[Tensor, Tensor]


def pairs(dim: int, num_draws: int, generator: torch.Generator) -> Iterator[Pair]:
    """Yield draws and reference draws, each ``(num_draws, dim)``, easy and hard."""

    def normal() -> Tensor:
        return torch.randn(num_draws, dim, generator=generator)

    def along_first(value: Tensor | float) -> Tensor:
        return torch.eye(dim)[0] * torch.as_tensor(value).reshape(-1, 1)

    def modes(weight: float) -> Tensor:
        upper = torch.rand(num_draws, generator=generator) < weight
        return 0.5 * normal() + along_first(torch.where(upper, 2.0, -2.0))

    def crescents(weight: float) -> Tensor:
        angle = torch.pi * (torch.rand(num_draws, generator=generator) - 0.5)
        side = torch.where(torch.rand(num_draws, generator=generator) < weight, 1, -1)
        draws = 0.1 * normal()
        draws[:, 0] += side * (angle.cos() + 0.25)
        draws[:, 1] += angle.sin()
        return draws

    for shift in (0.0, 0.1, 0.25, 0.5, 1.0, 2.0, 4.0):
        yield normal() + along_first(shift), normal()
    for scale in (0.5, 0.8, 1.5, 3.0):
        yield scale * normal(), normal()
    yield normal() + 0.5 * normal()[:, :1], normal()
    for weight in (0.5, 0.8, 1.0):
        yield modes(weight), modes(0.5)
    yield normal() * (1 + 3 * torch.eye(dim)[0]) ** 0.5, modes(0.5)
    for weight in (0.5, 0.8, 1.0):
        yield crescents(weight), crescents(0.5)


def batch(dim: int, num_draws: int, seed: int) -> Pair:
    """Stack all pairs, shape ``(num_draws, batch, dim)``."""
    generator = torch.Generator().manual_seed(seed)
    samples, reference = zip(*pairs(dim, num_draws, generator), strict=True)
    return torch.stack(samples, dim=1), torch.stack(reference, dim=1)


def agreement(num_workers: int, repeats: int) -> None:
    header = "dim draws cases   mlp  fast  mean diff  mean abs  max abs  equal  yardstick"
    print(header)
    every = []
    for dim in (2, 5, 10):
        for num_draws in (500, 1000):
            rows = []
            for repeat in range(repeats):
                draws = batch(dim, num_draws, seed=repeat)
                fast = c2st_batch(*draws, recipe="fast", num_workers=num_workers)
                mlp = c2st_batch(*draws, num_workers=num_workers)
                again = c2st_batch(*draws, seed=2, num_workers=num_workers)
                rows.append(torch.stack([mlp, fast, again]))
            every.append(torch.cat(rows, dim=1))
            report(f"{dim:3d} {num_draws:5d}", every[-1])
    report("      all", torch.cat(every, dim=1))


def report(title: str, values: Tensor) -> None:
    mlp, fast, again = values
    difference = fast - mlp
    print(
        f"{title} {len(mlp):5d} {mlp.mean():.3f} {fast.mean():.3f} "
        f"{difference.mean():+10.5f} {difference.abs().mean():9.5f} "
        f"{difference.abs().max():8.4f} {(difference.abs() < 1e-6).sum():6d} "
        f"{(again - mlp).abs().mean():10.4f}",
        flush=True,
    )


def speed(num_cases: int = 12, num_draws: int = 500) -> None:
    print(f"\nCPU seconds for {num_cases} cases x {num_draws} draws")
    print("dim   mlp  fast  ratio")
    for dim in (2, 5, 10):
        draws = [part[:, :num_cases] for part in batch(dim, num_draws, seed=0)]
        seconds = {}
        for recipe in ("mlp", "fast"):
            start = time.process_time()
            c2st_batch(*draws, recipe=recipe)
            seconds[recipe] = time.process_time() - start
        mlp, fast = seconds["mlp"], seconds["fast"]
        print(f"{dim:3d} {mlp:5.1f} {fast:5.1f} {mlp / fast:6.1f}", flush=True)


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("--workers", type=int, default=1)
    parser.add_argument("--repeats", type=int, default=1)
    parser.add_argument("--speed-only", action="store_true")
    arguments = parser.parse_args()
    torch.set_num_threads(1)
    if not arguments.speed_only:
        agreement(arguments.workers, arguments.repeats)
    speed()


if __name__ == "__main__":
    main()
