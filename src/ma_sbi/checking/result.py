"""What a check found: a verdict, its reasons, and every figure behind them."""

from __future__ import annotations

import dataclasses
import math
from collections.abc import Mapping
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

import numpy as np
from torch import Tensor

from ma_sbi.checking.verdict import Verdict
from ma_sbi.diagnostics.recommendation import Recommendation

__all__ = ["Check", "Rows"]

# Results with an entry per row, which are no summary.
PER_ROW = {"sbc_ranks", "row_p_values"}


@dataclass(frozen=True)
class Rows:
    """The rows behind the pictures.

    Attributes:
        context: One entry per row, shape ``(n,)``: a text for each different context.
        x_obs: Observations, shape ``(n, dim_x)``.
        x_sim: Simulations at the same inputs, or None.
        corrected: Observations corrected by what other rows taught, or None; its rows
            are those of ``corrected_rows``.
        corrected_rows: Positions of the corrected rows.
    """

    context: np.ndarray
    x_obs: np.ndarray
    x_sim: np.ndarray | None = None
    corrected: np.ndarray | None = None
    corrected_rows: np.ndarray | None = None


@dataclass(frozen=True)
class Check:
    """Outcome of :func:`ma_sbi.check`.

    Attributes:
        verdict: ``"use"``, ``"use the marginal part only"``, ``"use with care"`` or
            ``"do not use"``.
        reasons: Why, in sentences, the decisive one first.
        figures: The result of each diagnostic, or a sentence why it could not be run.
        recommendation: Which method fits, or a sentence why that cannot be said.
        notes: What was assumed or limited, in sentences.
        num_rows: Rows that were checked.
        num_contexts: Different contexts among them.
        dim_x: Columns of x.
        rows: The rows behind the pictures.
    """

    verdict: Verdict
    reasons: tuple[str, ...]
    figures: Mapping[str, Any]
    recommendation: Recommendation | str
    notes: tuple[str, ...]
    num_rows: int
    num_contexts: int
    dim_x: int
    rows: Rows = field(repr=False, compare=False)

    def __str__(self) -> str:
        lines = [f"Verdict: {self.verdict}", *(f"- {reason}" for reason in self.reasons)]
        lines.append("")
        for name, figure in self.figures.items():
            first, *rest = str(figure).splitlines() or [""]
            lines.append(f"{name}: {first}")
            lines += [f"  {line}" for line in rest]
        lines += ["", str(self.recommendation)]
        lines += [f"note: {note}" for note in self.notes]
        return "\n".join(lines)

    def __rich__(self) -> Any:
        from ma_sbi.checking.terminal import render

        return render(self)

    def to_dict(self) -> dict[str, Any]:
        """Return plain numbers and texts for JSON; what is not a number is None."""
        return {
            "verdict": self.verdict,
            "reasons": list(self.reasons),
            "num_rows": self.num_rows,
            "num_contexts": self.num_contexts,
            "dim_x": self.dim_x,
            "figures": {name: _figure(one) for name, one in self.figures.items()},
            "recommendation": _plain(self.recommendation),
            "notes": list(self.notes),
        }

    def to_html(self, path: str | Path) -> None:
        """Write a page with plots that needs nothing else, not even a network.

        Args:
            path: The file.
        """
        from ma_sbi.checking.page import write_page

        write_page(self, Path(path))


def _figure(result: Any) -> dict[str, Any]:
    if isinstance(result, str):
        return {"run": False, "why_not": result}
    return {"run": True, "says": str(result), **_plain(result)}


def _plain(value: Any) -> Any:
    """Turn a result into what JSON knows."""
    if isinstance(value, Tensor):
        return _plain(value.detach().cpu().tolist())
    if dataclasses.is_dataclass(value) and not isinstance(value, type):
        names = [one.name for one in dataclasses.fields(value) if one.name not in PER_ROW]
        return {name: _plain(getattr(value, name)) for name in names}
    if isinstance(value, tuple) and hasattr(value, "_asdict"):
        return {name: _plain(one) for name, one in value._asdict().items()}
    if isinstance(value, Mapping):
        return {str(name): _plain(one) for name, one in value.items()}
    if isinstance(value, (list, tuple)):
        return [_plain(one) for one in value]
    if isinstance(value, (np.floating, np.integer, np.bool_)):
        value = value.item()
    if isinstance(value, float) and not math.isfinite(value):
        return None
    return value
