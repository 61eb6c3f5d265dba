"""Regimes in many wordings: calibration sets and texts that they do not contain.

Five worlds have four regimes each, and each regime twelve wordings, as scientists of the
field might write them. Shifts have the same length in random directions. A calibration set
has some wordings of each regime; the others are for the test.
"""

from __future__ import annotations

import json
from dataclasses import dataclass
from functools import cache
from importlib.resources import files
from typing import Any

import numpy as np
import torch
from torch import Tensor

from ma_sbi.randomness import derive
from ma_sbi_bench.tasks.regimes import random_directions

__all__ = ["NEGATED", "UNRELATED", "UNSEEN", "WORLDS", "WordSet", "draw_words"]

DIM_X = 5
# Standard deviation of the noise that x_obs and x_sim do not share.
OWN_NOISE = 0.2
UNSEEN, UNRELATED, NEGATED = "unseen", "unrelated", "negated"
# One version of each regime, written out.
WRITTEN = (NEGATED, "another language", "two sentences")


@cache
def _written() -> dict[str, Any]:
    file = files("ma_sbi_bench.trials").joinpath("wordings.json")
    return json.loads(file.read_text(encoding="utf-8"))


WORLDS: tuple[str, ...] = tuple(_written()["worlds"])
"""Names of the worlds."""


@dataclass(frozen=True)
class WordSet:
    """A calibration set, and texts to test what was learned from it.

    Attributes:
        shifts: What each regime adds, shape ``(num_regimes, dim_x)``.
        context: Text of each calibration row.
        x_obs: Observations, shape ``(n, dim_x)``.
        x_sim: Simulations, shape ``(n, dim_x)``.
        texts: Texts of each kind.
        regimes: The regimes that they speak of; none for unrelated ones.
    """

    shifts: Tensor
    context: list[str]
    x_obs: Tensor
    x_sim: Tensor
    texts: dict[str, list[str]]
    regimes: dict[str, list[int]]


def draw_words(
    world: str,
    num_rows: int,
    num_wordings: int,
    *,
    seed: int,
    own_noise: bool = False,
    never_visited: bool = False,
) -> WordSet:
    """Draw a calibration set.

    Args:
        world: Name of a world.
        num_rows: Calibration rows.
        num_wordings: Wordings of each regime among them.
        seed: Seed of the set: the same wordings and shifts for every number of rows.
        own_noise: Whether the simulations have noise of their own.
        never_visited: Whether one regime, drawn for the set, occurs in the test alone,
            which then has no others.
    """
    rng = np.random.default_rng(derive(seed, f"wordings of {world}"))
    wordings = [list(rng.permutation(one)) for one in _written()["worlds"][world].values()]
    shifts = random_directions(len(wordings), DIM_X, seed=int(rng.integers(2**31)))
    visited = list(rng.permutation(len(wordings)))
    tested = visited[-1:] if never_visited else sorted(visited)
    visited = visited[:-1] if never_visited else tested
    regime = rng.permutation(np.resize(visited, num_rows))
    wording = rng.permutation(np.arange(num_rows) % num_wordings)
    # Every wording occurs: rows of a regime take them in turn.
    for one in visited:
        wording[regime == one] = np.arange((regime == one).sum()) % num_wordings
    x_sim = torch.from_numpy(rng.normal(size=(num_rows, DIM_X))).float()
    noise = OWN_NOISE * rng.normal(size=(2, num_rows, DIM_X)) * own_noise
    # Of a regime that was never visited no wording was seen.
    num_seen = 0 if never_visited else num_wordings
    texts, regimes = _tests(world, wordings, tested, num_seen, rng)
    return WordSet(
        shifts,
        [str(wordings[one][which]) for one, which in zip(regime, wording, strict=True)],
        x_sim + shifts[regime] + torch.from_numpy(noise[0]).float(),
        x_sim + torch.from_numpy(noise[1]).float(),
        texts,
        regimes,
    )


def _tests(
    world: str,
    wordings: list[list[str]],
    tested: list[int],
    num_seen: int,
    rng: np.random.Generator,
) -> tuple[dict[str, list[str]], dict[str, list[int]]]:
    """Collect texts of every kind, with their regimes."""
    pairs = {
        UNSEEN: [(text, r) for r in tested for text in wordings[r][num_seen:]],
    }
    if num_seen:
        pairs["seen"] = [(text, r) for r in tested for text in wordings[r][:num_seen]]
    pairs["typos"] = [(_mistyped(text, rng), r) for text, r in pairs[UNSEEN]]
    pairs["capitals"] = [(text.upper(), r) for text, r in pairs[UNSEEN]]
    for kind in WRITTEN:
        written = list(_written()[kind][world].values())
        pairs[kind] = [(written[r], r) for r in tested]
    texts = {kind: [str(text) for text, _ in some] for kind, some in pairs.items()}
    regimes = {kind: [int(r) for _, r in some] for kind, some in pairs.items()}
    return texts | {UNRELATED: _written()["unrelated"]}, regimes


def _mistyped(text: str, rng: np.random.Generator) -> str:
    """Swap two letters inside of every other long word, on average."""
    words = text.split(" ")
    for place, word in enumerate(words):
        if len(word) >= 5 and rng.random() < 0.5:
            at = int(rng.integers(1, len(word) - 2))
            words[place] = word[:at] + word[at + 1] + word[at] + word[at + 2 :]
    return " ".join(words)
