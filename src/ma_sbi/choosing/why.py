"""What was chosen, what was rejected, and why."""

from __future__ import annotations

import json
from dataclasses import asdict, dataclass

from ma_sbi.storing.forms import stored

__all__ = ["NOT_READ", "Read", "Tried", "Why"]

NOT_READ = "not read"
"""In place of an encoder, where there was nothing to learn."""


@stored(score="?", error="?")
@dataclass(frozen=True)
class Tried:
    """A proposal that was tried.

    Attributes:
        name: Its name.
        words: What it assumes.
        score: Held-out log score per row, minus that of no correction; None without one.
        error: Its standard error.
        weight: Its weight under contexts of the calibration set.
        weight_unseen: Its weight under other contexts.
    """

    name: str
    words: str
    score: float | None
    error: float | None
    weight: float
    weight_unseen: float


@stored(score="?", error="?")
@dataclass(frozen=True)
class Read:
    """An encoder that was tried.

    Attributes:
        name: How it reads the context.
        encoder: The encoder, as Python prints it.
        score: Held-out log score per context left out, minus that of the first encoder;
            None if there was nothing to compare.
        error: Its standard error over contexts.
        chosen: Whether it is the one that is used.
        refused: Why it could not read these contexts, if so.
    """

    name: str
    encoder: str
    score: float | None = None
    error: float | None = None
    chosen: bool = True
    refused: str = ""


@stored(gain="?")
@dataclass(frozen=True)
class Why:
    """Why a corrector is what it is.

    Attributes:
        tried: Every proposal that was tried.
        inference: ``"evidence"`` if x weighs candidates, ``"mixture"`` if the context alone
            does, ``"point"`` if there is only one.
        scored_by: What the scores of held-out rows are of.
        num_rows: Calibration rows.
        encoder: The encoder in use, as Python prints it.
        reasons: Sentences: what was found in the data, and what followed.
        read: Every encoder that was tried; empty if one was given.
        gain: Held-out log score per row of all proposals together, minus that of no
            correction, and its standard error; None if nothing could be scored.
    """

    tried: tuple[Tried, ...]
    inference: str
    scored_by: str
    num_rows: int
    encoder: str
    reasons: tuple[str, ...]
    read: tuple[Read, ...] = ()
    gain: tuple[float, float] | None = None

    def to_json(self) -> str:
        """Write it as JSON."""
        return json.dumps(asdict(self), indent=2)

    def __str__(self) -> str:
        width = max(24, *(len(one.name) + 1 for one in self.tried))
        lines = [
            f"{self.inference}, from {self.num_rows} calibration rows",
            f"context {self._reading()}",
            f"scored by {self.scored_by}",
            f"{'':{width}}{'score':>16}{'weight':>9}{'new context':>13}",
        ]
        for one in self.tried:
            score = "" if one.score is None else f"{one.score:+.2f} ± {one.error:.2f}"
            lines.append(
                f"{one.name:{width}}{score:>16}{one.weight:>9.0%}{one.weight_unseen:>13.0%}"
            )
        if self.gain is not None:
            together = f"{self.gain[0]:+.2f} ± {self.gain[1]:.2f}"
            lines.append(f"{'all together':{width}}{together:>16}")
        return "\n".join([*lines, *(f"- {reason}" for reason in self.reasons)])

    def _reading(self) -> str:
        if not self.read:
            return self.encoder if self.encoder == NOT_READ else f"read by {self.encoder}"
        others = [
            f"{one.name} {one.score:+.2f} ± {one.error:.2f}"
            for one in self.read
            if one.score is not None
        ]
        chosen = next(one.name for one in self.read if one.chosen)
        left_out = f" (on contexts left out: {', '.join(others)})" if others else ""
        return f"read by {chosen}{left_out}"
