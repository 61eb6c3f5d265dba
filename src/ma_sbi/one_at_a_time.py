"""One lock for what all threads of a process share: global generators, warning filters.

sbi and zuko draw from torch's global generator, and python's filters of warnings are a
global list. A thread that changes either and puts it back must be alone meanwhile: else
another one draws from its seed, or puts back what it never had. One lock for both, as two
that are taken in either order would wait for each other.

What a user passes (a posterior, a simulator, an encoder) is called with the lock held. If
it starts threads that use this package, and waits for them, nothing here can tell that from
two threads that take turns. Who waits long says in the log for whom.
"""

from __future__ import annotations

import logging
import os
import threading
import warnings
from collections.abc import Iterator
from contextlib import contextmanager

__all__ = ["local_filters", "one_at_a_time", "recorded_warnings"]

log = logging.getLogger(__name__)

# Seconds after which a thread that waits says so.
PATIENCE = 60.0
_lock = threading.RLock()  # re-entrant: a fit that is seeded draws samples that are
_holder = ""


@contextmanager
def one_at_a_time() -> Iterator[None]:
    """Keep other threads from what all of them share; may be nested."""
    global _holder  # noqa: PLW0603
    lock = _lock
    if not lock.acquire(timeout=PATIENCE):
        # In the log: the other thread may be recording warnings.
        log.warning(
            "%s has waited %g s for %s, which draws or checks with ma_sbi. If that thread "
            "waits for this one, neither goes on: a function that is given to ma_sbi must "
            "not start threads that use ma_sbi",
            threading.current_thread().name,
            PATIENCE,
            _holder,
        )
        lock.acquire()
    try:
        _holder = threading.current_thread().name
        yield
    finally:
        lock.release()


@contextmanager
def local_filters() -> Iterator[None]:
    """Put the filters of warnings back afterwards: ``warnings.catch_warnings()``."""
    with one_at_a_time(), warnings.catch_warnings():
        yield


@contextmanager
def recorded_warnings() -> Iterator[list[warnings.WarningMessage]]:
    """Record every warning instead of showing it."""
    with one_at_a_time(), warnings.catch_warnings(record=True) as caught:
        warnings.simplefilter("always")
        yield caught


def _new_lock() -> None:
    global _lock  # noqa: PLW0603
    _lock = threading.RLock()


# A thread that held the lock does not exist in a child, and would never release it there.
if hasattr(os, "register_at_fork"):
    os.register_at_fork(after_in_child=_new_lock)
