"""Contexts of drawn worlds: labels, numbers, a few sentences, or many wordings."""

from __future__ import annotations

import json
from dataclasses import dataclass
from importlib.resources import files
from typing import Any, Literal, get_args

import numpy as np
import torch
from scipy.special import ndtr
from torch import Tensor

__all__ = ["FORMS", "Contexts", "Form", "draw_contexts"]

Form = Literal["labels", "number", "sentences", "wordings"]
FORMS: tuple[Form, ...] = get_args(Form)
LABELS = (
    ("A", "B", "C", "D", "E"),
    ("north", "south", "east", "west", "centre"),
    ("site 1", "site 2", "site 3", "site 4", "site 5"),
)


@dataclass(frozen=True)
class Contexts:
    """What contexts are like.

    Attributes:
        form: Their form.
        wordings: Wordings of each regime; empty where contexts are numbers.
        shares: How often each regime occurs.
    """

    form: Form
    wordings: tuple[tuple[str, ...], ...]
    shares: np.ndarray

    @property
    def num_columns(self) -> int:
        """Columns of the design: one for each regime, or a number and a constant."""
        return len(self.wordings) or 2

    def draw(
        self,
        num: int,
        rng: np.random.Generator,
        theta: np.ndarray | None = None,
        leak: float = 0.0,
    ) -> np.ndarray:
        """Draw the regime of each row, or its number between -1 and 1.

        Args:
            num: Number of rows.
            rng: Source of chance.
            theta: A parameter with a standard normal prior that it depends on, ``(num,)``.
            leak: Correlation with that parameter, or probability of being decided by it.
        """
        if self.form == "number":
            hidden = rng.standard_normal(num)
            if theta is not None:
                hidden = leak * theta + np.sqrt(1 - leak**2) * hidden
            return np.asarray(2 * ndtr(hidden) - 1).round(3)
        drawn = rng.choice(len(self.wordings), num, p=self.shares)
        if theta is None:
            return drawn
        decided = np.searchsorted(np.cumsum(self.shares)[:-1], ndtr(theta))
        return np.where(rng.random(num) < leak, decided, drawn)

    def design(self, drawn: np.ndarray) -> Tensor:
        """Turn regimes or numbers into columns, shape ``(n, num_columns)``."""
        if self.form == "number":
            return torch.from_numpy(np.stack([drawn, np.ones(len(drawn))], axis=1))
        return torch.from_numpy(np.eye(len(self.wordings))[drawn])

    def entries(self, drawn: np.ndarray, rng: np.random.Generator) -> list[Any]:
        """Write the context of each row; of several wordings any."""
        if self.form == "number":
            return [float(one) for one in drawn]
        which = rng.random(len(drawn))
        words = (self.wordings[one] for one in drawn)
        return [
            some[int(place * len(some))] for some, place in zip(words, which, strict=True)
        ]


def draw_contexts(form: Form, rng: np.random.Generator) -> Contexts:
    """Draw what contexts of a form are like."""
    if form == "number":
        return Contexts(form, (), np.ones(0))
    if form == "labels":
        labels = LABELS[rng.integers(len(LABELS))][: rng.integers(2, 6)]
        wordings = [(label,) for label in labels]
    else:
        file = files("ma_sbi_bench.trials").joinpath("wordings.json")
        worlds = json.loads(file.read_text(encoding="utf-8"))["worlds"]
        regimes = list(worlds[list(worlds)[rng.integers(len(worlds))]].values())
        wordings = [tuple(one) for one in regimes[: rng.integers(2, len(regimes) + 1)]]
        if form == "sentences":
            wordings = [one[:1] for one in wordings]
    shares = rng.dirichlet(np.full(len(wordings), 4.0))
    return Contexts(form, tuple(wordings), shares)
