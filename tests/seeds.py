"""Shift all seeds of a test run, so that no test can rest on the numbers of one of them.

``pytest --seed-offset N`` runs every test inside ``shifted_seeds(N)``. What is shifted is
the seed that reaches torch or numpy, wherever it was written: no test has to take part, and
none can forget to.
"""

import sys
from contextlib import ExitStack, contextmanager
from unittest import mock

import numpy as np
import torch

SPACING = 10_000  # above the seeds that tests count through, so that offsets share no draws
WORLDS = "ma_sbi_bench.tasks."  # a generator that a task seeds itself defines its constants

ORIGINALS = {
    (torch, "Generator"): torch.Generator,
    (torch, "manual_seed"): torch.manual_seed,
    (np.random, "default_rng"): np.random.default_rng,
    (np.random, "seed"): np.random.seed,  # noqa: NPY002 (simulators of users draw from it)
}


@contextmanager
def shifted_seeds(offset):
    """Add ``offset * SPACING`` to every whole number that seeds torch or numpy.

    Zero leaves the seeds as they are written, also inside another offset: for a world that
    a test defines by a seed. Other processes (workers, commands) are not reached, and
    neither are the random states that scikit-learn is given as numbers.
    """
    with ExitStack() as stack:
        for (owner, name), value in (_shifted(offset) if offset else ORIGINALS).items():
            stack.enter_context(mock.patch.object(owner, name, value))
        yield


def _shifted(offset):
    def shift(seed):
        caller = sys._getframe(2).f_globals.get("__name__", "")
        whole = isinstance(seed, (int, np.integer)) and not caller.startswith(WORLDS)
        return seed + offset * SPACING if whole else seed

    class Generator(torch.Generator):
        def manual_seed(self, seed):
            return super().manual_seed(shift(seed))

    _, seed_torch, default_rng, seed_numpy = ORIGINALS.values()
    shifted = (
        Generator,
        lambda seed: seed_torch(shift(seed)),
        lambda seed=None: default_rng(shift(seed)),
        lambda seed: seed_numpy(shift(seed) % 2**32),
    )
    return dict(zip(ORIGINALS, shifted, strict=True))
