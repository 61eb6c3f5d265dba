"""Files that are written whole or not at all, and never over what was read."""

from __future__ import annotations

import os
import stat
import uuid
from collections.abc import Iterable, Iterator
from contextlib import contextmanager
from pathlib import Path

__all__ = ["check_output", "write_text", "written_whole"]


@contextmanager
def written_whole(file: str | Path) -> Iterator[Path]:
    """Give a name to write to; it becomes the file when all is written, or never.

    Folders that are missing are made. A link is followed: what it points to is replaced. An
    older file keeps its permissions; a new one has those that the umask leaves.

    Raises:
        OSError: If something is there that is no plain file, or it cannot be written.
    """
    file = Path(os.path.realpath(file))
    _check_plain(file)
    file.parent.mkdir(parents=True, exist_ok=True)
    # A unique name: two processes, even of two machines, may write the same file. A short
    # one: the name of the file may be as long as the system allows.
    unfinished = file.with_name(f"{uuid.uuid4().hex}.unfinished")
    try:
        unfinished.touch(exist_ok=False)
    except OSError as error:
        error.filename = str(file)  # the name that the user knows
        raise
    try:
        # Some libraries write files that only their owner can read.
        mode = stat.S_IMODE((file if file.exists() else unfinished).stat().st_mode)
        yield unfinished
        # Else a power cut could leave a file that has its name but not its contents.
        with unfinished.open("rb+") as written:
            os.fsync(written.fileno())
        if stat.S_IMODE(unfinished.stat().st_mode) != mode:
            unfinished.chmod(mode)
        unfinished.replace(file)
    finally:
        unfinished.unlink(missing_ok=True)


def write_text(file: str | Path, text: str) -> None:
    """Write a text in UTF-8, whole or not at all."""
    with written_whole(file) as unfinished:
        unfinished.write_text(text, encoding="utf-8")


def check_output(output: str | Path, inputs: Iterable[str | Path], what: str) -> None:
    """See that a file can be written and is none of those that are read.

    Links, hard links and other spellings of one name are one file to the system, and here.

    Args:
        output: The file to write.
        inputs: Files that are read; those that are not there are no concern.
        what: What is written, in error messages, such as ``"page"``.

    Raises:
        ValueError: If it is one of them, or there is no folder for it, or something is
            there that is no plain file.
    """
    output = Path(output)
    if not output.absolute().parent.is_dir():
        raise ValueError(f"there is no folder {output.parent} for the {what}")
    if not os.access(output.absolute().parent, os.W_OK):
        raise ValueError(f"the {what} cannot be written into the folder {output.parent}")
    try:
        _check_plain(output)
    except OSError as error:
        raise ValueError(f"the {what} cannot be written: {error}") from error
    if not output.exists():
        return
    for one in map(Path, inputs):
        if one.exists() and output.samefile(one):
            raise ValueError(
                f"the {what} would replace {one}, which is read: name another file"
            )


def _check_plain(file: Path) -> None:
    """Refuse what a rename would destroy: a device, a pipe."""
    if file.is_dir():
        raise IsADirectoryError(f"{file} is a folder, expected a file")
    if file.exists() and not file.is_file():
        raise OSError(f"{file} is not a plain file")
