"""Reaching a Dask scheduler."""

from __future__ import annotations

from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from distributed import Client

__all__ = ["connect"]

# A busy scheduler may take a while to answer.
SECONDS_TO_ANSWER = 10.0


def connect(address: str, *, extra: str = "ma-sbi[cluster]") -> Client:
    """Reach a Dask scheduler.

    Args:
        address: Its address.
        extra: What to install if Dask is not there.

    Raises:
        ValueError: If Dask is not installed, or no scheduler answers.
    """
    try:
        from distributed import Client
    except ImportError as error:
        raise ValueError(f"a scheduler needs Dask: pip install '{extra}'") from error
    try:
        return Client(address, timeout=SECONDS_TO_ANSWER)
    except (OSError, TimeoutError, ValueError) as error:
        raise ValueError(f"no Dask scheduler answers at {address}: {error}") from error
