"""Processes of this machine that do one thing at a time and may die."""

from __future__ import annotations

import os
import threading
import time
from collections.abc import Callable
from concurrent.futures import Future
from concurrent.futures.process import BrokenProcessPool
from typing import Any, Protocol

from joblib.externals.loky import ProcessPoolExecutor

__all__ = ["OtherProcess", "Process", "ThisProcess"]

# Before numpy and torch are loaded: later is too late for some of their libraries.
ONE_THREAD = {
    "OMP_NUM_THREADS": "1",
    "MKL_NUM_THREADS": "1",
    "OPENBLAS_NUM_THREADS": "1",
    "BLIS_NUM_THREADS": "1",
    "NUMEXPR_NUM_THREADS": "1",
    "VECLIB_MAXIMUM_THREADS": "1",
}


class Process(Protocol):
    """Where a function can be called."""

    def start(self, function: Callable[[Any], Any], given: Any) -> Future[Any]:
        """Begin a call; its future has the result, or why there is none."""

    def stop(self) -> None:
        """End whatever it does."""


class ThisProcess:
    """The process that asks; it has done the work when ``start`` returns."""

    def start(self, function: Callable[[Any], Any], given: Any) -> Future[Any]:
        """Call the function."""
        future: Future[Any] = Future()
        future.set_result(function(given))
        return future

    def stop(self) -> None:
        """Do nothing."""


class OtherProcess:
    """A process of one thread, which is replaced when it has died.

    Each has a pool of its own, since a pool ends all its processes when one dies.
    """

    def __init__(self) -> None:
        self._pool: ProcessPoolExecutor | None = None

    def start(self, function: Callable[[Any], Any], given: Any) -> Future[Any]:
        """Send the call to the process; a new one if there is none that lives."""
        if self._pool is not None:
            try:
                return self._pool.submit(function, given)
            except BrokenProcessPool:
                self.stop()
        self._pool = ProcessPoolExecutor(
            1, env=ONE_THREAD, initializer=_end_with, initargs=(os.getpid(),)
        )
        return self._pool.submit(function, given)

    def stop(self) -> None:
        """Kill the process, if there is one."""
        if self._pool is not None:
            self._pool.shutdown(kill_workers=True)


def _end_with(parent: int) -> None:
    """End this process soon after its parent, which may have been killed."""

    def watch() -> None:
        while os.getppid() == parent:
            time.sleep(1.0)
        os._exit(1)

    threading.Thread(target=watch, daemon=True).start()
