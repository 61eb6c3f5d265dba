"""A Dask cluster: the same blocks, corrected elsewhere."""

from __future__ import annotations

from concurrent.futures import Future
from typing import Any

from ma_sbi.applying.blocks import Finished, Job, correct_block
from ma_sbi.applying.sources import Block
from ma_sbi.schedulers import connect
from ma_sbi.threads import one_thread

__all__ = ["Cluster"]

# Blocks that wait for each thread, so that none is idle.
AHEAD = 2


class Cluster:
    """The workers of a Dask scheduler.

    They need no common folder: the model goes to them with each block, and what they give
    comes back. A block whose worker dies is given to another, three times at most. Blocks
    of one process wait for each other: several processes of one thread are faster.

    Args:
        address: Address of the scheduler.

    Raises:
        ValueError: If Dask is not installed, or no scheduler answers.
    """

    def __init__(self, address: str) -> None:
        self._client = connect(address)
        self._executor: Any = self._client.get_executor(pure=False)

    @property
    def capacity(self) -> int:
        """Blocks that may be on their way, for workers that may come and go."""
        return AHEAD * max(1, sum(self._client.nthreads().values()))

    def start(self, job: Job, number: int, first: int, block: Block) -> Future[Finished]:
        """Send a block to a worker."""
        future: Future[Finished] = self._executor.submit(
            _on_one_thread, job, number, first, block
        )
        return future

    def stop(self) -> None:
        """Cancel what is not done, and leave the scheduler."""
        self._client.close()


def _on_one_thread(*given: Any) -> Finished:
    """Correct a block as it is corrected on one machine."""
    with one_thread():
        return correct_block(*given)
