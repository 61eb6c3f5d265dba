"""Run every diagnostic on what there is; a failure is a sentence, not the end."""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import contextmanager
from typing import Any

from ma_sbi.diagnostics.diagnostic import CannotRun, Diagnostic, Skipped
from ma_sbi.diagnostics.registry import DIAGNOSTICS
from ma_sbi.diagnostics.subject import Subject
from ma_sbi.display.progress import say
from ma_sbi.display.text import shorten
from ma_sbi.one_at_a_time import recorded_warnings

__all__ = ["run_all", "warnings_as_notes"]


def run_all(subject: Subject) -> None:
    """Put every result, or why there is none, into ``subject.results``."""
    for name, diagnostic in DIAGNOSTICS.items():
        say(diagnostic.question)
        subject.results[name] = _attempt(diagnostic, subject)


def _attempt(diagnostic: Diagnostic, subject: Subject) -> Any:
    with warnings_as_notes(subject):
        try:
            return diagnostic(subject)
        except CannotRun as why:
            return Skipped(str(why))
        except Exception as error:  # noqa: BLE001 (one failure must not lose the others)
            return Skipped(f"It failed: {shorten(error)}", failed=True)


@contextmanager
def warnings_as_notes(subject: Subject) -> Iterator[None]:
    """Keep what is warned of as notes, each once."""
    with recorded_warnings() as caught:
        yield
    for warning in caught:
        if issubclass(warning.category, UserWarning):
            note = " ".join(str(warning.message).split())
            if note not in subject.notes:
                subject.notes.append(note)
