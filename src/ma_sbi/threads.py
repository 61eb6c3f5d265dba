"""How many threads torch and the linear algebra of numpy compute on."""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import contextmanager

__all__ = ["one_thread"]


@contextmanager
def one_thread() -> Iterator[None]:
    """Compute on one thread: small operations are faster, and sums always round alike.

    For processes of our own: that torch has one thread is not undone.
    """
    import torch
    from threadpoolctl import threadpool_limits  # type: ignore[import-untyped]

    torch.set_num_threads(1)
    with threadpool_limits(1):
        yield
