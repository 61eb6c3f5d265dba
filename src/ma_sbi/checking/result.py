"""What a check found: a verdict, its reasons, what to use, and every result behind it."""

from __future__ import annotations

import dataclasses
import math
from collections.abc import Mapping
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

import numpy as np
from torch import Tensor

from ma_sbi.checking.judging import Judgement
from ma_sbi.checking.verdict import Advice, Verdict
from ma_sbi.choosing import Why
from ma_sbi.diagnostics.diagnostic import Rows, Skipped
from ma_sbi.diagnostics.registry import DIAGNOSTICS
from ma_sbi.display.text import printable
from ma_sbi.writing import write_text

__all__ = ["WHAT_FIT_CORRECTOR_DOES", "Check"]

# Fields with an entry per row, which are no summary.
PER_ROW = {"sbc_ranks", "row_p_values"}
WHAT_FIT_CORRECTOR_DOES = "What fit_corrector chose"


@dataclass(frozen=True)
class Check:
    """Outcome of :func:`ma_sbi.check`.

    Attributes:
        verdict: ``"use"``, ``"use the marginal part only"``, ``"use with care"`` or
            ``"do not use"``.
        reasons: Why, in sentences, the decisive one first.
        advice: What to use, with code.
        corrector: The corrector that is advised, fitted; None for no correction.
        judgement: What each option gains; None if none could be judged.
        results: The result of each diagnostic by name, or
            :class:`~ma_sbi.diagnostics.Skipped` with the reason.
        notes: What was assumed or limited, in sentences.
        num_rows: Rows that were checked.
        num_contexts: Different contexts among them.
        dim_x: Columns of x.
        seed: Seed that gives this result again.
        rows: The rows behind the pictures.
    """

    verdict: Verdict
    reasons: tuple[str, ...]
    advice: Advice
    corrector: Any
    judgement: Judgement | None
    results: Mapping[str, Any]
    notes: tuple[str, ...]
    num_rows: int
    num_contexts: int
    dim_x: int
    seed: int
    rows: Rows = field(repr=False, compare=False)

    def found(self, name: str) -> Any:
        """Return the result of a diagnostic; None if it was skipped."""
        result = self.results.get(name)
        return None if isinstance(result, Skipped) else result

    @property
    def why(self) -> Why | None:
        """What ``fit_corrector`` chose, and why; None if it was not run."""
        return None if self.judgement is None else self.judgement.plan.why

    def answers(self) -> dict[str, str]:
        """Return each question with its answer in words; without those skipped."""
        return {
            DIAGNOSTICS[name].question: DIAGNOSTICS[name].answer(result)
            for name, result in self.results.items()
            if not isinstance(result, Skipped)
        }

    def skipped(self) -> dict[str, str]:
        """Return each question that was skipped, with the reason."""
        return {
            DIAGNOSTICS[name].question: result.reason
            for name, result in self.results.items()
            if isinstance(result, Skipped)
        }

    def __str__(self) -> str:
        lines = [f"Verdict: {self.verdict}", *(f"- {reason}" for reason in self.reasons)]
        lines.append("")
        lines.append(str(self.advice))
        lines += ["", *(f"note: {note}" for note in self.notes)]
        return printable("\n".join(lines).rstrip())

    def details(self) -> str:
        """Return every figure behind the verdict, in words."""
        lines = [f"{question} {words}" for question, words in self.answers().items()]
        lines += [f"{question} {why}" for question, why in self.skipped().items()]
        if self.why is not None:
            lines += ["", f"{WHAT_FIT_CORRECTOR_DOES}: {self.why}"]
        return printable("\n".join(lines))

    def __rich__(self) -> Any:
        from ma_sbi.checking.rendering import to_terminal

        return to_terminal(self)

    def to_dict(self) -> dict[str, Any]:
        """Return plain numbers and texts for JSON; what is not a number is None.

        ``results`` has for each diagnostic its ``question`` and either ``skipped``, the
        reason, or ``answer`` in words and ``values``, the fields of the result.
        """
        return {
            "verdict": self.verdict,
            "reasons": list(self.reasons),
            "advice": _plain(self.advice),
            "options": _options(self.judgement),
            "fit_corrector": _plain(self.why),
            "num_rows": self.num_rows,
            "num_contexts": self.num_contexts,
            "dim_x": self.dim_x,
            "seed": self.seed,
            "results": {name: _entry(name, one) for name, one in self.results.items()},
            "notes": list(self.notes),
        }

    def to_html(self, path: str | Path) -> None:
        """Write a page with pictures that needs no network and no other file.

        Args:
            path: The file.
        """
        from ma_sbi.checking.rendering import to_page

        write_text(path, to_page(self))


def _options(judgement: Judgement | None) -> Any:
    """Write what each option gains over no correction."""
    if judgement is None:
        return None
    options = [judgement.by_context, judgement.common]
    gains = {one.name: _plain(one.gain) for one in options if one is not None}
    return {
        "scored_by": judgement.scored_by,
        "num_judged": judgement.num_judged,
        "gains": gains,
        "the context adds": _plain(judgement.adds),
        "posterior at x_sim": _plain(judgement.perfect),
    }


def _entry(name: str, result: Any) -> dict[str, Any]:
    diagnostic = DIAGNOSTICS[name]
    if isinstance(result, Skipped):
        return {"question": diagnostic.question, "skipped": result.reason}
    return {
        "question": diagnostic.question,
        "answer": diagnostic.answer(result),
        "values": _plain(result),
    }


def _plain(value: Any) -> Any:
    """Turn a result into what JSON can hold."""
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
