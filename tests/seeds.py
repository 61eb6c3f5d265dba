"""Shift all seeds of a test run, so that no test can rest on the numbers of one of them.

``pytest --seed-offset N`` runs every test inside ``shifted_seeds(N)``. What is shifted is
the seed that reaches torch or numpy, wherever it was written: no test has to take part, and
none can forget to. An offset of 0 replaces nothing.
"""

import sys
from contextlib import ExitStack, contextmanager
from unittest import mock

import numpy as np
import torch

SPACING = 10_000  # above the seeds that tests count through, so that offsets share no draws
WORLDS = "ma_sbi_bench.tasks."  # a generator that a task seeds itself defines its constants


@contextmanager
def shifted_seeds(offset):
    """Add ``offset * SPACING`` to every whole number that seeds torch or numpy.

    Other processes (workers, commands) are not reached, and neither are the random states
    that scikit-learn is given as numbers.
    """
    with ExitStack() as stack:
        if offset:
            for owner, name, shifted in _replacements(offset * SPACING):
                stack.enter_context(mock.patch.object(owner, name, shifted))
        yield


def _replacements(distance):
    def shift(seed):
        caller = sys._getframe(2).f_globals.get("__name__", "")
        counted = isinstance(seed, (int, np.integer)) and not isinstance(seed, bool)
        return seed + distance if counted and not caller.startswith(WORLDS) else seed

    class Generator(torch.Generator):
        def manual_seed(self, seed):
            return super().manual_seed(shift(seed))

    default_rng, seed_numpy = np.random.default_rng, np.random.seed  # noqa: NPY002
    seed_torch = torch.manual_seed
    return (
        (torch, "Generator", Generator),
        (torch, "manual_seed", lambda seed: seed_torch(shift(seed))),
        (np.random, "default_rng", lambda seed=None: default_rng(shift(seed))),
        (np.random, "seed", lambda seed: seed_numpy(shift(seed) % 2**32)),
    )
