"""A check as a page."""

from __future__ import annotations

from pathlib import Path

from ma_sbi.checking.result import Check

__all__ = ["write_page"]


def write_page(check: Check, path: Path) -> None:
    """Write the page."""
    raise NotImplementedError
