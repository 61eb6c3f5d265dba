"""Seeds without global state."""

from __future__ import annotations

import zlib
from collections.abc import Iterator
from contextlib import contextmanager
from operator import index
from typing import Any

import numpy as np
import torch

from ma_sbi.one_at_a_time import one_at_a_time

__all__ = ["as_seed", "derive", "generator", "numpy_seeded", "seeded"]


def as_seed(seed: Any) -> int:
    """Check a seed.

    Raises:
        ValueError: If it is no integer.
    """
    try:
        if not isinstance(seed, (bool, np.bool_)):
            return index(seed)
    except TypeError:
        pass
    raise ValueError(f"seed must be an integer or None, got {seed!r}")


@contextmanager
def seeded(seed: int | None, device: torch.device | str = "cpu") -> Iterator[None]:
    """Seed torch's global generators, and restore their state afterwards.

    sbi and zuko draw from the global generators; this is how a ``seed`` reaches them
    without changing what the caller draws next. ``None`` seeds nothing. Either way other
    threads of this package wait meanwhile, as they share the generators.

    Example:
        >>> with seeded(0):
        ...     first = torch.rand(3)
        >>> with seeded(0):
        ...     second = torch.rand(3)
        >>> bool((first == second).all())
        True
    """
    if seed is None:
        with one_at_a_time():
            yield
        return
    device = torch.device(device)
    accelerated = device.type != "cpu"
    forked = torch.random.fork_rng(
        devices=[device] if accelerated else [],
        device_type=device.type if accelerated else "cuda",
    )
    with one_at_a_time(), forked:
        # torch.manual_seed would also reseed every accelerator, which is not put back.
        torch.set_rng_state(torch.Generator().manual_seed(as_seed(seed)).get_state())
        if accelerated:
            torch.get_device_module(device).manual_seed(as_seed(seed))
        yield


@contextmanager
def numpy_seeded(seed: int | None) -> Iterator[None]:
    """Seed numpy's global generator, and restore its state afterwards.

    Simulators and encoders of users draw from it. ``None`` seeds nothing; either way other
    threads of this package wait meanwhile.
    """
    with one_at_a_time():
        if seed is None:
            yield
            return
        before = np.random.get_state()  # noqa: NPY002
        np.random.seed(as_seed(seed) % 2**32)  # noqa: NPY002
        try:
            yield
        finally:
            np.random.set_state(before)  # noqa: NPY002


def generator(seed: int | None, device: torch.device | str = "cpu") -> torch.Generator:
    """Make a generator from a seed, or one that torch's global generator seeds if None.

    It is its own in either case: what is drawn from it disturbs no other thread.
    """
    if seed is None:
        with one_at_a_time():
            seed = int(torch.randint(2**63 - 1, (), device="cpu"))
    return torch.Generator(device=device).manual_seed(as_seed(seed))


def derive(seed: int | None, purpose: str) -> int | None:
    """Derive an independent seed for one step of a computation.

    Two steps that both used the user's seed would draw the same numbers, and would not be
    independent.
    """
    if seed is None:
        return None
    entropy = np.random.SeedSequence([as_seed(seed) % 2**64, zlib.crc32(purpose.encode())])
    return int(entropy.generate_state(1, np.uint64)[0]) >> 1
