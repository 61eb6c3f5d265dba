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

__all__ = ["Processes", "ThisProcess", "Workers"]

# Before numpy and torch are loaded: later is too late for some of their libraries.
ONE_THREAD = {
    "OMP_NUM_THREADS": "1",
    "MKL_NUM_THREADS": "1",
    "OPENBLAS_NUM_THREADS": "1",
    "BLIS_NUM_THREADS": "1",
    "NUMEXPR_NUM_THREADS": "1",
    "VECLIB_MAXIMUM_THREADS": "1",
}


class Workers(Protocol):
    """Where functions can be called."""

    @property
    def capacity(self) -> int:
        """How many calls there may be at once."""

    def start(self, function: Callable[[Any], Any], given: Any) -> Future[Any]:
        """Begin a call; its future has the result, or why there is none."""

    def stop(self) -> None:
        """End whatever they do."""


class ThisProcess:
    """The process that asks; it has done the work when ``start`` returns."""

    capacity = 1

    def start(self, function: Callable[[Any], Any], given: Any) -> Future[Any]:
        """Call the function."""
        future: Future[Any] = Future()
        future.set_result(function(given))
        return future

    def stop(self) -> None:
        """Do nothing."""


class Processes:
    """Several processes; the death of one takes nothing else with it.

    Args:
        num: How many.
    """

    def __init__(self, num: int) -> None:
        self.capacity = num
        self._processes = [_Process() for _ in range(num)]

    def start(self, function: Callable[[Any], Any], given: Any) -> Future[Any]:
        """Send the call to a process that has nothing to do."""
        free = next(one for one in self._processes if not one.busy)
        return free.start(function, given)

    def stop(self) -> None:
        """Kill all."""
        for one in self._processes:
            one.stop()


class _Process:
    """A process of one thread, which is replaced when it has died.

    Each has a pool of its own, since a pool ends all its processes when one dies.
    """

    def __init__(self) -> None:
        self._pool: ProcessPoolExecutor | None = None
        self._call: Future[Any] | None = None

    @property
    def busy(self) -> bool:
        return self._call is not None and not self._call.done()

    def start(self, function: Callable[[Any], Any], given: Any) -> Future[Any]:
        """Send the call to the process; a new one if there is none that lives."""
        try:
            self._call = self._living().submit(function, given)
        except BrokenProcessPool:  # it was killed while it had nothing to do
            self.stop()
            self._call = self._living().submit(function, given)
        return self._call

    def _living(self) -> ProcessPoolExecutor:
        if self._pool is None:
            self._pool = ProcessPoolExecutor(
                1, env=ONE_THREAD, initializer=_end_with, initargs=(os.getpid(),)
            )
        return self._pool

    def stop(self) -> None:
        """End the process, if there is one; kill it if it is at work."""
        if self._pool is not None:
            # One that is killed leaves semaphores behind, and a warning about them.
            self._pool.shutdown(kill_workers=self.busy)
            self._pool = None


def _end_with(parent: int) -> None:
    """End this process soon after its parent, which may have been killed."""

    def watch() -> None:
        while os.getppid() == parent:
            time.sleep(1.0)
        os._exit(1)

    threading.Thread(target=watch, daemon=True).start()
