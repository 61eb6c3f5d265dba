"""Where work is done: this process, others of this machine, or a Dask cluster.

Each has a ``capacity``, the number of calls at once; ``start``, which begins a call and
returns a future; and ``stop``, which ends all calls.
"""

from __future__ import annotations

import os
import platform
import signal
import threading
import time
import uuid
from collections.abc import Callable, Iterator
from concurrent.futures import Future
from concurrent.futures.process import BrokenProcessPool
from contextlib import contextmanager
from pathlib import Path
from typing import Any

from joblib.externals.loky import ProcessPoolExecutor

from ma_sbi.schedulers import connect

__all__ = ["Cluster", "Processes", "ThisProcess", "connect"]

# Set before numpy and torch are loaded: later is too late for some of their libraries.
ONE_THREAD = {
    f"{library}_NUM_THREADS": "1"
    for library in ("OMP", "MKL", "OPENBLAS", "BLIS", "NUMEXPR")
} | {"VECLIB_MAXIMUM_THREADS": "1"}


class ThisProcess:
    """The calling process: the work is done when ``start`` returns."""

    capacity = 1

    def start(self, function: Callable[[Any], Any], given: Any) -> Future[Any]:
        """Call the function."""
        future: Future[Any] = Future()
        future.set_result(function(given))
        return future

    def stop(self) -> None:
        """Do nothing."""


class Processes:
    """Several processes of this machine, of one thread each; if one dies, the others go on.

    Args:
        num: How many.
    """

    def __init__(self, num: int) -> None:
        self.capacity = num
        # A pool for each process, since a pool ends all its processes when one dies.
        self._calls: dict[ProcessPoolExecutor, Future[Any]] = {}

    def start(self, function: Callable[[Any], Any], given: Any) -> Future[Any]:
        """Send the call to an idle process, or to a new one."""
        for pool in [one for one, call in self._calls.items() if call.done()]:
            try:
                self._calls[pool] = pool.submit(function, given)
                return self._calls[pool]
            except BrokenProcessPool:  # its process has died
                del self._calls[pool]
                pool.shutdown()
        pool = ProcessPoolExecutor(
            1, env=ONE_THREAD, initializer=_end_with, initargs=(os.getpid(),)
        )
        with _blocked_interrupts():
            self._calls[pool] = pool.submit(function, given)
        return self._calls[pool]

    def stop(self) -> None:
        """Kill those that are busy, and end the others."""
        for pool, call in self._calls.items():
            # One that is killed leaves semaphores behind, and a warning about them.
            pool.shutdown(kill_workers=not call.done())


@contextmanager
def _blocked_interrupts() -> Iterator[None]:
    """Start processes that do not see Ctrl-C: the calling one does, and stops them."""
    if not hasattr(signal, "pthread_sigmask"):  # not on this system
        yield
        return
    before = signal.pthread_sigmask(signal.SIG_BLOCK, {signal.SIGINT})
    try:
        yield
    finally:
        signal.pthread_sigmask(signal.SIG_SETMASK, before)


def _end_with(parent: int) -> None:
    """End this process soon after its parent, which may be killed."""

    def watch() -> None:
        while os.getppid() == parent:
            time.sleep(1.0)
        os._exit(1)

    threading.Thread(target=watch, daemon=True).start()


class Cluster:
    """The workers of a Dask scheduler, which all see the same folder.

    It is given one call per thread and no more: when a worker dies, Dask counts that
    against every call that waits there, not only against the one that ran.

    Args:
        address: Address of the scheduler.

    Raises:
        ValueError: If Dask is not installed, or no scheduler answers.
    """

    def __init__(self, address: str) -> None:
        self._address = address
        self._client = connect(address, extra="ma-sbi-bench[cluster]")
        self._executor = self._client.get_executor(pure=False)

    @property
    def capacity(self) -> int:
        """Number of threads of all workers, which may come and go.

        Raises:
            ValueError: If the scheduler is gone.
        """
        try:
            return max(1, sum(self._client.nthreads().values()))
        except (OSError, TimeoutError) as error:
            raise ValueError(
                f"the scheduler at {self._address} is gone: {error}"
            ) from error

    def start(self, function: Callable[[Any], Any], given: Any) -> Future[Any]:
        """Send a call to a worker; ``given.out`` is the folder that it must see."""
        return self._executor.submit(_call, function, given, _mark(given.out))

    def stop(self) -> None:
        """Cancel what is not done, and leave the scheduler."""
        self._client.close()


def _call(function: Callable[[Any], Any], given: Any, mark: str) -> Any:
    """Call a function on a worker, if it sees the folder."""
    if not (given.out / mark).exists():
        raise FileNotFoundError(
            f"the worker on {platform.node()} does not see the folder {given.out}"
        )
    return function(given)


def _mark(folder: Path) -> str:
    """Return the name of a file that no other folder has, even one of the same name."""
    folder.mkdir(parents=True, exist_ok=True)
    mark = next(folder.glob("*.folder"), folder / f"{uuid.uuid4().hex}.folder")
    mark.touch()
    return mark.name
