"""The workers of a Dask scheduler, as places where a function can be called."""

from __future__ import annotations

import platform
import uuid
from collections.abc import Callable
from concurrent.futures import Future
from pathlib import Path
from typing import TYPE_CHECKING, Any

from ma_sbi_bench.engine.store import written_whole

if TYPE_CHECKING:
    from distributed import Client

__all__ = ["Cluster", "connect"]

# File that tells the folder of a run from another one of that name.
MARK = "folder.id"


class Cluster:
    """The workers of a scheduler, which all see the same folder.

    It is given as much as it has threads, not all at once: when a worker dies, Dask holds
    it against everything that waits there, and not only against what ran.

    Args:
        address: Address of the scheduler.

    Raises:
        ValueError: If Dask is not installed, or no scheduler answers.
    """

    def __init__(self, address: str) -> None:
        self._address = address
        self._client = connect(address)
        self._executor = self._client.get_executor(pure=False)

    @property
    def capacity(self) -> int:
        """How much it can do at once; workers may come and go.

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
        """Take back what has not been done, and leave the scheduler."""
        self._client.close()


def connect(address: str) -> Client:
    """Reach a Dask scheduler.

    Raises:
        ValueError: If Dask is not installed, or no scheduler answers.
    """
    try:
        from distributed import Client
    except ImportError as error:
        raise ValueError("a scheduler needs Dask: pip install 'ma-sbi[cluster]'") from error
    try:
        return Client(address, timeout="5s")
    except (OSError, TimeoutError, ValueError) as error:
        raise ValueError(f"no Dask scheduler answers at {address}: {error}") from error


def _call(function: Callable[[Any], Any], given: Any, mark: str) -> Any:
    """Call a function on a worker, if it sees the folder."""
    if _read_mark(given.out) != mark:
        raise FileNotFoundError(
            f"the worker on {platform.node()} does not see the folder {given.out}"
        )
    return function(given)


def _mark(folder: Path) -> str:
    """Mark a folder, so that a worker can tell it from another one of that name."""
    if not _read_mark(folder):
        with written_whole(folder / MARK) as unfinished:
            unfinished.write_text(uuid.uuid4().hex, encoding="utf-8")
    return _read_mark(folder)


def _read_mark(folder: Path) -> str:
    file = folder / MARK
    return file.read_text(encoding="utf-8") if file.exists() else ""
