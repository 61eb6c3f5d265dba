"""Pictures of rows; importing this package alone does not load matplotlib."""

from __future__ import annotations

from collections.abc import Mapping
from typing import TYPE_CHECKING, TypeAlias

if TYPE_CHECKING:
    from matplotlib.figure import Figure

__all__ = ["Figures"]

Figures: TypeAlias = "Mapping[str, Figure]"
"""Figures by name."""
