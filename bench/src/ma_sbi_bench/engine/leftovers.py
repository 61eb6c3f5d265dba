"""What killed runs and failing disks leave in a folder, and how it is cleared away.

A run holds a lock on a file of its folder as long as it lives, and writes down its process
there. A run that gets the lock alone knows that no other is alive: it removes files that
were never finished, and semaphores of the processes that are written down.
"""

from __future__ import annotations

import os
import platform
from collections.abc import Iterator, Mapping
from contextlib import contextmanager, suppress
from pathlib import Path
from typing import IO

__all__ = ["held", "set_aside"]

LOCK = "run.lock"
UNFINISHED = ("*.unfinished", "*.tmp")
DAMAGED = "damaged"
# Where Linux has named semaphores; those of loky have the number of their process.
SEMAPHORES = Path("/dev/shm")  # noqa: S108 (not a file of ours)


def set_aside(damaged: Mapping[Path, str]) -> dict[Path, str]:
    """Move damaged files into a folder ``damaged`` beside them, where nothing reads them.

    Args:
        damaged: How each file is damaged.

    Returns:
        Where each of them is now, and how it is damaged.

    Raises:
        OSError: If one cannot be moved.
    """
    return {_move(file): how for file, how in damaged.items()}


def _move(file: Path) -> Path:
    folder = file.parent / DAMAGED
    folder.mkdir(exist_ok=True)
    num = sum(1 for _ in folder.glob(f"{file.stem}*"))
    return file.replace(folder / f"{file.stem}{f'.{num}' if num else ''}{file.suffix}")


@contextmanager
def held(out: Path) -> Iterator[None]:
    """Hold a folder for a run, after clearing away what dead ones have left in it."""
    out.mkdir(parents=True, exist_ok=True)
    with (out / LOCK).open("a+", encoding="utf-8") as file:
        if _lock(file, alone=True):
            for unfinished in (one for name in UNFINISHED for one in out.glob(f"*/{name}")):
                with suppress(OSError):
                    unfinished.unlink()
            file.seek(0)
            for line in file:
                _remove_semaphores(line)
            file.truncate(0)
        _lock(file, alone=False)
        file.write(f"{platform.node()} {os.getpid()}\n")
        file.flush()
        yield


def _lock(file: IO[str], *, alone: bool) -> bool:
    """Lock a file, alone or with others; tell whether it could be done."""
    try:
        from fcntl import LOCK_EX, LOCK_NB, LOCK_SH, flock
    except ImportError:  # not on this system
        return False
    try:
        flock(file, LOCK_EX | LOCK_NB if alone else LOCK_SH)
    except OSError:  # another run holds it, or the file system has no locks
        return False
    return True


def _remove_semaphores(line: str) -> None:
    """Remove the semaphores of a dead process of this machine."""
    node, _, process = line.strip().rpartition(" ")
    if node != platform.node() or not process.isdigit():
        return
    with suppress(ProcessLookupError, PermissionError, OverflowError):
        os.kill(int(process), 0)
        return  # its number belongs to another one now
    for semaphore in SEMAPHORES.glob(f"sem.loky-{process}-*"):
        with suppress(OSError):
            semaphore.unlink()
